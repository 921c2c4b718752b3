"""What a client is shown: schemas that list every field, true annotations, few words."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.shared.exceptions import MCPError

from memoryd.doors.schemas import BY_TOOLSET
from tests.daemons import Daemon, Lines, unix_transport
from tests.doors.clients import connected
from tests.doors.test_mcp import NAMES

ALWAYS_LOAD = "anthropic/alwaysLoad"
# readOnly, destructive, idempotent, openWorld
ANNOTATIONS = {
    "search_memories": (True, False, True, False),
    "store_memory": (False, True, False, False),  # a name replaces; a conversation adds each time
    "forget_memory": (False, True, True, False),
    "add_turn": (False, False, False, False),
    "get_context": (True, False, True, False),
    "clear_context": (False, True, True, False),
}


@pytest.fixture
def listed(daemon: Daemon) -> dict[str, Any]:
    """The tools as they are on the wire."""
    return {tool["name"]: tool for tool in daemon.call("tools/list")["tools"]}


def test_search_and_store_are_loaded_without_being_asked_for(listed: dict[str, Any]) -> None:
    """Claude Code hides MCP tools until the model looks for them, but for those that say this."""
    loaded = [name for name in NAMES if listed[name].get("_meta", {}).get(ALWAYS_LOAD) is True]
    assert loaded == ["search_memories", "store_memory"]


@pytest.mark.parametrize("era", ["legacy", "auto"])  # by initialize, by server/discover
async def test_the_instructions_name_every_tool(daemon: Daemon, era: str) -> None:
    async with Client(unix_transport(daemon.socket), mode=era) as client:
        instructions = client.instructions or ""
    for name in NAMES:
        assert f"{name}: " in instructions, name


async def test_the_advertised_text_is_short(daemon: Daemon) -> None:
    async with Client(unix_transport(daemon.socket), mode="legacy") as client:
        tools = (await client.list_tools()).tools
        text = "".join(t.model_dump_json(by_alias=True, exclude_none=True) for t in tools)
        text += client.instructions or ""
    # Words, numbers, and marks in pairs: tokenizers of today make 0.79 to 0.84 of that.
    pieces = len(re.findall(r"[A-Za-z]+|\d+|[^\sA-Za-z\d]{1,2}", text))
    assert 0.84 * pieces < 1500


def test_the_annotations_are_true(listed: dict[str, Any]) -> None:
    hints = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
    shown = {n: tuple(t["annotations"].get(h) for h in hints) for n, t in listed.items()}
    assert shown == ANNOTATIONS
    assert "REPLACES" in listed["store_memory"]["description"]


def test_storing_under_a_name_destroys_and_says_so(daemon: Daemon) -> None:
    """Why store_memory is annotated as it is."""
    first = daemon.tool("store_memory", content="the dock is red", name="dock colour")
    again = daemon.tool("store_memory", content="the dock is blue", name="dock colour")
    assert (first["replaced"], again["replaced"], again["id"]) == (False, True, first["id"])
    said = {"content": "we spoke of docks", "memory_type": "conversation"}
    assert daemon.tool("store_memory", **said)["id"] != daemon.tool("store_memory", **said)["id"]


def test_clearing_twice_changes_nothing_more(daemon: Daemon) -> None:
    """Why clear_context is annotated as it is."""
    with Lines(daemon.connect()) as lines:
        lines.open()
        lines.tool("add_turn", role="user", content="a line to clear")
        once = lines.tool("clear_context")["structuredContent"]
        twice = lines.tool("clear_context")["structuredContent"]
    assert (once["cleared"], twice["cleared"]) == (1, 0)
    assert twice["session_id"] == once["session_id"]


def answers(daemon: Daemon) -> dict[str, list[Any]]:
    """Answers that between them have every field that is documented."""
    long = " ".join(f"filler{n}" for n in range(600))
    gull = f"the herring gull of the surface test {long}"
    named = {"name": "gull", "session_id": "birds", "pinned": True, "metadata": {"a": {"b": [1]}}}
    with Lines(daemon.connect()) as lines:
        lines.open()

        def call(name: str, /, **arguments: Any) -> Any:
            return lines.tool(name, **arguments)["structuredContent"]

        stored = [call("store_memory", content=gull, **named)]
        stored += [call("store_memory", content=gull, name="gull", session_id="birds")]
        stored += [call("store_memory", content=f"{gull} again", memory_type="conversation")]
        near = [f"the puffin of the surface test nests in burrow {n}" for n in (7, 7)]
        stored += [call("store_memory", content=c, memory_type="conversation") for c in near]
        secret = "the surface password is Tulip" + "-1987"
        windows = [call("get_context")]
        turns = [call("add_turn", role="user", content=secret, speaker="Ann")]
        windows += [call("get_context")]
        return {
            "store_memory": stored,
            "search_memories": [
                call("search_memories", query="herring gull of the surface test", explain=True),
                call("search_memories", query="herring gull surface test", max_tokens=700),
                call("search_memories", query="puffin burrow surface test", limit=50),
            ],
            "forget_memory": [call("forget_memory", memory_id=stored[0]["id"])],
            "add_turn": turns,
            "get_context": windows,
            "clear_context": [call("clear_context"), call("clear_context")],
        }


DOCUMENTED = {
    "search_memories": "notice results warnings id content type score created_at expires_at"
    " metadata name session_id pinned passage cut similar why dense lexical timings"
    " embed gather fuse boost rerank pack",
    "store_memory": "id content type created_at expires_at metadata name session_id pinned"
    " duplicate replaced warnings",
    "forget_memory": "success id",
    "add_turn": "id content type created_at expires_at metadata session_id order warnings hint",
    "get_context": "notice session_id messages id role content at order speaker hint"
    " parts part title text ids tokens warnings",
    "clear_context": "session_id cleared hint",
}


def keys_in(value: Any) -> set[str]:
    """Every key of an answer, but for those of metadata, which are the user's."""
    if isinstance(value, list):
        return set().union(*map(keys_in, value))
    if not isinstance(value, dict):
        return set()
    inner = (keys_in(item) for key, item in value.items() if key != "metadata")
    return set(value).union(*inner)


