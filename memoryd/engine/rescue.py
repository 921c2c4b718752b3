"""Rescue: restore a store whose files were deleted or damaged from the index in RAM.

The index has every acknowledged memory, and up to `search.exact_limit` passages also every vector.
Vectors that are not in RAM are read from the store, if it can still read; memories whose vectors
cannot be read are embedded again later.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio.lowlevel

from memoryd.engine.parts import Parts
from memoryd.errors import StoreError
from memoryd.ports import Backup, Record

PAGE = 200  # memories


class Rescue:
    """One run of a rescue."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._written: list[str] = []
        self._bare: list[Record] = []  # their vectors are lost
        self._can_read = True

    async def run(self, folder: Path) -> Backup:
        """Write a backup into `folder` and restore the store from it. Raises StoreError."""
        made = await self._parts.store.rescue(self._pages(), folder, self._parts.clock())
        # Forgotten while the backup was written: delete it from the new store, too.
        gone = [id for id in self._written if self._parts.index.get(id) is None]
        if gone:
            await self._parts.store.delete(gone)
        for record in self._bare:
            if self._parts.index.get(record.memory.id) == record.memory:
                self._parts.index.put(record)  # now without vectors: the upkeep embeds it
            await anyio.lowlevel.checkpoint()
        self._parts.snapshots.clear()
        return made

    async def _pages(self) -> AsyncIterator[list[Record]]:
        ids = self._parts.index.ids()
        for start in range(0, len(ids), PAGE):
            page = await self._records(ids[start : start + PAGE])
            self._written += [record.memory.id for record in page]
            yield page

    async def _records(self, ids: list[str]) -> list[Record]:
        index = self._parts.index
        known = {id: record for id in ids if (record := index.record(id)) is not None}
        missing = [id for id in ids if id not in known]
        read = known | {record.memory.id: record for record in await self._read(missing)}
        page: list[Record] = []
        for id in ids:
            memory, record = index.get(id), read.get(id)
            if memory is None:
                continue
            if record is None or record.memory != memory:  # the index is newer
                record = Record(memory)
                self._bare.append(record)
            page.append(record)
        return page

    async def _read(self, ids: list[str]) -> list[Record]:
        """The records that the store can still read; after the first failure none."""
        if ids and self._can_read:
            try:
                return await self._parts.store.get(ids)
            except StoreError:
                self._can_read = False
        return []
