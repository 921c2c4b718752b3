"""Which session a call belongs to, and what its answer says about it.

The argument `session_id` comes first, then `_meta`, then a header, then the connection's own
session. If a connection has none (HTTP without `Mcp-Session-Id`), a new session is made for the
call; the answer names it and says how to continue it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, cast

import anyio

from memoryd.doors.rights import ALL, Rights
from memoryd.engine.windows import new_session_id
from memoryd.toolsets import parse_toolsets

META = "memoryd/sessionId"
HEADER = "Memoryd-Session"
MCP_HEADER = "Mcp-Session-Id"
TOOLS_QUERY, TOOLS_HEADER = "tools", "Memoryd-Tools"


@dataclass(slots=True)
class Peer:
    """The connection of a call. `session_id` None: it has no session of its own. `local`: it came
    through the socket that only the owner of the memories can reach, and not through the shim."""

    session_id: str | None
    local: bool = False
    rights: Rights = ALL
    tools: object = None  # the toolsets that it asked for, not checked yet; None: for none
    is_near: bool = False  # it is on this machine; `local` is lost behind the shim, this is not
    project: object = None  # not checked yet; see `doors.projects`
    project_given: bool = False  # not only found from a working directory
    roots_asked: bool = False
    roots_project: str | None = None
    asking_roots: anyio.Lock = field(default_factory=anyio.Lock)


RIGHTS = "memoryd.rights"  # of an HTTP request, in its scope
# Set by each door around a connection; sessions are ours, never the protocol library's.
PEER: ContextVar[Peer] = ContextVar("peer")


def rights_of(ctx: Any) -> Rights:
    """What a call may do. Over HTTP the request's own token decides: the session may have been
    opened with another one."""
    scope = getattr(ctx.request, "scope", None)
    if scope is not None:
        return cast(Rights, scope[RIGHTS])
    peer = PEER.get(None)
    return ALL if peer is None else peer.rights


def toolsets_of(ctx: Any, default: Sequence[str]) -> Sequence[str]:
    """The toolsets that a client asked for, by `?tools=`, a header or a notification; `default` if
    it did not. Raises InvalidInput if it named an unknown one."""
    query = getattr(ctx.request, "query_params", None) or {}
    headers = getattr(ctx.request, "headers", None) or {}
    peer = PEER.get(None)
    asked = (query.get(TOOLS_QUERY), headers.get(TOOLS_HEADER), peer.tools if peer else None)
    named = next((value for value in asked if value is not None), None)
    return default if named is None else parse_toolsets(named)


class Source(Enum):
    """Where a session id came from."""

    NAMED = "named"  # by the argument, `_meta` or the header
    HTTP = "http"  # the protocol's own session, which a client sends with every request
    CONNECTION = "connection"  # lasts as long as the connection
    CALL = "call"  # made for this call


@dataclass(frozen=True, slots=True)
class Session:
    """The session of a call."""

    id: Any  # from the client; the engine checks it
    source: Source


def session_of(argument: object, ctx: Any) -> Session:
    """The session of a call with this argument and this request context."""
    headers = getattr(ctx.request, "headers", None) or {}
    for named in (argument, (ctx.meta or {}).get(META), headers.get(HEADER)):
        if named is not None and named != "":
            return Session(named, Source.NAMED)
    if protocol := headers.get(MCP_HEADER):
        return Session(f"http-{protocol}", Source.HTTP)
    peer = PEER.get(None)
    if peer is not None and peer.session_id is not None:
        return Session(peer.session_id, Source.CONNECTION)
    return Session(new_session_id(), Source.CALL)


def renewed(session: Session) -> str:
    """The session that the connection continues with after its own was cleared."""
    peer = PEER.get(None)
    if session.source is not Source.CONNECTION or peer is None:
        return str(session.id)
    peer.session_id = new_session_id()
    return peer.session_id


def continue_with(session_id: str) -> Session:
    """The session that was opened; a connection that keeps one continues with it."""
    peer = PEER.get(None)
    if peer is not None and peer.session_id is not None:
        peer.session_id = session_id
        return Session(session_id, Source.CONNECTION)
    return Session(session_id, Source.CALL)


def hint_to_continue(session: Session, *, first: bool) -> dict[str, str]:
    """For an answer to add_turn: how to continue. `first`: it is the first of its session."""
    how = f"To continue this session, pass session_id {session.id!r} in later calls"
    if session.source is Source.CALL:
        return {"hint": f"{how}: this connection keeps none."}
    if session.source in (Source.CONNECTION, Source.HTTP) and first:
        return {"hint": f"{how} from other connections; this one remembers it."}
    return {}


def hint_where_empty(session: Session) -> dict[str, str]:
    """For an answer without messages, if the call did not name the session."""
    how = "pass the session_id that add_turn answered"
    if session.source is Source.CALL:
        return {"hint": f"This connection keeps no session: {how}."}
    if session.source in (Source.CONNECTION, Source.HTTP):
        return {"hint": f"No messages on this connection yet. To read another session, {how}."}
    return {}
