"""Sessions where a connection keeps none, or lives for one call: named once, told in the answer."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client

from memoryd.doors.sessions import HEADER, META
from tests.daemons import Daemon, Lines, unix_transport
from tests.doors.clients import connected, over_http

MODERN = "2026-07-28"
TURN = {"role": "user", "content": "the kettle is on"}


async def call(client: Client, name: str, meta: str = "", /, **arguments: Any) -> Any:
    """The structured answer of a tool, with a session in `_meta` or without."""
    given: Any = {META: meta} if meta else None
    answer = await client.call_tool(name, arguments, meta=given)
    assert not answer.is_error, answer
    return answer.structured_content


def said(window: Any) -> list[str]:
    return [message["content"] for message in window["messages"]]


async def test_without_any_session_the_answer_says_how_to_keep_one(
    daemon: Daemon, token: str
) -> None:
    """HTTP in the 2026 era is stateless: each request comes from nowhere."""
    async with over_http(daemon, token, MODERN) as client:
        empty = await call(client, "get_context")
        assert empty["messages"] == []
        assert "session_id" in empty["hint"]
        turn = await call(client, "add_turn", **TURN)
        session = turn["session_id"]
        assert session in turn["hint"]
        assert session != empty["session_id"]
        window = await call(client, "get_context", session_id=session)
        assert said(window) == [TURN["content"]]
        assert "hint" not in window
        assert "session_id" in (await call(client, "clear_context"))["hint"]
        cleared = await call(client, "clear_context", session_id=session)
        assert cleared == {"session_id": session, "cleared": 1}


@pytest.mark.parametrize("era", ["legacy", MODERN])
async def test_a_header_names_the_session_once(daemon: Daemon, token: str, era: str) -> None:
    name = f"by-header-{era}"
    async with over_http(daemon, token, era, **{HEADER: name}) as client:
        turn = await call(client, "add_turn", **TURN)
        assert turn["session_id"] == name
        assert "hint" not in turn
    async with over_http(daemon, token, era, **{HEADER: name}) as client:
        assert said(await call(client, "get_context")) == [TURN["content"]]
        assert await call(client, "clear_context") == {"session_id": name, "cleared": 1}
        assert (await call(client, "get_context"))["session_id"] == name


@pytest.mark.parametrize("door", ["unix", "stdio", "http"])
@pytest.mark.parametrize("era", ["legacy", MODERN])
async def test_meta_names_the_session_on_every_door(
    daemon: Daemon, door: str, era: str, token: str
) -> None:
    name = f"by-meta-{door}-{era}"
    async with connected(daemon, door, era, token) as client:
        assert (await call(client, "add_turn", name, **TURN))["session_id"] == name
    async with connected(daemon, door, era, token) as client:
        assert said(await call(client, "get_context", name)) == [TURN["content"]]


async def test_the_argument_beats_meta_beats_the_header_beats_the_connection(
    daemon: Daemon, token: str
) -> None:
    async with over_http(daemon, token, "legacy") as client:
        own = (await call(client, "add_turn", **TURN))["session_id"]
        assert (await call(client, "get_context"))["session_id"] == own
        assert own.startswith("http-")
    async with over_http(daemon, token, "legacy", **{HEADER: "rank-header"}) as client:
        assert (await call(client, "get_context"))["session_id"] == "rank-header"
        assert (await call(client, "get_context", "rank-meta"))["session_id"] == "rank-meta"
        argument = await call(client, "get_context", "rank-meta", session_id="rank-argument")
        assert argument["session_id"] == "rank-argument"
        empty = await call(client, "get_context", "rank-meta", session_id="")
        assert empty["session_id"] == "rank-meta"


@pytest.mark.parametrize("era", ["legacy", MODERN])
@pytest.mark.parametrize("door", ["unix", "stdio"])
async def test_a_connection_keeps_its_session_in_both_eras(
    daemon: Daemon, door: str, era: str, token: str
) -> None:
    async with connected(daemon, door, era, token) as client:
        first = await call(client, "add_turn", **TURN)
        second = await call(client, "add_turn", role="assistant", content="so it is")
        assert second["session_id"] == first["session_id"]
        assert first["session_id"] in first["hint"]  # told once
        assert "hint" not in second
        assert len((await call(client, "get_context"))["messages"]) == 2


@pytest.mark.parametrize("door", ["unix", "stdio", "http"])
async def test_one_connection_a_call_can_go_on_with_what_it_was_told(
    daemon: Daemon, door: str, token: str
) -> None:
    """As LangChain's adapter calls tools."""

    async def one(name: str, **arguments: Any) -> Any:
        async with connected(daemon, door, "legacy", token) as client:
            return await call(client, name, **arguments)

    turn = await one("add_turn", **TURN)
    assert turn["session_id"] in turn["hint"]
    lost = await one("get_context")
    assert lost["messages"] == []
    assert "session_id" in lost["hint"]
    assert said(await one("get_context", session_id=turn["session_id"])) == [TURN["content"]]


async def test_clearing_an_http_session_keeps_its_id(daemon: Daemon, token: str) -> None:
    """The protocol's session goes on: an id that the next request does not use would be a lie."""
    async with over_http(daemon, token, "legacy") as client:
        turn = await call(client, "add_turn", **TURN)
        cleared = await call(client, "clear_context")
        assert cleared == {"session_id": turn["session_id"], "cleared": 1}
        assert (await call(client, "get_context"))["session_id"] == turn["session_id"]


@pytest.mark.parametrize("bad", ["two\nlines", "x" * 201, 5, ["a"]])
def test_a_bad_session_in_meta_is_refused(daemon: Daemon, bad: object) -> None:
    with Lines(daemon.connect()) as lines:
        lines.open()
        answer = lines.call("tools/call", name="get_context", arguments={}, _meta={META: bad})
    assert answer["_meta"]["memoryd/error"]["code"] == "session_id_invalid"


def test_a_named_session_does_not_narrow_a_search(daemon: Daemon) -> None:
    """Only add_turn, get_context and clear_context act on the current session."""
    daemon.tool("store_memory", content="the narrow boat has a green door")
    query = {"query": "narrow boat green door"}
    with Lines(daemon.connect()) as lines:
        lines.open()
        meta = {META: "some-session"}
        found = lines.call("tools/call", name="search_memories", arguments=query, _meta=meta)
    assert found["structuredContent"]["results"]


async def test_a_stored_memory_belongs_to_no_session_unless_told(daemon: Daemon) -> None:
    async with Client(unix_transport(daemon.socket), mode="legacy") as client:
        made = await call(client, "store_memory", "some-session", content="of no session")
    assert "session_id" not in made
