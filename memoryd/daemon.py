"""`memoryd serve`: own the data directory, listen, then open and load; stop cleanly.

Listening comes first: a client never meets a refused connection while the daemon comes up, and
the protocol's handshake never waits for the model.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.abc
import structlog

from memoryd import __version__
from memoryd.doors.gate import Gate
from memoryd.doors.lines import Limits
from memoryd.doors.server import McpServer
from memoryd.doors.sockets import LineDoor, bind_local, bind_tcp
from memoryd.doors.status import Status
from memoryd.doors.tokens import read_token
from memoryd.doors.web import serve_web
from memoryd.errors import MemorydError, StoreBusy, StoreError
from memoryd.observe import log_to_file, log_to_stderr
from memoryd.permissions import data_faults, refuse
from memoryd.places import raise_file_limit, try_lock
from memoryd.settings import Config, DoorSettings
from memoryd.systemd import feed_watchdog, notify, passed_socket
from memoryd.tasks import task_group
from memoryd.wiring import open_engine

log = structlog.get_logger()
DRAIN = 6.0  # seconds for running calls when told to stop
DEADLINE = 9.0  # seconds for everything
BUSY_EXIT = 3  # another daemon serves this directory: nothing is wrong


def run(config: Config, *, socket: Path, log_file: Path | None = None) -> int:
    """Serve until told to stop; the exit code."""
    os.umask(0o077)  # whatever is made from here on is its owner's alone
    log_to_file(log_file) if log_file else log_to_stderr()
    raise_file_limit()
    try:
        with own(config.memory.path):
            anyio.run(Daemon(config, socket).serve)
    except StoreBusy as exc:
        _say(exc)
        return BUSY_EXIT
    except MemorydError as exc:
        _say(exc)
        return 1
    return 0


class Daemon:
    """The doors, the gate between them and the engine, and the order of start and stop."""

    def __init__(self, config: Config, path: Path) -> None:
        self._config = config
        self._path = path
        self._gate = Gate()
        status = Status(self._gate, {"socket": str(path)}, config.memory.path)
        self._server = McpServer(self._gate, status)
        self._stopping = anyio.Event()

    async def serve(self) -> None:
        passed = passed_socket()
        listening, token = (passed, "") if passed else bind_local(self._path)
        mine = None if passed else os.stat(self._path).st_ino
        try:
            async with task_group() as tasks:
                tasks.start_soon(self._watch_signals)
                async with task_group() as doors:
                    await self._open_doors(doors, listening, token)
                    log.info("listening", version=__version__, pid=os.getpid())
                    doors.start_soon(feed_watchdog)
                    await self._serve_engine()
                    doors.cancel_scope.cancel()
                tasks.cancel_scope.cancel()
        finally:
            _remove_socket(self._path, mine)
        log.info("stopped")

    async def _open_doors(
        self, tasks: anyio.abc.TaskGroup, listening: socket.socket, token: str
    ) -> None:
        doors, lowlevel = self._config.doors, self._server.lowlevel
        limits = Limits(doors.max_line_bytes, doors.max_calls, doors.max_calls_per_second)
        local = LineDoor(lowlevel, limits, doors.max_connections, token, local=True)
        await tasks.start(local.serve, listening)
        if doors.tcp_port:
            token = read_token(_token_file(doors, self._config.memory.path))
            door = LineDoor(lowlevel, limits, doors.max_connections, token)
            await tasks.start(door.serve, bind_tcp(doors.tcp_host, doors.tcp_port))
        if doors.http_port:
            token = read_token(_token_file(doors, self._config.memory.path))
            port = bind_tcp(doors.http_host, doors.http_port)
            await tasks.start(serve_web, self._server, self._gate, doors, token, port)

    async def _serve_engine(self) -> None:
        """Serve the engine until it is time to stop, which may come before it is open."""
        async with task_group() as tasks:
            tasks.start_soon(self._stop_early, tasks.cancel_scope)
            await self._serve_open()
            tasks.cancel_scope.cancel()

    async def _stop_early(self, opening: anyio.CancelScope) -> None:
        await self._stopping.wait()
        if self._gate.now is None:
            opening.cancel()

    async def _serve_open(self) -> None:
        """Open the engine behind the doors; close it when it is time to stop."""
        async with open_engine(self._config, wait=False, watch=self._gate.watch) as engine:
            self._gate.open(engine)
            gc.freeze()  # what was loaded stays: no collection need look at it again
            notify("READY=1")
            log.info("ready", memories=engine.count)
            await self._stopping.wait()
            notify("STOPPING=1")
            with anyio.move_on_after(DRAIN):
                await self._server.drained()

    async def _watch_signals(self) -> None:
        """The first signal stops in order, the second at once."""
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                if self._stopping.is_set():
                    os._exit(1)
                log.info("stopping", signal=signal.Signals(number).name)
                self._stopping.set()
                # A stuck worker or a hanging download must not keep us: what was acknowledged
                # is committed, and the worker ends with its input.
                timer = threading.Timer(DEADLINE, os._exit, (1,))
                timer.daemon = True
                timer.start()


@contextmanager
def own(data_dir: Path) -> Iterator[None]:
    """Be the only daemon of this directory inside the block; StoreBusy if there is another,
    UnsafeFiles if others can reach it."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        refuse(data_faults(data_dir))
        handle = os.open(data_dir / "daemon.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise StoreError(
            f"The data directory {data_dir} cannot be used: {exc.strerror}.",
            code="store_unwritable",
            hint="Check that it exists, is yours and is writable, or choose another --data-dir.",
        ) from exc
    try:
        if not try_lock(handle):
            owner = os.pread(handle, 20, 0).decode(errors="replace").strip() or "unknown"
            raise StoreBusy(f"Another memoryd (process {owner}) already serves {data_dir}.")
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def _remove_socket(path: Path, inode: int | None) -> None:
    """Take our socket's file away, and nobody else's: one may have been put there since."""
    with contextlib.suppress(FileNotFoundError):
        if inode is not None and os.stat(path).st_ino == inode:
            path.unlink()


def _token_file(doors: DoorSettings, data_dir: Path) -> Path:
    return Path(doors.token_file).expanduser() if doors.token_file else data_dir / "token"


def _say(exc: MemorydError) -> None:
    log.error("cannot_serve", code=exc.code)
    hint = exc.hint.removeprefix("Run: ")
    sys.stderr.write(f"Error: {exc.message}\n" + (f"Try: {hint}\n" if hint else ""))
