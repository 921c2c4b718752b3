"""Writing: the store first, then what is derived from it; the two cannot be cancelled apart."""

from __future__ import annotations

import secrets
from dataclasses import replace

import anyio
import anyio.lowlevel

from memoryd.engine.index.passages import row_terms
from memoryd.engine.parts import Parts
from memoryd.fair import in_thread
from memoryd.model import Memory, lead_of
from memoryd.ports import Passage, Record

LONG = 5_000  # characters of a content from which its words are worth a thread
PACE = 20  # memories that leave the index before others have their turn


async def embed(parts: Parts, memory: Memory) -> tuple[Passage, ...]:
    """The passages of a memory, read together with who said it. Where a previous model searches,
    it reads it as well. Who stores asks before anything is locked: nobody waits for a model."""
    if previous := parts.embedding.previous_model:
        await previous.prepare(memory)
    return await parts.embedding.document(memory.content, lead_of(memory))


async def passages(parts: Parts, memory: Memory) -> tuple[Passage, ...]:
    """The vectors that a memory has."""
    record = parts.index.record(memory.id)
    if record is None:  # not in RAM
        record = next(iter(await parts.store.get([memory.id])), None)
    return record.passages if record else ()


async def commit(parts: Parts, record: Record) -> None:
    """Write a memory, new or changed."""
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
            # It is in the store, and the index may hold half of it: better none than a wrong one.
            raise SystemExit("memoryd: out of memory; the index must be built anew") from None
        parts.snapshots.erase(record.memory.id)  # what it was before


async def drop(parts: Parts, ids: list[str]) -> set[str]:
    """Delete memories, whose locks are held; those that existed."""
    with anyio.CancelScope(shield=True):
        # A store whose worker died over the call is asked again, and finds nothing to delete.
        known = {id for id in ids if parts.index.get(id) is not None}
        gone = known | await parts.store.delete(ids)
        for number, id in enumerate(ids, start=1):
            parts.index.remove(id)
            parts.snapshots.erase(id)
            if parts.embedding.previous_model:
                parts.embedding.previous_model.drop(id)
            if number % PACE == 0:  # others have their turn; each memory goes whole
                await anyio.lowlevel.checkpoint()
    return gone
