"""Toolsets: a client sees and calls what it asked for, at every door, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.shared.exceptions import MCPError

from memoryd.config import load
from memoryd.doors.schemas import BY_TOOLSET, INSTRUCTIONS, TOOLS
from memoryd.doors.schemas.manage import ORDERED, REVIEWS
from memoryd.engine.lifecycle.review import ACTIONS
from memoryd.engine.listing import ORDERS
from memoryd.errors import ConfigError, InvalidInput
from memoryd.toolsets import DEFAULT, TOOLSETS, parse_toolsets
from tests.daemons import Daemon, Lines
from tests.doors.clients import connected, over_http
from tests.doors.test_mcp import NAMES
from tests.doors.test_surface import keys_in, undeclared
from tests.processes import environment

MANAGE = [
    *("list_memories", "update_memory", "memory_chain"),
    *("list_projects", "review_memory", "forget_memories"),
]
NOTES = ["read_notes", "edit_notes"]
SESSION = [
    *("wake_session", "sleep_session", "compact_session", "list_sessions"),
    *("read_session", "rename_session", "brief", "working_memory"),
]
DOORS = ["unix", "stdio", "http"]


async def names(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("tools", "seen"),
    [
        (None, NAMES),
        ("core", NAMES),
        ("manage", MANAGE),
        ("manage,core", NAMES + MANAGE),
        ("notes", NOTES),
        ("session", SESSION),
        ("all", NAMES + SESSION + MANAGE + NOTES),
    ],
)
@pytest.mark.slow
async def test_a_client_sees_the_toolsets_that_it_asked_for(
    daemon: Daemon, door: str, era: str, token: str, tools: str | None, seen: list[str]
) -> None:
    async with connected(daemon, door, era, token, tools) as client:
        assert await names(client) == seen


async def test_over_http_a_header_asks_too(daemon: Daemon, token: str) -> None:
    headers = {"Memoryd-Tools": "manage"}
    async with over_http(daemon, token, "legacy", **headers) as client:
        assert await names(client) == MANAGE
    async with over_http(daemon, token, "legacy", "/mcp?tools=core", **headers) as client:
        assert await names(client) == NAMES  # what is nearer to the call wins


@pytest.mark.parametrize("door", DOORS)
async def test_a_tool_that_was_not_asked_for_is_unknown(
    daemon: Daemon, door: str, token: str
) -> None:
    async with connected(daemon, door, "legacy", token) as client:
        for name in MANAGE:
            with pytest.raises(MCPError) as caught:
                await client.call_tool(name, {"memory_id": "x", "memory_type": "fact"})
            assert caught.value.error.code == -32602
            assert caught.value.error.data["memoryd/error"]["code"] == "tool_unknown"
            assert "toolset manage" in caught.value.error.message
            assert "search_memories" in caught.value.error.message
    async with connected(daemon, door, "legacy", token, "manage") as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("search_memories", {"query": "x"})
        assert "list_memories" in caught.value.error.message


@pytest.mark.parametrize("door", ["unix", "http"])
async def test_an_unknown_toolset_is_an_error_that_names_the_known(
    daemon: Daemon, door: str, token: str
) -> None:
    async with connected(daemon, door, "legacy", token, "cores") as client:
        with pytest.raises(MCPError) as caught:
            await client.list_tools()
        assert caught.value.error.data["memoryd/error"]["code"] == "toolset_unknown"
        assert "core, session, manage" in caught.value.error.message
        answer = await client.call_tool("search_memories", {"query": "x"})
        assert (answer.meta or {})["memoryd/error"]["code"] == "toolset_unknown"


@pytest.mark.parametrize("wrong", ["", ",", "cores", "core,x", [], ["core", 3], 7, None, {"a": 1}])
def test_what_names_no_toolset_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_toolsets(wrong)
    assert refused.value.code == "toolset_unknown"
    assert all(name in refused.value.hint for name in TOOLSETS)


def test_the_configuration_sets_the_default(tmp_path: Path) -> None:
    assert load(environ={}).doors.toolsets == DEFAULT == ("core",)
    file = tmp_path / "config.yaml"
    file.write_text("doors: {toolsets: [core, nothing]}")
    with pytest.raises(ConfigError, match="nothing") as refused:
        load(file, {})
    assert "core, session, manage" in refused.value.hint


@pytest.fixture(scope="module")
def generous(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that offers every toolset by itself."""
    folder = tmp_path_factory.mktemp("toolsets") / "data"
    running = Daemon(folder, MEMORYD_DOORS_TOOLSETS="core,manage").start()
    yield running
    assert running.stop() == 0, running.log.read_text()


