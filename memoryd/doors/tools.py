"""The tools: arguments checked, one call on the engine, the answer rendered."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from memoryd.doors import governance, render
from memoryd.doors.admin import ADMIN
from memoryd.doors.gate import Gate
from memoryd.doors.schemas import TOOLS
from memoryd.engine.engine import Engine
from memoryd.engine.fold import CHARS_A_TOKEN, cost
from memoryd.engine.turns import ORDER
from memoryd.engine.windows import new_session_id
from memoryd.errors import InvalidInput
from memoryd.model import Page

Arguments = dict[str, Any]
ANSWER_CHARS = 400_000  # of recalled text in one answer


@dataclass(slots=True)
class Peer:
    """The connection that a call came in by. `session_id` None: it has no session of its own.
    `local`: by the socket that only the owner of the memories can reach, and not by the shim."""

    session_id: str | None
    local: bool = False


# Set by each door around a connection; sessions are ours, never the protocol library's.
PEER: ContextVar[Peer] = ContextVar("peer")


class Tools:
    """Every tool by name."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._known = {tool.name: set(tool.input_schema["properties"]) for tool in TOOLS}
        self._known |= governance.ARGUMENTS
        self._calls: dict[str, Callable[[Engine, Arguments], Awaitable[Arguments]]] = {
            "search_memories": _search,
            "store_memory": _store,
            "forget_memory": _forget,
            "add_turn": _add_turn,
            "get_context": _get_context,
            "clear_context": _clear_context,
            **ADMIN,
            **governance.CALLS,
        }

    async def call(self, name: str, arguments: Mapping[str, Any] | None) -> Arguments:
        """The tool's answer; MemorydError with a code, a sentence and a hint."""
        if name not in self._calls:
            raise InvalidInput(
                f"There is no tool {name[:100]!r}.",
                code="tool_unknown",
                hint=f"Use one of {', '.join(tool.name for tool in TOOLS)}.",
            )
        if name in ADMIN or name in governance.CALLS:
            _check_local(name)
        given = self._given(name, arguments or {})
        return await self._calls[name](await self._gate.engine(), given)

    def _given(self, name: str, arguments: Mapping[str, Any]) -> Arguments:
        """The arguments that say something: null and "" mean not given."""
        known = self._known.get(name, set())
        for key in arguments:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
                raise InvalidInput(
                    f"{name} has no argument {key[:100]!r}.",
                    code="argument_unknown",
                    hint=f"Did you mean {near[0]}?" if near else f"Use {', '.join(sorted(known))}.",
                )
        return {key: value for key, value in arguments.items() if value is not None and value != ""}


def _check_local(name: str) -> None:
    """InvalidInput unless the call came in by the local socket."""
    peer = PEER.get(None)
    if peer is None or not peer.local:
        raise InvalidInput(
            f"{name} is for the owner of this machine's memories.",
            code="not_local",
            hint="Use the memoryd command on the machine itself.",
        )


async def _search(engine: Engine, given: Arguments) -> Arguments:
    return render.page(_bounded(await engine.search(given.pop("query", ""), **given)), engine.zone)


def _bounded(page: Page) -> Page:
    """As many results as fit into an answer: no client reads more, and writing it out would
    hold up everybody else."""
    size, fit = 0, 0
    for hit in page.hits:
        size += CHARS_A_TOKEN * cost(hit)
        if fit and size > ANSWER_CHARS:
            warning = f"Only {fit} of {len(page.hits)} results fit into one answer."
            return Page(page.hits[:fit], (*page.warnings, warning))
        fit += 1
    return page


async def _store(engine: Engine, given: Arguments) -> Arguments:
    return render.stored(await engine.store(given.pop("content", ""), **given), engine.zone)


async def _forget(engine: Engine, given: Arguments) -> Arguments:
    done = await engine.forget(given.get("memory_id", ""))
    return {"success": done.success, "id": done.id}


async def _add_turn(engine: Engine, given: Arguments) -> Arguments:
    done = await engine.add_turn(
        given.get("role", ""), given.get("content", ""), _session(given), given.get("speaker")
    )
    answer = {"order": done.memory.metadata[ORDER], "warnings": list(done.warnings)}
    return render.memory(done.memory, engine.zone) | answer


async def _get_context(engine: Engine, given: Arguments) -> Arguments:
    found = await engine.context_window(_session(given), given.get("max_turns"))
    return render.window(found, engine.zone)


async def _clear_context(engine: Engine, given: Arguments) -> Arguments:
    session = _session(given)
    cleared = await engine.clear_window(session)
    peer = PEER.get(None)
    if peer is not None and session == peer.session_id:
        session = peer.session_id = new_session_id()
    return {"session_id": session, "cleared": cleared}


def _session(given: Arguments) -> Any:
    """The session that is meant: the one given, else the connection's own."""
    peer = PEER.get(None)
    return given.get("session_id", peer.session_id if peer else None)
