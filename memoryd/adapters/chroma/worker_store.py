"""The store as the worker has it: the collection, the job that runs beside it, its upkeep."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from memoryd import files
from memoryd.adapters.chroma import swap
from memoryd.adapters.chroma.backup import BackupJob, Restore, is_backed_up, restore
from memoryd.adapters.chroma.collection import Collection
from memoryd.adapters.chroma.disk_errors import (
    disk_trouble,
    says_damaged,
    shortage,
    translated,
)
from memoryd.adapters.chroma.open import open_remote
from memoryd.adapters.chroma.open_files import OpenFiles, gone
from memoryd.adapters.chroma.other_collections import can_be_kept
from memoryd.adapters.chroma.rewrite import Job, Rewrite, close
from memoryd.adapters.chroma.start import Say, start
from memoryd.adapters.chroma.swap import CLEAN, LIVE, size_of
from memoryd.errors import MemorydError, StoreError
from memoryd.ports import Identity, Record
from memoryd.settings import StoreSettings

HOUR = 3600.0


class Vault:
    """Every operation that the worker answers."""

    OWN = frozenset(
        {
            "write",
            "drop",
            "facts",
            "check_files",
            "begin",
            "step",
            "finish",
            "is_stale",
            "is_backed_up",
        }
        | {"drop_unfinished"}
    )

    def __init__(
        self,
        settings: StoreSettings,
        data_dir: Path,
        identity: Identity,
        say: Say,
        asked: Restore | None = None,
        *,
        remodelling: bool = False,
        reopening: bool = False,
        crashes: int = 0,
    ) -> None:
        """`reopening`: the same daemon had this store open before, so there must be one.
        `crashes`: how many workers in a row crashed while they opened it."""
        if asked is not None:
            restore(asked, settings, data_dir, identity, say)
        self._keep_old = asked is not None
        self._remodelling, self._reopening, self._crashes = remodelling, reopening, crashes
        self._files: OpenFiles | None = None  # of an embedded store
        self._settings, self._data_dir, self._identity = settings, data_dir, identity
        self._embedded = settings.mode == "embedded"
        self._job: Job | None = None
        self.is_lost = False  # closed for a swap that failed: only a new worker can go on
        self._collection = self._open(say)

    def method(self, name: str) -> Callable[..., Any]:
        """The operation of this name; StoreError if there is none."""
        if name in self.OWN:
            return getattr(self, name)  # type: ignore[no-any-return]
        if name in Collection.CALLS:
            return getattr(self._collection, name)  # type: ignore[no-any-return]
        raise StoreError(f"The store has no operation {name!r}.")

    def write(
        self, added: Sequence[Record], replaced: Sequence[Record], doomed: Sequence[str]
    ) -> set[str]:
        self.check_files()
        if (added or replaced) and self._embedded:
            self._check_room()
        if self._job is not None:
            self._job.before([*(r.memory.id for r in (*added, *replaced)), *doomed])
        existed = self._collection.write(added, replaced, doomed)
        self.check_files()  # what went to files without a name must not be acknowledged
        return existed

    def drop(self, row_ids: Sequence[str]) -> None:
        self.check_files()
        if self._job is not None:
            self._job.before(row_ids)
        self._collection.drop(row_ids)

    def facts(self) -> dict[str, object]:
        """What the store is and what became of it, for status."""
        known = self._collection.facts()
        if not self._embedded:
            return known
        if self._files is not None and not self._files.are_there:
            error = gone(self._data_dir / LIVE)
            told = {"code": error.code, "message": error.message, "hint": error.hint}
            return known | {"error": told}
        made = swap.mark(self._data_dir / LIVE)
        known |= {"since": made.get("at"), "since_by": made.get("reason")}
        return known | {"set_aside": swap.set_aside(self._data_dir)}

    @property
    def made_for(self) -> Identity:
        """Whose vectors the store holds."""
        return self._collection.made_for

    def check_files(self) -> None:
        """Refuse what would go to files that are no longer the store's."""
        if self._files is not None:
            self._files.check()

    def is_stale(self) -> bool:
        """Whether a rewrite is worth it: more dead rows than live ones, or any for too long."""
        if not self._embedded or not can_be_kept(self._collection.others):
            return False
        count = self._collection.row_count()
        dead = self._collection.dead(count)
        made = float(swap.mark(self._data_dir / LIVE).get("at") or 0.0)
        is_old = time.time() - made > self._settings.compact_hours * HOUR
        return dead > max(self._settings.compact_rows, count) or (dead > 0 and is_old)

    def is_backed_up(self, folder: Path) -> bool:
        """Whether a backup now would be the same as the newest one."""
        return is_backed_up(self._collection, folder)

    def begin(self, kind: str, *args: Any) -> None:
        """Start a job; another that was left halfway is dropped."""
        self._drop_job()
        self._job = self._made(kind, *args)

    def step(self) -> bool:
        """Work a little; whether there is more to do."""
        job = self._running()
        try:
            return job.step()
        except Exception:
            self._drop_job()  # it may be a full disk: give back what was taken
            raise

    def finish(self) -> object:
        """End the job; what came of it."""
        job = self._running()
        try:
            if isinstance(job, Rewrite):
                self.check_files()  # or what was put there meanwhile would be replaced
            done = job.finish()
        except Exception:
            self.is_lost = job.has_closed
            if not self.is_lost:
                self._drop_job()
            raise
        self._job = None
        if job.has_closed:
            self.is_lost = True
            self._collection = self._open(lambda progress: None)
            swap.drop_old(self._data_dir)
            self.is_lost = False
        return done

    def drop_unfinished(self) -> None:
        """Remove what a job left whose caller went away. Only while no job is worked on."""
        self._drop_job()
        if self._embedded:
            swap.drop_unfinished(self._data_dir)

    def explained(self, exc: Exception) -> MemorydError:
        """What a failed call is answered with. `is_lost` is set if nothing works any more."""
        if not self._embedded or isinstance(exc, MemorydError):
            return translated(exc)
        if self._files is not None and not self._files.are_there:
            return gone(self._data_dir / LIVE)
        error = translated(exc, self._data_dir)
        if error.code == StoreError.code:  # not the disk
            if says_damaged(exc):
                self.is_lost = True  # the next worker looks at all of it, and repairs or refuses
                return error
            try:
                self._collection.probe()
            except Exception:
                self.is_lost = True
        return error

    def close(self) -> None:
        """Let go in order, so that the next start need not look at everything."""
        self._drop_job()
        if self._embedded:
            folder = self._data_dir / LIVE
            in_place = self._files is not None and self._files.are_there
            close(self._collection, folder)
            if in_place:
                files.touch(folder / CLEAN)

    def _open(self, say: Say) -> Collection:
        if not self._embedded:
            return open_remote(self._settings, self._identity)
        opened = start(
            self._settings,
            self._data_dir,
            self._identity,
            say,
            keep_old=self._keep_old,
            remodelling=self._remodelling,
            reopening=self._reopening,
            crashes=self._crashes,
        )
        self._crashes = 0
        self._files = OpenFiles(self._data_dir / LIVE)
        self._reopening = True
        return opened

    def _made(self, kind: str, *args: Any) -> Job:
        if kind == "rewrite":
            if not self._embedded:
                raise StoreError(
                    "A Chroma server cannot be rewritten from here.",
                    code="not_embedded",
                    hint="Purge and compact the server itself.",
                )
            self.check_files()
            self._check_room(size_of(self._data_dir / LIVE))
            return Rewrite(self._settings, self._data_dir, self._collection, *args)
        if kind == "backup":
            return BackupJob(self._collection, *args)
        raise StoreError(f"The store has no job {kind!r}.")

    def _check_room(self, room: int = 0) -> None:
        """Refuse what would end in the middle. A deletion is always tried."""
        try:
            trouble = shortage(self._data_dir, room)
        except OSError as exc:
            trouble = disk_trouble(exc)
        if trouble is not None:
            raise StoreError(trouble.message, code=trouble.code, hint=trouble.hint)

    def _drop_job(self) -> None:
        job, self._job = self._job, None
        if job is not None:
            job.abandon()

    def _running(self) -> Job:
        if self._job is None:
            raise StoreError(
                "The worker was restarted in the middle of this; no memory is lost.",
                code="job_lost",
                hint="Try again.",
            )
        return self._job
