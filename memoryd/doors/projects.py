"""Which project a call belongs to, and the tool that lists projects.

`_meta` comes first, then the query or a header of an HTTP request, then what the connection said.
The shim says whether its project was given to it, or found from its working directory. A found one
is only a guess: a client that has roots, the folders that its user works in, is asked for them, and
the first of them that is in a project decides. Roots are paths on the client's machine, so only
clients at the local socket are asked, once and at their first call that needs a project.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import anyio
import anyio.to_thread
import mcp.types as types
from mcp.shared.exceptions import MCPError, NoBackChannelError
from pydantic import ValidationError

from memoryd.doors import render
from memoryd.doors.sessions import PEER, Peer
from memoryd.engine import checks
from memoryd.engine.engine import Engine
from memoryd.fields import PROJECT
from memoryd.project_folder import project_at
from memoryd.sanitize import as_data

META, QUERY, HEADER = "memoryd/project", "project", "Memoryd-Project"
ROOTS_TIMEOUT = 2.0  # seconds for a client to tell its roots
MAX_ROOTS = 20  # that are looked at
NEEDED_BY = frozenset(
    "search_memories store_memory add_turn get_context list_projects wake_session brief".split()
)


async def project_of_call(ctx: Any) -> str | None:
    """The project of a call; None if it has none. Raises InvalidInput for a name that cannot be
    one."""
    query = getattr(ctx.request, "query_params", None) or {}
    headers = getattr(ctx.request, "headers", None) or {}
    asked = ((ctx.meta or {}).get(META), query.get(QUERY), headers.get(HEADER))
    named = next((value for value in asked if value is not None), None)
    if named is not None:
        return _checked(named)
    peer = PEER.get(None)
    if peer is None:
        return None
    by_roots = None if peer.project_given else await _project_of_roots(ctx, peer)
    return by_roots or _checked(peer.project)


def _checked(name: object) -> str | None:
    return None if isinstance(name, str) and not name.strip() else checks.label(name, PROJECT)


async def _project_of_roots(ctx: Any, peer: Peer) -> str | None:
    if not peer.is_near or peer.roots_asked:
        return peer.roots_project
    async with peer.asking_roots:
        if not peer.roots_asked:
            roots = await _roots(ctx)
            peer.roots_project = await anyio.to_thread.run_sync(_first_project, roots)
            peer.roots_asked = True
    return peer.roots_project


async def _roots(ctx: Any) -> list[str]:
    """The URIs of the client's roots; none if it has none or does not tell them in time."""
    able = ctx.session.client_capabilities
    if able is None or able.roots is None or not ctx.session.can_send_request:
        return []
    try:
        with anyio.fail_after(ROOTS_TIMEOUT):
            found = await ctx.session.send_request(types.ListRootsRequest(), types.ListRootsResult)
    except (MCPError, NoBackChannelError, ValidationError, TimeoutError):
        return []
    return [str(root.uri) for root in found.roots[:MAX_ROOTS]]


def _first_project(roots: list[str]) -> str | None:
    """The project of the first root that is in one. Reads files: run it on a thread."""
    for uri in roots:
        parts = urlsplit(uri)
        if parts.scheme == "file" and (found := project_at(Path(unquote(parts.path)))):
            return found
    return None


async def list_projects(engine: Engine, given: dict[str, Any]) -> dict[str, Any]:
    """Every project with its counts, and that of the caller."""
    own = given.get("own_project")
    found = [
        {
            "project": None if facts.name is None else as_data(facts.name),
            "memories": facts.memories,
            "types": dict(facts.types),
            "newest": render.moment(facts.newest, engine.zone),
        }
        for facts in await engine.projects.list()
    ]
    return {"own": own, "projects": found}
