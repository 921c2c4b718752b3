"""Chains of memories that supersede each other; and the repair of relations that lead nowhere."""

from __future__ import annotations

from memoryd.engine import relations
from memoryd.engine.lock_keys import id_key
from memoryd.engine.memories import Memories
from memoryd.engine.parts import Parts
from memoryd.fields import SUPERSEDED_BY, SUPERSEDES, ids_of
from memoryd.model import Chain, is_expired

AT_ONCE = 50  # unknown ids that are removed at once


class Chains:
    """The operation `chain`, and a job of the upkeep."""

    def __init__(self, parts: Parts, memories: Memories) -> None:
        self._parts = parts
        self._memories = memories
        self._dangling: set[str] = set()  # ids that were named at the last look, and not there

    async def chain(self, memory_id: str) -> Chain:
        """The memories that it supersedes and that supersede it, directly or through others, oldest
        first, and itself. Raises NotFound."""
        asked = await self._memories.existing(memory_id)
        index, now = self._parts.index, self._parts.clock()
        places = {asked.id: 0}
        for key, step in ((SUPERSEDES, -1), (SUPERSEDED_BY, 1)):
            waiting = [asked.id]
            for id in waiting:  # grows meanwhile
                memory = index.get(id)
                new = [n for n in ids_of(memory, key) if n not in places] if memory else []
                places |= dict.fromkeys(new, places[id] + step)
                waiting += new
        found = [memory for id in places if (memory := index.get(id))]
        alive = [memory.copy() for memory in found if not is_expired(memory, now)]
        alive.sort(key=lambda memory: (places[memory.id], memory.created_at, memory.id))
        return Chain(asked.id, tuple(alive))

    async def mend_relations(self) -> int:
        """Remove ids that no memory has from relations, if they were unknown at the last call too:
        an import may still bring them. How many. Nothing is removed while the server of a shared
        store cannot be reached: the ids may be of memories that it has."""
        if self._parts.store_trouble():
            return 0
        index = self._parts.index
        unknown = set(index.relations.unknown())
        due = sorted(unknown & self._dangling)
        self._dangling = unknown - set(due)
        for start in range(0, len(due), AT_ONCE):
            ids = due[start : start + AT_ONCE]
            naming = index.relations.naming(ids)
            async with self._parts.locks.hold(map(id_key, {*ids, *naming})):
                if index.relations.naming(ids) <= naming:  # else at the next look
                    still = [id for id in ids if index.get(id) is None and self._may_mend(id)]
                    await relations.clean(self._parts, still)
        return len(due)

    def _may_mend(self, id: str) -> bool:
        """Whether all memories that name this id may be changed for that."""
        index = self._parts.index
        naming = (index.get(by) for by in index.relations.naming([id]))
        return all(self._parts.audiences.may_mend(memory) for memory in naming if memory)
