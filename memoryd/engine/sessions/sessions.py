"""Sessions: open one, close it, list, read and rename them.

An agent that keeps a continuous memory wakes and sleeps: each wake opens a session and returns the
first recall, each sleep closes it and consolidates it into one history entry and lasting facts. A
session that was never put to sleep, because its agent was killed, is consolidated when the same
identity wakes again. Sessions that nobody opened, such as those of a connection, work as well: they
get a record once there is something to keep, or when they last for longer than a day.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

import structlog

from memoryd.engine import checks
from memoryd.engine.parts import Parts
from memoryd.engine.sessions.compaction import Compacted, Compaction
from memoryd.engine.sessions.messages import messages_of
from memoryd.engine.sessions.recall import Recall, Recalled
from memoryd.engine.sessions.records import (
    CLOSED_AT,
    CONSOLIDATED_AT,
    IDENTITY,
    TITLE,
    Records,
    last_consolidated,
    markers_of,
    text_of,
    time_of,
)
from memoryd.engine.sessions.working_memory import checked_identity
from memoryd.engine.turn_keys import order_of
from memoryd.engine.windows import Windows, new_session_id, session_label
from memoryd.errors import InvalidInput, MemorydError, NotFound
from memoryd.fields import project_of
from memoryd.model import Memory

log = structlog.get_logger()
PAGE_CHARS = 400_000  # of text on one page of a transcript, which has at least one message
LEFT_OPEN = 3  # sessions without a sleep that a wake consolidates, newest first


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What is known of a session. `messages`: those that are still there; `turns`: how many there
    ever were; `last_at`: the time of the last one."""

    session_id: str
    created_at: float
    title: str | None = None
    identity: str | None = None
    closed_at: float | None = None
    last_consolidated: float | None = None
    last_at: float | None = None
    messages: int = 0
    turns: int = 0
    project: str | None = None  # of its latest message that has one
    markers: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class SessionList:
    """A list of sessions, latest first. `total`: how many there are in all."""

    sessions: tuple[SessionFacts, ...]
    total: int


@dataclass(frozen=True, slots=True)
class ReadSession:
    """A session with some of its messages, oldest first."""

    facts: SessionFacts
    messages: tuple[Memory, ...]


@dataclass(frozen=True, slots=True)
class Transcript:
    """A page of a session, oldest first. `archives`: markers in this part of the session, each with
    its archive if that is still there; `before`: where the page before ends, None if there is
    none."""

    facts: SessionFacts
    messages: tuple[Memory, ...]
    archives: tuple[tuple[Mapping[str, Any], Memory | None], ...]
    in_window: frozenset[str]
    before: int | None


@dataclass(frozen=True, slots=True)
class Woken:
    """A session that was opened, and its first recall. `consolidated`: sessions that had been left
    open."""

    facts: SessionFacts
    recalled: Recalled
    consolidated: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Slept:
    """A session that was closed, and what became of it."""

    closed_at: float
    compacted: Compacted


