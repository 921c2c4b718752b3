"""The daemon's end of the store worker: spawn it, call it, restart it when it dies.

Calls carry a number and may overlap; the worker answers them in order. Every operation is
idempotent by id, so a call in flight when the worker dies is sent once more to the next one.
An opening is waited for as long as the worker lives: a slow machine is no broken store. What
counts against the store is told by the worker itself, or by the signal that it crashed with.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import pickle
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

from memoryd import errors
from memoryd.adapters.backup_file import restore_hint
from memoryd.adapters.chroma.backup import Restore
from memoryd.adapters.chroma.open_files import rescue_hint
from memoryd.adapters.chroma.start import CHECKING, OPENING
from memoryd.adapters.chroma.swap import ASIDE, LIVE
from memoryd.adapters.chroma.worker import HEADER
from memoryd.errors import MemorydError, StoreError, StoreUnavailable
from memoryd.ports import Identity, Watch
from memoryd.settings import StoreSettings

# -P: whatever lies in the working directory must not be imported.
WORKER = [sys.executable, "-P", "-m", "memoryd.adapters.chroma.worker"]
STILL = 30.0  # seconds: a worker that does nothing at all for so long in a call is stuck
REMOTE_TIMEOUT = 60.0  # seconds for a Chroma server, of which nobody can see whether it works
TRIES = 2
# How a process ends that its own code or data has crashed. Not SIGKILL: that is somebody else, a
# user or the system short of memory.
CRASHES = {
    -int(getattr(signal, name))
    for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP", "SIGSYS")
    if hasattr(signal, name)
}
WINDOWS_CRASH = 0xC0000000  # exit codes from here on
ALLOCATOR = {"MALLOC_PERTURB_": "85", "MallocPreScribble": "1", "MALLOC_ARENA_MAX": "1"}
OPENINGS = 4
ENDING = 10.0  # seconds for the system to say how a worker ended
GONE = (
    anyio.EndOfStream,
    anyio.IncompleteRead,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
)
BUSY = ("R", "D")  # runs, or waits for the disk


class WorkerDied(Exception):
    """The worker ended before it answered; how, and in which stage of an opening."""

    status: int | None = None
    stage = ""

    @property
    def has_crashed_opening(self) -> bool:
        """Whether it crashed while Chroma read the store's files."""
        status = self.status or 0
        is_crash = status in CRASHES or status >= WINDOWS_CRASH
        return is_crash and self.stage in (OPENING, CHECKING)

    def how(self) -> str:
        """The way it ended, for a person."""
        status = self.status or 0
        if status >= 0:
            return f"exit code {status}"
        with contextlib.suppress(ValueError):
            return signal.Signals(-status).name
        return f"signal {-status}"


@dataclass(slots=True)
class _Call:
    done: anyio.Event = field(default_factory=anyio.Event)
    answer: tuple[bool, Any] | None = None  # None: the worker died first


