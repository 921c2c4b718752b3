"""`memoryd serve`: listen, then open and load; stop cleanly. The data directory is owned before
this is imported, so that a second daemon costs little.

Listening comes first: a client never meets a refused connection while the daemon comes up, and
the protocol's handshake never waits for the model.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
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
from memoryd.doors.sockets import LineDoor, bind_first, bind_tcp
from memoryd.doors.status import Status
from memoryd.doors.tokens import read_token
from memoryd.doors.web import serve_web
from memoryd.errors import MemorydError
from memoryd.observe import log_to_file, log_to_stderr
from memoryd.owner import Owner, say
from memoryd.places import (
    SHORT_DIR,
    fits_socket,
    own_sockets,
    raise_file_limit,
    short_socket,
)
from memoryd.settings import Config, DoorSettings
from memoryd.systemd import feed_watchdog, notify, passed_socket
from memoryd.tasks import task_group
from memoryd.wiring import open_engine

log = structlog.get_logger()
DRAIN = 6.0  # seconds for running calls when told to stop
DEADLINE = 9.0  # seconds for everything


def run(config: Config, owner: Owner, *, socket: Path | None, log_file: Path | None = None) -> int:
    """Serve until told to stop; the exit code. `socket` None: where its data directory has it."""
    log_to_file(log_file) if log_file else log_to_stderr()
    raise_file_limit()
    try:
        anyio.run(Daemon(config, owner, socket).serve)
    except MemorydError as exc:
        log.error("cannot_serve", code=exc.code)
        say(exc)
        return 1
    return 0


class Daemon:
    """The doors, the gate between them and the engine, and the order of start and stop."""

    def __init__(self, config: Config, owner: Owner, socket: Path | None) -> None:
        self._config = config
        self._owner = owner
        self._socket = socket
        self._gate = Gate()
        self._status = Status(self._gate, config.memory.path)
        self._server = McpServer(self._gate, self._status)
        self._stopping = anyio.Event()

    async def serve(self) -> None:
        with self._listening() as (listening, token):
            async with task_group() as tasks:
                tasks.start_soon(self._watch_signals)
                async with task_group() as doors:
                    await self._open_doors(doors, listening, token)
                    log.info("listening", version=__version__, pid=os.getpid())
                    doors.start_soon(feed_watchdog)
                    await self._serve_engine()
                    doors.cancel_scope.cancel()
                tasks.cancel_scope.cancel()
        log.info("stopped")

    @contextmanager
    def _listening(self) -> Iterator[tuple[socket.socket, str]]:
        """The local door, recorded in the data directory for as long as it is there."""
        if passed := passed_socket():
            listening, token, path, mine = passed, "", Path(passed.getsockname()), None
        else:
            listening, token, path = bind_first(self._places())
            mine = os.stat(path).st_ino
        self._status.socket = str(path)
        self._owner.listening(str(path), managed=mine is None)
        try:
            yield listening, token
        finally:
            self._owner.stopping()
            _remove_socket(path, mine)

    def _places(self) -> Iterator[Path]:
        """Where to listen, the best place first. A place that was named is the only one."""
        if self._socket is not None:
            yield self._socket
            return
        for path in own_sockets(self._config.memory.path):
            if fits_socket(path):
                yield path
        yield short_socket(self._config.memory.path)

    async def _open_doors(
        self, tasks: anyio.abc.TaskGroup, listening: socket.socket, token: str
    ) -> None:
        doors, lowlevel = self._config.doors, self._server.lowlevel
        limits = Limits(doors.max_line_bytes, doors.max_calls, doors.max_calls_per_second)
        serves = self._config.memory.path
        local = LineDoor(lowlevel, limits, doors.max_connections, token, serves=serves)
        await tasks.start(local.serve, listening)
        if doors.tcp_port:
            token = read_token(_token_file(doors, self._config.memory.path))
            door = LineDoor(
                lowlevel, limits, doors.max_connections, token, unproven=doors.max_unauthenticated
            )
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


def _remove_socket(path: Path, inode: int | None) -> None:
    """Take our socket's file away, and nobody else's: one may have been put there since."""
    with contextlib.suppress(FileNotFoundError):
        if inode is not None and os.stat(path).st_ino == inode:
            path.unlink()
            if path.parent.name.startswith(SHORT_DIR):
                path.parent.rmdir()


def _token_file(doors: DoorSettings, data_dir: Path) -> Path:
    return Path(doors.token_file).expanduser() if doors.token_file else data_dir / "token"
