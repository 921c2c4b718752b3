"""The tools: each checks its arguments, makes one call on the engine and renders the answer."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from mcp.types import Tool

from memoryd.doors import (
    bulk,
    detail,
    hooks,
    insight,
    manage,
    notes,
    owner,
    projects,
    render,
    session_tools,
)
from memoryd.doors.calls import note_steps
from memoryd.doors.daemon_operations import DaemonOperations
from memoryd.doors.offline_warnings import with_warnings
from memoryd.doors.readiness import Readiness
from memoryd.doors.rights import Rights
from memoryd.doors.schemas import TOOLS, TOOLSET_OF
from memoryd.doors.sessions import (
    PEER,
    Session,
    hint_to_continue,
    hint_where_empty,
    renewed,
    rights_of,
    session_of,
    toolsets_of,
)
from memoryd.engine import checks
from memoryd.engine.engine import Engine
from memoryd.engine.search.fold import CHARS_PER_TOKEN, cost
from memoryd.engine.turn_keys import ORDER
from memoryd.errors import InvalidInput
from memoryd.model import Page
from memoryd.offline import noting_queued
from memoryd.sanitize import as_data

Arguments = dict[str, Any]
ANSWER_CHARS = 400_000  # of recalled text in one answer
OPENING = ("wake_session",)  # without session_id it opens a new one
SESSION, OWN_PROJECT = "session_id", "own_project"
# Groups of operations that are only on the local socket, never advertised.
LOCAL = (owner, hooks, detail, bulk, insight)
LOCAL_CALLS = {name: call for group in LOCAL for name, call in group.CALLS.items()}
LOCAL_ARGUMENTS = {name: given for group in LOCAL for name, given in group.ARGUMENTS.items()}
# Arguments that the schemas do not show: few need them, and every agent would have to read them. An
# agent can filter by `superseded_by` and `project`. `count_use` false: a person looks.
UNLISTED = {
    "search_memories": {"include_superseded", "mode", "project", "count_use"} | manage.FILTERS,
    "list_memories": manage.FILTERS,
    "list_sessions": {"details"},
    "add_turn": {"source", "tool", "tools_used", "metadata"},
    "get_context": {"scope", "identity", "window_only", "count_use", "phase"},
    "brief": {"max_tokens", "count_use"},
}


class UnknownTool(InvalidInput):
    """There is no such tool: a protocol error, not a tool error."""

    code = "tool_unknown"


class Tools:
    """Every tool by name."""

    def __init__(
        self, readiness: Readiness, default: Sequence[str], operations: DaemonOperations
    ) -> None:
        """`default`: the toolsets of a client that asks for none."""
        self._readiness = readiness
        self._default = default
        self._known = {tool.name: set(tool.input_schema["properties"]) for tool in TOOLS}
        for name, arguments in UNLISTED.items():
            self._known[name] |= arguments
        self._known |= LOCAL_ARGUMENTS | operations.arguments
        self._operations = operations.calls
        self._calls: dict[str, Callable[[Engine, Arguments], Awaitable[Arguments]]] = {
            "store_memory": _store,
            "forget_memory": _forget,
            "list_memories": manage.list_memories,
            "update_memory": manage.update_memory,
            "memory_chain": manage.memory_chain,
            "list_projects": projects.list_projects,
            "read_notes": notes.read_notes,
            "list_sessions": session_tools.list_sessions,
            "working_memory": session_tools.working_memory,
            **LOCAL_CALLS,
        }
        self._calls_with_rights: dict[
            str, Callable[[Engine, Arguments, Rights], Awaitable[Arguments]]
        ] = {
            "search_memories": _search,
            "review_memory": manage.review_memory,
            "forget_memories": manage.forget_memories,
            "edit_notes": notes.edit_notes,
            "brief": session_tools.brief,
        }
        self._session_calls: dict[
            str, Callable[[Engine, Arguments, Session, Rights], Awaitable[Arguments]]
        ] = {
            "add_turn": _add_turn,
            "get_context": session_tools.get_context,
            "clear_context": _clear_context,
            "wake_session": session_tools.wake_session,
            "sleep_session": session_tools.sleep_session,
            "compact_session": session_tools.compact_session,
            "read_session": session_tools.read_session,
            "rename_session": session_tools.rename_session,
        }

    def has(self, name: str) -> bool:
        """Whether there is a tool of this name, advertised or not."""
        return any(
            name in calls
            for calls in (
                self._calls,
                self._session_calls,
                self._calls_with_rights,
                self._operations,
            )
        )

    def listed(self, ctx: Any) -> list[Tool]:
        """The tools that a client sees. Raises InvalidInput for a toolset that does not exist."""
        return rights_of(ctx).tools(toolsets_of(ctx, self._default))

    async def call(self, name: str, arguments: Mapping[str, Any] | None, ctx: Any) -> Arguments:
        """The tool's answer. Raises UnknownTool or another MemorydError."""
        if name in LOCAL_CALLS or name in self._operations:
            _check_local(name)
        else:
            self._check_offered(name, ctx)
            rights_of(ctx).check(name)
        given = self._given(name, arguments or {})
        if name in self._operations:
            return await self._operations[name](given)
        engine = await self._readiness.engine()
        with noting_queued() as queued:
            answer = await self._call(name, engine, given, ctx)
        return with_warnings(engine, name, answer, queued)

    async def _call(self, name: str, engine: Engine, given: Arguments, ctx: Any) -> Arguments:
        if name in projects.NEEDED_BY and (own := await projects.project_of_call(ctx)):
            given[OWN_PROJECT] = own
        async with engine.operation(name):
            return await self._answer(engine, name, given, ctx)

    async def _answer(self, engine: Engine, name: str, given: Arguments, ctx: Any) -> Arguments:
        if name in self._session_calls:
            named = given.get(SESSION) if name in OPENING else given.pop(SESSION, None)
            call = self._session_calls[name]
            return await call(engine, given, session_of(named, ctx), rights_of(ctx))
        if name in self._calls_with_rights:
            return await self._calls_with_rights[name](engine, given, rights_of(ctx))
        return await self._calls[name](engine, given)

    def _check_offered(self, name: str, ctx: Any) -> None:
        """Raises UnknownTool if there is no such tool, or its toolset was not asked for."""
        toolsets = toolsets_of(ctx, self._default)
        if (toolset := TOOLSET_OF.get(name)) in toolsets:
            return
        names = ", ".join(tool for tool, within in TOOLSET_OF.items() if within in toolsets)
        where = f" {name} is in the toolset {toolset}: ask for it with --tools." if toolset else ""
        raise UnknownTool(
            f"There is no tool {name[:100]!r} here.{where}", hint=f"Use one of {names}."
        )

    def _given(self, name: str, arguments: Mapping[str, Any]) -> Arguments:
        """The arguments without null and "", which count as not given. Raises InvalidInput."""
        known = self._known.get(name, set())
        for key in arguments:
            if key not in known:
                raise InvalidInput(
                    f"{name} has no argument {key[:100]!r}.",
                    code="argument_unknown",
                    hint=_argument_hint(key, known),
                )
        return {key: value for key, value in arguments.items() if value is not None and value != ""}


