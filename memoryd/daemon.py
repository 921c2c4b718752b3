"""`memoryd serve`: listen, then open the store and load the model; stop cleanly. The lock of the
data directory is taken before this module is imported, so that a second daemon costs little.

Listening comes first: no client gets a refused connection during a start, and the protocol's
handshake never waits for the model.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import anyio
import anyio.abc
import structlog

from memoryd import __version__
from memoryd.daemon_record import is_newer
from memoryd.doors.backups import Restoring
from memoryd.doors.daemon_operations import DaemonOperations
from memoryd.doors.limits import Rate
from memoryd.doors.lines import Limits
from memoryd.doors.page.app import Page
from memoryd.doors.page.door import PageDoor
from memoryd.doors.page.logins import Logins
from memoryd.doors.readiness import Readiness
from memoryd.doors.rights import Tokens
from memoryd.doors.server import McpServer
from memoryd.doors.sockets import LineDoor, bind_first, bind_local, bind_tcp
from memoryd.doors.status import Status
from memoryd.doors.tokens import read_tokens
from memoryd.doors.web.app import serve_web
from memoryd.errors import MemorydError
from memoryd.logs import log_stage, log_to_file, log_to_stderr
from memoryd.owner import Owner, say
from memoryd.places import (
    SHORT_DIR,
    fits_socket,
    own_sockets,
    raise_file_limit,
    short_socket,
)
from memoryd.setting_view import Origins
from memoryd.settings import Config, DoorSettings
from memoryd.systemd import ask_for_time, feed_watchdog, notify, passed_socket
from memoryd.tasks import task_group
from memoryd.toolsets import parse_toolsets
from memoryd.uncaught import tell_only_types
from memoryd.wiring.engine import open_engine, restore_backup

log = structlog.get_logger()
EARLY_STAGES = ("config", "lock", "import")  # of a start, before there is a log
DRAIN_SECONDS = 5.0  # for running calls during a stop
STOP_SECONDS = 9.0  # for the whole stop
PLACE_CHECK_SECONDS = 1.0  # between two checks whether the data directory is in its place
STAYS_UP = "memoryd stays up and answers every call with this error; a later call tries again."


def run(
    config: Config,
    owner: Owner,
    *,
    socket: Path | None,
    log_file: Path | None = None,
    began: Sequence[float] = (),
    origins: Origins | None = None,
) -> int:
    """Serve until told to stop; the exit code. `socket` None: at the data directory's own place.
    `began`: when each of `EARLY_STAGES` began, by `time.perf_counter`. `origins`: where
    each setting was set."""
    began = (*began, time.perf_counter())
    try:
        log_to_file(log_file, config.log) if log_file else log_to_stderr(config.log)
        tell_only_types(lambda kind, at: log.error("uncaught", error=kind, at=at))
        for name, start, end in zip(EARLY_STAGES, began, began[1:], strict=False):
            log_stage(name, end - start)
        raise_file_limit()
        anyio.run(Daemon(config, owner, socket, began[0], origins).serve)
    except MemorydError as exc:
        log.error("cannot_serve", code=exc.code)
        say(exc)
        return 1
    return 0


class Daemon:
    """The doors and the engine behind them, and the order of start and stop."""

    def __init__(
        self,
        config: Config,
        owner: Owner,
        socket: Path | None,
        began: float,
        origins: Origins | None = None,
    ) -> None:
        self._began = began
        self._config = config
        self._owner = owner
        self._socket = socket
        self._readiness = Readiness()
        self._status = Status(self._readiness, config.memory.path)
        self._server = McpServer(
            self._readiness,
            self._status,
            parse_toolsets(config.doors.toolsets),
            DaemonOperations(self._readiness, self._status, config, origins, self._restore),
        )
        self._logins = Logins()
        self._page = Page(self._server, self._logins)
        self._line_doors: list[LineDoor] = []
        self._stopping = anyio.Event()
        self._leaving = anyio.Event()  # the engine is to be closed: for the stop or a restore
        self._restoring: Restoring | None = None
        self._has_ended = False  # everything is closed; only threads may still run
        self._inode: int | None = None  # of our socket file; None: the service manager owns it
        self._failure = ("", "")  # code and sentence of the last failed opening

    async def serve(self) -> None:
        began = time.perf_counter()
        with self._listening() as (listening, token):
            async with task_group() as tasks:
                tasks.start_soon(self._watch_signals)
                async with task_group() as doors:
                    await self._open_doors(doors, listening, token)
                    log_stage("listen", time.perf_counter() - began)
                    log.info("listening", version=__version__, pid=os.getpid())
                    doors.start_soon(feed_watchdog)
                    doors.start_soon(self._server.operations.live.run)
                    doors.start_soon(self._keep_place, doors)
                    doors.start_soon(ask_for_time, lambda: self._readiness.stage == "starting")
                    await self._serve_engine()
                    doors.cancel_scope.cancel()
                tasks.cancel_scope.cancel()
        self._has_ended = True
        log.info("stopped")

    @contextmanager
    def _listening(self) -> Iterator[tuple[socket.socket, str]]:
        """The local door, recorded in the data directory while it is open."""
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
        """Where to listen, the best path first; only the named one if there is one."""
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

        async def open_web(settings: DoorSettings) -> int:
            """Open an HTTP door; its port."""
            port = bind_tcp(settings.http_host, settings.http_port)
            given = (self._server, self._readiness, settings, self._tokens, self._page, port)
            await tasks.start(serve_web, *given)
            return int(port.getsockname()[1])

        page_door = PageDoor(doors, self._logins, open_web)
        self._server.operations.add("open_page", page_door.open_page, set())
        await tasks.start(self._local_door(token).serve, listening)
        if doors.tcp_port:
            door = LineDoor(
                self._server.lowlevel,
                self._limits,
                doors.max_connections,
                self._tokens,
                max_unauthenticated=doors.max_unauthenticated,
            )
            self._line_doors.append(door)
            await tasks.start(door.serve, bind_tcp(doors.tcp_host, doors.tcp_port))
        if doors.http_port:
            await open_web(doors)

    @cached_property
    def _tokens(self) -> Tokens:
        """The tokens of the network doors; files are made for them once one of them opens."""
        doors = self._config.doors
        forgets = Rate(doors.max_forgets_per_minute, seconds=60.0)  # for both doors together
        return read_tokens(*doors.token_files(self._config.memory.path), forgets)

    @property
    def _limits(self) -> Limits:
        doors = self._config.doors
        return Limits(doors.max_line_bytes, doors.max_calls, doors.max_calls_per_second)

    def _local_door(self, token: str) -> LineDoor:
        door = LineDoor(
            self._server.lowlevel,
            self._limits,
            self._config.doors.max_connections,
            Tokens(token),
            data_dir=self._config.memory.path,
            retire=self._retire,
        )
        self._line_doors.append(door)
        return door

    def _retire(self, version: str) -> bool:
        """End for a newer version, unless somebody but the one who asks is connected; whether it
        ends. Who uses HTTP is not known, so with that door it stays."""
        busy = sum(door.connections for door in self._line_doors) > 1 or self._page.watching
        if busy or self._config.doors.http_port or self._stopping.is_set():
            return False
        if not is_newer(version, __version__):
            return False
        self._stop("retiring", version=version)
        return True

    async def _keep_place(self, doors: anyio.abc.TaskGroup) -> None:
        """Recreate a data directory that was moved or deleted under us, with its lock, record and
        socket: clients must find this daemon, which still has the memories in RAM, and not start
        another that has none."""
        missed, told = 0, ""
        while True:
            await anyio.sleep(PLACE_CHECK_SECONDS)
            missed = 0 if self._owner.is_in_place() and self._has_socket() else missed + 1
            if missed < 2:  # it may be put back in a moment
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
        """Whether our socket file is in place; always true for a socket of the service manager."""
        try:
            return self._inode in (None, os.stat(self._status.socket).st_ino)
        except OSError:
            return False

    async def _serve_engine(self) -> None:
        """Serve the engine until the stop, which may come before it is open."""
        async with task_group() as tasks:
            tasks.start_soon(self._stop_early, tasks.cancel_scope)
            await self._serve_open()
            tasks.cancel_scope.cancel()

    async def _stop_early(self, opening: anyio.CancelScope) -> None:
        await self._stopping.wait()
        if self._readiness.opened is None:
            opening.cancel()

    async def _serve_open(self) -> None:
        """Open the engine behind the doors; close it at the stop. While it cannot be opened, every
        call gets the reason and triggers the next attempt."""
        while True:
            try:
                await self._serve_once()
                if self._restoring is None or self._stopping.is_set():
                    return
                await self._run_restore(self._restoring)
                continue
            except MemorydError as exc:
                if self._readiness.opened is not None:
                    raise
                self._tell_failure(exc)
            await self._readiness.retry_wanted()
            self._began = time.perf_counter()

    def _tell_failure(self, exc: MemorydError) -> None:
        """Report once why the memories are not open: in the log, to systemd and on the terminal."""
        is_new = self._failure != (exc.code, exc.message)
        self._failure = (exc.code, exc.message)
        self._readiness.fail(exc)
        self._end_restore(exc)
        if is_new:
            log.error("store_not_open", code=exc.code, error=exc.message, hint=exc.hint)
            say(exc)
            sys.stderr.write(f"{STAYS_UP}\n")
            notify("READY=1")  # it serves: every call gets the reason
            notify(f"STATUS={exc.message}")

    async def _serve_once(self) -> None:
        async with open_engine(self._config, wait=False, watch=self._readiness.watch) as engine:
            if self._failure[0]:
                self._failure = ("", "")
                notify("STATUS=")
            self._readiness.open(engine)
            gc.freeze()  # loaded objects stay: exclude them from later collections
            notify("READY=1")
            took = round(1000 * (time.perf_counter() - self._began), 1)
            log.info("ready", memories=engine.count, ms=took)
            self._end_restore()
            await self._leaving.wait()
            if self._restoring is not None and not self._stopping.is_set():
                await self._close_for_restore()
                return
            self._end_restore(MemorydError("The daemon is stopping.", code="stopping"))
            notify("STOPPING=1")
            with anyio.move_on_after(DRAIN_SECONDS):
                await self._server.drained()

    async def _restore(self, path: Path) -> int:
        """Replace the store by a backup that was verified; how many memories it holds. Raises what
        prevented it; then the store is as it was."""
        if self._restoring is not None or self._stopping.is_set():
            raise MemorydError("Another restore is running.", code="restore_running")
        self._restoring = asked = Restoring(path)
        self._leaving.set()
        return await asked.outcome()

    def _end_restore(self, error: MemorydError | None = None) -> None:
        """Answer the one who asked for a restore, if somebody did."""
        if self._restoring is not None:
            self._restoring.end(error)
            self._restoring = None

    async def _close_for_restore(self) -> None:
        """Let no call in, and wait for those that are inside, except for the one that restores."""
        self._readiness.close("restoring")
        log.info("restore_began")
        with anyio.move_on_after(DRAIN_SECONDS):
            await self._server.drained(but=1)

    async def _run_restore(self, asked: Restoring) -> None:
        """Replace the store, which is closed. The next opening answers the one who asked."""
        self._leaving = self._stopping if self._stopping.is_set() else anyio.Event()
        self._began = time.perf_counter()
        try:
            asked.count = await restore_backup(self._config, asked.path, replace=True)
            log.info("restored", memories=asked.count)
        except MemorydError as exc:
            log.error("restore_failed", code=exc.code)
            asked.error = exc

    async def _watch_signals(self) -> None:
        """Stop cleanly at the first signal, exit at once at the second."""
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                if self._stopping.is_set():
                    os._exit(1)
                self._stop("stopping", signal=signal.Signals(number).name)

    def _stop(self, why: str, **facts: str) -> None:
        log.info(why, **facts)
        self._stopping.set()
        self._leaving.set()
        timer = threading.Timer(STOP_SECONDS, self._end_late)
        timer.daemon = True
        timer.start()

    def _end_late(self) -> None:
        """End a stop that takes too long: a stuck worker or download must not delay the exit.
        Nothing is lost: everything acknowledged is committed, and the worker ends when its input
        does. It is no failure if the store was never open: a worker that is still opening it
        finishes that first, because a kill could damage the index, and then closes it."""
        try:
            if not self._has_ended:
                opening = self._readiness.opened is None
                log.warning("stopped_late", opening=opening)
                self._owner.stopping()
                _remove_socket(Path(self._status.socket), self._inode)
        finally:
            os._exit(0 if self._has_ended or self._readiness.opened is None else 1)


def _remove_socket(path: Path, inode: int | None) -> None:
    """Remove our socket file, unless another process has replaced it."""
    with contextlib.suppress(FileNotFoundError):
        if inode is not None and os.stat(path).st_ino == inode:
            path.unlink()
            if path.parent.name.startswith(SHORT_DIR):
                path.parent.rmdir()