def test_a_client_that_asks_for_nothing_gets_what_is_configured(generous: Daemon) -> None:
    listed = generous.call("tools/list")["tools"]
    assert [tool["name"] for tool in listed] == NAMES + MANAGE
    with Lines(generous.connect()) as lines:
        lines.open(tools="core")
        assert [tool["name"] for tool in lines.call("tools/list")["tools"]] == NAMES


@pytest.mark.slow
async def test_the_choice_of_the_shim_survives_a_restart(tmp_path: Path) -> None:
    """The shim asks again on every connection."""
    daemon = Daemon(tmp_path / "data").start()
    try:
        async with connected(daemon, "stdio", "legacy", "", "manage") as client:
            assert await names(client) == MANAGE
            assert daemon.stop() == 0
            daemon.start()
            assert await names(client) == MANAGE
    finally:
        daemon.stop()


# The tools themselves


def code(answer: Any) -> str:
    assert answer["isError"], answer
    found: str = answer["_meta"]["memoryd/error"]["code"]
    return found


def answers(daemon: Daemon) -> dict[str, list[Any]]:
    """Answers that between them have every field that is documented."""
    daemon.tool("store_memory", content="the auk of the toolsets", name="auk", pinned=True)
    said = {"memory_type": "conversation", "session_id": "birds", "metadata": {"bird": "tern"}}
    for n in range(3):
        daemon.tool("store_memory", content=f"the tern {n}", **said)
    updated = [daemon.tool("update_memory", memory_id="auk", metadata={"bird": "auk"})]
    listed = [daemon.tool("list_memories", limit=2), daemon.tool("list_memories")]
    tern = {"metadata": {"bird": {"$in": ["tern", "gull"]}}}
    answers = [daemon.tool("forget_memories", **tern)]
    answers += [daemon.tool("forget_memories", **tern, confirm=3)]
    answers += [daemon.tool("forget_memories", **tern)]
    assert [(one["matched"], one["forgotten"]) for one in answers] == [(3, 0), (3, 3), (0, 0)]
    chain = [daemon.tool("memory_chain", memory_id="auk")]
    updates = {"update_memory": updated, "memory_chain": chain}
    updates |= {"list_projects": [daemon.tool("list_projects")]}
    auk = {"memory_id": "auk"}
    updates["review_memory"] = [
        daemon.tool("review_memory", **auk, action="flag", reason="It is extinct."),
        daemon.tool("review_memory", **auk, action="correct", content="the auk is extinct"),
        daemon.tool("review_memory", **auk, action="reject"),
    ]
    return {"list_memories": listed, "forget_memories": answers} | updates


DOCUMENTED = {
    "list_memories": "notice memories total cursor id content type created_at expires_at metadata"
    " name session_id pinned updated_at",
    "update_memory": "id content type created_at expires_at metadata name pinned updated_at changed"
    " warnings",
    "memory_chain": "notice id memories content type created_at metadata name",
    "list_projects": "own projects project memories types newest",
    "review_memory": "id action forgotten warnings memory content metadata name updated_at",
    "forget_memories": "matched forgotten types first id content hint",
}


def test_the_output_schemas_list_every_field(generous: Daemon) -> None:
    found, listed = answers(generous), generous.call("tools/list")["tools"]
    for tool in listed:
        if (name := tool["name"]) not in MANAGE:
            continue
        Draft202012Validator.check_schema(tool["outputSchema"])
        Draft202012Validator.check_schema(tool["inputSchema"])
        for answer in found[name]:
            assert undeclared(answer, tool["outputSchema"]) == [], name
            Draft202012Validator(tool["outputSchema"]).validate(answer)
        assert set(DOCUMENTED[name].split()) <= keys_in(found[name]), name


def test_the_annotations_are_true(generous: Daemon) -> None:
    hints = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
    listed = {tool["name"]: tool for tool in generous.call("tools/list")["tools"]}
    shown = {n: tuple(listed[n]["annotations"].get(h) for h in hints) for n in MANAGE}
    assert shown == {
        "list_memories": (True, False, True, False),
        "update_memory": (False, True, True, False),  # the old content is gone
        "memory_chain": (True, False, True, False),
        "list_projects": (True, False, True, False),
        "review_memory": (False, True, True, False),  # a rejected one is gone
        "forget_memories": (False, True, True, False),
    }
    assert list(ORDERS) == ORDERED
    assert list(ACTIONS) == REVIEWS


