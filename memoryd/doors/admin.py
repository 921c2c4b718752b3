"""Calls for whoever owns the machine, made by the command line. Not among the tools that agents
are shown: they would pay for words they never need."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from memoryd.doors import render
from memoryd.engine import checks
from memoryd.engine.engine import Engine

Arguments = dict[str, Any]


async def _backup(engine: Engine, given: Arguments) -> Arguments:
    made = await engine.backup()
    at = render.moment(made.created_at, engine.zone)
    return {"path": made.path, "memories": made.memories, "bytes": made.size, "created_at": at}


async def _sweep(engine: Engine, given: Arguments) -> Arguments:
    clock_is_right = checks.flag(given.get("clock_is_right", False), "clock_is_right")
    return {"deleted": await engine.sweep(clock_is_right=clock_is_right)}


async def _purge(engine: Engine, given: Arguments) -> Arguments:
    await engine.purge()
    return {"purged": True}


async def _audit(engine: Engine, given: Arguments) -> Arguments:
    return await engine.audit()


ADMIN: dict[str, Callable[[Engine, Arguments], Awaitable[Arguments]]] = {
    "backup": _backup,
    "sweep": _sweep,
    "purge": _purge,
    "audit": _audit,
}
ADMIN_ARGUMENTS = {"sweep": {"clock_is_right"}}
