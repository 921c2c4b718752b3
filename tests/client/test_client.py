"""The client's promises, against a scripted server and against a real daemon."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.cli.main import main as memoryd
from memoryd.client import Client, DaemonLost, DaemonUnavailable, SyncClient, connection
from memoryd.client.errors import error_from_wire
from memoryd.errors import InvalidInput, MemorydError, NotFound, StoreError
from tests.client.line_server import (
    LineServer,
    Message,
    echo,
    listening,
    listening_on_tcp,
    result,
    tool_result,
)
from tests.daemons import Daemon, ForkedDaemon
from tests.paths import ROOT
from tests.processes import environment, free_port, is_running, until

ROBOT = ROOT / "config" / "clients" / "robot.py"


def silent(server: LineServer, message: Message) -> None:
    """A script: nobody is ever answered."""


def is_lost(memory: Client) -> bool:
    """Whether the client has noticed that its connection ended."""
    return memory._connection._current is not None and memory._connection._current.lost


# Against the scripted server


async def test_answers_find_their_calls_in_any_order() -> None:
    """Calls run side by side; each gets its own answer, whatever the order they come in."""
    held: list[Message] = []

    def script(server: LineServer, message: Message) -> Any:
        held.append(tool_result(message, message["params"]["arguments"]))
        return held[::-1] if len(held) == 20 else None

    async with listening(script) as (_, path), Client(path) as memory:
        answers: list[Any] = await asyncio.gather(*(memory.store(str(n)) for n in range(20)))
    assert [answer["content"] for answer in answers] == [str(n) for n in range(20)]


async def test_a_call_under_way_fails_when_the_daemon_is_lost() -> None:
    async with listening(silent) as (server, path), Client(path, timeout=30) as memory:
        call = asyncio.create_task(memory.store("x"))
        await until(lambda: bool(server.calls()))
        server.hang_up()
        with pytest.raises(DaemonLost, match="may or may not have been done") as caught:
            await call
    assert caught.value.code == "daemon_lost"


async def test_the_next_call_connects_again_and_keeps_the_session() -> None:
    async with listening() as (server, path), Client(path) as memory:
        await memory.add_turn("user", "before")
        server.hang_up()
        await until(lambda: is_lost(memory))
        await memory.add_turn("user", "after")
    assert server.connections == 2
    assert [m["method"] for m in server.heard].count("initialize") == 2
    assert [given["session_id"] for given in server.calls()] == [memory.session_id] * 2


async def test_it_waits_for_a_daemon_that_comes_back() -> None:
    async with listening() as (server, path):
        memory = await Client(path).__aenter__()
        server.hang_up()
    await until(lambda: is_lost(memory))
    call = asyncio.create_task(memory.store("x"))
    async with listening(echo, path):
        assert (await asyncio.wait_for(call, 60))["content"] == "x"
        await memory.__aexit__(None, None, None)


async def test_it_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "RECONNECT_TIMEOUT", 0.1)
    async with listening() as (server, path):
        memory = await Client(path).__aenter__()
        server.hang_up()
    await until(lambda: is_lost(memory))
    with pytest.raises(DaemonUnavailable):
        await asyncio.wait_for(memory.store("x"), 60)
    await memory.__aexit__(None, None, None)


async def test_no_daemon_is_said_at_once_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DaemonUnavailable) as caught:
        async with Client(tmp_path / "s"):
            pass
    assert (caught.value.code, caught.value.hint) == ("daemon_unavailable", "Run: memoryd start")


async def test_a_call_that_is_not_answered_ends_and_is_cancelled() -> None:
    async with listening(silent) as (server, path), Client(path, timeout=0.1) as memory:
        with pytest.raises(DaemonLost, match="not answer within"):
            await memory.search("x")
        await until(lambda: server.heard[-1]["method"] == "notifications/cancelled")
        asked = next(m for m in server.heard if m["method"] == "tools/call")
        assert server.heard[-1]["params"] == {"requestId": asked["id"]}


async def test_what_the_server_asks_is_answered() -> None:
    """A ping is answered; any other request is declined; the call goes on."""
    replies: list[Message] = []

    def script(server: LineServer, message: Message) -> Any:
        if "method" in message:
            asked = message
            script.call = asked  # type: ignore[attr-defined]
            return [{"id": "p", "method": "ping"}, {"id": "q", "method": "roots/list"}, b"[1]\n"]
        replies.append(message)
        return tool_result(script.call, {"id": "m"}) if len(replies) == 2 else None  # type: ignore[attr-defined]

    async with listening(script) as (_, path), Client(path) as memory:
        assert (await memory.forget("m"))["id"] == "m"
    assert replies[0]["result"] == {}
    assert replies[1]["error"]["code"] == -32601


async def test_noise_is_a_lost_daemon() -> None:
    async with listening(lambda *_: b"\xff noise\n") as (_, path), Client(path) as memory:
        with pytest.raises(DaemonLost):
            await memory.store("x")


async def test_a_very_long_answer_arrives() -> None:
    async with listening() as (_, path), Client(path) as memory:
        assert len((await memory.store("x" * 5_000_000))["content"]) == 5_000_000


async def test_the_token_goes_first() -> None:
    async with listening_on_tcp("secret") as (_, port):
        async with Client(tcp=("127.0.0.1", port), token="secret") as memory:
            assert (await memory.store("x"))["content"] == "x"
        with pytest.raises(DaemonUnavailable) as caught:
            async with Client(tcp=("127.0.0.1", port), token="wrong"):
                pass
    assert caught.value.hint == "Check the token."


async def test_not_given_is_not_sent() -> None:
    async with listening() as (server, path), Client(path) as memory:
        await memory.search("q", limit=3, since=None)
        await memory.context_window("mine", max_turns=2)
    window = {"session_id": "mine", "max_turns": 2, "window_only": True}
    assert server.calls() == [{"query": "q", "limit": 3}, window]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("content_empty", InvalidInput),
        ("not_found", NotFound),
        ("store_busy", StoreError),
        ("store_corrupt", StoreError),
        ("warming", MemorydError),
    ],
)
def test_errors_keep_code_sentence_and_hint(code: str, kind: type[MemorydError]) -> None:
    exc = error_from_wire({"code": code, "message": "No.", "hint": "Do."})
    assert (exc.code, exc.message, exc.hint) == (code, "No.", "Do.")
    assert isinstance(exc, kind)
    assert isinstance(exc, InvalidInput) == (kind is InvalidInput)


async def test_a_resource_error_keeps_its_code_too() -> None:
    """A memory that is not there is None; one that cannot be looked for is an error."""

    def script(server: LineServer, message: Message) -> Message:
        code = "not_found" if message["params"]["uri"].endswith("gone") else "warming"
        details = {"code": code, "message": "Not now.", "hint": "Later."}
        error = {"code": -32002, "message": "In words.", "data": {"memoryd/error": details}}
        return {"id": message["id"], "error": error}

    async with listening(script) as (_, path), Client(path) as memory:
        assert await memory.get("gone") is None
        with pytest.raises(MemorydError, match="Not now") as caught:
            await memory.get("else")
    assert (caught.value.code, caught.value.hint) == ("warming", "Later.")


async def test_a_closed_sync_client_says_so() -> None:
    with pytest.raises(MemorydError) as caught:
        SyncClient().status()
    assert caught.value.code == "client_closed"


async def test_the_address_of_a_memory_is_escaped() -> None:
    def script(server: LineServer, message: Message) -> Message:
        uri = message["params"]["uri"]
        return result(message, {"contents": [{"text": f'{{"id": "{uri}"}}'}]})

    async with listening(script) as (_, path), Client(path) as memory:
        found = await memory.get("a b/c%?")
    assert found is not None
    assert found["id"] == "memory://memory/a%20b%2Fc%25%3F"


def test_importing_the_client_is_cheap() -> None:
    """A robot pays for the standard library only."""
    code = "import sys, memoryd.client; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"mcp", "anyio", "numpy", "yaml", "chromadb", "structlog", "pydantic"}
    assert heavy.isdisjoint(name.split(".")[0] for name in found.stdout.split())


# Against a real daemon


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("client") / "data"
    running = ForkedDaemon(folder, MEMORYD_DOORS_TCP_PORT=str(free_port())).start()
    yield running
    assert running.stop() == 0, running.log.read_text()


async def test_every_call(daemon: Daemon) -> None:
    async with Client(daemon.socket) as memory:
        stored = await memory.store("The dock is in the kitchen.", name="dock", metadata={"a": 1})
        assert (stored["type"], stored["duplicate"], stored["metadata"]) == (
            "fact",
            False,
            {"a": 1},
        )
        page = await memory.search("dock in the kitchen", memory_type="fact", metadata={"a": 1})
        assert page["results"][0]["id"] == stored["id"]
        found = await memory.get("dock")
        assert found is not None
        assert found["content"] == "The dock is in the kitchen."
        assert (await memory.forget("dock"))["success"]
        assert await memory.get("dock") is None
        turn = await memory.add_turn("user", "hello", speaker="Ada")
        assert turn["session_id"] == memory.session_id
        window = await memory.context_window(max_turns=1)
        assert [said["content"] for said in window["messages"]] == ["hello"]
        assert (await memory.clear_context_window())["cleared"] == 1
        assert (await memory.context_window())["messages"] == []
        assert (await memory.status())["health"] == "ready"


@pytest.mark.parametrize("name", ["my dock", "a/b", "100%", "café?#x", "%41"])
async def test_any_name_can_be_got(daemon: Daemon, name: str) -> None:
    async with Client(daemon.socket) as memory:
        stored = await memory.store(f"named {name}", name=name)
        found = await memory.get(name)
        assert found is not None
        assert found["id"] == stored["id"]


async def test_refused_input_is_an_error_with_the_daemons_words(daemon: Daemon) -> None:
    async with Client(daemon.socket) as memory:
        with pytest.raises(InvalidInput, match=r"Content is empty\.") as caught:
            await memory.store(" ")
        assert caught.value.code == "content_empty"
        with pytest.raises(InvalidInput) as caught:
            await memory.store("half a character: \ud800")
        assert caught.value.code == "content_has_surrogate"
        with pytest.raises(InvalidInput) as caught:
            await memory.store("x" * 5_000_000)
        assert caught.value.code == "call_too_long"
        assert (await memory.status())["health"] == "ready"


async def test_many_calls_at_once_on_one_client(daemon: Daemon) -> None:
    async with Client(daemon.socket) as memory:
        texts = [f"concurrent statement {n}" for n in range(200)]
        async with asyncio.timeout(60):
            stored = await asyncio.gather(*(memory.store(text) for text in texts))
            found = await asyncio.gather(*(memory.get(item["id"]) for item in stored))
    assert [memory and memory["content"] for memory in found] == texts


async def test_over_tcp_with_the_token(daemon: Daemon) -> None:
    port = int(daemon.settings["MEMORYD_DOORS_TCP_PORT"])
    token = (daemon.folder / "token").read_text().strip()
    async with Client(tcp=("127.0.0.1", port), token=token) as memory:
        assert (await memory.status())["pid"] == daemon.status()["pid"]
    with pytest.raises(DaemonUnavailable):
        async with Client(tcp=("127.0.0.1", port), token="wrong"):
            pass


def test_the_sync_client_from_many_threads(daemon: Daemon) -> None:
    found: dict[int, list[str]] = {}

    def work(memory: SyncClient, thread: int) -> None:
        stored = [memory.store(f"thread {thread} says {n}") for n in range(10)]
        found[thread] = [item["content"] for item in stored]

    with SyncClient(daemon.socket) as memory:
        threads = [threading.Thread(target=work, args=(memory, n)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert found == {t: [f"thread {t} says {n}" for n in range(10)] for t in range(8)}


async def test_a_killed_daemon_is_found_again(tmp_path: Path) -> None:
    """A call after the restart works, and the window of the session is still there."""
    daemon = ForkedDaemon(tmp_path / "data").start()
    async with Client(daemon.socket) as memory:
        await memory.add_turn("user", "before the kill")
        daemon.stop(signal.SIGKILL)
        await until(lambda: is_lost(memory))
        daemon.process = daemon.spawn()
        await memory.add_turn("assistant", "after the kill")
        window = await memory.context_window()
    assert [said["content"] for said in window["messages"]] == ["before the kill", "after the kill"]
    assert daemon.stop() == 0


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data directory for daemons that are started in the background; ended afterwards."""
    monkeypatch.setenv("MEMORYD_EMBEDDING_BACKEND", "hash")
    folder = tmp_path / "data"
    yield folder
    memoryd(["stop", "--data-dir", str(folder)])


