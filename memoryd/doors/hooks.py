"""The calls of `memoryd hook` and of the verbs that explain it: local, never advertised.

A hook is run by an agent's client, not by the agent, which must not be able to say what happened in
its session. So these are served like the calls of the owner.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio.to_thread

from memoryd.doors import render
from memoryd.engine import checks
from memoryd.engine.engine import Engine
from memoryd.engine.push.relevant import Judged
from memoryd.errors import InvalidInput
from memoryd.fields import PROJECT
from memoryd.hook_events import output, read_input
from memoryd.project_folder import project_at
from memoryd.sanitize import as_data

Arguments = dict[str, Any]
MAX_LISTED = 50
ARGUMENTS = {
    "hook": {"event", "client", "payload", "cwd", "project", "no_project"},
    "explain_push": {"prompt", "session_id", "cwd", "project", "no_project"},
    "list_pushes": {"session_id", "limit"},
}


async def _hook(engine: Engine, given: Arguments) -> Arguments:
    """What a hook prints; empty for anything that is not a known event."""
    words = (given.get(key, "") for key in ("event", "client", "payload", "cwd"))
    call = read_input(*(word if isinstance(word, str) else "" for word in words))
    if call is None:
        return {"output": ""}
    project = await _project(given, call.cwd)
    return {"output": output(call, await engine.hooks.handle(call, project))}


async def _explain_push(engine: Engine, given: Arguments) -> Arguments:
    """What a prompt would get, with the score of each candidate and why it is left out."""
    prompt = given.get("prompt")
    if not isinstance(prompt, str):
        raise InvalidInput("There is no prompt.", code="prompt_missing", hint="Give a prompt.")
    session = checks.label(given.get("session_id"), "session_id") or ""
    project = await _project(given, str(given.get("cwd", "")))
    chosen = await engine.hooks.explain(prompt, session, project)
    return {
        "project": None if project is None else as_data(project),
        "text": chosen.text,
        "reason": chosen.reason,
        "candidates": [_judged(one) for one in chosen.judged],
    }


def _judged(one: Judged) -> Arguments:
    memory = one.hit.memory
    return {
        "id": memory.id,
        "score": one.hit.score,
        "content": as_data((one.hit.passage or memory.content)[:200]),
        "pushed": not one.refused,
        "refused": one.refused,
    }


async def _list_pushes(engine: Engine, given: Arguments) -> Arguments:
    """The latest pushes, newest first: of one session, or of all."""
    session = checks.label(given.get("session_id"), "session_id")
    limit = checks.limit(given.get("limit", MAX_LISTED))
    held = engine.hooks.pushes()
    found = [
        (push, id)
        for id, pushes in held.items()
        for push in pushes
        if session is None or id == session
    ]
    found.sort(key=lambda pair: (-pair[0].at, pair[1]))
    return {
        "pushes": [
            {
                "session_id": as_data(id),
                "at": render.moment(push.at, engine.zone),
                "event": as_data(push.event),
                "why": as_data(push.why),
                "tokens": push.tokens,
                "ids": list(push.ids),
            }
            for push, id in found[:limit]
        ],
        "total": len(found),
        "tokens": sum(push.tokens for push, _ in found),
    }


async def _project(given: Arguments, cwd: str) -> str | None:
    """The project of a hook: the one that it names, else that of its working directory."""
    if given.get("no_project"):
        return None
    if (named := checks.label(given.get("project"), PROJECT)) is not None:
        return named
    return await anyio.to_thread.run_sync(project_at, Path(cwd)) if cwd else None


CALLS: dict[str, Callable[[Engine, Arguments], Awaitable[Arguments]]] = {
    "hook": _hook,
    "explain_push": _explain_push,
    "list_pushes": _list_pushes,
}
