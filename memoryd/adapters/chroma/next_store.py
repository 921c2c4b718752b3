"""The next store: filled beside the live one by a worker of its own, then put in its place.

It is a whole data directory, `<data>/store.next`, so everything that holds for a store holds for
it: the lock, the check after a kill, the purge. Only other collections come from the live store,
and only its worker can read those.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread

from memoryd.adapters.chroma import swap
from memoryd.adapters.chroma.open import has_other_model
from memoryd.adapters.chroma.store import ChromaStore, open_chroma
from memoryd.adapters.chroma.swap import LIVE, NEXT
from memoryd.adapters.snapshot_file import LocalSnapshotFile
from memoryd.errors import MemorydError, StoreError
from memoryd.index_files import SnapshotFile
from memoryd.ports import Identity, Store
from memoryd.settings import StoreSettings

# Rows between two flushes, at least; what is left of them delays the first write later. A flush
# takes longer the larger the store is, and a write the more rows are not flushed: the best number
# between them grows with the root of the size.
FLUSH_ROWS, FLUSH_ROOT = 1_000, 6
INDEX = "index.snapshot"
ATTEMPTS, RETRY = 10, 1.0  # to find out which store is live; seconds between two


class ChromaNextStore:
    """See `memoryd.ports.NextStore`. Runs in the daemon."""

    def __init__(self, live: ChromaStore, settings: StoreSettings, data_dir: Path) -> None:
        self._live, self._settings = live, settings
        self._folder = data_dir / NEXT

    def snapshot_file(self) -> SnapshotFile:
        return LocalSnapshotFile(self._folder / INDEX)

    @asynccontextmanager
    async def open(self, identity: Identity) -> AsyncIterator[Store]:
        if self._settings.mode != "embedded":
            raise StoreError(
                "The vectors of a Chroma server cannot be made again from here.",
                code="not_embedded",
                hint="Set memory.embedding_model back, or use another store.collection.",
            )
        if not await anyio.to_thread.run_sync(self._can_go_on, identity):
            await self.discard()
        async with AsyncExitStack() as stack:
            try:
                store = await self._open(stack, identity)
            except StoreError as exc:
                if exc.code != "store_corrupt":
                    raise
                await self.discard()  # nothing in it is the only copy
                store = await self._open(stack, identity)
            yield store

    async def _open(self, stack: AsyncExitStack, identity: Identity) -> Store:
        await self._live.copy_other_collections(identity)
        rows = int(str((await self._live.status())["rows"]))
        # Flushed less often than a live store: each flush writes the whole index.
        often = max(FLUSH_ROWS, FLUSH_ROOT * math.isqrt(rows), self._settings.sync_threshold)
        settings = replace(self._settings, sync_threshold=often)
        opened = open_chroma(settings, self._folder, identity)
        return await stack.enter_async_context(opened)

    def _can_go_on(self, identity: Identity) -> bool:
        """Whether what is there was made for this model, and can be read."""
        try:
            return not has_other_model(self._folder / LIVE, self._settings.collection, identity)
        except StoreError:
            return False

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        async with self._live.alone():
            # So that the swap, while no call runs, finds little that is not on the disk yet.
            with contextlib.suppress(OSError):  # a file that was replaced meanwhile
                await anyio.to_thread.run_sync(swap.sync_tree, self._folder / LIVE)
            yield

    async def replace(self, identity: Identity) -> None:
        try:
            await self._live.replace_by_next(identity)
        except MemorydError:
            # If its worker died, the two may be swapped all the same.
            if await self._live_identity() != identity:
                raise

    async def _live_identity(self) -> Identity:
        for _ in range(ATTEMPTS):
            with contextlib.suppress(MemorydError):
                return await self._live.read_identity()
            await anyio.sleep(RETRY)
        # Vectors of one model must not get into the store of another: end rather than guess.
        raise SystemExit("memoryd: the store cannot be opened after the change of its model")

    async def discard(self) -> None:
        # Without the check a start would wait until the live store is open.
        if await anyio.to_thread.run_sync(os.path.lexists, self._folder):
            await self._live.drop_next()
