"""Everything that the index still holds, written to a new store: for one whose files are gone.

The index has every memory that was ever acknowledged, and up to `search.exact_limit` passages also
every vector. Where vectors are missing the store is asked, which may still be able to read; what it
cannot read is embedded anew later.
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
    """One rescue."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._written: list[str] = []
        self._bare: list[Record] = []  # their vectors are lost
        self._can_read = True

    async def run(self, folder: Path) -> Backup:
        """Write the backup into `folder` and make the store anew; StoreError if it works still."""
        made = await self._parts.store.rescue(self._pages(), folder, self._parts.clock())
        # Forgotten while it was written: gone from the old store, so it must be from this one.
        gone = [id for id in self._written if self._parts.index.get(id) is None]
        if gone:
            await self._parts.store.delete(gone)
        for record in self._bare:
            if self._parts.index.get(record.memory.id) == record.memory:
                self._parts.index.put(record)  # it waits for its vectors from now on
            await anyio.lowlevel.checkpoint()
        self._parts.snapshots.clear()
        return made

    async def _pages(self) -> AsyncIterator[list[Record]]:
        ids = [memory.id for memory in self._parts.index]
        for start in range(0, len(ids), PAGE):
            page = await self._records(ids[start : start + PAGE])
            self._written += [record.memory.id for record in page]
            yield page

    async def _records(self, ids: list[str]) -> list[Record]:
        index = self._parts.index
        if index.exact:
            return [record for id in ids if (record := index.record(id)) is not None]
        read = {record.memory.id: record for record in await self._read(ids)}
        page: list[Record] = []
        for id in ids:
            memory, record = index.get(id), read.get(id)
            if memory is None:
                continue
            if record is None or record.memory != memory:  # the index is right
                record = Record(memory)
                self._bare.append(record)
            page.append(record)
        return page

    async def _read(self, ids: list[str]) -> list[Record]:
        """What the store can still read of these; tried no more once it could not."""
        if self._can_read:
            try:
                return await self._parts.store.get(ids)
            except StoreError:
                self._can_read = False
        return []
