"""Imports of many memories at a time: the same outcomes as one after another, in less time.

A batch is embedded as a whole, in bulk. Then those of its memories that neither conflict with
another one nor are related to one are written together, a few in each commit; the others go through
`Imports.import_memory`. Batches of one caller may overlap: one is embedded while the one before it
is written. They are written in the order in which they came, and together if several of them wait,
so that a commit which takes long, as in a very large store, does not limit how many there are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Hashable,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import takewhile
from time import perf_counter
from typing import Any

import anyio
import anyio.lowlevel

from memoryd.engine import commits, relations
from memoryd.engine.lock_keys import id_key, keys_of
from memoryd.engine.parts import Parts
from memoryd.engine.secrecy import masked_fields, secret_fields
from memoryd.engine.transfer import Arrival, Imports, Outcome
from memoryd.errors import (
    InvalidInput,
    MemorydError,
    ModelUnavailable,
    StoreError,
    StoreUnavailable,
    TextRefused,
)
from memoryd.fair import CALLER, Portion, in_bulk, in_thread, in_turns, paced
from memoryd.lead import lead_of
from memoryd.model import Memory, is_expired
from memoryd.ports import Encoder, Record
from memoryd.settings import MemorySettings
from memoryd.tasks import task_group

SHARED_SECONDS = 0.012  # of one commit while others are active, who may have to wait for it
LET_AHEAD = 0.05  # seconds that a commit waits at most for the calls of others that have begun
GATHER = 1.0  # seconds that a batch waits at most for those behind it, while nobody else is active
# Memories in one; the most while nobody else is active. Each commit makes Chroma read again what it
# has not flushed, up to 200 rows, and flush its whole index if there are more.
MIN_COMMIT, MAX_COMMIT = 8, 1024
ImportMemories = Callable[..., Coroutine[Any, Any, list[Arrival | InvalidInput]]]
BURST = 16  # memories that are looked through before other tasks or threads may run


@dataclass(slots=True)
class _Arriving:
    """A memory of a batch, and what has become of it."""

    record: Record
    keys: set[str]  # it shares one with every memory that it conflicts with or is related to
    is_clean: bool = True  # no secret was found in it
    encoder: Encoder | None = None  # the model that its passages were made with
    needs_passages: bool = False
    outcome: Arrival | InvalidInput | None = None

    @property
    def memory(self) -> Memory:
        return self.record.memory


class BulkImports:
    """Imports memories in batches."""

    def __init__(
        self, parts: Parts, imports: Imports, session_changed: Callable[[str], None]
    ) -> None:
        """`session_changed`: see `Imports`."""
        self._parts = parts
        self._imports = imports
        self._session_changed = session_changed
        self._order = _Order()
        self._portion = Portion(MIN_COMMIT, MAX_COMMIT)

    async def import_memories(
        self,
        records: Iterable[Record],
        *,
        overwrite: bool = False,
        foreign: bool = False,
        embed: bool = True,
        unasked: bool = False,
    ) -> list[Arrival | InvalidInput]:
        """Import a batch as `Imports.import_memory` would, one after another; the outcomes, in
        order. A refused memory does not stop the others. `embed`: make the vectors that are
        missing; without it they are made later. `unasked`: nobody asked to share them, so in a
        shared store they are private, whatever they say."""
        if unasked:
            records = map(self._own, records)
        encoder = self._parts.embedding.encoder
        batch = [_Arriving(record, _keys(record.memory), encoder=encoder) for record in records]
        for one in batch:
            one.needs_passages = embed and not one.record.passages
        with in_bulk():
            how = (overwrite, foreign, embed)
            async with self._parts.source.operation(), self._order.place(batch, how) as turn:
                await self._look_for_secrets(batch)
                # The others are looked up when they are masked.
                clean = [one.memory for one in batch if one.is_clean]
                await self._parts.source.before_import(clean)
                await self._embed(batch, overwrite, foreign)
                gather = 0.0 if self._parts.embedding.is_shared else GATHER
                await self._write(await turn(gather), *how)
        return [one.outcome for one in batch if one.outcome is not None]

    def _own(self, record: Record) -> Record:
        metadata = self._parts.audiences.own(record.memory.metadata)
        return replace(record, memory=replace(record.memory, metadata=metadata))

    async def _look_for_secrets(self, batch: list[_Arriving]) -> None:
        memories = [one.memory for one in batch]
        found = await in_thread(_clean, memories, self._parts.memory)
        for one, is_clean in zip(batch, found, strict=True):
            one.is_clean = is_clean

    async def _embed(self, batch: list[_Arriving], overwrite: bool, foreign: bool) -> None:
        """Make the vectors of those that are going to be written, as far as can be known now."""
        wanted: list[_Arriving] = []
        now = self._parts.clock()
        async for one in in_turns(batch, BURST):
            if one.needs_passages and one.is_clean:
                if self._foreseen(one.memory, overwrite, foreign, now)[0].changed:
                    wanted.append(one)
        if not wanted:
            return
        texts = [one.memory.content for one in wanted]
        leads = [lead_of(one.memory, self._parts.search.lead_fields) for one in wanted]
        async with self._parts.gate.passing():
            encoder = self._parts.embedding.encoder
            try:
                found = await self._parts.embedding.documents(texts, leads)
            except ModelUnavailable:
                found = [() for _ in wanted]
            except TextRefused:  # only some of them may be refused
                found = [await commits.embed(self._parts, one.memory) for one in wanted]
        for one, passages in zip(wanted, found, strict=True):
            one.record = replace(one.record, passages=passages)
            one.encoder, one.needs_passages = encoder, False

    def _foreseen(
        self, memory: Memory, overwrite: bool, foreign: bool, now: float
    ) -> tuple[Arrival, bool]:
        """The outcome as things are now, and whether no other memory has to do with it."""
        if is_expired(memory, now):
            return Arrival(Outcome.EXPIRED), False
        return self._imports.foreseen(memory, overwrite, foreign, now)

    async def _write(
        self, batch: list[_Arriving], overwrite: bool, foreign: bool, embed: bool
    ) -> None:
        rest = await self._write_plain(batch, overwrite, foreign)
        for wave in self._waves(rest, foreign):
            async with task_group() as tasks:
                for one in wave:
                    tasks.start_soon(self._import_one, one, overwrite, foreign, embed)

    async def _write_plain(
        self, batch: list[_Arriving], overwrite: bool, foreign: bool
    ) -> list[_Arriving]:
        """Write the memories that no other one has to do with; the rest."""
        rest: list[_Arriving] = []
        waiting: list[_Arriving] = []
        seen: set[str] = set()
        for one in batch:
            is_first = one.is_clean and seen.isdisjoint(one.keys)
            (waiting if is_first else rest).append(one)
            seen |= one.keys
        while waiting:
            is_shared = self._parts.embedding.is_shared
            size = self._portion.fitting(SHARED_SECONDS) if is_shared else MAX_COMMIT
            await self._write_some(waiting[:size], rest, overwrite, foreign)
            waiting = waiting[size:]
        return [one for one in batch if one.outcome is None]

    async def _write_some(
        self, some: list[_Arriving], rest: list[_Arriving], overwrite: bool, foreign: bool
    ) -> None:
        """Write those that only add a memory, in one commit; the others are added to the rest."""
        plain: list[_Arriving] = []
        await self._parts.gate.let_ahead(LET_AHEAD)
        async with self._parts.gate.passing():
            encoder = self._parts.embedding.encoder
            async with self._parts.locks.hold(key for one in some for key in one.keys):
                now = self._parts.clock()
                async for one in in_turns(some, BURST):
                    found, is_plain = self._foreseen(one.memory, overwrite, foreign, now)
                    is_ready = not one.needs_passages and one.encoder is encoder
                    if not found.changed and not (overwrite and rest):
                        one.outcome = found
                    elif found.changed and is_plain and is_ready:
                        plain.append(one)
                    else:
                        rest.append(one)
                if not plain or not await self._commit(plain):
                    return
        for one in plain:
            one.outcome = Arrival(Outcome.ADDED)
            if one.memory.session_id is not None:
                self._session_changed(one.memory.session_id)

    async def _commit(self, plain: list[_Arriving]) -> bool:
        """Write all of them, or none if one is refused; whether it was done."""
        began = perf_counter()
        try:
            await commits.commit(self._parts, *(one.record for one in plain))
        except StoreUnavailable:
            raise
        except (InvalidInput, StoreError):
            return False  # one by one, only what is refused fails
        self._portion.took(len(plain), perf_counter() - began)
        return True

    async def _import_one(
        self, one: _Arriving, overwrite: bool, foreign: bool, embed: bool
    ) -> None:
        is_current = one.encoder is self._parts.embedding.encoder
        passages = one.record.passages if is_current else ()
        try:
            one.outcome = await self._imports.import_memory(
                one.memory, passages, overwrite=overwrite, foreign=foreign, embed=embed
            )
        except InvalidInput as exc:
            one.outcome = exc

    def _waves(self, rest: Sequence[_Arriving], foreign: bool) -> Iterator[list[_Arriving]]:
        """The memories in groups, in order, whose members have nothing to do with each other. Each
        group must be imported before the next is asked for."""
        wave: list[_Arriving] = []
        seen: set[str] = set()
        for one in rest:
            keys = self._all_keys(one, foreign)
            if not seen.isdisjoint(keys):
                yield wave
                wave, seen, keys = [], set(), self._all_keys(one, foreign)
            wave.append(one)
            seen |= keys
        if wave:
            yield wave

    def _all_keys(self, one: _Arriving, foreign: bool) -> set[str]:
        """Its keys, and the ids of those that it may change."""
        return one.keys | {id_key(id) for id in self._imports.involved(one.memory, foreign)}


@dataclass(slots=True, eq=False)
class _Place:
    """A batch in the line of its caller."""

    batch: list[_Arriving]
    how: tuple[bool, ...]  # the options of its import
    is_ready: bool = False  # to be written
    is_written: bool = False  # with one before it
    turn: anyio.Event = field(default_factory=anyio.Event)  # set: it is the first in the line


@dataclass(slots=True)
class _Line:
    """The batches of one caller, in the order in which they came."""

    places: deque[_Place] = field(default_factory=deque)
    news: anyio.Event = field(default_factory=anyio.Event)  # set: a batch is ready, or has left

    def has_changed(self) -> None:
        self.news.set()
        self.news = anyio.Event()

    def ready(self) -> list[_Place]:
        """The batches that can be written together with the first."""
        how = self.places[0].how
        return list(takewhile(lambda one: one.is_ready and one.how == how, self.places))

    async def gather(self, seconds: float) -> list[_Place]:
        """The same, once they fill a commit or no other batch is to come, or after so many seconds.
        Smaller commits cost more for each memory."""
        with anyio.move_on_after(seconds):
            while seconds and self._is_growing():
                await self.news.wait()
        return self.ready()

    def _is_growing(self) -> bool:
        ready = self.ready()
        is_last = len(ready) == len(self.places)
        is_full = sum(len(place.batch) for place in ready) >= MAX_COMMIT
        return not (is_last or is_full or self.places[len(ready)].is_ready)


class _Order:
    """The batches of each caller, in a line."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, _Line] = {}

    @asynccontextmanager
    async def place(
        self, batch: list[_Arriving], how: tuple[bool, ...]
    ) -> AsyncIterator[Callable[[float], Awaitable[list[_Arriving]]]]:
        """Yields what to await when the batch is ready, with the seconds that it may wait for those
        behind it: what is to be written then, which is nothing if an earlier call has written it,
        and may include batches behind it. It is done at the end of the block, unless an exception
        leaves it."""
        line, mine = self._lines.setdefault(CALLER.get(), _Line()), _Place(batch, how)
        line.places.append(mine)
        together: list[_Place] = []

        async def turn(gather: float) -> list[_Arriving]:
            mine.is_ready = True
            line.has_changed()
            if line.places[0] is not mine:
                await mine.turn.wait()
            if not mine.is_written:
                together.extend(await line.gather(gather))
            return [one for place in together for one in place.batch if one.outcome is None]

        try:
            yield turn
            for place in together:
                place.is_written = True
        finally:
            self._leave(line, mine)

    def _leave(self, line: _Line, mine: _Place) -> None:
        line.places.remove(mine)
        line.has_changed()
        if line.places:
            line.places[0].turn.set()
        elif self._lines.get(CALLER.get()) is line:
            del self._lines[CALLER.get()]


def _keys(memory: Memory) -> set[str]:
    ids = {memory.id, *relations.changed_ids(None, memory)}
    return {*keys_of(memory), *map(id_key, ids)}


def _clean(memories: Sequence[Memory], settings: MemorySettings) -> list[bool]:
    """By memory, whether no secret is in it. Runs on a thread."""
    return [_is_clean(memory, settings) for memory in paced(memories, BURST)]


def _is_clean(memory: Memory, settings: MemorySettings) -> bool:
    fields = secret_fields(memory)
    try:
        return masked_fields(fields, settings)[0] == fields
    except MemorydError:
        return False  # refused, with a message, when it is imported alone
