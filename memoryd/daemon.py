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
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.abc
import structlog

from memoryd import __version__
from memoryd.doors.limits import Rate
from memoryd.doors.lines import Limits
from memoryd.doors.readiness import Readiness
from memoryd.doors.rights import Tokens
from memoryd.doors.server import McpServer
from memoryd.doors.sockets import LineDoor, bind_first, bind_local, bind_tcp
from memoryd.doors.status import Status
from memoryd.doors.tokens import read_tokens
from memoryd.doors.web.app import serve_web
from memoryd.errors import MemorydError
from memoryd.logs import log_to_file, log_to_stderr
from memoryd.owner import Owner, say
from memoryd.places import (
    SHORT_DIR,
    fits_socket,
    own_sockets,
    raise_file_limit,
    short_socket,
)
from memoryd.settings import Config
from memoryd.systemd import ask_for_time, feed_watchdog, notify, passed_socket
from memoryd.tasks import task_group
from memoryd.uncaught import tell_only_types
from memoryd.wiring.engine import open_engine

log = structlog.get_logger()
DRAIN = 5.0  # seconds for running calls when told to stop
DEADLINE = 9.0  # seconds for everything
LOOK = 1.0  # seconds between two looks whether the data directory is in its place
STAYS = "memoryd stays up and answers every call with this; a later call has it try again."


def run(config: Config, owner: Owner, *, socket: Path | None, log_file: Path | None = None) -> int:
    """Serve until told to stop; the exit code. `socket` None: where its data directory has it."""
    try:
        log_to_file(log_file) if log_file else log_to_stderr()
        tell_only_types(lambda kind, at: log.error("uncaught", error=kind, at=at))
        raise_file_limit()
        anyio.run(Daemon(config, owner, socket).serve)
    except MemorydError as exc:
        log.error("cannot_serve", code=exc.code)
        say(exc)
        return 1
    return 0


class Daemon:
    """The doors, the readiness between them and the engine, and the order of start and stop."""

    def __init__(self, config: Config, owner: Owner, socket: Path | None) -> None:
        self._config = config
        self._owner = owner
        self._socket = socket
        self._readiness = Readiness()
        self._status = Status(self._readiness, config.memory.path)
        self._server = McpServer(self._readiness, self._status)
        self._stopping = anyio.Event()
        self._inode: int | None = None  # of our socket's file; None: it is the service manager's
        self._failure = ("", "")  # code and sentence of the opening that failed last

    async def serve(self) -> None:
        with self._listening() as (listening, token):
            async with task_group() as tasks:
                tasks.start_soon(self._watch_signals)
                async with task_group() as doors:
                    await self._open_doors(doors, listening, token)
                    log.info("listening", version=__version__, pid=os.getpid())
                    doors.start_soon(feed_watchdog)
                    doors.start_soon(self._keep_place, doors)
                    doors.start_soon(ask_for_time, lambda: self._readiness.stage == "starting")
                    await self._serve_engine()
                    doors.cancel_scope.cancel()
                tasks.cancel_scope.cancel()
        log.info("stopped")

    @contextmanager
    def _listening(self) -> Iterator[tuple[socket.socket, str]]:
        """The local door, recorded in the data directory for as long as it is there."""
        if passed := passed_socket():
            listening, token, path = passed, "", Path(passed.getsockname())
        else:
            listening, token, path = bind_first(self._places())
            self._inode = os.stat(path).st_ino
        self._status.socket = str(path)
        self._owner.listening(str(path), managed=self._inode is None)
        try:
            yield listening, token
        finally:
            self._owner.stopping()
            _remove_socket(path, self._inode)

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
        doors = self._config.doors
        await tasks.start(self._local_door(token).serve, listening)
        if not (doors.tcp_port or doors.http_port):
            return
        forgets = Rate(doors.max_forgets_per_minute, seconds=60.0)  # of both doors together
        tokens = read_tokens(*doors.token_files(self._config.memory.path), forgets)
        if doors.tcp_port:
            apart = doors.max_unauthenticated
            most = doors.max_connections
            door = LineDoor(self._server.lowlevel, self._limits, most, tokens, unproven=apart)
            await tasks.start(door.serve, bind_tcp(doors.tcp_host, doors.tcp_port))
        if doors.http_port:
            port = bind_tcp(doors.http_host, doors.http_port)
            await tasks.start(serve_web, self._server, self._readiness, doors, tokens, port)

    @property
    def _limits(self) -> Limits:
        doors = self._config.doors
        return Limits(doors.max_line_bytes, doors.max_calls, doors.max_calls_per_second)

    def _local_door(self, token: str) -> LineDoor:
        most, serves = self._config.doors.max_connections, self._config.memory.path
        return LineDoor(self._server.lowlevel, self._limits, most, Tokens(token), serves=serves)

    async def _keep_place(self, doors: anyio.abc.TaskGroup) -> None:
        """Have a data directory again that was moved or deleted under us, with its lock, record
        and socket: whoever looks for its daemon must find this one, which still has the memories
        in RAM, and not start another that has none."""
        missed, told = 0, ""
        while True:
            await anyio.sleep(LOOK)
            missed = 0 if self._owner.is_in_place() and self._has_socket() else missed + 1
            if missed < 2:  # somebody may be about to put it back
                continue
            try:
                if not self._owner.is_in_place():
                    self._owner.reclaim()
                if not self._has_socket():
                    listening, token = bind_local(Path(self._status.socket))
                    self._inode = os.stat(self._status.socket).st_ino
                    await doors.start(self._local_door(token).serve, listening)
                log.warning("place_reclaimed", data_dir=str(self._config.memory.path))
                missed, told = 0, ""
            except (MemorydError, OSError) as exc:
                if str(exc) != told:
                    log.error("place_lost", error=str(exc))
                told = str(exc)

    def _has_socket(self) -> bool:
        """Whether the file of our socket is still ours; the service manager's is its own affair."""
        try:
            return self._inode in (None, os.stat(self._status.socket).st_ino)
        except OSError:
            return False

    async def _serve_engine(self) -> None:
        """Serve the engine until it is time to stop, which may come before it is open."""
        async with task_group() as tasks:
            tasks.start_soon(self._stop_early, tasks.cancel_scope)
            await self._serve_open()
            tasks.cancel_scope.cancel()

    async def _stop_early(self, opening: anyio.CancelScope) -> None:
        await self._stopping.wait()
        if self._readiness.now is None:
            opening.cancel()

    async def _serve_open(self) -> None:
        """Open the engine behind the doors; close it when it is time to stop. While it cannot be
        opened every call is answered with the reason, and makes the next attempt due."""
        while True:
            try:
                await self._serve_once()
                return
            except MemorydError as exc:
                if self._readiness.now is not None:
                    raise
                self._tell_failure(exc)
            await self._readiness.wanted()

    def _tell_failure(self, exc: MemorydError) -> None:
        """Say once why the memories are not open: in the log, to systemd and on the terminal."""
        is_news = self._failure != (exc.code, exc.message)
        self._failure = (exc.code, exc.message)
        self._readiness.fail(exc)
        if is_news:
            log.error("store_not_open", code=exc.code, error=exc.message, hint=exc.hint)
            say(exc)
            sys.stderr.write(f"{STAYS}\n")
            notify("READY=1")  # it serves: the reason, to everybody who calls
            notify(f"STATUS={exc.message}")

    async def _serve_once(self) -> None:
        async with open_engine(self._config, wait=False, watch=self._readiness.watch) as engine:
            if self._failure[0]:
                self._failure = ("", "")
                notify("STATUS=")
            self._readiness.open(engine)
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
