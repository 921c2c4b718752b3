"""Commits: write to the store, then to the index; a cancellation cannot come in between."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import anyio
import anyio.lowlevel

from memoryd.engine.index.passages import RowTerms, row_terms
from memoryd.engine.parts import Parts
from memoryd.errors import ModelUnavailable, StoreConflict, StoreOffline, TextRefused
from memoryd.fair import in_thread
from memoryd.lead import lead_of
from memoryd.model import Memory, identical
from memoryd.ports import Passage, Record

T = TypeVar("T")
LONG = 5_000  # characters of content from which its terms are computed on a thread
MAX_CONFLICTS = 5  # times that an operation runs again
PACE = 20  # memories added to or removed from the index before the event loop runs other tasks


async def embed(parts: Parts, memory: Memory) -> tuple[Passage, ...]:
    """The passages of a memory with their vectors; empty if there is no model, or if its server
    fails or refuses the text: the memory is stored, and waits for its vector. Call inside the gate,
    where the commit must be too, and before taking the lock of a key: it may wait for the model."""
    try:
        lead = lead_of(memory, parts.search.lead_fields)
        return await parts.embedding.document(memory.content, lead)
    except (ModelUnavailable, TextRefused):
        return ()


async def passages(parts: Parts, memory: Memory) -> tuple[Passage, ...]:
    """The passages of a memory as they are stored."""
    record = parts.index.record(memory.id)
    if record is None:  # not in RAM
        try:
            record = next(iter(await parts.store.get([memory.id])), None)
        except StoreOffline:  # the write may be queued
            return await embed(parts, memory)
    return record.passages if record else ()


async def commit(parts: Parts, *records: Record) -> None:
    """Write memories, new or changed, to store and index: all of them or none. Raises InvalidInput
    if the user may not make one of these changes."""
    records = tuple(_stamped(parts, record) for record in _admitted(parts, records))
    found = [await terms(record) for record in records]
    with anyio.CancelScope(shield=True):
        parts.index.tables[0].reserve(sum(len(record.passages) or 1 for record in records))
        are_new = not any(record.memory.id in parts.index for record in records)
        if len(records) == 1:
            await parts.store.put(records[0], new=are_new)
        elif are_new:
            await parts.store.put_all(records, new=True)
        else:
            await parts.store.put_all(records)
        try:
            for number, (record, words) in enumerate(zip(records, found, strict=True), start=1):
                parts.index.put(record, words)
                if are_new and number % PACE == 0:  # changes of related memories appear together
                    await anyio.lowlevel.checkpoint()
        except MemoryError:
            # The store has it, the index perhaps half of it: end rather than serve or save a wrong
            # index.
            parts.snapshots.clear()
            raise SystemExit("memoryd: out of memory; the index must be rebuilt") from None
        for record in records if not are_new else ():
            parts.snapshots.erase(record.memory.id)  # the text of the old version


def _admitted(parts: Parts, records: Sequence[Record]) -> Iterator[Record]:
    """The records as those who see them may have them, without further ones that do not change."""
    rules, index = parts.audiences, parts.index
    pairs = [(index.get(record.memory.id), record) for record in records]
    asked = [rules.settled(record.memory, before) for before, record in pairs]
    together = {memory.id: memory for memory in asked}  # a new one is not in the index yet

    def get(id: str) -> Memory | None:
        return together.get(id) or index.get(id)

    for (before, _), memory in zip(pairs, asked, strict=True):
        rules.check_change(before, memory)
    for number, ((before, record), memory) in enumerate(zip(pairs, asked, strict=True)):
        shown = rules.without_hidden(memory, get)
        if number == 0 or shown is memory or before is None or not identical(shown, before):
            yield replace(record, memory=shown)


def _stamped(parts: Parts, record: Record) -> Record:
    """With a new revision, and the one that it replaces."""
    known = parts.index.revision(record.memory.id)
    replaces = 0 if known is None else known or None  # 0 in the index: uncertain
    return replace(record, revision=secrets.randbits(62) | 1, replaces=replaces)


async def retried(parts: Parts, operation: Callable[[], Awaitable[T]]) -> T:
    """The result of an operation. It runs again, on the present memories, if another daemon on the
    same store changed one of them first. Call outside the gate and all locks."""
    for _ in range(MAX_CONFLICTS):
        try:
            return await operation()
        except StoreConflict:
            await parts.catch_up()
    return await operation()


async def terms(record: Record) -> RowTerms | None:
    """The terms of a long memory, computed on a thread; None for a short one."""
    return await in_thread(row_terms, record) if len(record.memory.content) > LONG else None


async def drop(parts: Parts, ids: list[str]) -> set[str]:
    """Delete memories whose locks the caller holds; the ids that existed."""
    with anyio.CancelScope(shield=True):
        # Asked of the index: a call repeated after a crash of the worker finds nothing to delete.
        known = {id for id in ids if id in parts.index}
        gone = known | await parts.store.delete(ids)
        for number, id in enumerate(ids, start=1):
            parts.index.remove(id)
            parts.snapshots.erase(id)
            if number % PACE == 0:  # between memories, never within one
                await anyio.lowlevel.checkpoint()
        await parts.after_drop(ids)
    return gone
