"""Handles (names and ids) of memories and sessions, for completion in a client.

Every memory is tested, on a thread: calls come at the speed of a person who types, and an index of
prefixes would cost RAM for every memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from memoryd.engine.index.index import Entry
from memoryd.engine.parts import Parts
from memoryd.fair import in_thread
from memoryd.model import Memory, MemoryType, is_expired


@dataclass(frozen=True, slots=True)
class Handles:
    """The first matches, and how many there are in all."""

    values: tuple[str, ...]
    total: int


async def memory_handles(parts: Parts, prefix: str, most: int) -> Handles:
    """Names, then ids, that begin with `prefix` in any case; names sorted, newest ids first."""
    entries, now = parts.index.entries(), parts.clock()
    return await in_thread(_of_memories, entries, now, prefix.casefold(), most)


async def session_handles(parts: Parts, prefix: str, most: int) -> Handles:
    """Ids that begin with `prefix` of sessions with messages; the latest session first."""
    entries, now = parts.index.entries(), parts.clock()
    return await in_thread(_of_sessions, entries, now, prefix.casefold(), most)


def _of_memories(entries: Sequence[Entry | None], now: float, prefix: str, most: int) -> Handles:
    names: list[str] = []
    ids: list[tuple[float, str]] = []
    for memory in _alive(entries, now):
        if memory.name is not None and memory.name.casefold().startswith(prefix):
            names.append(memory.name)
        if memory.id.casefold().startswith(prefix):
            ids.append((-memory.created_at, memory.id))
    first = nsmallest(most, names)
    first += [id for _, id in nsmallest(most - len(first), ids)]
    return Handles(tuple(first), len(names) + len(ids))


def _of_sessions(entries: Sequence[Entry | None], now: float, prefix: str, most: int) -> Handles:
    latest: dict[str, float] = {}
    for memory in _alive(entries, now):
        session = memory.session_id
        if session is not None and memory.type is MemoryType.CONVERSATION:
            latest[session] = max(memory.created_at, latest.get(session, 0.0))
    fit = [
        (-at, session) for session, at in latest.items() if session.casefold().startswith(prefix)
    ]
    return Handles(tuple(session for _, session in nsmallest(most, fit)), len(fit))


def _alive(entries: Iterable[Entry | None], now: float) -> Iterable[Memory]:
    return (e.memory for e in entries if e is not None and not is_expired(e.memory, now))