class Link:
    """Calls to one worker at a time."""

    def __init__(
        self,
        settings: StoreSettings,
        data_dir: Path,
        identity: Identity,
        restore: Restore | None = None,
        *,
        remodelling: bool = False,
        watch: Watch | None = None,
        backups: Path | None = None,
    ) -> None:
        self._data_dir, self._backups = data_dir, backups or data_dir / ASIDE
        self._opening: dict[str, Any] = {
            "settings": settings,
            "data_dir": data_dir,
            "identity": identity,
            "owner": os.getpid(),
            "restore": restore,
            "remodelling": remodelling,
            "reopening": False,
            "crashes": 0,
        }
        self._patience = None if settings.mode == "embedded" else REMOTE_TIMEOUT
        self._watch: Watch = watch or (lambda so_far: None)
        self._numbers = itertools.count(1)
        self._calls: dict[int, _Call] = {}
        self._process: anyio.abc.Process | None = None
        self._starting = anyio.Lock()
        self._sending = anyio.Lock()
        self._closed = False
        self._tasks: anyio.abc.TaskGroup | None = None
        self.facts: dict[str, Any] = {}
        self.restarts = 0

    async def start(self, tasks: anyio.abc.TaskGroup) -> None:
        """Bring up the first worker; raises what it met (StoreBusy, StoreMismatch, ...)."""
        self._tasks = tasks
        await self._bring_up()

    async def call(self, name: str, *args: object) -> Any:
        """The worker's answer; StoreUnavailable if two workers in a row died of it."""
        for _ in range(TRIES):
            process = self._process
            try:
                if process is None:
                    raise WorkerDied
                return await self._ask(process, name, args)
            except WorkerDied:
                await self._replace(process)
        raise StoreUnavailable(
            "The store's worker died twice over this call; it may or may not have been done.",
            hint="Try again; if it stays, look at the log.",
        )

    @property
    def made_for(self) -> Identity:
        """Whose vectors the store holds."""
        found: Identity = self.facts["made_for"]
        return found

    async def rebuild(self, backup: Path) -> None:
        """Have a new worker make the store anew from a backup. What is in its place is set
        aside."""
        with anyio.CancelScope(shield=True):
            async with self._starting:
                if self._closed:
                    raise StoreUnavailable("The store is closed.")
                process, self._process = self._process, None
                if process is not None:
                    await _end(process, ENDING)
                before = self._opening
                asked = Restore(backup, replace=True, set_aside=True)
                self._opening = before | {
                    "restore": asked,
                    "reopening": False,
                    "identity": self.made_for,
                }
                self.restarts += 1
                try:
                    await self._bring_up()
                except BaseException:
                    self._opening = before
                    raise

    async def close(self) -> None:
        """Let the worker finish what it does, then end it."""
        self._closed = True
        process, self._process = self._process, None
        if process is None:
            return
        with anyio.CancelScope(shield=True):
            await _end(process, grace=10.0)

    async def _ask(self, process: anyio.abc.Process, name: str, args: tuple[object, ...]) -> Any:
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
        raise self._told(answer)

    async def _wait_for(self, call: _Call, process: anyio.abc.Process) -> None:
        """Until it is answered. A worker that does nothing at all any more is killed: its reader
        sees it end, and the call is tried again."""
        pulse = None
        while not call.done.is_set():
            with anyio.move_on_after(STILL):
                await call.done.wait()
                return
            if pulse is None:
                pulse = Pulse(process.pid)
            elif not pulse.beats():
                process.kill()
                await call.done.wait()

    async def _send(self, process: anyio.abc.Process, message: object) -> None:
        try:
            body = pickle.dumps(message, protocol=5)
        except Exception as exc:  # whatever a caller's own types raise
            raise StoreError(f"This cannot be written: {type(exc).__name__}.") from exc
        assert process.stdin is not None
        # A half-written frame would garble every later one: cancellation has to wait.
        with anyio.CancelScope(shield=True):
            async with self._sending:
                try:
                    await process.stdin.send(HEADER.pack(len(body)) + body)
                except GONE as exc:
                    raise WorkerDied from exc

    async def _replace(self, dead: anyio.abc.Process | None) -> None:
        """A living worker in place of `dead`; one caller restarts it, the others wait."""
        with anyio.CancelScope(shield=True):
            async with self._starting:
                if self._closed:
                    raise StoreUnavailable("The store is closed.")
                if self._process is not None and self._process is not dead:
                    return
                self._process = None
                if dead is not None:
                    await _end(dead, grace=0.0)
                self.restarts += 1
                await self._bring_up()

    async def _bring_up(self) -> None:
        """A worker that has opened the store. Files that crash their reader take two of them:
        the next one is told, and repairs the store."""
        crashes = 0
        for left in reversed(range(OPENINGS)):
            self._opening["crashes"] = crashes
            try:
                return await self._spawn()
            except WorkerDied as exc:
                crashes += exc.has_crashed_opening
                if not left:
                    raise StoreUnavailable(
                        f"The store's worker ended {OPENINGS} times while it was opening "
                        f"{self._data_dir / LIVE} ({exc.how()}). Nothing was changed.",
                        hint="Look at the log, and whether there is enough memory.",
                    ) from exc

    async def _spawn(self) -> None:
        process = await anyio.open_process(WORKER, stderr=None, env=_environment())
        assert process.stdout is not None
        received = BufferedByteReceiveStream(process.stdout)
        stage = ""
        try:
            await self._send(process, self._opening)
            ok = None
            while ok is None:  # it says what it does: that is waited for, however long it takes
                with anyio.fail_after(self._patience):
                    _, ok, answer = await _receive(received)
                stage = answer.what if ok is None else stage
                self._watch(answer if ok is None else None)
            if not ok:
                raise self._told(answer)
        except BaseException as exc:
            self._watch(None)
            await _end(process, grace=_grace(exc, stage))
            if isinstance(exc, TimeoutError):
                raise StoreUnavailable(
                    f"The Chroma server has not answered for {REMOTE_TIMEOUT:g} seconds.",
                    hint="Check that it runs and that store.host and store.port are right.",
                ) from exc
            if isinstance(exc, WorkerDied):
                exc.status, exc.stage = process.returncode, stage
            raise
        self.facts, self._process = answer, process
        self._opening |= {"restore": None, "reopening": True}  # once
        assert self._tasks is not None
        self._tasks.start_soon(self._read, process, received)

    def _told(self, failure: dict[str, str]) -> MemorydError:
        """The worker's error as ours. How to restore is known here, where the backups are."""
        kind: type[MemorydError] = getattr(errors, failure["kind"], StoreError)
        hint = failure["hint"]
        if failure["code"] == "store_corrupt":
            was_open = self._opening["reopening"]  # then all of it is in RAM
            restore = restore_hint(self._data_dir, self._backups)
            hint = rescue_hint(self._data_dir) if was_open else restore
        return kind(failure["message"], code=failure["code"], hint=hint)

    async def _read(self, process: anyio.abc.Process, received: BufferedByteReceiveStream) -> None:
        """Hand out answers until the worker is gone, then wake whoever still waits."""
        try:
            with anyio.CancelScope(shield=True):  # until `close` ends the worker
                await self._hand_out(received)
        except WorkerDied:
            await _end(process, ENDING)  # killed now, the way it ended would be lost
        if self._process is process:
            self._process = None
        for call in self._calls.values():
            call.done.set()

    async def _hand_out(self, received: BufferedByteReceiveStream) -> None:
        while True:
            number, ok, answer = await _receive(received)
            if call := self._calls.get(number):
                call.answer = (bool(ok), answer)
                call.done.set()


