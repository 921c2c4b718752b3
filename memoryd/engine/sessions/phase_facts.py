"""The durable facts of a recall in a phase of work: chosen by kind, shown by file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memoryd.engine.parts import Parts
from memoryd.engine.project_rules import pushable
from memoryd.engine.search.fold import tokens
from memoryd.engine.search.search import Search
from memoryd.engine.sessions.durable import Durable
from memoryd.engine.sessions.packing import LINE_END, Entry, Section
from memoryd.engine.sessions.phases import Ranked, by_file, cited_line, rank_of, shared_out
from memoryd.fair import in_thread
from memoryd.model import DAY, Memory, MemoryType, Page
from memoryd.recall_text import FACTS

TITLE = "Facts that hold, for the phase {phase}"
MAX_HITS = 100  # facts that match a hint; others have the relevance 0
EQUAL = 1.0  # the relevance of every fact without a hint
LINE_TOKENS = 30 + LINE_END  # about what kind, file and citation take of a line


class PhaseFacts:
    """Chooses facts for a phase."""

    def __init__(self, parts: Parts, search: Search, durable: Durable) -> None:
        self._parts = parts
        self._search = search
        self._durable = durable

    async def section(
        self, phase: str, hint: str | None, project: str | None, budget: int
    ) -> Section:
        """The facts for a phase, the most important first: more than the budget can hold."""
        relevance = None
        if hint is not None:
            bounds = (hint, MAX_HITS, project)
            relevance = scores(await self._search.unasked(*bounds, type=MemoryType.FACT))
        now, settings = self._parts.clock(), self._parts.phases
        facts = self._durable.candidates(project, now)
        today = now - now % DAY  # so that prompts can be cached
        factors, shares = settings.factors.get(phase, {}), settings.shares.get(phase, {})

        def ranked(memory: Memory) -> Ranked:
            relevant = EQUAL if relevance is None else relevance.get(memory.id, 0.0)
            rank = rank_of(memory, today, relevant, factors, self._parts.lifecycle.trust)
            return Ranked(memory, rank, size(memory))

        def chosen() -> list[Entry]:
            pinned = [ranked(fact) for fact in facts if fact.pinned]
            others = shared_out((ranked(fact) for fact in facts if not fact.pinned), shares)
            return entries(within([*pinned, *others], budget))

        made = await in_thread(chosen)  # thousands of facts take 20 ms
        there = pushable(facts, project, self._parts.index, self._parts.clock())
        ids = {fact.id for fact in there if self._parts.index.get(fact.id)}
        made = [entry for entry in made if entry.ids[0] in ids]
        return Section(FACTS, TITLE.format(phase=phase), made, more=len(ids) - len(made))


def scores(page: Page) -> Mapping[str, float]:
    """The score of each memory that a search found, of folded ones too."""
    return {id: hit.score for hit in page.hits for id in (*hit.folded, hit.memory.id)}


def size(memory: Memory) -> int:
    """About the tokens of a memory as an item of a list."""
    return tokens(memory.content) + LINE_TOKENS


def within(ranked: Iterable[Ranked], budget: int) -> list[Ranked]:
    """The first of them, enough to fill the budget; those that alone exceed it are left out."""
    chosen: list[Ranked] = []
    left = 2 * budget
    for one in ranked:
        if left < 0:
            break
        if one.cost <= budget + LINE_TOKENS:
            chosen.append(one)
            left -= one.cost
    return chosen


def entries(chosen: list[Ranked]) -> list[Entry]:
    """In the order of their importance, each with the place where it is shown."""
    places = {one.memory.id: place for place, one in enumerate(by_file(chosen))}
    return [
        Entry(cited_line(one.memory), (one.memory.id,), place=places[one.memory.id])
        for one in chosen
    ]
