"""The store on a Chroma server, which may be away: open when it can be, not asked while silent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import anyio
import anyio.abc
import structlog

from memoryd.adapters.chroma.store import ChromaStore
from memoryd.errors import MemorydError, StoreOffline, StoreUnavailable

log = structlog.get_logger()
RETRY, MAX_RETRY = 2.0, 30.0  # seconds until the next attempt to open the store; doubled each time
CHECK_SECONDS = 1.0  # between two heartbeats of a server that is away
SILENT_SECONDS = 10.0  # without an answer or a refusal, until a server counts as silent
REFUSAL_SECONDS = 1.0  # in which a server, or its machine, refuses a connection
OpenShared = Callable[[], AbstractAsyncContextManager[ChromaStore]]
Answers = Callable[[], Awaitable[bool]]  # whether the server gives a sign of life


class Server:
    """The store on the server: opened at once, or as soon as the server can be reached. While the
    server gives no sign of life nobody waits for it: see `check`."""

    def __init__(self, open: OpenShared, answers: Answers | None = None) -> None:
        """Without `answers` the server is never asked for a sign of life."""
        self._open = open
        self._answers: Answers = answers or _always
        self._has_heartbeat = False  # it has answered one: behind some proxies it does not
        self._is_silent = False
        self._store: ChromaStore | None = None
        self._error: MemorydError | None = None

    @property
    def store(self) -> ChromaStore:
        """The open store. Raises StoreOffline."""
        if self._store is None:
            if (error := self._error) is None:
                raise StoreOffline("The Chroma server is not open yet.")
            raise StoreOffline(error.message, code=error.code, hint=error.hint)
        if self._is_silent:
            raise StoreOffline("The Chroma server cannot be reached: it gives no sign of life.")
        return self._store

    async def check(self) -> None:
        """Ask the server for a sign of life. Without one `store` raises StoreOffline, as this does,
        until a later call gets one."""
        if self._store is not None and self._has_heartbeat:
            self._is_silent = not await self._answers()
        _ = self.store

    async def run(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Keep the store open until cancelled; started after the first attempt. Raises StoreError
        if the server can be reached at the first attempt, and cannot be used."""
        pause, started = RETRY, False
        while True:
            try:
                await self._check_not_silent()
                async with self._open() as self._store:
                    self._is_silent, self._has_heartbeat = False, await self._answers()
                    if not started:
                        started = True
                        task_status.started()
                    log.info("server_open")
                    await anyio.sleep_forever()
            except MemorydError as exc:
                if not started and not isinstance(exc, StoreUnavailable):
                    raise
                log.warning("server_unavailable", code=exc.code)
                self._error = exc
            finally:
                self._store = None
            if not started:
                started = True
                task_status.started()
            pause = await self._wait_to_retry(pause)

    async def _check_not_silent(self) -> None:
        """Raise StoreOffline if the server neither answers nor refuses: an attempt to open the
        store would wait for minutes."""
        first = asked = anyio.current_time()
        while not await self._answers():
            now = anyio.current_time()
            if now - asked < REFUSAL_SECONDS:
                return  # the attempt says why
            if now - first >= SILENT_SECONDS:
                raise StoreOffline("The Chroma server cannot be reached: it does not answer.")
            asked = now

    async def _wait_to_retry(self, pause: float) -> float:
        """Wait until a server that is away answers again, and `pause` if it answers and cannot be
        used; the next pause. An attempt costs a process, a heartbeat does not."""
        if await self._answers():
            await anyio.sleep(pause)
            return min(MAX_RETRY, 2 * pause)
        with anyio.move_on_after(MAX_RETRY):
            while not await self._answers():  # noqa: ASYNC110
                await anyio.sleep(CHECK_SECONDS)
        return RETRY


async def _always() -> bool:
    return True