async def test_clients_that_start_a_daemon_share_one(home: Path) -> None:
    async def pid() -> int:
        async with Client(data_dir=home, start=True) as memory:
            return (await memory.status())["pid"]

    async with asyncio.timeout(60):
        assert len(set(await asyncio.gather(*(pid() for _ in range(8))))) == 1


@pytest.mark.slow
async def test_a_client_that_starts_a_daemon_starts_it_again(home: Path) -> None:
    async with Client(data_dir=home, start=True) as memory:
        first = (await memory.status())["pid"]
        memoryd_stop = ["-m", "memoryd", "stop", "--data-dir", str(home)]
        process = await asyncio.create_subprocess_exec(sys.executable, *memoryd_stop)
        assert await asyncio.wait_for(process.wait(), 60) == 0
        second = (await memory.status())["pid"]
    assert first != second
    assert not is_running(first)


async def test_a_daemon_that_cannot_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORYD_SEARCH_LIMIT", "many")
    with pytest.raises(DaemonUnavailable, match=r"search\.limit") as caught:
        async with Client(data_dir=tmp_path / "data", start=True):
            pass
    assert "daemon.log" in caught.value.hint


@pytest.mark.slow
def test_the_robot_survives_a_restart_of_the_daemon(home: Path) -> None:
    """Every round is done and remembered, although the daemon is killed in the middle."""
    settings = {"MEMORYD_EMBEDDING_BACKEND": "hash", "MEMORYD_DATA_DIR": str(home)}
    robot = subprocess.Popen(
        [sys.executable, str(ROBOT), "--rounds", "12", "--pause", "0.2"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(**settings),
    )
    assert robot.stdout is not None
    with robot, SyncClient(data_dir=home, start=True) as memory:
        lines = []
        for line in robot.stdout:
            lines.append(line)
            if line.startswith("3: "):
                killed = memory.status()["pid"]
                subprocess.run(["kill", "-KILL", str(killed)], check=True)
        assert robot.wait(60) == 0
        state = memory.status()
        assert state["pid"] != killed
        assert state.get("memories", {}).get("fact") == 12
        said = memory.context_window("robot-1")["messages"]
    assert lines[-1].startswith("We last said: ")
    assert said[-1]["content"] == "On look 12 a red cup was in the kitchen."


async def test_lists_and_updates(daemon: Daemon) -> None:
    async with Client(daemon.socket) as memory:
        for n in range(3):
            await memory.store(f"listed {n}", name=f"listed {n}", metadata={"listed": n})
        chosen: Any = {"metadata": {"listed": {"$gte": 1}}, "order": "oldest"}
        first = await memory.list_memories(**chosen, limit=1)
        assert ([one["content"] for one in first["memories"]], first["total"]) == (["listed 1"], 2)
        last = await memory.list_memories(**chosen, limit=1, cursor=first["cursor"])
        assert ([one["content"] for one in last["memories"]], last["cursor"]) == (
            ["listed 2"],
            None,
        )
        found = await memory.search(metadata={"listed": {"$exists": True}}, limit=2)
        assert [hit["content"] for hit in found["results"]] == ["listed 2", "listed 1"]
        done = await memory.update_memory("listed 2", metadata={"listed": None}, pinned=True)
        assert (done["changed"], done["metadata"], done["pinned"]) == (True, {}, True)
        done = await memory.update_memory("listed 2", clear=["name"], content="no name")
        assert "name" not in done
        with pytest.raises(NotFound):
            await memory.update_memory("listed 2", content="x")
        with pytest.raises(InvalidInput, match=r"metadata\.a\.\$gt"):
            await memory.list_memories(metadata={"a": {"$gt": None}})


def test_the_sync_client_lists_and_updates(daemon: Daemon) -> None:
    with SyncClient(daemon.socket) as memory:
        memory.store("in step", name="in step")
        assert memory.update_memory("in step", content="out of step")["changed"]
        page = memory.list_memories(limit=1, memory_type="fact")
    assert [one["content"] for one in page["memories"]] == ["out of step"]


async def test_superseded_memories_and_chains(daemon: Daemon) -> None:
    async with Client(daemon.socket) as memory:
        old = (await memory.store("the chained dock is red"))["id"]
        new = (await memory.store("the chained dock is blue", metadata={"supersedes": [old]}))["id"]
        chosen: Any = {"query": "chained dock", "min_score": 0.0}
        found = [hit["id"] for hit in (await memory.search(**chosen))["results"]]
        assert (new in found, old in found) == (True, False)
        found = [
            hit["id"] for hit in (await memory.search(**chosen, include_superseded=True))["results"]
        ]
        assert old in found
        chain = await memory.chain(old)
        assert (chain["id"], [one["id"] for one in chain["memories"]]) == (old, [old, new])
        with pytest.raises(NotFound):
            await memory.chain("nobody")
    with SyncClient(daemon.socket) as sync:
        assert sync.chain(new)["memories"] == chain["memories"]


async def test_reviews(daemon: Daemon) -> None:
    async with Client(daemon.socket) as memory:
        id = (await memory.store("the reviewed dock is red"))["id"]
        done = await memory.review(id, "flag", reason="Is it?")
        assert done["memory"]["metadata"]["review_reason"] == "Is it?"
        done = await memory.review(id, "correct", "the reviewed dock is blue")
        assert done["memory"]["content"] == "the reviewed dock is blue"
        with pytest.raises(InvalidInput, match="no action"):
            await memory.review(id, "approve")
    with SyncClient(daemon.socket) as sync:
        assert sync.review(id, "confirm")["memory"]["metadata"]["user_verified"] is True
        assert sync.review(id, "reject")["forgotten"] is True
        with pytest.raises(NotFound):
            sync.review(id, "reject")
