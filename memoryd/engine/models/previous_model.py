"""The previous model: after a change of model it searches until every memory has a new vector.

Vectors of two models cannot be compared, so a search uses one model for all memories: the previous
one until the last memory has its new vector, then the new one. A memory that is stored or changed
meanwhile gets vectors of both; those of the previous model are kept in RAM only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import anyio
import anyio.lowlevel
import numpy as np

from memoryd.engine.index.index import Index
from memoryd.engine.index.vectors import Floats, Mask, Owners, VectorTable, by_row
from memoryd.engine.models.embedding import Embedding, Vector
from memoryd.errors import EmbedError
from memoryd.lead import lead_of, said_key
from memoryd.model import Memory
from memoryd.ports import Encoder
from memoryd.settings import EmbeddingSettings
from memoryd.tasks import task_group

PACE = 500  # memories placed before the event loop runs other tasks
MAX_PREPARED = 1_000  # more memories than are ever stored at the same time

SavedVectors = Mapping[int, list[Vector]]  # by `said_key`


class _Placed(NamedTuple):
    """The rows of a memory, and the `said_key` of the text they were made from."""

    key: int
    rows: list[int]


class PreviousModel:
    """The previous model with its vectors, which use the slots of the index."""

    def __init__(
        self, encoder: Encoder, settings: EmbeddingSettings, lead_fields: Sequence[str]
    ) -> None:
        """`lead_fields`: the fields that the model reads before a text."""
        self.model = encoder.model
        self._lead_fields = lead_fields
        self._embedding = Embedding(settings, encoder)
        self._table = VectorTable(encoder.dimension)
        self._placed: dict[str, _Placed] = {}  # by the id of a memory
        # Vectors of memories that are about to be stored, by `said_key`; the latest ones.
        self._made: OrderedDict[int, list[Vector]] = OrderedDict()
        self._users = 0  # calls under way
        self._is_retired = False
        self._over = anyio.Event()

    async def run(self) -> None:
        """Embed texts until the model is retired and no call is using it."""
        async with task_group() as tasks:
            tasks.start_soon(self._embedding.run)
            await self._over.wait()
            tasks.cancel_scope.cancel()

    def retire(self) -> None:
        """Stop once no call is using it."""
        self._is_retired = True
        self._end_if_idle()

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._is_retired and not self._users:
            self._over.set()

    async def load(self, index: Index, saved: SavedVectors) -> None:
        """Place the saved vectors of the memories in the index."""
        for number, memory in enumerate(list(index), start=1):
            key = said_key(memory)
            vectors = saved.get(key)
            slot = index.slot(memory.id)
            if vectors is not None and slot is not None and index.get(memory.id) is memory:
                self._place(memory.id, key, slot, vectors)
            if number % PACE == 0:
                await anyio.lowlevel.checkpoint()

    async def embed_missing(self, index: Index) -> None:
        """Embed the memories that have no vector of this model."""
        for memory in [memory for memory in index if memory.id not in self._placed]:
            if self._is_retired:
                return
            await self.prepare(memory)
            slot = index.slot(memory.id)
            if slot is not None and index.get(memory.id) is memory:
                self.on_stored(memory, slot)

    def waiting(self, index: Index) -> int:
        """How many memories have no vector of this model."""
        return len(index) - len(self._placed)

    async def prepare(self, memory: Memory) -> None:
        """Embed a memory that is about to be stored, unless its text already has vectors."""
        key = said_key(memory)
        if key in self._made:
            self._made.move_to_end(key)
        if key in self._made or self._rows(memory.id, key):
            return
        try:
            with self._in_use():
                lead = lead_of(memory, self._lead_fields)
                passages = await self._embedding.document(memory.content, lead)
        except EmbedError:  # found by words only, and counted by `waiting`
            return
        self._made[key] = [passage.vector for passage in passages]
        if len(self._made) > MAX_PREPARED:
            self._made.popitem(last=False)

    def on_stored(self, memory: Memory, slot: int) -> None:
        """Place the vectors of a memory that the index has put into this slot."""
        key = said_key(memory)
        if rows := self._rows(memory.id, key):
            self._table.reassign(rows, slot)
            return
        self.drop(memory.id)
        if (vectors := self._made.get(key)) is not None:
            self._place(memory.id, key, slot, vectors)

    def drop(self, id: str) -> None:
        """Remove the vectors of a memory."""
        if (placed := self._placed.pop(id, None)) is not None:
            self._table.remove(placed.rows)

    def _rows(self, id: str, key: int) -> list[int] | None:
        """The rows of a memory, if they were made from the text with this key; else None."""
        placed = self._placed.get(id)
        return placed.rows if placed and placed.key == key else None

    def _place(self, id: str, key: int, slot: int, vectors: list[Vector]) -> None:
        self._placed[id] = _Placed(key, self._table.add(vectors, slot))

    def knows(self, text: str) -> bool:
        """See `Embedding.knows`."""
        return self._embedding.knows(text)

    async def query(self, text: str) -> Vector | None:
        """See `Embedding.query`."""
        with self._in_use():
            return await self._embedding.query(text)

    def owners(self) -> Owners:
        """A copy: by row, the slot that owns it now."""
        return self._table.owners()

    def cosines(self, query: Vector, owners: Owners, allowed: Mask) -> Floats:
        """By slot, the cosine of its best passage; 0 where not allowed. Runs on any thread."""
        wanted = by_row(allowed, owners)
        cosines = self._table.cosines(query, wanted)
        meaning = np.zeros(len(allowed), dtype=np.float32)
        rows = np.flatnonzero(wanted)
        np.maximum.at(meaning, owners[rows], cosines[rows])
        return meaning
