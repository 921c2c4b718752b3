"""A change of model: a background job embeds every memory into a next store, beside the live one;
then the next store takes the place of the live one, and the engine its index and model.

Until then the engine serves the live store with the model of its vectors, as if there were no
change. Vectors of two models cannot be compared, so a search uses one of them for all memories.

What is left to do is never recorded. The job compares the index of the next store with the live
index: a memory is done if both have the same revision of it. So what is written meanwhile is done
again, and after a kill the job goes on with what the next store has. Its index is saved on the way
like the live one's, so that it needs as little RAM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.lowlevel
import structlog

from memoryd.engine import commits
from memoryd.engine.index.index import Index
from memoryd.engine.index.snapshot import Snapshots
from memoryd.engine.models.embedding import Embedding
from memoryd.engine.parts import Gate, Parts
from memoryd.errors import MemorydError, TextRefused
from memoryd.fair import in_turns
from memoryd.lead import lead_of
from memoryd.model import Memory
from memoryd.ports import Encoder, Identity, NextStore, Passage, Record, Store
from memoryd.tasks import task_group

log = structlog.get_logger()
RETRY = 60.0  # seconds after a failure such as a full disk
BATCH = 128  # memories that are embedded and written together
AT_ONCE = 3  # batches: while one is written, the next are embedded
FEW = 32  # with no more than this many left to do, the engine is held back for the last of them
MAX_REFUSED = 32  # texts that may be left without a vector because the model does not accept them
PACE = 500  # memories compared before the event loop runs other tasks
PACE_ADDED = 16  # the same for memories that are read, or added to the index
DELETES = 500  # memories deleted in one call


@dataclass(frozen=True, slots=True)
class ChangeState:
    """How far a change of model is; `trouble`: why it does not go on, else empty."""

    to: str
    done: int
    total: int
    trouble: str


class ModelChange:
    """One change of model, from the start of the daemon to the switch."""

    def __init__(
        self, parts: Parts, next_store: NextStore, to: str, trouble: Callable[[], str]
    ) -> None:
        """`to` is the name of the new model; `trouble` says why that is not loaded yet."""
        self._parts = parts
        self._next_store = next_store
        self._to = to
        self._trouble = trouble
        self._filling: _Filling | None = None
        self._is_over = False  # the switch is done

    def state(self) -> ChangeState:
        """For `status`."""
        total = len(self._parts.index)
        done = len(self._filling.index) if self._filling else total * self._is_over
        return ChangeState(self._to, min(done, total), total, self._trouble())

    async def run(self, encoder: Encoder) -> None:
        """Do the whole change to this model. A failure is logged, and tried again later."""
        self._to = encoder.model
        while not self._is_over:
            self._trouble = str  # ""
            try:
                await self._run(encoder)
            except Exception as exc:  # whatever it is, the engine serves on
                error = _first(exc)
                log.warning("model_change_failed", error=type(error).__name__)
                self._trouble = partial(_sentence, error)
                await anyio.sleep(RETRY)

    async def _run(self, encoder: Encoder) -> None:
        parts, identity = self._parts, Identity(encoder.model, encoder.dimension)
        embedding = Embedding(parts.embedding.settings, encoder)
        index = Index(encoder.dimension, exact_limit=parts.search.exact_limit)
        about = {"model": identity.model, "dimension": identity.dimension}
        snapshots = Snapshots(index, self._next_store.snapshot_file(), about)
        try:
            async with task_group() as tasks, AsyncExitStack() as opened:
                tasks.start_soon(embedding.run)
                store = await opened.enter_async_context(self._next_store.open(identity))
                await snapshots.load(store)
                self._filling = filling = _Filling(parts, store, index, snapshots, embedding)
                async with task_group() as saving:
                    saving.start_soon(snapshots.keep_current)
                    await filling.fill_until_few()
                    saving.cancel_scope.cancel()
                async with self._next_store.alone():
                    await filling.fill_until_few()
                    async with parts.gate.closed():
                        await filling.fill()
                        await opened.aclose()
                        # A cancellation in between would leave store and index of two models.
                        with anyio.CancelScope(shield=True):
                            await self._next_store.replace(identity)
                            self._switch(index, encoder)
                tasks.cancel_scope.cancel()
        finally:
            self._filling = None
        facts = {"memories": len(index), "embedded": filling.added}
        log.info("model_changed", to=encoder.model, **facts)

    def _switch(self, index: Index, encoder: Encoder) -> None:
        """One step: there is no await in it."""
        self._parts.index = index
        self._parts.embedding.attach(encoder)
        identity = {"model": encoder.model, "dimension": encoder.dimension}
        self._parts.snapshots.use(index, identity)
        self._is_over = True

    async def purge(self) -> bool:
        """Remove deleted data from the files of the next store; false if it has become the live one
        meanwhile."""
        async with self._next_store.alone():
            if self._is_over:
                return False
            if self._filling is None:  # nobody knows what is in it: begin again
                await self._next_store.discard()
            else:
                await self._filling.purge()
            return True


class _Filling:
    """The next store with its index, while they are filled."""

    def __init__(
        self,
        parts: Parts,
        store: Store,
        index: Index,
        snapshots: Snapshots,
        embedding: Embedding,
    ) -> None:
        self._parts = parts
        self._store = store
        self._snapshots = snapshots  # of the index
        self._embedding = embedding
        self._gate = Gate()  # closed while nothing may be added
        self._refused: set[str] = set()  # ids of texts that the model does not accept
        self.index = index
        self.added = 0

    async def fill_until_few(self) -> None:
        """Fill it until only few memories are changed during a pass."""
        while await self.fill() > FEW:
            pass

    async def fill(self) -> int:
        """One pass: delete what is gone or changed, add what is missing; how many were missing."""
        await self.delete_stale()
        known = self._parts.index
        missing = [id async for id in in_turns(known.ids(), PACE) if id not in self.index]
        left = (missing[start : start + BATCH] for start in range(0, len(missing), BATCH))
        async with task_group() as tasks:
            for _ in range(AT_ONCE):
                tasks.start_soon(self._add_all, left)
        return len(missing)

    async def delete_stale(self) -> None:
        """Delete every memory that the live index does not have in the same revision."""
        stale = [id async for id in in_turns(self.index.ids(), PACE) if not self._is_done(id)]
        for start in range(0, len(stale), DELETES):
            part = stale[start : start + DELETES]
            await self._store.delete(part)
            for id in part:
                self.index.remove(id)
                self._snapshots.erase(id)

    async def purge(self) -> None:
        """Remove deleted data from its files."""
        async with self._gate.closed():
            await self.delete_stale()
        self._snapshots.clear()
        await self._store.purge()

    def _is_done(self, id: str) -> bool:
        live = self._parts.index
        revision = live.revision(id)
        is_same = revision == self.index.revision(id)
        if not revision:  # as all memories of a restored backup
            is_same = is_same and live.get(id) == self.index.get(id)
        return is_same and (not self.index.is_pending(id) or id in self._refused)

    async def _add_all(self, left: Iterator[list[str]]) -> None:
        for ids in left:
            await self._add(ids)

    async def _add(self, ids: list[str]) -> None:
        live = self._parts.index
        found = [
            (memory, live.revision(id) or 0)
            async for id in in_turns(ids, PACE_ADDED)
            if (memory := live.get(id))
        ]
        passages = await self._all_passages([memory for memory, _ in found])
        records = [
            Record(memory, made, revision)
            for (memory, revision), made in zip(found, passages, strict=True)
        ]
        terms = {record.memory.id: await commits.terms(record) for record in records}
        async with self._gate.passing():
            # What changes after this is seen by the next pass.
            turns = in_turns(records, PACE_ADDED)
            same = [record async for record in turns if self._is_current(record)]
            if same:
                await self._store.put_all(same, new=True)
            async for record in in_turns(same, PACE_ADDED):
                self.index.put(record, terms[record.memory.id])
                self.added += 1

    def _is_current(self, record: Record) -> bool:
        id, live = record.memory.id, self._parts.index
        return live.revision(id) == record.revision and live.get(id) == record.memory

    async def _all_passages(self, memories: list[Memory]) -> list[tuple[Passage, ...]]:
        texts = [memory.content for memory in memories]
        leads = [lead_of(memory, self._parts.search.lead_fields) for memory in memories]
        try:
            return await self._embedding.documents(texts, leads)
        except TextRefused:  # only some of them may be refused
            return [await self._passages(memory) for memory in memories]

    async def _passages(self, memory: Memory) -> tuple[Passage, ...]:
        """The vectors of a memory; none if the model does not accept its text. Raises TextRefused
        if that happens often: then the fault is not in the texts."""
        try:
            lead = lead_of(memory, self._parts.search.lead_fields)
            return await self._embedding.document(memory.content, lead)
        except TextRefused:
            self._refused.add(memory.id)
            if len(self._refused) > MAX_REFUSED:
                raise
            return ()


def _sentence(error: BaseException) -> str:
    """What to show of an error. The text of a foreign one can quote a memory."""
    if isinstance(error, MemorydError):
        return f"{error.message} {error.hint}".strip()
    return f"It failed with {type(error).__name__}."


def _first(exc: BaseException) -> BaseException:
    """The error itself, or the first one of a group."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc
