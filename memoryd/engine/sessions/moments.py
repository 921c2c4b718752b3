"""Past moments: what a hint finds, each with the messages before and after it.

Moments of the current session come first if they are nearly as good as the best of all; then those
of all sessions. What a recall shows elsewhere is not searched. Surroundings that overlap or
touch are one moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo

from memoryd.engine.parts import Parts
from memoryd.engine.project_rules import pushable
from memoryd.engine.search.search import Search
from memoryd.engine.sessions.messages import shown_text
from memoryd.engine.sessions.packing import CUT, Entry
from memoryd.engine.turn_keys import order_of
from memoryd.fields import WORKING_MEMORY, kind_of
from memoryd.model import ROLE, SPEAKER, Hit, Memory, MemoryType
from memoryd.recall_text import harmless, indented, named, one_line

SPARE = 10  # hits beyond the moments that are wanted: some say the same, some may not be shown
NEAR = 0.8  # a moment of this session needs this share of the best score to come first
LONG = 1_500  # characters of one message, from which only the part that matched is shown


@dataclass(slots=True)
class Moment:
    """Memories of one session, or one memory without a session. `passages`: by id, the part that
    matched of those that were found; None: all of it."""

    session_id: str | None
    memories: dict[str, Memory] = field(default_factory=dict)
    passages: dict[str, str | None] = field(default_factory=dict)

    def ordered(self, *, hits_only: bool = False) -> list[Memory]:
        """Oldest first."""
        shown = (m for m in self.memories.values() if not hits_only or m.id in self.passages)
        return sorted(shown, key=lambda m: (m.created_at, order_of(m), m.id))


class Moments:
    """Finds past moments."""

    def __init__(self, parts: Parts, search: Search) -> None:
        self._parts = parts
        self._search = search

    async def find(
        self,
        hint: str,
        session_id: str,
        project: str | None,
        shown: Sequence[Memory],
        *,
        everywhere: bool,
    ) -> tuple[list[Moment], tuple[str, ...]]:
        """The moments that match a hint, best first, and warnings of the search. `shown`: what is
        not repeated; `everywhere`: also those of other sessions."""
        most = self._parts.sessions.recall_moments
        if not most:
            return [], ()
        known = {memory.id for memory in shown}
        bounds = (hint, most + SPARE, project)
        if not everywhere:
            page = await self._search.unasked(*bounds, session_id=session_id, without=known)
            return self._grouped(page.hits, project, shown), page.warnings
        page = await self._search.unasked(*bounds, without=known)
        more: tuple[Hit, ...] = ()
        if len(page.hits) == most + SPARE:  # otherwise it has all that match
            here = await self._search.unasked(*bounds, session_id=session_id, without=known)
            more = here.hits
        return self._grouped(_merged(page.hits, more, session_id), project, shown), page.warnings

    def _grouped(
        self, hits: Iterable[Hit], project: str | None, shown: Sequence[Memory]
    ) -> list[Moment]:
        """The hits with their surroundings, as so many moments as are wanted."""
        settings, now = self._parts.sessions, self._parts.clock()
        taken = {memory.id for memory in shown}
        texts = {_plain(memory) for memory in shown}
        moments: list[Moment] = []
        for hit in hits:
            memory = self._parts.index.get(hit.memory.id)
            if memory is None or kind_of(memory) == WORKING_MEMORY or memory.id in taken:
                continue
            if inside := next((one for one in moments if memory.id in one.memories), None):
                inside.passages.setdefault(memory.id, hit.passage)
                continue
            if _plain(memory) in texts or not self._may_show([memory], project, now):
                continue
            near = self._around(memory, settings.moment_before + 1, settings.moment_after + 1)
            ids = {one.id for one in near}
            touching = [moment for moment in moments if ids & moment.memories.keys()]
            if not touching and len(moments) == settings.recall_moments:
                continue
            moment = _joined(touching, moments, memory.session_id)
            around = self._around(memory, settings.moment_before, settings.moment_after)
            for one in self._may_show(around, project, now):
                if one.id not in taken:
                    moment.memories[one.id] = one
            moment.passages[memory.id] = hit.passage
            texts.add(_plain(memory))
        return moments

    def _may_show(
        self, memories: Iterable[Memory], project: str | None, now: float
    ) -> list[Memory]:
        return pushable(memories, project, self._parts.index, now)

    def _around(self, memory: Memory, before: int, after: int) -> list[Memory]:
        if memory.type is not MemoryType.CONVERSATION or memory.session_id is None:
            return [memory]
        return self._parts.index.around(memory.id, before, after)


def _merged(found: Sequence[Hit], here: Sequence[Hit], session_id: str) -> list[Hit]:
    """The hits of all sessions and those of this one, which come first if they are nearly as good
    as the best. Scores of searches with different filters cannot be compared: a hit that only the
    search of this session has is at most as good as the last one of all sessions."""
    scores = {hit.memory.id: hit.score for hit in found}
    best, last = max(scores.values(), default=0.0), min(scores.values(), default=0.0)

    def comes_first(hit: Hit) -> bool:
        score = scores.get(hit.memory.id, last)
        return hit.memory.session_id == session_id and score >= NEAR * best

    hits = [*found, *(hit for hit in here if hit.memory.id not in scores)]
    return sorted(hits, key=lambda hit: not comes_first(hit))


def _joined(touching: list[Moment], moments: list[Moment], session_id: str | None) -> Moment:
    """The moment that the next hit belongs to: a new one, or the best of those that it touches,
    with the others put into it."""
    if not touching:
        moments.append(Moment(session_id))
        return moments[-1]
    first = touching[0]
    for other in touching[1:]:
        first.memories |= other.memories
        first.passages |= other.passages
        moments.remove(other)
    return first


def _plain(memory: Memory) -> str:
    return " ".join(memory.content.casefold().split())


def moment_entry(moment: Moment, session_id: str, zone: tzinfo | None) -> Entry:
    """A moment as it is shown; shorter: without the messages around what was found."""

    def made(*, hits_only: bool) -> Entry:
        memories = moment.ordered(hits_only=hits_only)
        lines = [_line(memory, moment.passages.get(memory.id), zone) for memory in memories]
        text = indented("\n".join([f"- {_heading(moment, session_id)}:", *lines]))
        return Entry(text, tuple(memory.id for memory in memories))

    def within(room: int) -> Entry | None:
        short = made(hits_only=True)
        return short if short.cost <= room else None

    whole = made(hits_only=False)
    return Entry(whole.text, whole.ids, within=within)


def _heading(moment: Moment, session_id: str) -> str:
    if moment.session_id == session_id:
        return "This session"
    if moment.session_id is not None:
        return f"Session {one_line(moment.session_id)}"
    return next(str(memory.type).capitalize() for memory in moment.memories.values())


def _line(memory: Memory, passage: str | None, zone: tzinfo | None) -> str:
    when = datetime.fromtimestamp(memory.created_at, zone).strftime("%Y-%m-%d %H:%M")
    text = shown_text(memory)
    if len(text) > LONG:
        part = passage if passage and len(passage) <= LONG else text[:LONG]
        text = f"{part}\n{CUT.format(shown=len(part), total=len(text))}"
    return f"[{when}] {_who(memory)}{indented(harmless(text))}"


def _who(memory: Memory) -> str:
    """The role and the speaker of a message; nothing for other memories."""
    role, speaker = (memory.metadata.get(key) for key in (ROLE, SPEAKER))
    if not isinstance(speaker, str):
        speaker = None
    if isinstance(role, str):
        return f"{named(role, speaker)}: "
    return f"{one_line(speaker)}: " if speaker else ""
