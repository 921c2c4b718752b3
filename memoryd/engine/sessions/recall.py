"""Recall: what should be in the prompt now.

In this order: durable facts, the working memory, recaps of what was archived of the session, its
last messages, and with a hint the past moments that match it. All of it is of the caller's own
project or shared, nothing is shown twice, and the whole, as text, fits into the token budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from memoryd.engine import checks
from memoryd.engine.filters import Filter, parse_where
from memoryd.engine.listing import Listing
from memoryd.engine.parts import Parts
from memoryd.engine.project_rules import pushable
from memoryd.engine.search.fold import tokens
from memoryd.engine.search.search import Search
from memoryd.engine.sessions import moments
from memoryd.engine.sessions.durable import Durable
from memoryd.engine.sessions.messages import messages_of, since_cleared
from memoryd.engine.sessions.moments import Moments
from memoryd.engine.sessions.packing import Entry, Packed, Section, entry_of, pack
from memoryd.engine.sessions.records import (
    DEFAULT_IDENTITY,
    IDENTITY,
    find_record,
    markers_of,
    replay_after,
    text_of,
)
from memoryd.engine.sessions.working_memory import WorkingMemories, checked_identity, injected
from memoryd.engine.windows import session_label
from memoryd.errors import InvalidInput
from memoryd.fields import ARCHIVE, FROM_SESSION, KIND, PROJECT, SOURCE, TOOL, is_archive
from memoryd.model import ROLE, SPEAKER, Memory, MemoryType
from memoryd.recall_text import (
    ARCHIVES,
    FACTS,
    MESSAGES,
    MESSAGES_TITLE,
    MOMENTS,
    WORKING_MEMORY,
    Part,
    as_text,
    harmless,
    indented,
    message_line,
    one_line,
)

ALL, SESSION = "all", "session"  # scopes: moments of all sessions, or of this one only
MAX_RECAPS = 5  # of this session; older ones are found by search and by name
RECENT_ARCHIVES = 20  # among which the recap of the session before is looked for


@dataclass(frozen=True, slots=True)
class Recalled:
    """What a prompt should have now. `tokens`: of all of it as text; `hidden`: messages that may
    not be shown, such as those of another project; `ids`: of every memory that is shown."""

    session_id: str
    parts: tuple[Part, ...] = ()
    messages: tuple[Memory, ...] = ()
    tokens: int = 0
    warnings: tuple[str, ...] = ()
    hidden: int = 0

    @property
    def ids(self) -> tuple[str, ...]:
        in_parts = (id for part in self.parts for id in part["ids"])
        return (*in_parts, *(message.id for message in self.messages))


@dataclass(frozen=True, slots=True)
class Asked:
    """The checked arguments of a recall."""

    session_id: str
    hint: str | None
    budget: int
    everywhere: bool
    project: str | None
    messages: int


def said(message: Memory) -> dict[str, Any]:
    """A message as `recall_text` takes it."""
    made = {"role": message.metadata[ROLE], "content": message.content}
    given = {key: message.metadata.get(key) for key in (SPEAKER, SOURCE, TOOL)}
    return made | {key: value for key, value in given.items() if isinstance(value, str)}


class Recall:
    """The operation `recall`."""

    def __init__(
        self,
        parts: Parts,
        search: Search,
        listing: Listing,
        working_memories: WorkingMemories,
        durable: Durable,
    ) -> None:
        self._parts = parts
        self._listing = listing
        self._working_memories = working_memories
        self._durable = durable
        self._moments = Moments(parts, search)

    async def recall(
        self,
        session_id: str,
        hint: str | None = None,
        max_tokens: int | None = None,
        *,
        scope: str = ALL,
        identity: str | None = None,
        own_project: str | None = None,
        max_turns: int | None = None,
        with_messages: bool = True,
    ) -> Recalled:
        """What a prompt of this session should have, as text at most `max_tokens` tokens. `hint`:
        what it is about now; `scope` `session`: moments of this session only; `max_turns`: at most
        twice as many messages; without `with_messages` none. Raises InvalidInput."""
        asked = self._asked(session_id, hint, max_tokens, scope, own_project, max_turns)
        record = find_record(self._parts.index, asked.session_id)
        who = checked_identity(identity or text_of(record, IDENTITY))
        await self._durable.prepare()
        sections = [
            self._facts(asked),
            await self._working_memory(who, asked),
            await self._archives(who, asked),
        ]
        hidden = 0
        if with_messages:
            messages, hidden = self._messages(asked)
            sections.append(messages)
        # Entries that do not even fit without the moments are not shown: a moment may show them.
        sections = [packed.only_these() for packed in pack(sections, asked.budget)]
        warnings: tuple[str, ...] = ()
        if asked.hint is not None:
            section, warnings = await self._past_moments(asked, sections)
            sections.append(section)
        return _recalled(asked, sections, warnings, hidden)

    def _asked(
        self,
        session_id: object,
        hint: object,
        max_tokens: object,
        scope: object,
        own_project: object,
        max_turns: object,
    ) -> Asked:
        settings = self._parts.sessions
        budget, most = settings.recall_tokens, settings.recall_messages
        if max_tokens is not None:
            budget = checks.count(max_tokens, "max_tokens")
        if max_turns is not None:
            most = min(most, 2 * checks.count(max_turns, "max_turns"))
        if scope not in (ALL, SESSION):
            raise InvalidInput(
                f"There is no scope {str(scope)[:50]!r}.",
                code="scope_unknown",
                hint=f"Use {ALL}, which is the default, or {SESSION}.",
            )
        return Asked(
            session_id=session_label(session_id),
            hint=None if hint is None or hint == "" else checks.query(hint),
            budget=budget,
            everywhere=scope == ALL,
            project=checks.label(own_project, PROJECT),
            messages=most,
        )

    def _facts(self, asked: Asked) -> Section:
        found = self._durable.facts(asked.project, self._parts.clock())
        entries = [
            Entry(f"- {indented(harmless(memory.content))}", (memory.id,)) for memory in found
        ]
        return Section(FACTS, "Facts that hold, most trusted first", entries)

    async def _working_memory(self, who: str, asked: Asked) -> Section:
        title = (
            "Working memory" if who == DEFAULT_IDENTITY else f"Working memory of {one_line(who)}"
        )
        section = Section(WORKING_MEMORY, title, ())
        held = await self._working_memories.get(who)
        memory = None if held.id is None else self._parts.index.get(held.id)
        if memory is None or not self._pushable([memory], asked):
            return section
        id = memory.id
        text = injected(held.text)
        entry = entry_of(text, lambda shown: Entry(harmless(shown), (id,)), asked.budget)
        return replace(section, entries=[entry] if text else ())

    async def _archives(self, who: str, asked: Asked) -> Section:
        """The recaps of this session, newest last; else the newest of the session before."""
        record = find_record(self._parts.index, asked.session_id)
        marked = [self._parts.index.get(str(one.get("archive_id"))) for one in markers_of(record)]
        found = self._pushable(
            [memory for memory in marked if memory and is_archive(memory)], asked
        )
        title = "Recaps of earlier parts of this session, oldest first"
        if not found:
            title = "Recap of the session before this one"
            found = await self._of_session_before(who, asked)
        newest = found[: -MAX_RECAPS - 1 : -1]
        entries = [_recap(memory, asked.budget) for memory in newest]
        return Section(ARCHIVES, title, entries, backwards=True)

    async def _of_session_before(self, who: str, asked: Asked) -> list[Memory]:
        archives = Filter(type=MemoryType.FACT, where=parse_where({KIND: ARCHIVE}))
        found = await self._listing.newest(archives, RECENT_ARCHIVES)
        for memory in self._pushable([one for one in found if is_archive(one)], asked):
            session = memory.metadata.get(FROM_SESSION)
            if isinstance(session, str) and session != asked.session_id:
                record = find_record(self._parts.index, session)
                if (text_of(record, IDENTITY) or DEFAULT_IDENTITY) == who:
                    return [memory]
        return []

    def _messages(self, asked: Asked) -> tuple[Section, int]:
        """The last messages that may be shown, newest first; and how many may not."""
        index, now = self._parts.index, self._parts.clock()
        after = replay_after(find_record(index, asked.session_id))
        alive = since_cleared(messages_of(index, asked.session_id, now, after=after))
        entries: list[Entry] = []
        shown = hidden = cost = more = 0
        for message in reversed(alive):
            if shown == asked.messages:
                break
            if not self._pushable([message], asked):
                hidden += 1
                continue
            shown += 1
            if cost > asked.budget:  # no need to make what cannot fit
                more += 1
                continue
            entries.append(_message(message, asked.budget))
            cost += entries[-1].cost
        return Section(MESSAGES, MESSAGES_TITLE, entries, backwards=True, more=more), hidden

    async def _past_moments(
        self, asked: Asked, sections: Sequence[Section]
    ) -> tuple[Section, tuple[str, ...]]:
        ids = (id for section in sections for entry in section.entries for id in entry.ids)
        shown = [memory for id in ids if (memory := self._parts.index.get(id))]
        found, warnings = await self._moments.find(
            asked.hint or "", asked.session_id, asked.project, shown, everywhere=asked.everywhere
        )
        zone = self._parts.lifetimes.zone
        entries = [moments.entry(moment, asked.session_id, zone) for moment in found]
        title = "Past moments that match the hint, best first"
        return Section(MOMENTS, title, entries), warnings

    def _pushable(self, memories: Sequence[Memory], asked: Asked) -> list[Memory]:
        now = self._parts.clock()
        return pushable(memories, asked.project, self._parts.index, now)


def _recap(memory: Memory, budget: int) -> Entry:
    def made(content: str) -> Entry:
        text = f"- {one_line(memory.name)}: {indented(harmless(content))}"
        return Entry(text, (memory.id,))

    return entry_of(memory.content, made, budget)


def _message(message: Memory, budget: int) -> Entry:
    def made(content: str) -> Entry:
        shown = replace(message, content=content)
        return Entry(message_line(said(shown)), (message.id,), shown)

    return entry_of(message.content, made, budget)


def _recalled(
    asked: Asked, sections: Sequence[Section], warnings: tuple[str, ...], hidden: int
) -> Recalled:
    """All sections within the budget."""
    budget = asked.budget
    while True:
        packed = pack(sections, budget)
        parts = tuple(_part(done) for done in packed if done.entries)
        parts = tuple(part for part in parts if part["part"] != MESSAGES)
        messages = tuple(
            entry.message.copy() for done in packed for entry in done.shown if entry.message
        )
        size = tokens(as_text(parts, [said(message) for message in messages]))
        # Entries that are harmless one by one may need a change together, which takes some room.
        if size <= asked.budget:
            break
        budget -= size - asked.budget
    missed = tuple(_did_not_fit(done) for done in packed if done.missing)
    return Recalled(asked.session_id, parts, messages, size, (*warnings, *missed), hidden)


def _part(done: Packed) -> Part:
    shown = done.shown
    return Part(
        part=done.section.part,
        title=done.section.title,
        text=harmless("\n".join(entry.text for entry in shown)),
        ids=[id for entry in shown for id in entry.ids],
    )


def _did_not_fit(done: Packed) -> str:
    total = done.missing + len(done.entries)
    what = done.section.part.replace("_", " ").capitalize()
    return f"{what}: {done.missing} of {total} did not fit into max_tokens."
