"""What a token of the network doors allows: a read token changes nothing, and forgets have a
rate, whatever connection they come by."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from memoryd.client import SyncClient
from memoryd.doors.limits import Rate
from memoryd.doors.owner import CALLS
from memoryd.doors.rights import READING, Rights, Tokens
from memoryd.doors.schemas import TOOLS
from memoryd.doors.tokens import BadToken, read_token, read_tokens
from memoryd.errors import MemorydError
from tests.daemons import INITIALIZE, Daemon, ForkedDaemon, Lines
from tests.doors.clients import address, over_http
from tests.processes import free_port

MOST = 5
ARGUMENTS: dict[str, dict[str, Any]] = {
    "store_memory": {"content": "planted"},
    "forget_memory": {"memory_id": "kept"},
    "add_turn": {"role": "user", "content": "planted"},
    "clear_context": {"session_id": "s"},
    "update_memory": {"memory_id": "kept", "content": "planted"},
    "review_memory": {"memory_id": "kept", "action": "reject"},
    "forget_memories": {"memory_type": "fact", "confirm": 1},
    "edit_notes": {"action": "add", "name": "planted", "content": "planted"},
    "wake_session": {"identity": "planted"},
    "sleep_session": {"session_id": "s"},
    "compact_session": {"session_id": "s", "keep": 0},
    "rename_session": {"session_id": "s", "title": "planted"},
    "working_memory": {"content": "planted"},
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with both network doors, which forgets little a minute."""
    settings = {
        "MEMORYD_DOORS_TCP_PORT": str(free_port()),
        "MEMORYD_DOORS_HTTP_PORT": str(free_port()),
        "MEMORYD_DOORS_MAX_FORGETS_PER_MINUTE": str(MOST),
        "MEMORYD_DOORS_TOOLSETS": "all",
    }
    running = ForkedDaemon(tmp_path_factory.mktemp("rights") / "data", **settings).start()
    running.tool("store_memory", content="The dock is in the kitchen.", name="kept")
    yield running
    assert running.stop() == 0, running.log.read_text()


@pytest.fixture
def reader(guarded: Daemon) -> str:
    return read_token(guarded.folder / "token.read")


def tcp(daemon: Daemon, token: str) -> Lines:
    port = int(daemon.settings["MEMORYD_DOORS_TCP_PORT"])
    link = socket.create_connection(("127.0.0.1", port), timeout=60)
    link.sendall(token.encode() + b"\n")
    lines = Lines(link)
    lines.open()
    return lines


def forget_often(client: SyncClient) -> None:
    for _ in range(3 * MOST):
        client.forget("nobody")


def code(answer: Any) -> str:
    found: str = answer["_meta"]["memoryd/error"]["code"]
    return found


def test_every_tool_that_is_not_marked_as_reading_is_refused() -> None:
    known = ["get_context", "list_memories", "list_projects", "list_sessions", "memory_chain"]
    assert sorted(READING) == ["brief", *known, "read_notes", "read_session", "search_memories"]
    assert sorted({tool.name for tool in TOOLS} - READING) == sorted(ARGUMENTS)


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_a_read_token_changes_nothing_by_tcp(guarded: Daemon, reader: str, name: str) -> None:
    before = guarded.status()["memories"]
    with tcp(guarded, reader) as lines:
        answer = lines.tool(name, **ARGUMENTS[name])
        assert code(answer) == "read_only"
        assert "may only read" in answer["content"][0]["text"]
        assert "doors.token_file" in answer["content"][0]["text"]
        found = lines.tool("search_memories", query="dock kitchen", min_score=0)
        assert found["structuredContent"]["results"][0]["name"] == "kept"
    assert guarded.status()["memories"] == before


def test_a_read_token_sees_the_tools_and_resources_that_read(guarded: Daemon, reader: str) -> None:
    with tcp(guarded, reader) as lines:
        assert {tool["name"] for tool in lines.call("tools/list")["tools"]} == READING
        found = lines.call("resources/read", uri="memory://memory/kept")
        assert "kitchen" in found["contents"][0]["text"]
        for name in sorted(CALLS):
            assert code(lines.tool(name)) == "not_local"
    with tcp(guarded, read_token(guarded.folder / "token")) as lines:
        assert len(lines.call("tools/list")["tools"]) == len(TOOLS)


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_read_token_changes_nothing_by_http(guarded: Daemon, reader: str, era: str) -> None:
    async with over_http(guarded, reader, era) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == READING
        for name, arguments in ARGUMENTS.items():
            answer = await client.call_tool(name, arguments)
            assert (answer.meta or {})["memoryd/error"]["code"] == "read_only"
        found = await client.call_tool("search_memories", {"query": "dock", "min_score": 0})
        assert not found.is_error