class Sessions:
    """The operations on sessions."""

    def __init__(
        self,
        parts: Parts,
        records: Records,
        windows: Windows,
        compaction: Compaction,
        recall: Recall,
    ) -> None:
        self._parts = parts
        self._records = records
        self._windows = windows
        self._compaction = compaction
        self._recall = recall

    async def wake(
        self,
        identity: str | None = None,
        *,
        session_id: str | None = None,
        hint: str | None = None,
        max_tokens: int | None = None,
        own_project: str | None = None,
    ) -> Woken:
        """Open a session, a new one unless it is named, and recall what to have in mind. Sessions
        of the identity that were left open are consolidated first. Raises InvalidInput."""
        who = checked_identity(identity)
        given = checks.label(session_id, "session_id")
        session = given or new_session_id()
        done = await self._close_left_open([id for id in self._left_open(who) if id != session])
        await self._records.ensure(session, identity=who)
        await self._records.change(session, identity=who, closed_at=None)
        recalled = await self._recall.recall(
            session, hint, max_tokens, identity=who, own_project=own_project
        )
        return Woken(self._facts(session), recalled, tuple(done))

    def _left_open(self, identity: str) -> list[str]:
        """The sessions of an identity that were not put to sleep, newest first."""
        records = [
            record
            for record in self._parts.index.session_records()
            if text_of(record, IDENTITY) == identity and time_of(record, CLOSED_AT) is None
        ]
        records.sort(key=lambda record: record.created_at, reverse=True)
        return [record.session_id for record in records if record.session_id is not None]

    async def _close_left_open(self, sessions: Sequence[str]) -> list[str]:
        """Consolidate sessions that were left open; those for which it worked. A wake waits for the
        language model once at most, and never fails because of an older session."""
        closed: list[str] = []
        ask = True
        for session in sessions[:LEFT_OPEN]:
            try:
                done = await self._compaction.consolidate(session, ask=ask)
                await self._records.change(session, closed_at=self._parts.clock())
            except MemorydError as exc:
                log.warning("session_not_consolidated", code=exc.code)
                continue
            closed.append(session)
            ask = ask and not done.warnings
        return closed

    async def sleep(self, session_id: str) -> Slept:
        """Close a session and consolidate it. Raises InvalidInput."""
        session = session_label(session_id)
        done = await self._compaction.consolidate(session)
        closed = self._parts.clock()
        await self._records.change(session, closed_at=closed)
        self._windows.drop(session)
        return Slept(closed, done)

    async def compact(self, session_id: str, keep: int | None = None) -> Compacted:
        """Make an archive of all but the last `keep` messages of a session. Raises InvalidInput."""
        return await self._compaction.compact(session_id, keep)

    async def rename(self, session_id: str, title: str) -> str:
        """Give a session a title. Raises InvalidInput."""
        session, name = session_label(session_id), checks.label(title, "title")
        if name is None:
            raise InvalidInput("A session needs a title.", code="title_invalid", hint="Give one.")
        await self._records.change(session, title=name)
        return name

    async def list_sessions(
        self, *, identity: str | None = None, limit: int | None = None
    ) -> SessionList:
        """The sessions, those with the latest message first. Raises InvalidInput."""
        who, most = checks.label(identity, "identity"), checks.limit(20 if limit is None else limit)
        records = {record.session_id: record for record in self._parts.index.session_records()}
        last = dict(self._parts.index.last_said())
        if who is None:
            ids: Sequence[str] = [*{**last, **{id: 0.0 for id in records if id}}]
        else:
            ids = [id for id, record in records.items() if id and text_of(record, IDENTITY) == who]
        ids = sorted(ids, key=lambda id: (-self._latest(id, last, records.get(id)), id))
        return SessionList(tuple(self._facts(id) for id in ids[:most]), len(ids))

    def recent(self, limit: int) -> list[tuple[str, str | None, float]]:
        """The sessions with the latest messages: id, title and the time of the last one."""
        last = nlargest(limit, self._parts.index.last_said(), key=lambda pair: pair[1])
        titles = {
            record.session_id: text_of(record, TITLE)
            for record in self._parts.index.session_records()
        }
        return [(session, titles.get(session), at) for session, at in last]

    async def transcript(
        self, session_id: str, *, limit: int | None = None, before: int | None = None
    ) -> Transcript:
        """A page of the messages of a session, and the archives in their places; which messages are
        in the window now. Raises InvalidInput, NotFound."""
        page = await self.read_session(session_id, limit=limit, before=before)
        session, now = page.facts.session_id, self._parts.clock()
        if not page.facts.messages and self._records.find(session) is None:
            hint = "Its messages may have expired."
            raise NotFound(f"There is no session {session!r}.", hint=hint)
        shown = _fitting(page.messages)
        first = order_of(shown[0]) if shown else 0
        earlier = [m for m in messages_of(self._parts.index, session, now) if order_of(m) < first]
        low = first - 1 if earlier else -1
        high = math.inf if before is None else before - 1
        places = [marker for marker in page.facts.markers if low < _upto(marker) <= high]
        archives = tuple((m, self._parts.index.get(str(m.get("archive_id")))) for m in places)
        held = frozenset(self._windows.held(session))
        return Transcript(page.facts, shown, archives, held, first if earlier else None)

    def _latest(self, session: str, last: Mapping[str, float], record: Memory | None) -> float:
        return max(last.get(session, 0.0), record.created_at if record else 0.0)

    async def read_session(
        self, session_id: str, *, limit: int | None = None, before: int | None = None
    ) -> ReadSession:
        """The last messages of a session, archived ones too; with `before` those of a lower order.
        Raises InvalidInput."""
        session, most = session_label(session_id), checks.limit(50 if limit is None else limit)
        said = messages_of(self._parts.index, session, self._parts.clock())
        if before is not None:
            bound = checks.count(before, "before")
            said = [message for message in said if order_of(message) < bound]
        shown = tuple(message.copy() for message in said[-most:])
        return ReadSession(self._facts(session), shown)

    def _facts(self, session: str) -> SessionFacts:
        record = self._records.find(session)
        now = self._parts.clock()
        said = messages_of(self._parts.index, session, now)
        first = said[0].created_at if said else now
        last = order_of(said[-1]) if said else -1
        return SessionFacts(
            session,
            created_at=record.created_at if record else first,
            title=text_of(record, TITLE),
            identity=text_of(record, IDENTITY),
            closed_at=time_of(record, CLOSED_AT),
            last_consolidated=time_of(record, CONSOLIDATED_AT),
            last_at=said[-1].created_at if said else None,
            messages=len(said),
            turns=max(last, last_consolidated(record)) + 1,
            project=next(filter(None, map(project_of, reversed(said))), None),
            markers=tuple(markers_of(record)),
        )


def _upto(marker: Mapping[str, Any]) -> int:
    """The order of the last message of an archive."""
    upto = marker.get("upto")
    return upto if type(upto) is int else 0


def _fitting(messages: Sequence[Memory]) -> tuple[Memory, ...]:
    """As many of the last messages as fit on one page."""
    size = 0
    for number, message in enumerate(reversed(messages)):
        size += len(message.content)
        if number and size > PAGE_CHARS:
            return tuple(messages[-number:])
    return tuple(messages)
