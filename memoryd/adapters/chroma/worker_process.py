"""Starts the process of a store worker, or takes the one that was started early."""

from __future__ import annotations

import os
import subprocess
from signal import Signals
from typing import IO

import anyio
import anyio.abc
import anyio.to_thread

from memoryd.adapters.chroma import early_worker
from memoryd.adapters.chroma.early_worker import Opening

CHUNK = 1 << 18  # bytes that are read at once


async def start_process(opening: Opening) -> tuple[anyio.abc.Process, bool]:
    """A worker for this opening, and whether it was sent to it already. Raises OSError."""
    if (early := early_worker.take_early()) is not None:
        process = _EarlyProcess(early.process)
        if early.opening in (None, opening):
            return process, early.opening is not None
        # It may be opening the store: no kill, which could break the index.
        await process.aclose()
    command, env = early_worker.WORKER, early_worker.environment()
    return await anyio.open_process(command, stderr=None, env=env), False


class _EarlyProcess(anyio.abc.Process):
    """A process that was started before there was an event loop."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin, self._stdout = _PipeIn(process.stdin), _PipeOut(process.stdout)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    @property
    def stdin(self) -> anyio.abc.ByteSendStream:
        return self._stdin

    @property
    def stdout(self) -> anyio.abc.ByteReceiveStream:
        return self._stdout

    @property
    def stderr(self) -> None:
        return None

    async def wait(self) -> int:
        return await anyio.to_thread.run_sync(self._process.wait, abandon_on_cancel=True)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def send_signal(self, signal: Signals) -> None:
        self._process.send_signal(signal)

    async def aclose(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._stdin.aclose()
            await self._stdout.aclose()
            await self.wait()


class _PipeIn(anyio.abc.ByteSendStream):
    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        os.set_blocking(pipe.fileno(), False)

    async def send(self, item: bytes) -> None:
        left = memoryview(item)
        while left:
            if self._pipe.closed:
                raise anyio.ClosedResourceError
            try:
                left = left[os.write(self._pipe.fileno(), left) :]
            except BlockingIOError:
                await anyio.wait_writable(self._pipe)
            except OSError as exc:
                raise anyio.BrokenResourceError from exc

    async def aclose(self) -> None:
        if not self._pipe.closed:
            anyio.notify_closing(self._pipe)
            self._pipe.close()


class _PipeOut(anyio.abc.ByteReceiveStream):
    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        os.set_blocking(pipe.fileno(), False)

    async def receive(self, max_bytes: int = CHUNK) -> bytes:
        while True:
            if self._pipe.closed:
                raise anyio.ClosedResourceError
            try:
                data = os.read(self._pipe.fileno(), max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self._pipe)
                continue
            if not data:
                raise anyio.EndOfStream
            return data

    async def aclose(self) -> None:
        if not self._pipe.closed:
            anyio.notify_closing(self._pipe)
            self._pipe.close()