def _argument_hint(key: str, known: set[str]) -> str:
    if not known:
        return "Call it without arguments."
    closest = difflib.get_close_matches(key[:50], known, n=1, cutoff=0.5)
    return f"Did you mean {closest[0]}?" if closest else f"Use {', '.join(sorted(known))}."


def _check_local(name: str) -> None:
    """Raises InvalidInput unless the call came through the local socket."""
    peer = PEER.get(None)
    if peer is None or not peer.local:
        raise InvalidInput(
            f"{name} is only for the owner of these memories, on the local socket.",
            code="not_local",
            hint="Use the memoryd command on the machine itself.",
        )


async def _search(engine: Engine, given: Arguments, rights: Rights) -> Arguments:
    counts = checks.flag(given.pop("count_use", True), "count_use")
    given = manage.with_filters(given)
    found = _bounded(await engine.search(given.pop("query", ""), **given))
    if counts and rights.writes:  # who may only read leaves no trace
        engine.count_uses(hit.memory.id for hit in found.hits)
    note_steps(found.timings)
    return render.page(found, engine.zone, explain=given.get("explain") is True)


def _bounded(page: Page) -> Page:
    """As many results as fit into one answer: clients do not read more, and serialising it would
    delay all other calls."""
    size, fit = 0, 0
    for hit in page.hits:
        size += CHARS_PER_TOKEN * cost(hit)
        if fit and size > ANSWER_CHARS:
            warning = f"Only {fit} of {len(page.hits)} results fit into one answer."
            return Page(page.hits[:fit], (*page.warnings, warning), page.timings)
        fit += 1
    return page


async def _store(engine: Engine, given: Arguments) -> Arguments:
    return render.stored(await engine.store(given.pop("content", ""), **given), engine.zone)


async def _forget(engine: Engine, given: Arguments) -> Arguments:
    done = await engine.forget(manage.memory_id(given, "forget_memory", "delete"))
    return {"success": done.success, "id": done.id}


async def _add_turn(
    engine: Engine, given: Arguments, session: Session, rights: Rights
) -> Arguments:
    role, content = given.pop("role", ""), given.pop("content", "")
    done = await engine.add_turn(role, content, session.id, **given)
    order = done.memory.metadata[ORDER]
    answer = {"order": order, "warnings": list(done.warnings)}
    hint = hint_to_continue(session, first=order == 0)
    return render.memory(done.memory, engine.zone) | answer | hint


async def _clear_context(
    engine: Engine, given: Arguments, session: Session, rights: Rights
) -> Arguments:
    cleared = await engine.clear_window(session.id)
    if cleared:
        return {SESSION: as_data(renewed(session)), "cleared": cleared}
    return {SESSION: as_data(str(session.id)), "cleared": 0} | hint_where_empty(session)
