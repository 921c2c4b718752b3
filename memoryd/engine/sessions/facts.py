"""Keeps the facts that a session proposes: adds, refreshes what is known, replaces what is old.

- A fact that is known, in the same words or nearly the same meaning, is refreshed.
- A newer fact of the same topic supersedes the older one; both stay, and the chain shows them.
- An older one never supersedes a newer one: it is left out.

Taking the same proposals again changes nothing, so a compaction that was interrupted may repeat it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import structlog

from memoryd.engine import commits
from memoryd.engine.filters import Filter, parse_where
from memoryd.engine.index.rounded import Floats
from memoryd.engine.index.terms import numbers
from memoryd.engine.memories import Memories
from memoryd.engine.parts import Parts
from memoryd.engine.search.fold import MEANING_CHANGERS
from memoryd.engine.search.store_candidates import from_store
from memoryd.engine.sessions.proposals import LLM, Proposal
from memoryd.engine.updates import Change, Updates
from memoryd.errors import InvalidInput, NotFound
from memoryd.fair import in_thread
from memoryd.fields import (
    CONFIRMED_AT,
    DEPRECATED_AT,
    DERIVED_FROM,
    FROM_SESSION,
    KIND,
    PROJECT,
    SOURCE,
    SUPERSEDES,
    TOPIC,
    WORKING_MEMORY,
    ids_of,
    is_note,
    kind_of,
    moment_of,
    project_of,
)
from memoryd.model import CONFIDENCE, Memory, MemoryType, is_expired

log = structlog.get_logger()
ADDED, REFRESHED, SUPERSEDED = "added", "refreshed", "superseded"
NEAR = 0.88  # cosine above which two facts say the same
SAME_TOPIC = 0.5  # cosine above which a topic that a language model chose is believed
CANDIDATES = 10  # near facts that are looked at
MAX_SOURCES = 10  # messages that a fact is derived from
WORD = re.compile(r"\w+(?:['\u2019]\w+)*")


@dataclass(frozen=True, slots=True)
class Taken:
    """A fact after it was taken. `how`: added, refreshed, or superseded an older one."""

    memory: Memory
    how: str


class Facts:
    """Takes the facts of sessions, one after the other."""

    def __init__(self, parts: Parts, memories: Memories, updates: Updates) -> None:
        self._parts = parts
        self._memories = memories
        self._updates = updates

    async def take(self, session_id: str, proposals: Iterable[Proposal]) -> list[Taken]:
        """Keep these facts of a session; what became of each that was not left out. A fact that
        cannot be stored is left out and logged; StoreError is raised."""
        taken: list[Taken] = []
        for proposal in sorted(proposals, key=lambda one: one.at):
            # One at a time: two sessions may state the same, or two things of one topic.
            async with self._parts.locks.hold(["0~facts"]):
                try:
                    done = await self._take(session_id, proposal)
                except (InvalidInput, NotFound) as exc:
                    log.warning("fact_refused", code=exc.code)
                    continue
            if done is not None:
                taken.append(done)
        return taken

    async def _take(self, session_id: str, proposal: Proposal) -> Taken | None:
        known = self._of_topic(proposal)
        same = [fact for fact in known if _folded(fact.content) == _folded(proposal.text)]
        current = [fact for fact in known if not self._is_superseded(fact)]
        if same:
            if (twin := next((fact for fact in same if fact in current), None)) is not None:
                return await self._refresh(twin, proposal)
            if max(map(_stated_at, same)) >= proposal.at:
                return None  # it was taken before, and something newer replaced it
        asked = self._asked(session_id, proposal)
        vector = await self._vector(asked)
        replaced = [
            fact for fact in current if await self._is_about_the_same(fact, proposal, vector)
        ]
        if any(_stated_at(fact) > proposal.at for fact in replaced):
            return None
        if replaced:
            return await self._add(proposal, asked.metadata, [fact.id for fact in replaced])
        if (twin := await self._near(asked, vector)) is not None:
            return await self._refresh(twin, proposal)
        return await self._add(proposal, asked.metadata)

    def _of_topic(self, proposal: Proposal) -> list[Memory]:
        """The facts of the same topic and project, superseded ones too."""
        if proposal.topic is None:
            return []
        where = parse_where({TOPIC: {"$eq": proposal.topic}})
        index, now = self._parts.index, self._parts.clock()
        allowed = index.allowed(Filter(type=MemoryType.FACT, where=where), now)
        found = [
            memory for memory in map(index.in_slot, np.flatnonzero(allowed).tolist()) if memory
        ]
        usable = self._parts.audiences.may_make_facts_of
        return [fact for fact in found if project_of(fact) == proposal.project and usable(fact)]

    def _is_superseded(self, fact: Memory) -> bool:
        return self._parts.index.relations.superseded_until(fact.id) > self._parts.clock()

    def _asked(self, session_id: str, proposal: Proposal) -> Memory:
        """The fact as it would be stored."""
        given: dict[str, Any] = {
            SOURCE: proposal.source,
            CONFIDENCE: proposal.confidence,
            FROM_SESSION: session_id,
            TOPIC: proposal.topic,
            KIND: proposal.kind,
            PROJECT: proposal.project,
        }
        metadata = {key: value for key, value in given.items() if value is not None}
        return Memory("", MemoryType.FACT, proposal.text, proposal.at, metadata=metadata)

    async def _vector(self, asked: Memory) -> Floats | None:
        async with self._parts.gate.passing():
            passages = await commits.embed(self._parts, asked)
        return passages[0].vector if passages else None

    async def _is_about_the_same(
        self, fact: Memory, proposal: Proposal, vector: Floats | None
    ) -> bool:
        """Whether the topic of a fact is that of the proposal. A language model may use one key for
        several things, so its topics count only if the facts are alike."""
        if proposal.source != LLM:
            return True
        passages = await commits.passages(self._parts, fact)
        if vector is None or not passages or len(passages[0].vector) != len(vector):
            return False
        return max(float(passage.vector @ vector) for passage in passages) > SAME_TOPIC

    async def _near(self, asked: Memory, vector: Floats | None) -> Memory | None:
        """The fact of the same project, or a shared one, that says nearly the same."""
        if vector is None:
            return None
        async with self._parts.gate.passing():
            near = await self._nearest(vector, project_of(asked))
        for fact in near:
            if not _says_otherwise(fact.content, asked.content):
                return fact
        return None

    async def _nearest(self, vector: Floats, project: str | None) -> list[Memory]:
        """The facts of this project and shared ones that are near in meaning, best first. Call
        inside the gate."""
        index, now = self._parts.index, self._parts.clock()
        if len(vector) != index.tables[0].dimension:
            return []  # the model was changed meanwhile
        filter = Filter(
            type=MemoryType.FACT,
            hides_superseded=True,
            hides_records=True,
            projects=(None,) if project is None else (None, project),
        )
        with index.slot_versions.watched():
            view = index.view([], filter, now, 0.0)
            if index.has_vectors:
                found_by = partial(view.signals, vector, count=CANDIDATES)
                meaning = (await in_thread(found_by)).meaning
            else:
                meaning = await from_store(self._parts.store, index, view, vector, CANDIDATES)
            best = np.argsort(-meaning, kind="stable")[:CANDIDATES]
            seen = [index.as_seen(int(slot), view)[0] for slot in best if meaning[slot] > NEAR]
        found = [entry.memory for entry in seen if entry is not None]
        usable = self._parts.audiences.may_make_facts_of
        return [fact for fact in found if _is_plain_fact(fact, now) and usable(fact)]

    async def _add(
        self, proposal: Proposal, metadata: Mapping[str, Any], replaced: Sequence[str] = ()
    ) -> Taken:
        own = dict(metadata) | ({SUPERSEDES: list(replaced)} if replaced else {})
        message = self._parts.index.get(proposal.message_id)
        if message is not None and not is_expired(message, self._parts.clock()):
            own[DERIVED_FROM] = [proposal.message_id]
        stored = await self._memories.remember_own(proposal.text, own, created_at=proposal.at)
        how = SUPERSEDED if replaced else REFRESHED if stored.duplicate else ADDED
        return Taken(stored.memory, how)

    async def _refresh(self, fact: Memory, proposal: Proposal) -> Taken:
        """Say that a fact was stated once more. Its own words stay."""
        confirmed = max(proposal.at, moment_of(fact, CONFIRMED_AT) or fact.created_at)
        changed: dict[str, Any] = {CONFIRMED_AT: confirmed, DEPRECATED_AT: None}
        sources = ids_of(fact, DERIVED_FROM)
        if proposal.message_id not in sources and len(sources) < MAX_SOURCES:
            if self._parts.index.get(proposal.message_id) is not None:
                changed[DERIVED_FROM] = [*sources, proposal.message_id]
        done = await self._updates.apply(fact, Change({}, changed), stamp=False)
        return Taken(done.memory, REFRESHED)


def _stated_at(fact: Memory) -> float:
    """When it was last stated, changed or confirmed."""
    later = (fact.updated_at, moment_of(fact, CONFIRMED_AT))
    return max([fact.created_at, *(at for at in later if at is not None)])


def _is_plain_fact(memory: Memory, now: float) -> bool:
    """Whether it is a fact that may be refreshed: no note, and no working memory."""
    return not is_note(memory) and kind_of(memory) != WORKING_MEMORY and not is_expired(memory, now)


def _folded(text: str) -> str:
    return " ".join(WORD.findall(text.casefold()))


def _says_otherwise(one: str, other: str) -> bool:
    """Whether two texts that are near in meaning differ in what changes a meaning: a number, a
    negation, or a name for another one."""
    words = [set(WORD.findall(text.casefold().replace("\u2019", "'"))) for text in (one, other)]
    if numbers(one) != numbers(other):
        return True
    if words[0] & MEANING_CHANGERS != words[1] & MEANING_CHANGERS:
        return True
    names = [
        {word.casefold() for word in WORD.findall(t) if word[0].isupper()} for t in (one, other)
    ]
    return bool(names[0] - words[1]) and bool(names[1] - words[0])
