"""The ports: the interfaces that the engine needs from the outside. Each has several
implementations under `adapters/` and one suite of contract tests."""

from __future__ import annotations

import math
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from memoryd.model import Memory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memoryd.index_files import SnapshotFile

    Vectors = NDArray[np.float32]  # one row per text

Span = tuple[int, int]  # start and end, in characters of the content


class Encoder(Protocol):
    """One embedding model. Synchronous and thread-safe: queries and documents are encoded in
    parallel.

    Two encoders with the same `model` give the same vectors, whatever library computes them.
    """

    @property
    def model(self) -> str:
        """Identifies the vectors; recorded in the store and compared when it is opened."""

    @property
    def dimension(self) -> int: ...

    @property
    def prefers_large_calls(self) -> bool:
        """Whether it makes batches of its own of the texts of one call: then bulk work is faster in
        larger calls."""

    def split(self, text: str, lead: str = "") -> list[Span]:
        """Overlapping passages of `text`, each short enough for the model with `lead` before it;
        one if all of it fits."""

    def knows(self, text: str) -> bool:
        """Whether it knows at least half of the text: all unknown words get the same vector."""

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Unit vectors, one row per text, in order. Raises EmbedError."""


class Reranker(Protocol):
    """A model that reads a query and a text together. Synchronous and thread-safe."""

    @property
    def model(self) -> str: ...

    def marks(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """How well each text answers the query, 0..1, in order. Raises EmbedError."""


class LanguageModel(Protocol):
    """A model that answers a chat."""

    @property
    def name(self) -> str:
        """The model and its server, for `status`; never with a key."""

    async def complete(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The answer to chat messages, each with `role` and `content`. Raises ModelUnavailable and
        TextRefused. May be cancelled."""


PromptFn = Callable[[str], Awaitable[str]]  # answers a prompt; from a program that embeds memoryd


class FileHistory(Protocol):
    """What a version control system knows about files. Synchronous: call it on a thread."""

    def changed(self, folder: Path, commit: str, files: Sequence[str]) -> set[str] | None:
        """Those of `files`, relative to the folder, that later commits changed or deleted; None if
        it cannot say."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a memory's content with its vector."""

    span: Span
    vector: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Record:
    """A memory as the store keeps it. No passages: it has no vector yet."""

    memory: Memory
    passages: tuple[Passage, ...] = ()
    revision: int = 0  # a new number for every write of this memory; 0: not written yet
    # The revision that its writer knew, 0 if none; None: not compared. A store that several daemons
    # share refuses a write that would replace another one.
    replaces: int | None = None
    clock: int = 0  # orders the writes of all daemons that share a store; 0: not shared
    moved_from: int = 0  # the revision of the version in another store that this one replaces


@dataclass(frozen=True, slots=True)
class Identity:
    """The model that the vectors of a store belong to."""

    model: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a long operation; `total` 0: unknown."""

    what: str
    done: int = 0
    total: int = 0


ReportProgress = Callable[[Progress], None]  # called with how far the work is
Watch = Callable[[Progress | None], None]  # gets progress reports; None: finished


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of the clock: the last time that was trusted, the last time that was read, and
    for how many seconds the clock has run steadily since it jumped."""

    believed: float
    latest: float
    steady: float


class ClockRecord(Protocol):
    """A file that keeps `Seen` between starts."""

    def load(self) -> Seen | None:
        """What was saved last; None if nothing was, or if it is damaged."""

    def save(self, seen: Seen) -> None:
        """Replace the record atomically. Raises OSError."""


