"""Reading every memory out, page by page, while others go on writing.

The order is that of the ids, so a page is found again by the id before it. What was stored after
the first page may be missing from the rest, what was forgotten meanwhile is; nothing comes twice.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from memoryd.engine import checks
from memoryd.engine.context import Parts
from memoryd.model import is_expired
from memoryd.ports import Record

PAGE = 200  # memories of a page
PAGE_BYTES = 256_000  # about; a page holds at least one memory


@dataclass(frozen=True, slots=True)
class Exported:
    """A page. `after` is where the next one begins; None after the last."""

    records: tuple[Record, ...]
    after: str | None
    total: int  # memories that are alive now
    model: str | None
    dimension: int | None


class Exporter:
    """Holds the ids of the export that runs, so that no page has to sort them again."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._ids: list[str] = []

    async def page(self, after: str | None = None) -> Exported:
        """The memories that follow the id `after`, from the first one on without it."""
        begins = checks.label(after, "after")
        if begins is None or not self._ids:
            self._ids = sorted(memory.id for memory in self._parts.index)
        start = bisect_right(self._ids, begins) if begins else 0
        ids, last = self._take(start)
        if last is None:
            self._ids = []
        found = [self._parts.index.record(id) for id in ids]
        records = [record for record in found if record is not None]
        if not self._parts.index.exact:  # the vectors are not in RAM
            records = sorted(await self._parts.store.get(ids), key=lambda r: r.memory.id)
        encoder = self._parts.embedding.encoder
        return Exported(
            tuple(records),
            last,
            sum(self._parts.index.census(self._parts.clock())[0].values()),
            encoder.model if encoder else None,
            encoder.dimension if encoder else None,
        )

    def _take(self, start: int) -> tuple[list[str], str | None]:
        """The ids that fit into a page, and the one to go on after."""
        now, index, size = self._parts.clock(), self._parts.index, 0
        taken: list[str] = []
        for place in range(start, len(self._ids)):
            memory = index.get(self._ids[place])
            if memory is None or is_expired(memory, now):
                continue
            taken.append(memory.id)
            size += len(memory.content) + index.vector_bytes(memory.id)
            if len(taken) >= PAGE or size >= PAGE_BYTES:
                more = place + 1 < len(self._ids)
                return taken, self._ids[place] if more else None
        return taken, None
