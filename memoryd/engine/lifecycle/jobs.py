"""The jobs of the upkeep that write uses, and mark and delete deprecated memories."""

from __future__ import annotations

from collections.abc import Iterable

import anyio

from memoryd.engine.lifecycle.decay import is_due, marked, used
from memoryd.engine.lifecycle.rewrite import rewrite, rewrite_groups
from memoryd.engine.lifecycle.uses import Uses
from memoryd.engine.memories import Memories
from memoryd.engine.parts import Parts
from memoryd.errors import MemorydError
from memoryd.fair import in_background
from memoryd.model import Memory

STOP_SECONDS = 1.0  # for uses, when the engine stops


class LifecycleJobs:
    """Counts uses, and does what follows from them and from time."""

    def __init__(self, parts: Parts, memories: Memories, uses: Uses) -> None:
        self._parts = parts
        self._memories = memories
        self._uses = uses

    def count_uses(self, ids: Iterable[str]) -> None:
        """Count that these memories reached an agent. Nothing is written now."""
        self._uses.count(ids, self._parts.clock())

    async def write_uses(self) -> int:
        """Write the uses that were counted since the last call; of how many memories."""
        waiting, settings, now = self._uses.all(), self._parts.lifecycle, self._parts.clock()

        def change(memory: Memory) -> Memory:
            return marked(used(memory, waiting[memory.id]), now, settings.deprecated_below)

        written = 0
        async for ids, changed in rewrite_groups(self._parts, list(waiting), change):
            written += changed
            for id in ids:
                self._uses.written(id, waiting[id])
        return written

    async def write_uses_at_end(self) -> None:
        """Write what can be written quickly: a stop must not take long."""
        try:
            with anyio.move_on_after(STOP_SECONDS, shield=True):
                await self.write_uses()
        except MemorydError:
            pass  # the store is gone; so are these uses

    async def mark_deprecated(self, now: float) -> int:
        """Write `deprecated_at` where it must be, and remove it where not; how many. `now`: a time
        that can be trusted."""
        below = self._parts.lifecycle.deprecated_below
        wrong = await in_background(_wrongly_marked, self._parts.index.memories(), now, below)
        return await rewrite(self._parts, wrong, lambda memory: marked(memory, now, below))

    async def drop_deprecated(self, now: float) -> int:
        """Delete deprecated memories of machines whose time is over; how many. `now`: a time that
        can be trusted."""
        settings = self._parts.lifecycle
        rule = (now, settings.deprecated_below, settings.deprecated_days)

        def holds(memory: Memory | None) -> bool:
            used = memory is not None and self._uses.waiting(memory.id)
            return memory is not None and not used and is_due(memory, *rule)

        due = await in_background(_due, self._parts.index.memories(), *rule)
        deleted, batch = 0, self._parts.memory.cleanup_batch
        for start in range(0, len(due), batch):
            deleted += len(await self._memories.drop_if(due[start : start + batch], holds))
        return deleted


def _wrongly_marked(memories: Iterable[Memory], now: float, below: float) -> list[str]:
    return [memory.id for memory in memories if marked(memory, now, below) is not memory]


def _due(memories: Iterable[Memory], now: float, below: float, days: float) -> list[str]:
    return [memory.id for memory in memories if is_due(memory, now, below, days)]
