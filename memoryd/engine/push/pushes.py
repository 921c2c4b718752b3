"""What was pushed into each session: when, why, which memories, and what it cost.

Ids and counts only, no text. It is kept in the record of the session, which is written in the
background, so that nothing is pushed twice in a session, after a restart of the daemon as well.
A session that lost its context, by a compaction of its client, begins anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import structlog

from memoryd.engine.parts import Parts
from memoryd.engine.sessions.records import PUSHES, Records, facts_of, find_record
from memoryd.errors import MemorydError

log = structlog.get_logger()
MAX_PUSHES = 30  # of a session; older ones are dropped
MAX_IDS = 150  # of all pushes of a session: metadata has a limit
MAX_SESSIONS = 500  # in RAM
STOP_SECONDS = 1.0  # for writing, when the engine stops


@dataclass(frozen=True, slots=True)
class Push:
    """One push. `renewed`: the session had lost its context, so what was pushed before does not
    count any more."""

    at: float
    event: str
    why: str
    ids: tuple[str, ...]
    tokens: int
    renewed: bool = False

    def fields(self) -> dict[str, Any]:
        made = {"at": self.at, "event": self.event, "why": self.why, "tokens": self.tokens}
        return {**made, "ids": list(self.ids), **({"renewed": True} if self.renewed else {})}


class Pushes:
    """The pushes of all sessions."""

    def __init__(self, parts: Parts, records: Records) -> None:
        self._parts = parts
        self._records = records
        self._held: OrderedDict[str, list[Push]] = OrderedDict()
        self._unwritten: set[str] = set()
        self._work = anyio.Event()

    def of(self, session_id: str) -> Sequence[Push]:
        """The pushes of a session, oldest first."""
        if session_id not in self._held:
            return _pushes(facts_of(find_record(self._parts.index, session_id)))
        return self._held[session_id]

    def seen(self, session_id: str) -> set[str]:
        """The memories that the session has in its context by now."""
        found: set[str] = set()
        for push in self.of(session_id):
            found = set(push.ids) if push.renewed else found | set(push.ids)
        return found

    def count(self, session_id: str, event: str) -> int:
        """How many pushes of this event the session got."""
        return sum(push.event == event and bool(push.ids) for push in self.of(session_id))

    def all(self) -> dict[str, Sequence[Push]]:
        """The pushes by session."""
        records = self._parts.index.session_records()
        ids = {record.session_id for record in records if PUSHES in facts_of(record)}
        return {id: self.of(id) for id in ids | set(self._held) if id is not None}

    def note(self, session_id: str, push: Push) -> None:
        """Keep a push; it is written in the background."""
        self._held[session_id] = _bounded([*self.of(session_id), push])
        self._held.move_to_end(session_id)
        self._unwritten.add(session_id)
        self._work.set()
        for old in list(self._held)[: max(0, len(self._held) - MAX_SESSIONS)]:
            if old not in self._unwritten:
                del self._held[old]

    async def run(self) -> None:
        """Write pushes as they come, until cancelled."""
        while True:
            await self._work.wait()
            self._work = anyio.Event()
            await self._write()

    async def write_at_end(self) -> None:
        """Write what can be written quickly: a stop must not take long."""
        with anyio.move_on_after(STOP_SECONDS, shield=True):
            await self._write()

    async def _write(self) -> None:
        for session_id in list(self._unwritten):
            pushes = self._held.get(session_id, [])
            try:
                await self._records.change(session_id, pushes=[push.fields() for push in pushes])
            except MemorydError as exc:  # the next push tries again
                log.warning("pushes_not_written", code=exc.code)
                continue
            if self._held.get(session_id, pushes) is pushes:  # else there is a newer one
                self._unwritten.discard(session_id)


def _bounded(pushes: list[Push]) -> list[Push]:
    pushes = pushes[-MAX_PUSHES:]
    while len(pushes) > 1 and sum(len(push.ids) for push in pushes) > MAX_IDS:
        pushes = pushes[1:]
    return pushes


def _pushes(held: Mapping[str, Any]) -> list[Push]:
    """The pushes in a record, which an import may have brought."""
    found = held.get(PUSHES)
    return [push for one in found if (push := _push(one))] if isinstance(found, list) else []


def _push(one: object) -> Push | None:
    if not isinstance(one, dict):
        return None
    at, event, why = one.get("at"), one.get("event"), one.get("why")
    ids, tokens = one.get("ids"), one.get("tokens")
    if not isinstance(at, int | float) or not isinstance(event, str) or not isinstance(ids, list):
        return None
    return Push(
        float(at),
        event,
        why if isinstance(why, str) else "",
        tuple(id for id in ids if isinstance(id, str)),
        tokens if isinstance(tokens, int) else 0,
        one.get("renewed") is True,
    )
