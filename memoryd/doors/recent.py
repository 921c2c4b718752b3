"""The call behind `memoryd top`: the latest calls and sessions; local, never advertised.

What was asked is not kept anywhere, so it cannot be shown. Of the memories that a call stored or
found the ids are kept, and their texts are looked up only if the caller asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo
from typing import Any

from memoryd.doors import render
from memoryd.doors.calls import CallLog, RecentCall
from memoryd.engine import checks
from memoryd.engine.engine import Engine
from memoryd.sanitize import as_data

Arguments = dict[str, Any]
NAME = "recent_calls"
ARGUMENTS = {"limit", "texts"}
DEFAULT_CALLS = 20
SESSIONS = 5
TEXT_CHARS = 200  # of each memory


async def recent_calls(calls: CallLog, engine: Engine, given: Arguments) -> Arguments:
    """The latest calls, newest first, and the latest sessions; with `texts` also the beginning of
    each memory that they name and that still exists."""
    limit = checks.limit(given.get("limit", DEFAULT_CALLS))
    with_texts = checks.flag(given.get("texts", False), "texts")
    found = calls.recent(limit)
    sessions = await engine.sessions.list_sessions(limit=SESSIONS)
    answer = {
        "calls": [_facts(call, engine.zone) for call in found],
        "sessions": [
            {
                "session_id": as_data(one.session_id),
                "identity": None if one.identity is None else as_data(one.identity),
                "last_at": None if one.last_at is None else render.moment(one.last_at, engine.zone),
                "messages": one.messages,
                "open": one.closed_at is None,
            }
            for one in sessions.sessions
        ],
        "total_sessions": sessions.total,
    }
    if with_texts:
        answer["texts"] = await _texts(engine, (id for call in found for id in call.ids))
    return answer


def _facts(call: RecentCall, zone: tzinfo | None) -> Arguments:
    return {
        "number": call.number,
        "at": render.moment(call.at, zone),
        "tool": call.tool,
        "ms": call.ms,
        "outcome": call.outcome,
        "counts": dict(call.counts),
        "session_id": None if call.session is None else as_data(call.session),
        "ids": [as_data(id) for id in call.ids],
    }


async def _texts(engine: Engine, ids: Iterable[str]) -> dict[str, str]:
    found = {id: await engine.get(id) for id in dict.fromkeys(ids)}
    return {
        as_data(id): as_data(memory.content[:TEXT_CHARS])
        for id, memory in found.items()
        if memory is not None
    }
