"""The store inside the worker: the collection, and the one long job that may run on it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from memoryd.adapters.chroma import swap
from memoryd.adapters.chroma.backup import BackupJob, Restore, is_backed_up, restore
from memoryd.adapters.chroma.collection import Collection
from memoryd.adapters.chroma.disk_errors import (
    disk_error,
    find_shortage,
    is_damage_error,
    to_memoryd_error,
)
from memoryd.adapters.chroma.new_store import close
from memoryd.adapters.chroma.open import open_remote
from memoryd.adapters.chroma.open_files import OpenFiles, store_gone_error
from memoryd.adapters.chroma.other_collections import can_be_kept
from memoryd.adapters.chroma.pipes import JOB_LOST
from memoryd.adapters.chroma.remote_errors import to_remote_error
from memoryd.adapters.chroma.rewrite import CopyOthers, Job, Rewrite, finish_next
from memoryd.adapters.chroma.row_check import RowCheck
from memoryd.adapters.chroma.sqlite_read import DATABASE, rows_written
from memoryd.adapters.chroma.start import StoreBroken, open_error, start
from memoryd.adapters.chroma.store_facts import StoreFacts, Tell, facts_of
from memoryd.adapters.chroma.swap import LIVE, NEXT, size_of
from memoryd.adapters.chroma.worker_events import (
    milliseconds,
    send_event,
    send_failure,
    stage,
)
from memoryd.errors import MemorydError, StoreError
from memoryd.ports import Identity, Record, ReportProgress
from memoryd.settings import StoreSettings

HOUR = 3600.0


class WorkerStore:
    """Every operation that the worker offers: its own here, the rest on the collection."""

    OPERATIONS = frozenset(
        {
            "write",
            "drop",
            "keep_index",
            "facts",
            "check_files",
            "begin",
            "step",
            "finish",
            "due_rewrite",
            "is_backed_up",
            "drop_unfinished",
            "read_identity",
            "replace_by_next",
            "drop_next",
        }
    )

    def __init__(
        self,
        settings: StoreSettings,
        data_dir: Path,
        identity: Identity,
        progress: ReportProgress,
        restore_from: Restore | None = None,
        *,
        any_model: bool = False,
        reopening: bool = False,
        crashes: int = 0,
        careful: bool = False,
        tell: Tell | None = None,
        saved_index: str = "",
    ) -> None:
        """`reopening`: the same daemon had this store open before, so it must exist. For the
        others see `start`."""
        if restore_from is not None:
            with stage("restore"):
                restore(restore_from, settings, data_dir, identity, progress)
        self._keep_old = restore_from is not None
        self._any_model, self._reopening = any_model, reopening
        self._crashes, self._careful = crashes, careful
        self._files: OpenFiles | None = None  # None for a Chroma server
        self._settings, self._data_dir, self._identity = settings, data_dir, identity
        self._embedded = settings.mode == "embedded"
        self._job: Job | None = None
        self._job_began = 0.0
        self._check: RowCheck | None = None  # of rows that the opening did not read
        self._saved_index = saved_index  # the name of an index that may have all that is here
        self.needs_new_worker = False  # this one cannot use the store any more
        self._collection = self._open_collection(progress, tell)

    def keep_index(self, name: str) -> None:
        """Note that an index of this name has all memories. The next start is told, unless
        something is written until then."""
        self._saved_index = name

    def method(self, name: str) -> Callable[..., Any]:
        """The operation of this name; StoreError if there is none."""
        if name in self.OPERATIONS:
            return getattr(self, name)  # type: ignore[no-any-return]
        if name in self._collection.OPERATIONS:
            return getattr(self._collection, name)  # type: ignore[no-any-return]
        raise StoreError(f"The store has no operation {name!r}.")

    def write(
        self, added: Sequence[Record], replaced: Sequence[Record], deleted: Sequence[str]
    ) -> set[str]:
        self.check_files()
        self._saved_index = ""
        if (added or replaced) and self._embedded:
            self._check_room()
        if self._job is not None:
            self._job.before_write([*(r.memory.id for r in (*added, *replaced)), *deleted])
        existed = self._collection.write(added, replaced, deleted)
        self.check_files()  # a write to files that were deleted meanwhile must not be acknowledged
        return existed

    def drop(self, row_ids: Sequence[str]) -> None:
        self.check_files()
        self._saved_index = ""
        if self._job is not None:
            self._job.before_write(row_ids)
        self._collection.drop(row_ids)

    def facts(self) -> dict[str, object]:
        """Facts about the store and its history, for `status`."""
        known = self._collection.facts()
        if not self._embedded:
            return known
        if self._files is not None and not self._files.are_in_place:
            error = store_gone_error(self._data_dir / LIVE)
            fields = {"code": error.code, "message": error.message, "hint": error.hint}
            return known | {"error": fields}
        made = swap.read_mark(self._data_dir / LIVE)
        known |= {"since": made.get("at"), "since_by": made.get("reason")}
        return known | {"set_aside": swap.set_aside(self._data_dir)}

    def store_facts(self) -> StoreFacts:
        """What the daemon is told when the store is open."""
        return facts_of(self._collection)

    def read_identity(self) -> Identity:
        """The model whose vectors the store holds."""
        return self._collection.made_for

    def check_files(self) -> None:
        """Raise `store_gone` if the open files are no longer those of the store."""
        if self._files is not None:
            self._files.check()

    def due_rewrite(self) -> str:
        """The reason for a rewrite that a stop or kill interrupted, or for one that is worth it;
        empty if there is nothing to do."""
        if not self._embedded or not can_be_kept(self._collection.others):
            return ""
        return swap.copy_reason(self._data_dir) or ("compact" if self.is_stale() else "")

    def is_stale(self) -> bool:
        """Whether a rewrite is worth it: more dead rows than live ones, or old dead rows."""
        count = self._collection.row_count()
        dead = self._collection.dead_rows(count)
        made = float(swap.read_mark(self._data_dir / LIVE).get("at") or 0.0)
        is_old = time.time() - made > self._settings.compact_hours * HOUR
        return dead > max(self._settings.compact_rows, count) or (dead > 0 and is_old)

    @property
    def needs_check(self) -> bool:
        """Whether there are rows that nobody has read since a kill."""
        return self._check is not None

    def check_some_rows(self) -> None:
        """Read some of them. Raises StoreBroken if the index has lost one."""
        assert self._check is not None
        try:
            if self._check.step():
                return
        except Exception as exc:
            error = open_error(exc, self._data_dir)
            if isinstance(error, StoreBroken):
                raise error from exc
            send_failure("check_given_up", exc)  # such as a bad disk: the next start checks again
            self._check = None
        else:
            self._check, self._collection.needs_check = None, False

    def is_backed_up(self, folder: Path) -> bool:
        """Whether a backup now would be the same as the newest one."""
        return is_backed_up(self._collection, folder)

    def begin(self, kind: str, *args: Any) -> None:
        """Start a job; an unfinished one is dropped."""
        self._drop_job()
        self._job_began = time.perf_counter()
        self._job = self._create_job(kind, *args)

    def step(self) -> float | None:
        """Do one step of the job; seconds to wait before the next one, None if there is none."""
        job = self._current_job()
        try:
            return job.step()
        except Exception as exc:
            is_lost = isinstance(exc, StoreError) and exc.code == JOB_LOST
            self._drop_job(keep=is_lost)  # else the disk may be full: free the space it took
            raise

    def finish(self) -> object:
        """End the job; its result."""
        job = self._current_job()
        try:
            if isinstance(job, Rewrite):
                self.check_files()  # must not replace a store that was put there meanwhile
            done = job.finish()
        except Exception:
            self.needs_new_worker = job.has_closed
            if not self.needs_new_worker:
                self._drop_job()
            raise
        self._job = None
        if job.has_closed:
            self._open_replacement()
        took = milliseconds(self._job_began)
        send_event(
            "info", "job", job=type(job).__name__, ms=took, rows=self._collection.row_count()
        )
        return done

    def replace_by_next(self, identity: Identity) -> None:
        """Replace the store by the next one, which has vectors of this model."""
        if self.read_identity() == identity:
            return  # a worker that did it died before it could say so
        self._drop_job()
        self.check_files()
        finish_next(self._data_dir / NEXT / LIVE, self._settings, self._collection)
        self.needs_new_worker = True
        close(self._collection, self._data_dir / LIVE)
        swap.complete_next(self._data_dir, "model")
        self._open_replacement()

    def drop_next(self) -> None:
        """Delete the files of the next store."""
        if self._embedded:
            swap.drop_next(self._data_dir)

    def _open_replacement(self) -> None:
        """Open the store that has replaced the one before."""
        self.needs_new_worker = True
        self._collection = self._open_collection(lambda update: None)
        swap.drop_old(self._data_dir)
        self.needs_new_worker = False

    def drop_unfinished(self) -> None:
        """Remove the files of a job whose caller was cancelled. Only while no job runs."""
        self._drop_job()

    def to_error(self, exc: Exception) -> MemorydError:
        """The error to answer a failed call with. Sets `needs_new_worker` if the store no longer
        works in this one."""
        if not self._embedded:
            return to_remote_error(exc, self._settings)
        if isinstance(exc, MemorydError):
            return to_memoryd_error(exc)
        if self._files is not None and not self._files.are_in_place:
            return store_gone_error(self._data_dir / LIVE)
        error = to_memoryd_error(exc, self._data_dir)
        if error.code == StoreError.code:  # not the disk
            if is_damage_error(exc):
                self.needs_new_worker = (
                    True  # the next one checks every row, and repairs or refuses
                )
                return error
            try:
                self._collection.probe()
            except Exception:
                self.needs_new_worker = True
        return error

    def close(self) -> None:
        """Close the store and mark it as clean, so that the next start need not check every row."""
        began = time.perf_counter()
        if self._embedded:
            folder = self._data_dir / LIVE
            in_place = self._files is not None and self._files.are_in_place
            close(self._collection, folder)
            is_clean = in_place and not self._collection.needs_check
            if is_clean:
                swap.note_closed(folder, self._closed(folder))
            send_event("info", "store_closed", ms=milliseconds(began), clean=is_clean)
        self._drop_job(keep=True)  # last: it may have to wait for another process

    def _closed(self, folder: Path) -> swap.Closed:
        if self._saved_index:
            with contextlib.suppress(StoreError):
                written = rows_written(folder / DATABASE)
                if written == self._collection.all_written:  # by nobody else
                    return swap.Closed(self._saved_index, self._settings.collection, written)
        return swap.Closed()

    def _open_collection(self, progress: ReportProgress, tell: Tell | None = None) -> Collection:
        if not self._embedded:
            return open_remote(self._settings, self._identity)
        opened = start(
            self._settings,
            self._data_dir,
            self._identity,
            progress,
            keep_old=self._keep_old,
            any_model=self._any_model,
            reopening=self._reopening,
            crashes=self._crashes,
            careful=self._careful,
            tell=tell,
            saved_index=self._saved_index,
        )
        self._saved_index = ""
        self._crashes, self._careful = 0, False
        self._check = RowCheck(opened) if opened.needs_check else None
        self._files = OpenFiles(self._data_dir / LIVE)
        self._reopening = True
        return opened

    def _create_job(self, kind: str, *args: Any) -> Job:
        if kind == "rewrite":
            if not self._embedded:
                raise StoreError(
                    "A Chroma server cannot be rewritten from here.",
                    code="not_embedded",
                    hint="Purge and compact it on the server.",
                )
            self.check_files()
            made = self._data_dir / swap.NEW
            self._check_room(max(0, size_of(self._data_dir / LIVE) - size_of(made)))
            return Rewrite(self._settings, self._data_dir, self._collection, *args)
        if kind == "copy_others":
            return CopyOthers(self._settings, self._data_dir, self._collection, *args)
        if kind == "backup":
            return BackupJob(self._collection, *args)
        raise StoreError(f"The store has no job {kind!r}.")

    def _check_room(self, room: int = 0) -> None:
        """Refuse a write that would run out of space. A deletion is always tried."""
        try:
            error = find_shortage(self._data_dir, room)
        except OSError as exc:
            error = disk_error(exc)
        if error is not None:
            raise StoreError(error.message, code=error.code, hint=error.hint)

    def _drop_job(self, *, keep: bool = False) -> None:
        """End the job without a result; `keep`: a later one may go on with what it has made."""
        job, self._job = self._job, None
        if job is not None:
            name = "job_suspended" if keep else "job_dropped"
            send_event("warning", name, job=type(job).__name__)
            job.suspend() if keep else job.abandon()

    def _current_job(self) -> Job:
        if self._job is None:
            raise StoreError(
                "The store worker was restarted during this job; no memory is lost.",
                code=JOB_LOST,
                hint="Try again.",
            )
        return self._job
