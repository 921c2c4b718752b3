"""The candidates of a search, from the stores.

By meaning: the nearest vectors. By words: for each of the rarest words of the query, which a sample
of the collection tells, the memories whose text has it; where more have it than are fetched, those
that have two such words. Then the messages before and after the best of these, because a message is
also found by its neighbours. The union is ranked like a whole index.
"""

from __future__ import annotations

from collections.abc import Iterable

from memoryd.engine.index.index import Index
from memoryd.engine.search import rank
from memoryd.engine.source import SearchNeed
from memoryd.engine.thin.candidate_index import CandidateIndex
from memoryd.engine.thin.conditions import conditions_of
from memoryd.engine.thin.corpus import Corpora, Corpus
from memoryd.engine.thin.patterns import WordPattern, patterns
from memoryd.engine.turn_keys import is_message, order_of
from memoryd.fair import in_thread
from memoryd.fields import SUPERSEDED_BY, ids_of
from memoryd.model import Memory, MemoryType
from memoryd.ports import Record
from memoryd.queries import Candidates, CandidatesWanted, Conditions, Queries
from memoryd.settings import SearchSettings

NEAREST, PER_RESULT = 192, 4  # rows by meaning: at least, and for each result that is wanted
WORDS, EACH = 6, 400  # words that are looked for, and memories that are looked at for each
BY_WORDS = 250  # memories by words
COMMON = 0.2  # share of memories with a word from which it is not looked for, if there are others
FEW = 2  # words that are looked for, however common
WITH_NEIGHBOURS = 40  # best candidates whose neighbours are read
SESSIONS = 12  # sessions whose messages are read as neighbours


class CandidateSearch:
    """Builds the index of the candidates of a search."""

    def __init__(
        self,
        queries: Queries,
        corpora: Corpora,
        settings: SearchSettings,
        dimension: int,
    ) -> None:
        self._queries, self._corpora = queries, corpora
        self._settings, self.dimension = settings, dimension

    async def index(self, need: SearchNeed) -> CandidateIndex:
        """An index of the candidates."""
        corpus = await self._corpora.current()
        words = rarest(patterns(need.text), corpus)
        conditions = conditions_of(need.filter)
        wanted = CandidatesWanted(
            need.vector,
            max(NEAREST, PER_RESULT * need.limit),
            tuple(word.regex for word in words),
            EACH,
            max(BY_WORDS, PER_RESULT * need.limit),
            conditions,
        )
        found = await self._queries.candidates(wanted)
        self._corpora.notice(found.rows)
        counted = _counted(words, found) if conditions.is_empty else {}
        made = CandidateIndex(self.dimension, corpus, counted)
        await in_thread(put, made, found.records)
        await self.add_superseding(made)
        best = await in_thread(self._best, made, need)
        put(made, await self._neighbours(made, best))
        return made

    async def add_superseding(self, index: Index) -> None:
        """Read the memories that supersede others: these are then not found."""
        named = {id for memory in index for id in ids_of(memory, SUPERSEDED_BY)}
        if missing := sorted(id for id in named if index.get(id) is None):
            put(index, await self._queries.get(missing))

    def _best(self, index: Index, need: SearchNeed) -> list[Memory]:
        """The candidates that lead before their neighbours are known. Runs on a thread."""
        view = index.view(need.terms, need.filter, need.now, self._settings.quiet_weight)
        signals = view.signals(need.vector)
        ranked = rank.fuse(view, signals, self._settings, WITH_NEIGHBOURS)
        found = (index.in_slot(int(slot)) for slot in ranked.slots)
        return [memory for memory in found if memory is not None]

    async def _neighbours(self, index: Index, memories: Iterable[Memory]) -> list[Record]:
        """The messages before and after these messages."""
        wanted: dict[str, set[int]] = {}
        for memory in memories:
            session = memory.session_id
            if session is None or not is_message(memory):
                continue
            if session in wanted or len(wanted) < SESSIONS:
                order = order_of(memory)
                wanted.setdefault(session, set()).update((order - 1, order + 1))
        if not wanted:
            return []
        said = [
            Conditions(MemoryType.CONVERSATION, session, orders=tuple(sorted(orders)))
            for session, orders in wanted.items()
        ]
        ids = await self._queries.find(*said, limit=2 * WITH_NEIGHBOURS)
        return await self._queries.get([id for id in ids if index.get(id) is None])


def put(index: Index, records: Iterable[Record]) -> None:
    """Add what is not there yet."""
    for record in records:
        if index.get(record.memory.id) is None:
            index.put(record)


def rarest(words: list[WordPattern], corpus: Corpus) -> list[WordPattern]:
    """The words to look for, the rarest first."""
    shares = {word: min(corpus.share(term) for term in word.terms) for word in words}
    ordered = sorted(words, key=lambda word: (shares[word], -len(word.regex)))
    rare = sum(share <= COMMON for share in shares.values())
    return ordered[: min(WORDS, max(FEW, rare))]


def _counted(words: list[WordPattern], found: Candidates) -> dict[int, int]:
    """How many memories have a term, where the server has counted them all."""
    pairs = zip(words, found.counts, strict=True)
    return {term: count for word, count in pairs if count < EACH for term in word.terms}
