"""Handles (names and ids) of memories and sessions, for completion in a client.

Every memory is tested, on a thread: calls come at the speed of a person who types, and an index of
prefixes would cost RAM for every memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest

from memoryd.engine.parts import Parts
from memoryd.fair import in_thread


@dataclass(frozen=True, slots=True)
class Handles:
    """The first matches, and how many there are in all."""

    values: tuple[str, ...]
    total: int


async def memory_handles(parts: Parts, prefix: str, most: int) -> Handles:
    """Names, then ids, that begin with `prefix` in any case; names sorted, newest ids first."""
    known = parts.index.handles(parts.clock())
    return await in_thread(_of_memories, *known, prefix.casefold(), most)


async def session_handles(parts: Parts, prefix: str, most: int) -> Handles:
    """Ids that begin with `prefix` of sessions with messages; the latest session first."""
    latest = dict(parts.index.last_alive(parts.clock()))
    return await in_thread(_of_sessions, latest, prefix.casefold(), most)


def _of_memories(
    created: list[tuple[float, str]], names: list[str], prefix: str, most: int
) -> Handles:
    fit = [name for name in names if name.casefold().startswith(prefix)]
    ids = [(-at, id) for at, id in created if id.casefold().startswith(prefix)]
    first = nsmallest(most, fit)
    first += [id for _, id in nsmallest(most - len(first), ids)]
    return Handles(tuple(first), len(fit) + len(ids))


def _of_sessions(latest: dict[str, float], prefix: str, most: int) -> Handles:
    fit = [
        (-at, session) for session, at in latest.items() if session.casefold().startswith(prefix)
    ]
    return Handles(tuple(session for _, session in nsmallest(most, fit)), len(fit))
