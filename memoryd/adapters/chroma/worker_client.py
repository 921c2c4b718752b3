"""The daemon's end of the store worker: spawn it, call it, restart it when it dies.

Calls carry a number and may overlap; the worker answers them in order. Every operation is
idempotent by id, so a call in flight when the worker dies is sent once more to the next one.
An opening has no time limit while the worker runs: a slow machine is not a broken store. Only an
error that the worker reports, or the signal that it crashed with, counts against the store.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

import anyio
import anyio.abc
import structlog
from anyio.streams.buffered import BufferedByteReceiveStream

from memoryd import errors
from memoryd.adapters.backup_file import restore_hint
from memoryd.adapters.chroma.backup import Restore
from memoryd.adapters.chroma.early_worker import How, opening_of
from memoryd.adapters.chroma.frames import encode_frame, receive_frame
from memoryd.adapters.chroma.open_files import rescue_hint
from memoryd.adapters.chroma.process_activity import ProcessActivity
from memoryd.adapters.chroma.start import CHECKING, OPENING
from memoryd.adapters.chroma.store_facts import StoreFacts
from memoryd.adapters.chroma.swap import ASIDE, LIVE
from memoryd.adapters.chroma.worker_events import Event
from memoryd.adapters.chroma.worker_process import start_process
from memoryd.errors import MemorydError, StoreError, StoreOffline, StoreUnavailable
from memoryd.ports import Identity, Watch
from memoryd.settings import StoreSettings

log = structlog.get_logger()
IDLE_LIMIT = 30.0  # seconds without any activity in a call, after which a worker is stuck
REMOTE_TIMEOUT = 60.0  # seconds for a Chroma server: its activity cannot be measured
MAX_TRIES = 2  # workers that a call is sent to
# Exit codes of a process that its own code or data crashed. Not SIGKILL: a user sends that, or the
# system when it is short of memory.
CRASH_CODES = {
    -int(getattr(signal, name))
    for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP", "SIGSYS")
    if hasattr(signal, name)
}
WINDOWS_CRASH = 0xC0000000  # the first exit code that Windows uses for crashes
MAX_OPENINGS = 4  # workers that are started for one opening
EXIT_WAIT = 10.0  # seconds until the exit code of a worker must be known
PIPE_CLOSED = (
    anyio.EndOfStream,
    anyio.IncompleteRead,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
)
Message = tuple[int, bool | None, Any]  # number of the call, whether it succeeded, answer


class WorkerDied(Exception):
    """The worker ended before it answered. `status`: its exit code; `stage`: of the opening."""

    status: int | None = None
    stage = ""

    @property
    def has_crashed_opening(self) -> bool:
        """Whether it crashed while Chroma read the store's files."""
        status = self.status or 0
        is_crash = status in CRASH_CODES or status >= WINDOWS_CRASH
        return is_crash and self.stage in (OPENING, CHECKING)


@dataclass(slots=True)
class _Call:
    done: anyio.Event = field(default_factory=anyio.Event)
    answer: tuple[bool, Any] | None = None  # None: the worker died first