def test_forgetting_by_filter_needs_a_look_first(generous: Daemon) -> None:
    daemon, chosen = generous, {"metadata": {"bird": "gull"}}
    for n in range(2):
        daemon.tool("store_memory", content=f"the gull {n}", **chosen)
    for wrong in (1, 3, True, "2", [2], 2.5):
        given = {"name": "forget_memories", "arguments": chosen | {"confirm": wrong}}
        assert code(daemon.call("tools/call", **given)) == "confirm_mismatch"
    empties: list[dict[str, Any]] = [{}, {"confirm": 2}, {"metadata": {}}]
    for empty in empties:
        given = {"name": "forget_memories", "arguments": empty}
        assert code(daemon.call("tools/call", **given)) == "filter_empty"
    found = daemon.tool("forget_memories", **chosen)
    assert (found["matched"], found["forgotten"], found["types"]) == (2, 0, {"fact": 2})
    assert "confirm 2" in found["hint"]
    assert daemon.tool("forget_memories", **chosen, confirm=2.0)["forgotten"] == 2


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("list_memories", {"limit": 0}, "limit_invalid"),
        ("list_memories", {"limit": "2"}, "limit_invalid"),
        ("list_memories", {"order": "best"}, "order_unknown"),
        ("list_memories", {"cursor": "x"}, "cursor_invalid"),
        ("list_memories", {"metadata": {"$x": 1}}, "filter_invalid"),
        ("list_memories", {"filters": {}}, "argument_unknown"),
        ("update_memory", {}, "memory_id_missing"),
        ("memory_chain", {}, "memory_id_missing"),
        ("memory_chain", {"memory_id": "nobody"}, "not_found"),
        ("review_memory", {"action": "confirm"}, "memory_id_missing"),
        ("review_memory", {"memory_id": "nobody"}, "action_unknown"),
        ("review_memory", {"memory_id": "nobody", "action": "approve"}, "action_unknown"),
        ("review_memory", {"memory_id": "nobody", "action": "confirm"}, "not_found"),
        ("review_memory", {"memory_id": "still", "action": "correct"}, "content_missing"),
        ("review_memory", {"memory_id": "still", "action": "flag"}, "reason_invalid"),
        ("search_memories", {"query": "x", "count_use": "no"}, "count_use_invalid"),
        ("store_memory", {"content": "x", "metadata": {"kind": "A b"}}, "field_invalid"),
        ("store_memory", {"content": "x", "metadata": {"uses": 9}}, "metadata_reserved"),
        ("update_memory", {"memory_id": " "}, "memory_id_invalid"),
        ("update_memory", {"memory_id": "nobody", "content": "x"}, "not_found"),
        ("search_memories", {"query": "x", "metadata": {"a": {"$gt": []}}}, "filter_invalid"),
    ],
)
def test_bad_arguments_are_tool_errors(
    generous: Daemon, name: str, arguments: dict[str, Any], expected: str
) -> None:
    assert code(generous.call("tools/call", name=name, arguments=arguments)) == expected


def test_null_and_empty_text_change_nothing(generous: Daemon) -> None:
    """Models send them for what they do not mean."""
    before = generous.tool("store_memory", content="as it was", name="still")
    nothing = {"content": "", "name": "", "expires_at": "", "metadata": None, "pinned": None}
    done = generous.tool("update_memory", memory_id="still", memory_type="fact", **nothing)
    assert (done["changed"], done["content"], done["name"]) == (False, "as it was", "still")
    assert done["id"] == before["id"]


def test_a_search_without_a_query_answers_the_newest_that_match(generous: Daemon) -> None:
    for n in range(3):
        profile = {"category": "user_profile", "n": n}
        generous.tool("store_memory", content=f"profile {n}", metadata=profile)
    page = generous.tool("search_memories", metadata={"category": "user_profile"}, limit=2)
    assert [hit["content"] for hit in page["results"]] == ["profile 2", "profile 1"]


def tokens(text: str) -> float:
    """About how many tokens, as in `test_surface`."""
    return 0.84 * len(re.findall(r"[A-Za-z]+|\d+|[^\sA-Za-z\d]{1,2}", text))


def test_each_toolset_has_a_budget(capsys: pytest.CaptureFixture[str]) -> None:
    """The default is in every agent's prompt; a further set in that of those who ask for it."""
    sizes = {}
    for toolset, tools in BY_TOOLSET.items():
        text = "".join(t.model_dump_json(by_alias=True, exclude_none=True) for t in tools)
        sizes[toolset] = round(tokens(text + (INSTRUCTIONS if toolset == "core" else "")))
    with capsys.disabled():
        print("\ntokens of each toolset:", sizes, end=" ")  # noqa: T201
    assert tuple(sizes) == TOOLSETS
    assert len(TOOLS) == len({tool.name for tool in TOOLS})
    assert len(BY_TOOLSET["core"]) == 6
    assert sizes["core"] < 1500
    assert sizes["session"] < 1500
    assert sizes["manage"] < 1750
    assert sizes["notes"] < 700


def test_the_shim_refuses_an_unknown_toolset(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "memoryd", "mcp", "--tools", "core,cores"]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "no toolset 'cores'" in done.stderr
    assert "core, session, manage" in done.stderr
