"""The record of a session: one fact that holds what is known of it.

Messages expire after some days; the record stays, so a session keeps the time at which it was
created, its title, and the markers of its archives. No search and no list shows a record unless a
filter names `session_record`. All of it is in one metadata key, so one write changes it and a kill
leaves the old or the new one. Its fields:

- `title` and `identity`, as they were given
- `closed_at`: when the session was put to sleep, epoch seconds
- `last_consolidated`: the order of the last message that is part of an archive, -1 for none;
  `consolidated_at`: when that was
- `markers`: one for each archive, oldest first: `archive_id`, `archive_name`, `archived_at`,
  `messages` (how many) and `upto` (the order of the last one). Replay begins after the last marker.
- `pushes`: what hooks have put into its prompts; see `engine.push.pushes`
- `taken`: how far its transcript was taken in; see `engine.push.intake`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memoryd.engine.index.index import Index
from memoryd.engine.memories import Memories
from memoryd.engine.parts import Parts
from memoryd.engine.sessions.messages import messages_of
from memoryd.engine.updates import Updates
from memoryd.fields import SESSION_RECORD, is_session_record
from memoryd.model import Memory, MemoryType

TITLE, IDENTITY = "title", "identity"
CLOSED_AT, CONSOLIDATED_AT = "closed_at", "consolidated_at"
LAST_CONSOLIDATED, MARKERS = "last_consolidated", "markers"
PUSHES, TAKEN = "pushes", "taken"
DEFAULT_IDENTITY = "default"
MAX_MARKERS = 200  # older ones are dropped; their archives stay


def find_record(index: Index, session_id: str) -> Memory | None:
    """The record of a session; None if it has none yet."""
    facts = index.of_session(session_id, MemoryType.FACT)
    return next((memory for memory in facts if is_session_record(memory)), None)


def facts_of(record: Memory | None) -> Mapping[str, Any]:
    """What a record holds; empty without a record."""
    held = None if record is None else record.metadata.get(SESSION_RECORD)
    return held if isinstance(held, dict) else {}


def markers_of(record: Memory | None) -> list[Mapping[str, Any]]:
    """The markers of a session's archives, oldest first."""
    markers = facts_of(record).get(MARKERS)
    return [m for m in markers if isinstance(m, dict)] if isinstance(markers, list) else []


def last_consolidated(record: Memory | None) -> int:
    """The order of the last message that is part of an archive; -1: none is."""
    return _whole(facts_of(record).get(LAST_CONSOLIDATED))


def replay_after(record: Memory | None) -> int:
    """The order of the message after which a replay begins; -1: with the first one."""
    return max((_whole(marker.get("upto")) for marker in markers_of(record)), default=-1)


def text_of(record: Memory | None, key: str) -> str | None:
    """The title or the identity; None if it has none."""
    value = facts_of(record).get(key)
    return value if isinstance(value, str) and value else None


def time_of(record: Memory | None, key: str) -> float | None:
    """When it was closed or consolidated; None if it was not."""
    value = facts_of(record).get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of a record; see `updates.AnyChange`."""

    fields: Mapping[str, Any]
    marker: Mapping[str, Any] | None = None
    names: Sequence[str] = ()

    def applied(self, before: Memory, parts: Parts) -> Memory:
        held = {**facts_of(before), **self.fields}
        if self.marker is not None:
            known = [m for m in markers_of(before) if m.get("upto") != self.marker["upto"]]
            held[MARKERS] = [*known, dict(self.marker)][-MAX_MARKERS:]
        held = {key: value for key, value in held.items() if value is not None}
        metadata = {**before.metadata, SESSION_RECORD: held}
        return replace(before, metadata=metadata, content=_sentence(before.session_id, held))


class Records:
    """The records of all sessions."""

    def __init__(self, parts: Parts, memories: Memories, updates: Updates) -> None:
        self._parts = parts
        self._memories = memories
        self._updates = updates

    def find(self, session_id: str) -> Memory | None:
        """The record of a session; None if it has none yet."""
        return find_record(self._parts.index, session_id)

    async def ensure(self, session_id: str, *, identity: str | None = None) -> Memory:
        """The record of a session, made if need be. Its time is that of the oldest message."""
        async with self._parts.locks.hold([f"0:record:{session_id}"]):
            if (record := self.find(session_id)) is not None:
                return record
            now = self._parts.clock()
            said = messages_of(self._parts.index, session_id, now)
            held: dict[str, Any] = {LAST_CONSOLIDATED: -1, IDENTITY: identity}
            held = {key: value for key, value in held.items() if value is not None}
            stored = await self._memories.remember_own(
                _sentence(session_id, held),
                {SESSION_RECORD: held},
                session_id,
                created_at=said[0].created_at if said else now,
            )
            return stored.memory

    async def change(
        self, session_id: str, *, marker: Mapping[str, Any] | None = None, **fields: Any
    ) -> Memory:
        """Change fields of a record, and add a marker if given; None removes a field. A marker with
        the same `upto` is replaced."""
        record = await self.ensure(session_id)
        done = await self._updates.apply(record, _Change(fields, marker))
        return done.memory


def _sentence(session_id: str | None, held: Mapping[str, Any]) -> str:
    """The content of a record, for whoever reads an export."""
    title = held.get(TITLE)
    return f"Session {session_id}: {title}" if title else f"Session {session_id}"