class WorkerClient:
    """Calls to one worker at a time."""

    def __init__(
        self,
        settings: StoreSettings,
        data_dir: Path,
        identity: Identity,
        restore: Restore | None = None,
        *,
        progress: Watch | None = None,
        backups: Path | None = None,
        **how: Unpack[How],
    ) -> None:
        self._data_dir, self._backups = data_dir, backups or data_dir / ASIDE
        self._opening = opening_of(settings, data_dir, identity, restore, **how)
        self._open_timeout = None if settings.mode == "embedded" else REMOTE_TIMEOUT
        self._progress: Watch = progress or (lambda update: None)
        self._numbers = itertools.count(1)
        self._calls: dict[int, _Call] = {}
        self._process: anyio.abc.Process | None = None
        self._starting = anyio.Lock()
        self._sending = anyio.Lock()
        self._closed = False
        self._tasks: anyio.abc.TaskGroup | None = None
        self.facts = StoreFacts(identity, identity, {}, None)  # until the worker has told them
        self.restarts = 0

    async def start(self, tasks: anyio.abc.TaskGroup) -> None:
        """Start the first worker; raises the error it reports (StoreBusy, StoreMismatch, ...)."""
        self._tasks = tasks
        await self._start_worker()

    async def call(self, name: str, *args: object) -> Any:
        """The worker's answer; StoreUnavailable if two workers in a row died during the call."""
        for _ in range(MAX_TRIES):
            process = self._process
            try:
                if process is None:
                    raise WorkerDied
                return await self._call_process(process, name, args)
            except WorkerDied:
                await self._replace(process)
        raise StoreUnavailable(
            "The store worker died twice during this call; it may or may not have been done.",
            hint="Try again; if it fails again, look at the log.",
        )

    async def rebuild(self, backup: Path) -> None:
        """Start a new worker that makes a new store from a backup. The present one is set aside."""
        with anyio.CancelScope(shield=True):
            async with self._starting:
                if self._closed:
                    raise StoreUnavailable("The store is closed.")
                process, self._process = self._process, None
                if process is not None:
                    await _end_process(process, EXIT_WAIT)
                before = self._opening
                asked = Restore(backup, replace=True, set_aside=True)
                self._opening = before | {
                    "restore": asked,
                    "reopening": False,
                    "identity": self.facts.made_for,
                }
                self.restarts += 1
                try:
                    await self._start_worker()
                except BaseException:
                    self._opening = before
                    raise

    async def close(self) -> None:
        """End the worker once it has finished its call."""
        self._closed = True
        process, self._process = self._process, None
        if process is None:
            return
        with anyio.CancelScope(shield=True):
            await _end_process(process, grace=10.0)

    async def _call_process(
        self, process: anyio.abc.Process, name: str, args: tuple[object, ...]
    ) -> Any:
        number, call = next(self._numbers), _Call()
        self._calls[number] = call
        try:
            await self._send(process, (number, name, args))
            await self._wait_for(call, process)
        finally:
            self._calls.pop(number, None)
        if call.answer is None:
            raise WorkerDied
        ok, answer = call.answer
        if ok:
            return answer
        raise self._to_error(answer)

    async def _wait_for(self, call: _Call, process: anyio.abc.Process) -> None:
        """Wait for the answer. A worker without any activity is killed: `_read_answers` sees it
        end, and the call is tried again."""
        activity = None
        while not call.done.is_set():
            with anyio.move_on_after(IDLE_LIMIT):
                await call.done.wait()
                return
            if activity is None:
                activity = ProcessActivity(process.pid)
            elif not activity.has_changed():
                process.kill()
                await call.done.wait()

    async def _send(self, process: anyio.abc.Process, message: object) -> None:
        try:
            frame = encode_frame(message)
        except Exception as exc:  # a caller's own types may raise anything
            raise StoreError(f"The store cannot write this value ({type(exc).__name__}).") from exc
        assert process.stdin is not None
        # Half a frame would make every later one unreadable: cancellation has to wait.
        with anyio.CancelScope(shield=True):
            async with self._sending:
                try:
                    await process.stdin.send(frame)
                except PIPE_CLOSED as exc:
                    raise WorkerDied from exc

    async def _replace(self, dead: anyio.abc.Process | None) -> None:
        """Start a worker in place of `dead`; one caller does it, the others wait."""
        with anyio.CancelScope(shield=True):
            async with self._starting:
                if self._closed:
                    raise StoreUnavailable("The store is closed.")
                if self._process is not None and self._process is not dead:
                    return
                self._process = None
                if dead is not None:
                    await _end_process(dead, grace=0.0)
                    self._opening["careful"] |= _has_failed(dead.returncode)
                self.restarts += 1
                await self._start_worker()

    async def _start_worker(self) -> None:
        """Start a worker that opens the store. After two crashes while the files were read, the
        next worker repairs the store."""
        crashes = 0
        for left in reversed(range(MAX_OPENINGS)):
            self._opening["crashes"] = crashes
            try:
                return await self._spawn()
            except WorkerDied as exc:
                self._opening["tell_first"] = False
                crashes += exc.has_crashed_opening
                if not left:
                    reason = exit_reason(exc.status)
                    raise StoreUnavailable(
                        f"The store worker ended {MAX_OPENINGS} times while it was opening "
                        f"{self._data_dir / LIVE} ({reason}). Nothing was changed.",
                        hint="Look at the log, and check that there is enough free memory.",
                    ) from exc

    async def _spawn(self) -> None:
        process, was_sent = await start_process(self._opening)
        assert process.stdout is not None
        received = BufferedByteReceiveStream(process.stdout)
        stage = ""
        try:
            if not was_sent:
                await self._send(process, self._opening)
            ok = None
            while ok is None:  # a progress report
                with anyio.fail_after(self._open_timeout):
                    _, ok, answer = await _receive(received, process.pid)
                stage = answer.what if ok is None else stage
                self._progress(answer if ok is None else None)
            if not ok:
                raise self._to_error(answer)
        except BaseException as exc:
            self._progress(None)
            await _end_process(process, grace=_grace(exc, stage))
            if isinstance(exc, TimeoutError):
                raise StoreOffline(
                    f"The Chroma server has not answered for {REMOTE_TIMEOUT:g} seconds.",
                    hint="Check that it runs and that store.host and store.port are right.",
                ) from exc
            if isinstance(exc, WorkerDied):
                exc.status, exc.stage = process.returncode, stage
                _log_end(process, stage)
            raise
        self.facts, self._process = answer, process
        # A restore is done once. A later worker may be there because the store is broken.
        later = {"restore": None, "reopening": True, "tell_first": False, "careful": False}
        self._opening |= later
        assert self._tasks is not None
        self._tasks.start_soon(self._read_answers, process, received)

    def _to_error(self, failure: dict[str, str]) -> MemorydError:
        """The error that the worker reported. The hint how to restore is added here, because the
        worker does not know where the backups are."""
        kind: type[MemorydError] = getattr(errors, failure["kind"], StoreError)
        hint = failure["hint"]
        if failure["code"] == "store_corrupt":
            was_open = self._opening["reopening"]  # then all memories are in RAM
            restore = restore_hint(self._data_dir, self._backups)
            hint = rescue_hint(self._data_dir) if was_open else restore
        return kind(failure["message"], code=failure["code"], hint=hint)

    async def _read_answers(
        self, process: anyio.abc.Process, received: BufferedByteReceiveStream
    ) -> None:
        """Deliver answers until the worker has ended, then wake the callers that still wait."""
        try:
            with anyio.CancelScope(shield=True):  # until `close` ends the worker
                await self._dispatch_answers(received, process.pid)
        except WorkerDied:
            await _end_process(process, EXIT_WAIT)  # a kill now would hide how it ended
        _log_end(process)
        if self._process is process:
            self._process = None
            self._opening["careful"] |= _has_failed(process.returncode)
        for call in self._calls.values():
            call.done.set()

    async def _dispatch_answers(self, received: BufferedByteReceiveStream, pid: int) -> None:
        while True:
            number, ok, answer = await _receive(received, pid)
            if call := self._calls.get(number):
                call.answer = (bool(ok), answer)
                call.done.set()


