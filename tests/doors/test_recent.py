"""The latest calls, which `memoryd top` shows: for the owner, bounded, without texts."""

from __future__ import annotations

import json
import socket

from memoryd.doors.calls import MAX_SESSION, RECENT, RECENT_IDS, CallLog
from memoryd.doors.recent import NAME
from tests.daemons import Daemon, Lines


def test_a_query_and_a_text_are_not_kept(daemon: Daemon) -> None:
    """The ids of what was stored and found are; a text is looked up only if it is asked for."""
    stored = daemon.tool("store_memory", content="the walrus reads maps", session_id="s-recent")
    daemon.tool("search_memories", query="which walrus reads maps")
    found = daemon.tool(NAME)
    search, store = found["calls"][:2]
    assert (search["tool"], store["tool"]) == ("search_memories", "store_memory")
    assert stored["id"] in search["ids"]
    assert (store["ids"], store["session_id"], store["outcome"]) == (
        [stored["id"]],
        "s-recent",
        "ok",
    )
    assert search["number"] == store["number"] + 1
    assert "walrus" not in json.dumps(found)
    texts = daemon.tool(NAME, texts=True)["texts"]
    assert texts[stored["id"]] == "the walrus reads maps"
    daemon.tool("forget_memory", memory_id=stored["id"])
    assert stored["id"] not in daemon.tool(NAME, texts=True)["texts"]


def test_who_watches_is_not_shown(daemon: Daemon) -> None:
    before = daemon.tool(NAME, limit=1)["calls"]
    assert daemon.tool(NAME, limit=1)["calls"] == before


def test_a_failed_call_is_shown_with_its_code(daemon: Daemon) -> None:
    daemon.call("tools/call", name="store_memory", arguments={"content": ""})
    latest = daemon.tool(NAME, limit=1)["calls"][0]
    assert (latest["tool"], latest["outcome"], latest["ids"]) == (
        "store_memory",
        "content_empty",
        [],
    )


def test_recent_calls_are_for_the_local_socket(daemon: Daemon, token: str) -> None:
    port = int(daemon.settings["MEMORYD_DOORS_TCP_PORT"])
    link = socket.create_connection(("127.0.0.1", port), timeout=60)
    link.sendall(token.encode() + b"\n")
    with Lines(link) as lines:
        lines.open()
        assert lines.tool(NAME)["_meta"]["memoryd/error"]["code"] == "not_local"


def test_what_is_kept_is_bounded() -> None:
    calls = CallLog()
    for number in range(RECENT + 10):
        with calls.timed("search_memories") as call:
            call.session = "s" * 10_000
            call.ids = [str(number)] * 50
    kept = calls.recent()
    assert len(kept) == RECENT
    assert [call.number for call in kept[:2]] == [RECENT + 10, RECENT + 9]
    assert (len(kept[0].session or ""), len(kept[0].ids)) == (MAX_SESSION, RECENT_IDS)
    assert len(calls.recent(3)) == 3