def undeclared(value: Any, schema: Any, at: str = "") -> list[str]:
    """Keys of an answer that its schema does not name, or allow by a schema of their own."""
    if not schema:  # the name is listed, and nothing more
        return []
    if isinstance(value, list):
        return [found for item in value for found in undeclared(item, schema["items"], at)]
    if not isinstance(value, dict) or not schema.get("properties"):
        return [] if not isinstance(value, dict) or schema.get("type") == "object" else [at]
    named, found = schema["properties"], []
    for key, item in value.items():
        found += undeclared(item, named[key], f"{at}.{key}") if key in named else [f"{at}.{key}"]
    return found


def test_the_output_schemas_list_every_field(daemon: Daemon, listed: dict[str, Any]) -> None:
    """fastmcp gives its callers only what is listed."""
    found = answers(daemon)
    for name in NAMES:
        schema = listed[name]["outputSchema"]
        Draft202012Validator.check_schema(schema)
        Draft202012Validator.check_schema(listed[name]["inputSchema"])
        for answer in found[name]:
            assert undeclared(answer, schema) == [], name
            Draft202012Validator(schema).validate(answer)
        seen = keys_in(found[name])
        assert set(DOCUMENTED[name].split()) <= seen, (name, DOCUMENTED[name], seen)


def test_the_test_sees_what_is_not_declared() -> None:
    schema = {"properties": {"a": {"type": "array", "items": {"properties": {"b": {}}}}}}
    assert undeclared({"a": [{"b": 1, "c": 2}], "d": 3}, schema) == [".a.c", ".d"]


WHOLE_NUMBERS = [
    ("search_memories", {"query": "integral"}, "limit"),
    ("search_memories", {"query": "integral"}, "max_tokens"),
    ("get_context", {"session_id": "integral"}, "max_turns"),
    ("get_context", {"session_id": "integral"}, "max_tokens"),
]


def test_every_integer_argument_is_among_those_tried() -> None:
    takes = {
        (tool.name, key)
        for tool in BY_TOOLSET["core"]
        for key, schema in tool.input_schema["properties"].items()
        if schema["type"] == "integer"
    }
    assert takes == {(name, key) for name, _, key in WHOLE_NUMBERS}


@pytest.mark.parametrize(("name", "arguments", "key"), WHOLE_NUMBERS)
def test_a_whole_number_may_be_written_with_a_point(
    daemon: Daemon, name: str, arguments: dict[str, Any], key: str
) -> None:
    for n in range(4):
        daemon.tool("store_memory", content=f"integral {n}", memory_type="conversation")
        daemon.tool("add_turn", role="user", content=f"integral {n}", session_id="integral")
    one, two = (daemon.tool(name, **arguments, **{key: value}) for value in (2, 2.0))
    assert one == two
    if key == "limit":
        assert len(two["results"]) == 2


@pytest.mark.parametrize("value", ["2.5", "true", "NaN", "1e400", "-1e400", "0.0", '"2"', "[2]"])
@pytest.mark.parametrize(("name", "arguments", "key"), WHOLE_NUMBERS)
def test_what_is_no_whole_number_is_refused(
    daemon: Daemon, name: str, arguments: dict[str, Any], key: str, value: str
) -> None:
    call = {"name": name, "arguments": arguments | {key: "HERE"}}
    request = {"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": call}
    with Lines(daemon.connect()) as lines:
        lines.open()
        lines.send(json.dumps(request).replace('"HERE"', value).encode() + b"\n")
        answer = lines.read()["result"]
    assert answer["isError"], answer
    error = answer["_meta"]["memoryd/error"]
    assert error["code"] == f"{key}_invalid"
    assert "whole number" in error["message"]
    assert error["hint"]


@pytest.mark.parametrize("given", [{}, {"memory_id": ""}, {"memory_id": None}, {"memory_id": " "}])
def test_forgetting_nothing_is_an_error(daemon: Daemon, given: dict[str, Any]) -> None:
    answer = daemon.call("tools/call", name="forget_memory", arguments=given)
    assert answer["isError"]
    error = answer["_meta"]["memoryd/error"]
    assert error["code"] == "memory_id_invalid" if given.get("memory_id") else "memory_id_missing"
    assert "search_memories" in error["hint"]


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("door", ["unix", "http"])
async def test_an_unknown_tool_is_an_error_of_the_protocol(
    daemon: Daemon, door: str, era: str, token: str
) -> None:
    async with connected(daemon, door, era, token) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("recall_memories", {})
    assert caught.value.error.code == -32602
    assert caught.value.error.data["memoryd/error"]["code"] == "tool_unknown"
    assert "search_memories" in caught.value.error.message


@pytest.mark.parametrize(("era", "code"), [("legacy", -32002), ("2026-07-28", -32602)])
@pytest.mark.parametrize("door", ["unix", "http"])
@pytest.mark.parametrize("uri", ["memory://memory/nobody", "memory://nothing", "test://nothing"])
async def test_an_unknown_resource_has_the_code_of_its_era(
    daemon: Daemon, door: str, era: str, code: int, uri: str, token: str
) -> None:
    async with connected(daemon, door, era, token) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
    assert caught.value.error.code == code
    assert caught.value.error.data["uri"] == uri
    assert caught.value.error.data["memoryd/error"]["code"] == "not_found"
