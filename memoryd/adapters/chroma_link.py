"""The daemon's end of the store worker: spawn it, call it, restart it when it dies.

Calls carry a number and may overlap; the worker answers them in order. Every operation is
idempotent by id, so a call in flight when the worker dies is sent once more to the next one.
"""

from __future__ import annotations

import itertools
import math
import os
import pickle
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

from memoryd import errors
from memoryd.adapters.chroma_backup import Restore
from memoryd.adapters.chroma_worker import HEADER
from memoryd.errors import MemorydError, StoreError, StoreUnavailable
from memoryd.ports import Identity, Watch
from memoryd.settings import StoreSettings

OPEN_TIMEOUT = 60.0  # beyond the wait for the lock
CALL_TIMEOUT = 60.0  # writes are bounded: a worker silent for this long is stuck
TRIES = 2
ALLOCATOR = {"MALLOC_PERTURB_": "85", "MallocPreScribble": "1", "MALLOC_ARENA_MAX": "1"}
OPENINGS = 4
GONE = (
    anyio.EndOfStream,
    anyio.IncompleteRead,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
)


class WorkerDied(Exception):
    """The worker ended before it answered."""


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
    ) -> None:
        self._opening: dict[str, Any] = {
            "settings": settings,
            "data_dir": data_dir,
            "identity": identity,
            "owner": os.getpid(),
            "restore": restore,
            "remodelling": remodelling,
            "reopening": False,
        }
        self._watch: Watch = watch or (lambda so_far: None)
        self._patience = settings.lock_wait + OPEN_TIMEOUT
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
            with anyio.move_on_after(CALL_TIMEOUT):
                await call.done.wait()
            if not call.done.is_set():
                process.kill()  # stuck: the reader sees it end and the call is tried again
                await call.done.wait()
        finally:
            self._calls.pop(number, None)
        if call.answer is None:
            raise WorkerDied
        ok, answer = call.answer
        if ok:
            return answer
        raise _rebuilt(answer)

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
        the next one knows, and repairs the store."""
        for left in reversed(range(OPENINGS)):
            try:
                return await self._spawn()
            except WorkerDied as exc:
                if not left:
                    raise StoreUnavailable("The store's worker did not start.") from exc

    async def _spawn(self) -> None:
        # -P: whatever lies in the working directory must not be imported.
        command = [sys.executable, "-P", "-m", "memoryd.adapters.chroma_worker"]
        process = await anyio.open_process(command, stderr=None, env=_environment())
        assert process.stdout is not None
        received = BufferedByteReceiveStream(process.stdout)
        try:
            await self._send(process, self._opening)
            ok = None
            while ok is None:  # it says what takes its time: a repair is waited for
                with anyio.fail_after(self._patience):
                    _, ok, answer = await _receive(received)
                self._watch(answer if ok is None else None)
            if not ok:
                raise _rebuilt(answer)
        except BaseException as exc:
            self._watch(None)
            await _end(process, grace=0.0)
            if isinstance(exc, TimeoutError):
                raise StoreUnavailable("The store's worker did not start.") from exc
            raise
        self.facts, self._process = answer, process
        self._opening |= {"restore": None, "reopening": True}  # once
        assert self._tasks is not None
        self._tasks.start_soon(self._read, process, received)

    async def _read(self, process: anyio.abc.Process, received: BufferedByteReceiveStream) -> None:
        """Hand out answers until the worker is gone, then wake whoever still waits."""
        try:
            with anyio.CancelScope(shield=True):  # until `close` ends the worker
                await self._hand_out(received)
        except WorkerDied:
            await _end(process, grace=1.0)  # it is ending; killed now, its status would be lost
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


def _rebuilt(failure: dict[str, str]) -> MemorydError:
    kind: type[MemorydError] = getattr(errors, failure["kind"], StoreError)
    return kind(failure["message"], code=failure["code"], hint=failure["hint"])


def _environment() -> dict[str, str]:
    """Ours without what would reconfigure Chroma behind our back.

    Its index files have room to spare, filled with whatever the process had freed, forgotten texts
    too: so the allocator blanks memory. With a heap a thread it would grow with every rewrite.
    """
    ours = {k: v for k, v in os.environ.items() if not k.upper().startswith("CHROMA_")}
    return ours | ALLOCATOR
