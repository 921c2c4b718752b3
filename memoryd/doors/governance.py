"""What a person governs memories with, by the `memoryd` command: callable, never advertised.

An agent pays for every tool in its prompt and has no business here, so none of these is listed;
and a call is served only on the local socket, which nobody but the owner can reach.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from memoryd.doors import render
from memoryd.engine.engine import Engine

Arguments = dict[str, Any]
AT_A_TIME = 5000  # memories that one call deletes: well within a client's patience
SELECTION = {"memory_type", "session_id", "metadata", "since", "until", "older_than"}


async def _forget_where(engine: Engine, given: Arguments) -> Arguments:
    chosen = {key: value for key, value in given.items() if key in SELECTION}
    how = {key: value for key, value in given.items() if key not in SELECTION}
    done = await engine.forget_where(engine.selection(**chosen), limit=AT_A_TIME, **how)
    if how.get("everything") and not how.get("dry_run"):
        await engine.cleanup_expired()  # what nobody could see any more goes as well
    return {
        "matched": done.matched,
        "forgotten": done.forgotten,
        "types": dict(done.types),
        "first": [render.memory(memory, engine.zone) for memory in done.shown],
    }


CALLS: dict[str, Callable[[Engine, Arguments], Awaitable[Arguments]]] = {
    "forget_where": _forget_where,
}
ARGUMENTS = {"forget_where": SELECTION | {"dry_run", "everything", "purge"}}
