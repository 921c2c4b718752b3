"""Relations between memories, kept consistent with every change.

`supersedes` and `superseded_by` are the two sides of one relation: a caller writes the first, and
the second is written in the same commit. An id that a caller names must exist. Before a memory is
deleted its id is removed from the relations of all others, so none is left dangling.

Every change of a relation holds the locks of both memories. A change that could close a circle also
holds `SUPERSEDING`: two of them at the same time could otherwise close one together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from memoryd.engine import commits
from memoryd.engine.index.index import Index
from memoryd.engine.parts import Parts
from memoryd.errors import InvalidInput
from memoryd.fields import RELATIONS, SUPERSEDED_BY, SUPERSEDES, ids_of, is_digest
from memoryd.model import Memory, is_expired
from memoryd.ports import Record

SUPERSEDING = "2~supersedes"  # a lock, taken after names and before ids
AT_ONCE = 50  # memories that are cleaned in one commit
EDGES = (*RELATIONS, SUPERSEDED_BY)
EDGE_KEYS = frozenset(EDGES)


def changed_ids(before: Memory | None, after: Memory) -> set[str]:
    """The ids that a change adds to a relation or removes from one."""
    return {id for _, id in _edges(before) ^ _edges(after)}


def _edges(memory: Memory | None) -> set[tuple[str, str]]:
    if memory is None or EDGE_KEYS.isdisjoint(memory.metadata):
        return set()
    return {(key, id) for key in EDGES for id in ids_of(memory, key)}


def check_relations(parts: Parts, before: Memory | None, after: Memory, now: float) -> None:
    """Raise InvalidInput if a relation that is new names no living memory, or the memory itself, or
    one that has a smaller audience, or if memories would supersede each other."""
    index = parts.index
    parts.audiences.check_relations(before, after, index.get)
    for key, id in sorted(_edges(after) - _edges(before)):
        named = index.get(id)
        if id == after.id:
            raise _refused(f"{key} names the memory itself.", "relation_to_itself")
        if named is None or is_expired(named, now):
            raise _refused(f"{key} names the memory {id}, which does not exist.")
        if key == SUPERSEDES and after.id in _older(index, id, _freed(before, after), after.id):
            raise _refused(
                f"supersedes names {id}, which itself supersedes this one.", "relation_circle"
            )


def _freed(before: Memory | None, after: Memory) -> set[str]:
    """The memories that supersede it before the change and not after it."""
    old = set(ids_of(before, SUPERSEDED_BY)) if before else set()
    return old - set(ids_of(after, SUPERSEDED_BY))


def _older(index: Index, start: str, freed: set[str], id: str) -> set[str]:
    """The ids that `start` supersedes, directly or through others; `freed` no longer supersede
    `id`."""
    seen, waiting = set[str](), [start]
    while waiting:
        memory = index.get(at := waiting.pop())
        for older in ids_of(memory, SUPERSEDES) if memory else ():
            if older not in seen and not (older == id and at in freed):
                seen.add(older)
                waiting.append(older)
    return seen


async def commit(
    parts: Parts, before: Memory | None, record: Record, dropped: Iterable[str] = ()
) -> None:
    """Commit a memory, and with it the other side of its relations. The caller holds the locks of
    `changed_ids`. `dropped`: ids of memories that it replaces, to be removed from relations."""
    gone = set(dropped) - {record.memory.id}
    own = _unnamed(record.memory, gone)
    changed = _linked(parts.index, before, own)
    changed |= _without(parts.index, gone, changed)
    changed.pop(own.id, None)
    others = await _records(parts, changed.values())
    await commits.commit(parts, replace(record, memory=own), *others)


def _linked(index: Index, before: Memory | None, after: Memory) -> dict[str, Memory]:
    """The other memories that a change of supersession changes, as they are then."""
    changed: dict[str, Memory] = {}
    for mine, theirs in ((SUPERSEDES, SUPERSEDED_BY), (SUPERSEDED_BY, SUPERSEDES)):
        old = set(ids_of(before, mine)) if before else set()
        new = set(ids_of(after, mine))
        for id in old ^ new:
            other = changed.get(id) or index.get(id)
            if other is None or id == after.id:
                continue
            if id in old:
                changed[id] = _changed(other, theirs, remove={after.id})
            elif mine == SUPERSEDES:
                changed[id] = _changed(other, theirs, add=after.id)
    return changed


def _without(index: Index, ids: set[str], changed: Mapping[str, Memory]) -> dict[str, Memory]:
    """The memories that name one of `ids` in a relation, without these."""
    found: dict[str, Memory] = {}
    for by in index.relations.naming(ids):
        if memory := changed.get(by) or index.get(by):
            found[by] = _unnamed(memory, ids)
    return found


def _unnamed(memory: Memory, ids: set[str]) -> Memory:
    """The memory without these ids in its relations."""
    for key in EDGES:
        memory = _changed(memory, key, remove=ids)
    return memory


def _changed(memory: Memory, key: str, *, add: str = "", remove: Iterable[str] = ()) -> Memory:
    """The memory with another list of ids under `key`; an empty list is left out."""
    old = ids_of(memory, key)
    gone = set(remove)
    ids = [id for id in old if id not in gone]
    if add and add not in ids:
        ids = sorted([*ids, add])
    if ids == old:
        return memory
    metadata: dict[str, Any] = {k: v for k, v in memory.metadata.items() if k != key}
    return replace(memory, metadata=metadata | ({key: ids} if ids else {}))


async def _records(parts: Parts, memories: Iterable[Memory]) -> list[Record]:
    return [Record(memory, await commits.passages(parts, memory)) for memory in memories]


async def drop(parts: Parts, ids: list[str]) -> set[str]:
    """Delete memories; the ids that existed. The caller holds their locks and those of the ones
    that name them."""
    # A digest says what the memory said, so it goes too, and first: a kill in between must not
    # leave one that no longer names the memory.
    naming = map(parts.index.get, parts.index.relations.naming(ids))
    if digests := [memory.id for memory in naming if memory and is_digest(memory)]:
        await commits.drop(parts, digests)
    # Relations next: a kill in between leaves no memory that is superseded by nothing.
    await clean(parts, ids)
    return await commits.drop(parts, ids)


async def clean(parts: Parts, ids: Iterable[str]) -> None:
    """Remove these ids from all relations. The caller holds the locks of the memories in them."""
    changed = list(_without(parts.index, set(ids), {}).values())
    for start in range(0, len(changed), AT_ONCE):
        await commits.commit(parts, *await _records(parts, changed[start : start + AT_ONCE]))


def with_superseding(index: Index, memory: Memory) -> Memory:
    """An imported memory with `superseded_by` as the index has it: the file may know of memories
    that are not here, and not of others that are."""
    known = index.relations.superseding(memory.id)
    if not known and EDGE_KEYS.isdisjoint(memory.metadata):
        return memory
    memory = _changed(memory, SUPERSEDES, remove={memory.id})
    metadata = {key: value for key, value in memory.metadata.items() if key != SUPERSEDED_BY}
    return replace(memory, metadata=metadata | ({SUPERSEDED_BY: known} if known else {}))


def _refused(message: str, code: str = "relation_unknown") -> InvalidInput:
    return InvalidInput(
        message, code=code, hint="Name memories by their ids, as search shows them."
    )