class MirrorFiles(Protocol):
    """A folder with copies of memories for people, and a private record of what was written there.
    Synchronous: call it on a thread, one call at a time. Every method may raise OSError, and
    ValueError for a file that is no text."""

    @property
    def folder(self) -> str:
        """The path of the folder."""

    def stamp(self) -> object:
        """A value that differs once MEMORY.md has changed; None without that file."""

    def is_settled(self) -> bool:
        """False while a program may still be writing MEMORY.md: it changed a moment ago."""

    def read(self, name: str) -> str | None:
        """The text of a file; None without one."""

    def replace(self, text: str, expected: str | None) -> str | None:
        """Replace MEMORY.md atomically. None if its text was `expected`; otherwise the text that
        another program wrote in between, which is replaced too, so the caller must use it."""

    def write(self, name: str, text: str) -> None:
        """Replace a file atomically, whatever is in it."""

    def late(self) -> str | None:
        """What another program wrote into a file after `replace` had replaced it: a program that
        had it open. None if nothing; each text is returned once."""

    def release(self) -> None:
        """Give up replaced files, so that none of their text is kept."""

    def names(self) -> list[str]:
        """The names of the files in the folder that a mirror can have written."""

    def remove(self, name: str) -> None:
        """Delete a file, if it is there."""

    def load_record(self) -> str | None:
        """The record that was saved last; None without one."""

    def save_record(self, text: str) -> None:
        """Replace the record atomically."""


class BlockFiles(Protocol):
    """Files of a person in which a part belongs to memoryd, and a private record of which they are.
    Texts keep every byte of a file (`surrogateescape`). Synchronous: call it on a thread, one call
    at a time. Every method may raise OSError, also for a path that leads through a link."""

    def stamp(self, path: str) -> object:
        """A value that differs once the file has changed; None without a file."""

    def is_settled(self, path: str) -> bool:
        """False while a program may still be writing the file: it changed a moment ago."""

    def read(self, path: str) -> str | None:
        """The text of a file; None without one."""

    def replace(self, path: str, text: str, expected: str | None) -> str | None:
        """Replace a file atomically, with its mode. None if its text was `expected`; otherwise the
        text that another program wrote in between, which the caller must use."""

    def late(self, path: str) -> str | None:
        """What a program that had the file open wrote into it after `replace` had replaced it, if
        nothing newer is at the path. None if nothing; each text is returned once."""

    def release(self) -> None:
        """Give up replaced files, so that none of their text is kept."""

    def remove(self, path: str) -> None:
        """Delete a file, if it is there."""

    def load_record(self) -> str | None:
        """The record that was saved last; None without one."""

    def save_record(self, text: str) -> None:
        """Replace the record atomically."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup on disk; `memories` is None if it is not known without reading the whole file."""

    path: str
    memories: int | None
    size: int
    created_at: float
    readable: bool = True  # its first line is that of a backup


@dataclass(frozen=True, slots=True)
class Revisions:
    """What a store holds when it is opened."""

    by_id: Mapping[str, int]  # the revision of every memory, 0 where it is uncertain
    is_whole: bool = True  # False: memories on a server that cannot be reached now are missing


