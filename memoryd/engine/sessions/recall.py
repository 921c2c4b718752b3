"""Recall: what should be in the prompt now.

In this order: durable facts, the working memory, recaps of what was archived of the session, its
last messages, and with a hint the past moments that match it. All of it is of the caller's own
project or shared, nothing is shown twice, and the whole, as text, fits into the token budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from memoryd.engine import checks
from memoryd.engine.filters import Filter, parse_where
from memoryd.engine.listing import Listing
from memoryd.engine.parts import Parts
from memoryd.engine.project_rules import pushable
from memoryd.engine.search.fold import tokens
from memoryd.engine.search.search import Search
from memoryd.engine.sessions.durable import Durable
from memoryd.engine.sessions.messages import messages_of, since_cleared
from memoryd.engine.sessions.moments import Moments, moment_entry
from memoryd.engine.sessions.packing import Entry, Packed, Section, entry_of, pack
from memoryd.engine.sessions.phase_facts import PhaseFacts
from memoryd.engine.sessions.records import (
    DEFAULT_IDENTITY,
    IDENTITY,
    find_record,
    markers_of,
    replay_after,
    text_of,
)
from memoryd.engine.sessions.working_memory import (
    WorkingMemories,
    WorkingMemory,
    checked_identity,
    injected,
)
from memoryd.engine.windows import session_label
from memoryd.errors import InvalidInput
from memoryd.fair import in_thread
from memoryd.fields import ARCHIVE, FROM_SESSION, KIND, PROJECT, SOURCE, TOOL, is_archive
from memoryd.model import ROLE, SPEAKER, Memory, MemoryType
from memoryd.phases import check_phase
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

FACTS_TITLE = "Facts that hold, most trusted first"
OWN_RECAPS = "Recaps of earlier parts of this session, oldest first"
RECAP_BEFORE = "Recap of the session before this one"
MOMENTS_TITLE = "Past moments that match the hint, best first"
LARGE = 20_000  # tokens of a budget from which texts are worked on in a thread
Made = TypeVar("Made")
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

    @property
    def found_ids(self) -> tuple[str, ...]:
        """The ids of what the hint found. Only these were used: if what every recall shows counted
        as used, no newer fact could take the place of an older one."""
        return tuple(id for part in self.parts if part["part"] == MOMENTS for id in part["ids"])


@dataclass(frozen=True, slots=True)
class Asked:
    """The checked arguments of a recall."""

    session_id: str
    hint: str | None
    budget: int
    everywhere: bool
    project: str | None
    messages: int
    phase: str | None = None


@dataclass(frozen=True, slots=True)
class Recaps:
    """Archives to show, oldest first, and what they are."""

    title: str
    archives: Sequence[Memory]


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
        self._phase_facts = PhaseFacts(parts, search, durable)

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
        phase: str | None = None,
    ) -> Recalled:
        """What a prompt of this session should have, as text at most `max_tokens` tokens. `hint`:
        what it is about now; `scope` `session`: moments of this session only; `max_turns`: at most
        twice as many messages; without `with_messages` none; `phase`: of the work, by which the
        facts are chosen. Raises InvalidInput."""
        asked = self._asked(session_id, hint, max_tokens, scope, own_project, max_turns, phase)
        if not with_messages:
            asked = replace(asked, messages=0)
        record = find_record(self._parts.index, asked.session_id)
        who = checked_identity(identity or text_of(record, IDENTITY))
        await self._durable.prepare()
        working_memory = await self._working_memory(who, asked)
        # Both by the same record: what is archived meanwhile is still shown as messages.
        recaps = await self._recaps(who, asked, record)
        messages, hidden = self._messages(asked, record)
        facts = await self._facts(asked)
        sections = await _worked(asked, _sections, facts, working_memory, recaps, messages, asked)
        warnings: tuple[str, ...] = ()
        if asked.hint is not None:
            moments, warnings = await self._past_moments(asked, sections)
            sections = [*(self._still_there(section, asked) for section in sections), moments]
        return await _worked(asked, _recalled, asked, sections, warnings, hidden)

    def _asked(
        self,
        session_id: object,
        hint: object,
        max_tokens: object,
        scope: object,
        own_project: object,
        max_turns: object,
        phase: object,
    ) -> Asked:
        settings, phase = self._parts.sessions, check_phase(phase)
        budget, most = settings.recall_tokens, settings.recall_messages
        if phase is not None:
            budget = self._parts.phases.tokens.get(phase, budget)
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
            phase=phase,
        )

    async def _facts(self, asked: Asked) -> Section:
        """The durable facts; in a phase, those that it needs."""
        if asked.phase is not None:
            return await self._phase_facts.section(
                asked.phase, asked.hint, asked.project, asked.budget
            )
        facts = self._durable.facts(asked.project, self._parts.clock())
        return Section(FACTS, FACTS_TITLE, [_fact(fact) for fact in facts])

    async def _working_memory(self, who: str, asked: Asked) -> WorkingMemory:
        """The working memory of an identity; an empty one if it may not be shown."""
        held = await self._working_memories.get(who)
        memory = None if held.id is None else self._parts.index.get(held.id)
        return held if memory and self._pushable([memory], asked) else WorkingMemory(who)

    async def _recaps(self, who: str, asked: Asked, record: Memory | None) -> Recaps:
        """Those of this session, newest last; else the newest of the session before."""
        marked = (self._parts.index.get(str(one.get("archive_id"))) for one in markers_of(record))
        known = [memory for memory in marked if memory and is_archive(memory)]
        if found := self._pushable(known, asked):
            return Recaps(OWN_RECAPS, found[-MAX_RECAPS:])
        return Recaps(RECAP_BEFORE, await self._of_session_before(who, asked))

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

    def _messages(self, asked: Asked, record: Memory | None) -> tuple[list[Memory], int]:
        """The last messages that may be shown, newest first; and how many may not."""
        index, now = self._parts.index, self._parts.clock()
        said = messages_of(index, asked.session_id, now, after=replay_after(record))
        alive = since_cleared(said)
        shown: list[Memory] = []
        hidden = 0
        for message in reversed(alive):
            if len(shown) == asked.messages:
                break
            if self._pushable([message], asked):
                shown.append(message)
            else:
                hidden += 1
        return shown, hidden

    async def _past_moments(
        self, asked: Asked, sections: Sequence[Section]
    ) -> tuple[Section, tuple[str, ...]]:
        ids = (id for section in sections for entry in section.entries for id in entry.ids)
        shown = [memory for id in ids if (memory := self._parts.index.get(id))]
        found, warnings = await self._moments.find(
            asked.hint or "", asked.session_id, asked.project, shown, everywhere=asked.everywhere
        )
        zone = self._parts.lifetimes.zone
        entries = [moment_entry(moment, asked.session_id, zone) for moment in found]
        return Section(MOMENTS, MOMENTS_TITLE, entries), warnings

    def _still_there(self, section: Section, asked: Asked) -> Section:
        """The section without what was forgotten during the search."""
        get = self._parts.index.get
        found = [
            entry
            for entry in section.entries
            if self._pushable([one for id in entry.ids if (one := get(id))], asked)
        ]
        return replace(section, entries=found)

    def _pushable(self, memories: Sequence[Memory], asked: Asked) -> list[Memory]:
        now = self._parts.clock()
        return pushable(memories, asked.project, self._parts.index, now)


async def _worked(asked: Asked, work: Callable[..., Made], *args: Any) -> Made:
    """The result of work on texts: with a large budget it is done on a thread."""
    return await in_thread(work, *args) if asked.budget > LARGE else work(*args)


def _sections(
    facts: Section,
    working_memory: WorkingMemory,
    recaps: Recaps,
    messages: Sequence[Memory],
    asked: Asked,
) -> list[Section]:
    """The sections with the entries that fit. A past moment may show what does not even fit into
    the whole budget."""
    entries: list[Entry] = []
    left = asked.budget
    for message in messages:
        if left < 0:  # no need to make what cannot fit
            break
        entries.append(_message(message, asked.budget))
        left -= entries[-1].cost
    sections = [
        facts,
        _working_memory(working_memory, asked.budget),
        Section(
            ARCHIVES,
            recaps.title,
            [_recap(memory, asked.budget) for memory in reversed(recaps.archives)],
            backwards=True,
        ),
        Section(
            MESSAGES, MESSAGES_TITLE, entries, backwards=True, more=len(messages) - len(entries)
        ),
    ]
    return [packed.only_these() for packed in pack(sections, asked.budget)]


def _fact(memory: Memory) -> Entry:
    return Entry(f"- {indented(harmless(memory.content))}", (memory.id,))


def _working_memory(held: WorkingMemory, budget: int) -> Section:
    whose = "" if held.identity == DEFAULT_IDENTITY else f" of {one_line(held.identity)}"
    section = Section(WORKING_MEMORY, f"Working memory{whose}", ())
    text, ids = injected(held.text), () if held.id is None else (held.id,)
    if not text:
        return section
    entry = entry_of(text, lambda shown: Entry(harmless(shown), ids), budget)
    return replace(section, entries=[entry])


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
