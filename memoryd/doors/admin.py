"""Calls for whoever owns the machine, made by the command line. Not among the tools that agents
are shown: they would pay for words they never need."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from memoryd.doors import render
from memoryd.engine import checks
from memoryd.engine.engine import Engine
from memoryd.ports import Backup

Arguments = dict[str, Any]


async def _backup(engine: Engine, given: Arguments) -> Arguments:
    return _made(await engine.backup(), engine)


async def _rescue(engine: Engine, given: Arguments) -> Arguments:
    return _made(await engine.rescue(given.get("folder")), engine)


def _made(backup: Backup, engine: Engine) -> Arguments:
    at = render.moment(backup.created_at, engine.zone)
    return {
        "path": backup.path,
        "memories": backup.memories,
        "bytes": backup.size,
        "created_at": at,
    }


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
    "rescue": _rescue,
    "sweep": _sweep,
    "purge": _purge,
    "audit": _audit,
}
ADMIN_ARGUMENTS = {"sweep": {"clock_is_right"}, "rescue": {"folder"}}
