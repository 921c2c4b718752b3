"""Backup as a job of the worker, and restore as a way to start it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memoryd.adapters import backup_file
from memoryd.adapters.backup_file import BackupWriter
from memoryd.adapters.chroma import swap
from memoryd.adapters.chroma.collection import Collection
from memoryd.adapters.chroma.hnsw_files import is_torn
from memoryd.adapters.chroma.open import NO_MODEL, open_embedded
from memoryd.adapters.chroma.other_collections import Other, other_collections, salvaged
from memoryd.adapters.chroma.rewrite import STEP, Fresh, close
from memoryd.adapters.chroma.rows import plain_rows
from memoryd.adapters.chroma.sqlite_read import Unreadable, check_files, count_rows
from memoryd.errors import StoreError
from memoryd.ports import Identity, Progress
from memoryd.settings import StoreSettings


class BackupJob:
    """Writes down what was there when it began: what is about to change is written first."""

    has_closed = False

    def __init__(self, source: Collection, folder: Path, keep: int, at: float | None) -> None:
        self._source, self._folder, self._keep = source, folder, keep
        self._left = dict.fromkeys(source.memory_ids())
        self._count = len(self._left)
        self._writer = BackupWriter(folder, source.made_for, source.version, at)

    def before(self, ids: Iterable[str]) -> None:
        """These memories are about to be written."""
        self._write([id for id in ids if id in self._left])

    def step(self) -> bool:
        """Some memories more; whether there are any left."""
        self._write([id for id, _ in zip(self._left, range(STEP), strict=False)])
        return bool(self._left)

    def finish(self) -> Any:
        """Verify the file, give it its name, drop older ones."""
        while self.step():
            pass
        done = self._writer.finish()
        if done.memories != self._count:
            Path(done.path).unlink()
            raise StoreError(f"The backup has {done.memories} memories, not {self._count}.")
        backup_file.rotate(self._folder, self._keep, Path(done.path))
        return done

    def abandon(self) -> None:
        self._writer.abandon()

    def _write(self, ids: list[str]) -> None:
        if ids:
            self._writer.add(self._source.get(ids))
            for id in ids:
                del self._left[id]


def is_backed_up(source: Collection, folder: Path) -> bool:
    """Whether the newest backup holds just what is there, or there is nothing to hold."""
    newest = backup_file.newest_in(folder)
    is_same = newest is not None and bool(source.version) and newest[1] == source.version
    return is_same or source.row_count() == 0


@dataclass(frozen=True, slots=True)
class Restore:
    """What to restore; `replace`: even if that replaces memories."""

    path: Path
    replace: bool = False
    set_aside: bool = False  # keep what is replaced under `backups`


def restore(
    asked: Restore,
    settings: StoreSettings,
    data_dir: Path,
    identity: Identity,
    say: Callable[[Progress], None],
) -> None:
    """Make the store from a backup; the former one is kept until the next good start. Raises
    BackupDamaged or `store_not_empty`, and then nothing was changed."""
    say(Progress("verifying"))
    count, head = backup_file.verify(asked.path), backup_file.head(asked.path)
    swap.settle(data_dir)
    _check_empty(asked, settings, data_dir)
    before = Identity(str(head["model"]), int(head["dimension"]))
    is_usable = before == identity or before.model == NO_MODEL
    if identity.model == NO_MODEL and before.dimension == identity.dimension:
        identity, is_usable = before, True
    others, aside = _beside(data_dir, settings)
    if asked.set_aside:  # nothing of it is wanted, and nothing of it is deleted
        others, aside = (), swap.dated(swap.BROKEN)
    fresh = Fresh(settings, data_dir, identity, others)
    memories = 0
    for page in backup_file.read(asked.path, STEP):
        say(Progress("restoring", memories, count))
        memories += len(page)
        # Another model's vectors are of no use: these memories get theirs from the engine.
        kept = page if is_usable else [type(record)(record.memory) for record in page]
        fresh.add(plain_rows(kept, identity.dimension))
    if memories != count:
        fresh.abandon()
        raise backup_file.BackupDamaged(f"The backup {asked.path} has {memories} of {count}.")
    _keep_others(fresh, settings, data_dir / swap.LIVE, others)
    fresh.close(fresh.ids)
    fresh.finish("restore", aside)


def _beside(data_dir: Path, settings: StoreSettings) -> tuple[tuple[Other, ...], str | None]:
    """What else the store holds. Where nobody can tell, it is to be set aside, under this name."""
    live = data_dir / swap.LIVE
    try:
        if live.exists():
            check_files(live)
        return other_collections(live, settings.collection), None
    except Unreadable:
        return (), swap.dated(swap.BROKEN)


def _keep_others(
    fresh: Fresh, settings: StoreSettings, folder: Path, others: Sequence[Other]
) -> None:
    """What else the replaced store holds stays. Its vectors too, if the store opens."""
    if not others:
        return
    if is_torn(folder):
        for other in others:
            fresh.keep_other(*salvaged(folder, other))
        return
    source = open_embedded(replace(settings, collection=others[0].name), folder, identity=None)
    for _ in fresh.keep_others(source):
        pass
    close(source, folder)


def _check_empty(asked: Restore, settings: StoreSettings, data_dir: Path) -> None:
    if asked.replace:
        return
    try:
        is_empty = count_rows(data_dir / swap.LIVE, settings.collection) == 0
    except StoreError:  # broken, but there is something
        is_empty = False
    if not is_empty:
        raise StoreError(
            f"There are memories in {data_dir}.",
            code="store_not_empty",
            hint="Add --replace to put the backup in their place.",
        )