class Store(Protocol):
    """Durable storage, the source of truth. When a call returns, its change is committed."""

    async def put(self, record: Record, *, new: bool = False) -> None:
        """Insert or replace the whole memory; concurrent calls share a commit.

        `new`: the caller guarantees that the id was never used, so old rows need not be read.
        """

    async def put_all(self, records: Sequence[Record], *, new: bool = False) -> None:
        """Insert or replace several memories in one commit: all of them or none. They may have a
        few thousand passages together. `new`: as for `put`."""

    async def get(self, ids: Sequence[str]) -> list[Record]:
        """The records that exist among `ids`, in no particular order."""

    async def delete(self, ids: Sequence[str]) -> set[str]:
        """Remove memories with all their passages; the ids that existed."""

    async def expired(self, now: float, limit: int) -> list[str]:
        """Ids of memories due at `now`, at most `limit` of them."""

    async def nearest(
        self, vector: NDArray[np.float32], count: int, among: Sequence[str] | None = None
    ) -> list[tuple[str, float]]:
        """The approximately nearest memories with their cosines: each once, best first.

        For collections too large for exact search in RAM. `among`: only these ids, exactly.
        """

    async def revisions(self) -> Revisions | None:
        """The revisions of all memories when the store was opened; None if listing them would cost
        as much as reading all memories."""

    @property
    def saved_index(self) -> str:
        """The name of the index that has all memories, if the store knows: it was given to
        `keep_index` before the store was closed, and nothing was written since. Empty if not."""

    async def keep_index(self, name: str) -> None:
        """Note that an index of this name was saved, which has all memories."""

    def scan(self) -> AsyncIterator[list[Record]]:
        """Every memory, page by page."""

    async def count(self) -> int:
        """How many memories there are (not rows)."""

    async def purge(self) -> None:
        """Rewrite the files of the store, so that none holds deleted data."""

    async def compact(self) -> bool:
        """Purge if enough has been deleted to be worth it; whether it was done. Also removes the
        leftovers of a cancelled purge, compaction or backup."""

    async def backup(
        self, folder: Path, keep: int, *, if_changed: bool = False, at: float | None = None
    ) -> Backup | None:
        """Write all memories to one verified file, dated `at` or now. It and `keep` - 1 others are
        kept: first the newest of each day, then the newest.

        `if_changed`: None, and no file, if the newest backup has the same content.
        """

    async def rescue(
        self, records: AsyncIterator[list[Record]], folder: Path, at: float | None = None
    ) -> Backup:
        """For a store whose files were deleted or damaged while it was open: write `records`, which
        must be all memories, to a verified backup in `folder`, and restore the store from it.
        Raises StoreError `store_in_place` if the store still works."""

    async def all_backups(self, folder: Path) -> list[Backup]:
        """The backups in a folder, newest first."""

    async def newest_backup(self, folder: Path, until: float = math.inf) -> Backup | None:
        """The newest backup in a folder that is dated `until` or earlier; None without one."""

    async def status(self) -> Mapping[str, object]:
        """Facts for `status`: mode, rows, schema, model, the worker's pid and restarts."""

    async def close(self) -> None:
        """Flush and release the store; closing twice is harmless."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What was written to a shared store after some clock."""

    revisions: Mapping[str, int]  # by id, of memories that were written
    noted: frozenset[str]  # ids of memories that were deleted, or whose write took long
    clock: int  # the highest of all
    has_more: bool = False  # it is one page of several

    def with_page(self, page: Changes) -> Changes:
        """These changes and those of the next page."""
        revisions = {**self.revisions, **page.revisions}
        return Changes(revisions, self.noted | page.noted, max(self.clock, page.clock))


class ChangeFeed(Protocol):
    """What other daemons do to a store that several share. Every method may raise StoreOffline."""

    @property
    def listed_clock(self) -> int | None:
        """The highest clock before `Store.revisions` listed all memories; None if it has not."""

    async def clock(self) -> int:
        """The highest clock of all writes."""

    async def changes(self, since: int) -> Changes:
        """What was written with a clock higher than `since`, by any daemon."""

    async def listing(self, offset: int) -> Mapping[str, int] | None:
        """The revisions of some memories by id, from this place in the store's own order on; None
        after the last. If memories are deleted meanwhile, some can be left out."""

    async def check(self) -> None:
        """Return soon if the store can be asked, whatever other calls wait for; raise StoreOffline
        if not."""

    async def sweep_notes(self) -> None:
        """Delete notes of deletions that every running daemon has read long ago."""


class NextStore(Protocol):
    """The place of a second store, which is filled beside the live one and then replaces it."""

    def open(self, identity: Identity) -> AbstractAsyncContextManager[Store]:
        """The next store for vectors of this model, open inside the block, with what is already in
        it. Raises StoreError."""

    def snapshot_file(self) -> SnapshotFile:
        """The files of a snapshot of its index, which are deleted with it."""

    def alone(self) -> AbstractAsyncContextManager[None]:
        """No backup, purge, compaction or rescue of the live store runs inside the block."""

    async def replace(self, identity: Identity) -> None:
        """Replace the live store by the next one, which is closed and holds the same memories. Call
        inside `alone`, while nothing is written. After a kill one of the two is live, whole. Raises
        StoreError; then the live store is as it was."""

    async def discard(self) -> None:
        """Delete its files, if there are any."""
