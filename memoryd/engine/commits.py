"""Commits: write to the store, then to the index; a cancellation cannot come in between."""

from __future__ import annotations

import secrets
from dataclasses import replace

import anyio
import anyio.lowlevel

from memoryd.engine.index.passages import row_terms
from memoryd.engine.parts import Parts
from memoryd.fair import in_thread
from memoryd.lead import lead_of
from memoryd.model import Memory
from memoryd.ports import Passage, Record

LONG = 5_000  # characters of content from which its terms are computed on a thread
PACE = 20  # memories removed from the index before the event loop runs other tasks


async def embed(parts: Parts, memory: Memory) -> tuple[Passage, ...]:
    """The passages of a memory with their vectors; the previous model, if it searches, embeds it
    too. Call before taking any lock: it may wait for the model."""
    if previous := parts.embedding.previous_model:
        await previous.prepare(memory)
    return await parts.embedding.document(memory.content, lead_of(memory, parts.search.lead_fields))


async def passages(parts: Parts, memory: Memory) -> tuple[Passage, ...]:
    """The passages of a memory as they are stored."""
    record = parts.index.record(memory.id)
    if record is None:  # not in RAM
        record = next(iter(await parts.store.get([memory.id])), None)
    return record.passages if record else ()


async def commit(parts: Parts, record: Record) -> None:
    """Write a memory, new or changed, to store and index."""
    record = replace(record, revision=secrets.randbits(62) | 1)
    found = None
    if len(record.memory.content) > LONG:
        found = await in_thread(row_terms, record)
    with anyio.CancelScope(shield=True):
        known = parts.index.get(record.memory.id) is not None
        parts.index.tables[0].reserve(len(record.passages) or 1)
        await parts.store.put(record, new=not known)
        try:
            parts.index.put(record, found)
            slot = parts.index.slot(record.memory.id)
            if parts.embedding.previous_model and slot is not None:
                parts.embedding.previous_model.on_stored(record.memory, slot)
        except MemoryError:
            # The store has it, the index perhaps half of it: end rather than serve a wrong index.
            raise SystemExit("memoryd: out of memory; the index must be rebuilt") from None
        parts.snapshots.erase(record.memory.id)  # the text of the old version


async def drop(parts: Parts, ids: list[str]) -> set[str]:
    """Delete memories whose locks the caller holds; the ids that existed."""
    with anyio.CancelScope(shield=True):
        # Asked of the index: a call repeated after a crash of the worker finds nothing to delete.
        known = {id for id in ids if parts.index.get(id) is not None}
        gone = known | await parts.store.delete(ids)
        for number, id in enumerate(ids, start=1):
            parts.index.remove(id)
            parts.snapshots.erase(id)
            if parts.embedding.previous_model:
                parts.embedding.previous_model.drop(id)
            if number % PACE == 0:  # between memories, never within one
                await anyio.lowlevel.checkpoint()
    return gone