def test_a_session_that_another_token_began_gives_no_rights(guarded: Daemon, reader: str) -> None:
    """The rights are those of each request, not of who said hello."""
    full = read_token(guarded.folder / "token")
    headers = {"Accept": "application/json, text/event-stream"}

    def send(token: str, message: dict[str, Any], **more: str) -> httpx.Response:
        given = headers | more | {"Authorization": f"Bearer {token}"}
        with httpx.Client(trust_env=False, timeout=60) as client:
            return client.post(f"{address(guarded)}/mcp", json=message, headers=given)

    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
    begun = {"Mcp-Session-Id": send(full, hello).headers["mcp-session-id"]}
    begun |= {"MCP-Protocol-Version": INITIALIZE["protocolVersion"]}  # type: ignore[dict-item]
    send(full, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **begun)
    params = {"name": "store_memory", "arguments": {"content": "planted"}}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
    assert "read_only" in send(reader, call, **begun).text
    assert "planted" in send(full, call | {"id": 3}, **begun).text


def test_forgets_over_the_network_have_a_rate(guarded: Daemon) -> None:
    """Of both doors together: neither a new connection nor the other door brings more. The local
    socket and searches go on."""
    full = read_token(guarded.folder / "token")
    refused = None
    for _ in range(3 * MOST):  # a minute brings MOST more
        with tcp(guarded, full) as lines:
            answer = lines.tool("forget_memory", memory_id="nobody")
            if answer.get("isError"):
                refused = answer["_meta"]["memoryd/error"]
                break
    assert refused is not None
    assert refused["code"] == "rate_limited"
    assert 1 <= refused["retry_after"] <= 60
    assert f"Try again in {refused['retry_after']} s" in refused["hint"]
    door = ("127.0.0.1", int(guarded.settings["MEMORYD_DOORS_TCP_PORT"]))
    with SyncClient(tcp=door, token=full) as client:
        with pytest.raises(MemorydError) as caught:
            forget_often(client)
        assert caught.value.code == "rate_limited"
        assert client.search("dock")
    for _ in range(3 * MOST):
        assert guarded.tool("forget_memory", memory_id="nobody")["success"] is False


def test_a_forget_by_filter_counts_every_memory(guarded: Daemon) -> None:
    full, chosen = read_token(guarded.folder / "token"), {"metadata": {"bulk": True}}
    for n in range(MOST + 1):
        guarded.tool("store_memory", content=f"bulk {n}", metadata={"bulk": True})
    with tcp(guarded, full) as lines:
        found = lines.tool("forget_memories", **chosen)["structuredContent"]
        assert (found["matched"], found["forgotten"]) == (MOST + 1, 0)
        refused = lines.tool("forget_memories", **chosen, confirm=MOST + 1)
        assert code(refused) == "rate_limited"
        assert "narrower filter" in refused["_meta"]["memoryd/error"]["hint"]
    with Lines(guarded.connect()) as lines:  # the local socket has no such limit
        lines.open()
        done = lines.tool("forget_memories", **chosen, confirm=MOST + 1)["structuredContent"]
        assert done["forgotten"] == MOST + 1


def test_a_rate_of_forgets_by_the_minute() -> None:
    now = 0.0
    rate = Rate(60, lambda: now, seconds=60.0)
    rights = Rights(forgets=rate)
    for _ in range(60):
        rights.check("forget_memory")
    with pytest.raises(MemorydError) as caught:
        rights.check("forget_memory")
    assert getattr(caught.value, "retry_after", None) == 1
    for _ in range(100):
        rights.check("store_memory")
    now += 1.0
    rights.check("forget_memory")
    now += 10.0
    with pytest.raises(MemorydError) as caught:
        rights.check_forgets(15)
    assert getattr(caught.value, "retry_after", None) == 5
    rights.check_forgets(10)
    for _ in range(1000):
        Rights(forgets=Rate(0, seconds=60.0)).check("forget_memory")


def test_the_two_tokens_differ_and_are_private(guarded: Daemon, tmp_path: Path) -> None:
    both = [guarded.folder / "token", guarded.folder / "token.read"]
    assert len({path.read_text() for path in both}) == 2
    assert {path.stat().st_mode & 0o777 for path in both} == {0o600}
    read_token(tmp_path / "token")
    (tmp_path / "token.read").write_text((tmp_path / "token").read_text())
    (tmp_path / "token.read").chmod(0o600)
    with pytest.raises(BadToken, match="are the same"):
        read_tokens(tmp_path / "token", tmp_path / "token.read", Rate(0))


def test_no_token_of_ours_allows_nothing() -> None:
    tokens = Tokens("full", "read")
    assert tokens.rights(b"full") == Rights()
    assert tokens.rights(b"read") == Rights(writes=False)
    for wrong in (b"", b"other", b"fullread", "ü".encode()):
        assert tokens.rights(wrong) is None
    assert Tokens().rights(b"") is None
    assert Tokens("full").rights(b"") is None
