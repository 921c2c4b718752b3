"""The keys that operations lock: of a text, of names, and of memories.

Locks are taken in the order of their keys: fact, then name, then id, everywhere.
"""

from __future__ import annotations

from memoryd.engine import relations
from memoryd.fields import SUPERSEDES, handles_of, ids_of
from memoryd.labels import folded_name
from memoryd.model import Memory, MemoryType


def id_key(id: str) -> str:
    return f"3:{id}"


def lock_keys(before: Memory | None, after: Memory) -> set[str]:
    """The keys of the ids to lock for a change, and of supersession if it could close a circle."""
    ids = relations.changed_ids(before, after) | ({before.id} if before else set())
    can_circle = before is not None and ids_of(after, SUPERSEDES) != ids_of(before, SUPERSEDES)
    return {*map(id_key, ids), *([relations.SUPERSEDING] if can_circle else [])}


def name_key(name: str) -> str:
    """Of a name, and of all that are equal to it among notes."""
    return f"2:{folded_name(name)}"


def keys_of(memory: Memory) -> list[str]:
    """The keys to lock to store this memory: its names, and its text if it is a fact."""
    keys = [name_key(handle) for handle in handles_of(memory)]
    if memory.type is MemoryType.FACT:
        keys.append(f"1:{memory.session_id or ''}\0{memory.content.strip()}")
    return keys
