"""The store's offline twin: a dictionary. The contract suite holds it to the real one."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from pathlib import Path

import anyio
import numpy as np
from numpy.typing import NDArray

from memoryd.adapters.snapshot_file import LocalSnapshotFile
from memoryd.engine.index.snapshot import NoSnapshotFile
from memoryd.index_files import SnapshotFile
from memoryd.ports import Backup, Identity, Record, Revisions, Store


class RamStore:
    """See `memoryd.ports.Store`. Survives an engine, so that restarts can be tested."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.scans = 0
        self.purges = 0
        self.backups: list[Backup] = []
        self.saved_index = ""

    async def put(self, record: Record, *, new: bool = False) -> None:
        self.records[record.memory.id] = deepcopy(record)
        self.saved_index = ""

    async def put_all(self, records: Sequence[Record], *, new: bool = False) -> None:
        for record in records:
            await self.put(record, new=new)

    async def get(self, ids: Sequence[str]) -> list[Record]:
        return [deepcopy(self.records[id]) for id in ids if id in self.records]

    async def delete(self, ids: Sequence[str]) -> set[str]:
        self.saved_index = ""
        return {id for id in ids if self.records.pop(id, None)}

    async def expired(self, now: float, limit: int) -> list[str]:
        ends = {id: r.memory.expires_at for id, r in self.records.items()}
        return [id for id, end in ends.items() if end is not None and end <= now][:limit]

    async def nearest(
        self, vector: NDArray[np.float32], count: int, among: Sequence[str] | None = None
    ) -> list[tuple[str, float]]:
        ids = self.records if among is None else [id for id in among if id in self.records]
        best = {
            id: max(float(p.vector @ vector) for p in self.records[id].passages)
            for id in ids
            if self.records[id].passages
        }
        return sorted(best.items(), key=lambda item: -item[1])[:count]

    async def revisions(self) -> Revisions | None:
        return Revisions({id: record.revision for id, record in self.records.items()})

    async def keep_index(self, name: str) -> None:
        self.saved_index = name

    async def scan(self) -> AsyncIterator[list[Record]]:
        self.scans += 1
        yield [deepcopy(record) for record in self.records.values()]

    async def count(self) -> int:
        return len(self.records)

    async def purge(self) -> None:
        self.purges += 1

    async def compact(self) -> bool:
        return False

    async def backup(
        self, folder: Path, keep: int, *, if_changed: bool = False, at: float | None = None
    ) -> Backup | None:
        self.backups.append(Backup(str(folder), len(self.records), 0, at or 0.0))
        return self.backups[-1]

    async def rescue(
        self, records: AsyncIterator[list[Record]], folder: Path, at: float | None = None
    ) -> Backup:
        found = [record async for page in records for record in page]
        self.records = {record.memory.id: deepcopy(record) for record in found}
        return Backup(str(folder), len(found), 0, at or 0.0)

    async def all_backups(self, folder: Path) -> list[Backup]:
        return self.backups[::-1]

    async def newest_backup(self, folder: Path, until: float = math.inf) -> Backup | None:
        return next((b for b in reversed(self.backups) if b.created_at <= until), None)

    async def status(self) -> Mapping[str, object]:
        rows = sum(max(1, len(record.passages)) for record in self.records.values())
        return {"mode": "ram", "rows": rows}

    async def close(self) -> None:
        pass


class RamNextStore:
    """See `memoryd.ports.NextStore`. The records of `live` become those of `store`."""

    def __init__(self, live: RamStore, snapshot: Path | None = None) -> None:
        """`snapshot`: where its index is saved; None: nowhere."""
        self.live, self.store = live, RamStore()
        self._snapshot = snapshot
        self._alone = anyio.Lock()

    @asynccontextmanager
    async def open(self, identity: Identity) -> AsyncIterator[Store]:
        yield self.store

    def snapshot_file(self) -> SnapshotFile:
        return LocalSnapshotFile(self._snapshot) if self._snapshot else NoSnapshotFile()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        async with self._alone:
            yield

    async def replace(self, identity: Identity) -> None:
        self.live.records = self.store.records

    async def discard(self) -> None:
        self.store = RamStore()
