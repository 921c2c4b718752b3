"""Backup as a job of the worker, and restore as a way to start it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memoryd.adapters import backup_file
from memoryd.adapters.backup_file import BackupWriter
from memoryd.adapters.chroma import swap
from memoryd.adapters.chroma.collection import Collection
from memoryd.adapters.chroma.hnsw_files import is_torn
from memoryd.adapters.chroma.new_store import BATCH_ROWS, NewStore, close
from memoryd.adapters.chroma.open import ANY_MODEL, NO_MODEL, open_embedded
from memoryd.adapters.chroma.other_collections import OtherCollection, other_collections, read_other
from memoryd.adapters.chroma.rewrite import PAUSE, Slice
from memoryd.adapters.chroma.rows import plain_rows
from memoryd.adapters.chroma.sqlite_read import Unreadable, check_files, count_rows
from memoryd.errors import StoreError
from memoryd.ports import Backup, Identity, Progress, Record, ReportProgress
from memoryd.settings import StoreSettings


class BackupJob:
    """Writes the memories as they were when it began: one that is about to change goes first. After
    a stop it is begun again: it takes a fraction of the time of a rewrite."""

    has_closed = False

    def __init__(self, source: Collection, folder: Path, keep: int, at: float | None) -> None:
        self._source, self._folder, self._keep = source, folder, keep
        self._left = dict.fromkeys(source.memory_ids())
        self._count = len(self._left)
        self._writer = BackupWriter(folder, source.made_for, source.version, at, self._count)
        self._slice = Slice()
        # Verified on a thread, so that calls are answered meanwhile.
        self._verifying = ThreadPoolExecutor(1)
        self._made: Future[Backup] | None = None

    def before_write(self, ids: Iterable[str]) -> None:
        self._write([id for id in ids if id in self._left])

    def step(self) -> float | None:
        """Back up the next memories, then verify the file."""
        if self._left:
            began, rows = time.perf_counter(), self._slice.rows
            self._write([id for id, _ in zip(self._left, range(rows), strict=False)])
            self._slice.took(time.perf_counter() - began)
            return 0.0
        if self._made is None:
            self._made = self._verifying.submit(self._writer.finish)
        return None if self._made.done() else PAUSE

    def finish(self) -> Any:
        """Delete old backups."""
        while self.step() is not None:
            time.sleep(PAUSE if self._made else 0.0)
        assert self._made is not None
        done = self._made.result()
        if done.memories != self._count:
            Path(done.path).unlink()
            raise StoreError(f"The backup has {done.memories} memories, not {self._count}.")
        backup_file.rotate(self._folder, self._keep, Path(done.path))
        return done

    def suspend(self) -> None:
        self.abandon()

    def abandon(self) -> None:
        self._writer.abandon()

    def _write(self, ids: list[str]) -> None:
        if ids:
            found = self._source.read(ids)
            self._writer.add(found.records)
            self._count -= len(found.unreadable)
            if self._source.is_shared:  # forgotten by another daemon since this began
                self._count -= len(ids) - len(found.records) - len(found.unreadable)
            for id in ids:
                del self._left[id]


def is_backed_up(source: Collection, folder: Path) -> bool:
    """Whether the newest backup has the present version of the store, or the store is empty."""
    newest = backup_file.newest_in(folder)
    is_same = newest is not None and bool(source.version) and newest[1] == source.version
    return is_same or source.row_count() == 0


@dataclass(frozen=True, slots=True)
class Restore:
    """The backup to restore; `replace`: even if the store has memories."""

    path: Path
    replace: bool = False
    set_aside: bool = False  # keep the replaced store under `backups`


def restore(
    request: Restore,
    settings: StoreSettings,
    data_dir: Path,
    identity: Identity,
    progress: ReportProgress,
) -> None:
    """Make the store from a backup; the previous store is kept until the next successful start.
    Raises FileDamaged, `not_a_backup` or `store_not_empty`; then nothing was changed."""
    with backup_file.open_backup(request.path) as (reader, header):
        progress(Progress("verifying"))
        count = reader.verify()
        swap.recover(data_dir)
        _check_empty(request, settings, data_dir)
        before = Identity(header.model or "", header.dimension or 0)
        is_usable = before == identity or before.model == NO_MODEL
        no_model = Identity(NO_MODEL, before.dimension)
        if identity in (ANY_MODEL, no_model):  # keep its vectors
            identity, is_usable = before, True
        others, aside = _other_collections(data_dir, settings)
        if request.set_aside:  # copy nothing from the replaced store, and delete nothing of it
            others, aside = (), swap.dated_name(swap.BROKEN)
        new_store, memories = NewStore(settings, data_dir, identity, others), 0
        for page in backup_file.read_records(reader, BATCH_ROWS):
            progress(Progress("restoring", memories, count))
            memories += len(page)
            # Vectors of another model cannot be used: the engine makes new ones.
            kept = page if is_usable else [Record(record.memory) for record in page]
            new_store.add(plain_rows(kept, identity.dimension))
    _copy_others(new_store, settings, data_dir / swap.LIVE, others)
    new_store.close()
    new_store.finish("restore", aside)
    if not request.set_aside:
        swap.drop_next(data_dir)  # it has the memories that were replaced


def _other_collections(
    data_dir: Path, settings: StoreSettings
) -> tuple[tuple[OtherCollection, ...], str | None]:
    """The other collections of the store, and None. If the store cannot be read: nothing, and the
    name under which to set it aside."""
    live = data_dir / swap.LIVE
    try:
        if live.exists():
            check_files(live)
        return other_collections(live, settings.collection), None
    except Unreadable:
        return (), swap.dated_name(swap.BROKEN)


def _copy_others(
    new_store: NewStore, settings: StoreSettings, folder: Path, others: Sequence[OtherCollection]
) -> None:
    """Copy the other collections of the replaced store, with their vectors if it opens."""
    if not others:
        return
    if is_torn(folder):
        for other in others:
            new_store.add_other(*read_other(folder, other))
        return
    source = open_embedded(replace(settings, collection=others[0].name), folder, identity=None)
    for _ in new_store.copy_others(source):
        pass
    close(source, folder)


def _check_empty(request: Restore, settings: StoreSettings, data_dir: Path) -> None:
    if request.replace:
        return
    try:
        is_empty = count_rows(data_dir / swap.LIVE, settings.collection) == 0
    except StoreError:  # broken, but not empty
        is_empty = False
    if not is_empty:
        raise StoreError(
            f"There are memories in {data_dir}.",
            code="store_not_empty",
            hint="Add --replace to put the backup in their place.",
        )