async def _receive(stream: BufferedByteReceiveStream, pid: int) -> Message:
    """The next answer or progress report; events that come before it are logged."""
    try:
        while isinstance(message := await receive_frame(stream), Event):
            getattr(log, message.level)(message.name, worker=pid, **message.facts)
    except PIPE_CLOSED as exc:
        raise WorkerDied from exc
    received: Message = message
    return received


async def _end_process(process: anyio.abc.Process, grace: float) -> None:
    """Close its input and wait for its end; kill it after `grace` seconds. The next worker needs
    the lock that this one holds."""
    with anyio.CancelScope(shield=True):
        if process.stdin is not None:
            await process.stdin.aclose()
        with anyio.move_on_after(grace) if grace else anyio.CancelScope(deadline=-math.inf):
            await process.wait()
        if process.returncode is None:
            process.kill()
        await process.aclose()


def exit_reason(status: int | None) -> str:
    """How a process ended, for a person."""
    status = status or 0
    if status >= 0:
        return f"exit code {status}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-status).name
    return f"signal {-status}"


def _has_failed(status: int | None) -> bool:
    """Whether a process ended by itself with an error, or crashed: not because it was killed."""
    return status not in (None, 0, -signal.SIGKILL, -signal.SIGTERM)


def _log_end(process: anyio.abc.Process, stage: str = "") -> None:
    """Log how a worker ended; `stage`: of its opening, if it had not finished that."""
    write = log.warning if process.returncode else log.info
    during = {"stage": stage} if stage else {}
    write("worker_ended", worker=process.pid, by=exit_reason(process.returncode), **during)


def _grace(exc: BaseException, stage: str) -> float:
    """Seconds that a worker which failed to start may take to end."""
    if isinstance(exc, WorkerDied):
        return EXIT_WAIT  # a kill now would hide how it ended
    if isinstance(exc, Exception):
        return 0.0  # it has reported its error
    # Cancelled: nothing needs this worker, but a kill while Chroma writes its index would break it.
    return math.inf if stage in (OPENING, CHECKING) else 0.0