async def _receive(stream: BufferedByteReceiveStream) -> tuple[int, bool | None, Any]:
    try:
        (length,) = HEADER.unpack(await stream.receive_exactly(HEADER.size))
        message: tuple[int, bool | None, Any] = pickle.loads(await stream.receive_exactly(length))
    except GONE as exc:
        raise WorkerDied from exc
    return message


async def _end(process: anyio.abc.Process, grace: float) -> None:
    """Close its input and wait; kill what does not go. It must be gone before the next."""
    with anyio.CancelScope(shield=True):
        if process.stdin is not None:
            await process.stdin.aclose()
        with anyio.move_on_after(grace) if grace else anyio.CancelScope(deadline=-math.inf):
            await process.wait()
        if process.returncode is None:
            process.kill()
        await process.aclose()


def _grace(exc: BaseException, stage: str) -> float:
    """How long a worker that did not come up may take to end."""
    if isinstance(exc, WorkerDied):
        return ENDING  # killed now, the way it ended would be lost
    if isinstance(exc, Exception):
        return 0.0  # it has said all that it has to say
    # Nobody waits for it any more, but a kill while Chroma writes its index would break that.
    return math.inf if stage in (OPENING, CHECKING) else 0.0


def _environment() -> dict[str, str]:
    """Ours without what would reconfigure Chroma behind our back.

    Its index files have room to spare, filled with whatever the process had freed, forgotten texts
    too: so the allocator blanks memory. With a heap a thread it would grow with every rewrite.
    """
    ours = {k: v for k, v in os.environ.items() if not k.upper().startswith("CHROMA_")}
    return ours | ALLOCATOR


class Pulse:
    """What a process had used when it was looked at last."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        self._used, _ = self._look()

    def beats(self) -> bool:
        """Whether it did something since the last look; true where the system does not tell."""
        before = self._used
        self._used, is_busy = self._look()
        return is_busy or before is None or self._used is None or self._used != before

    def _look(self) -> tuple[tuple[object, ...] | None, bool]:
        """Processor time and bytes so far, and whether a thread of it is busy right now."""
        try:
            threads = [
                (task / "stat").read_text().rpartition(")")[2].split()
                for task in sorted((self._folder / "task").iterdir())
            ]
            moved = (self._folder / "io").read_text()
        except OSError:  # not Linux, or it has ended
            return None, False
        times = tuple((fields[11], fields[12]) for fields in threads)
        return (times, moved), any(fields[0] in BUSY for fields in threads)
