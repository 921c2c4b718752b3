"""The parts that the engine's operations share."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

import anyio

from memoryd.engine import checks
from memoryd.engine.audiences import Audiences
from memoryd.engine.clock_guard import NoRecord
from memoryd.engine.index.index import Index
from memoryd.engine.index.snapshot import Snapshots
from memoryd.engine.models.embedding import Embedding
from memoryd.engine.models.language import Language
from memoryd.engine.models.reranking import Reranking
from memoryd.engine.source import Source
from memoryd.errors import InvalidInput
from memoryd.fair import BULK
from memoryd.model import DAY, MICRO, Lifetimes, MemoryType, expiry
from memoryd.ports import BlockFiles, ClockRecord, MirrorFiles, Store
from memoryd.settings import (
    BackupSettings,
    HookSettings,
    LifecycleSettings,
    LlmSettings,
    MemorySettings,
    PhaseSettings,
    SearchSettings,
    SessionSettings,
)


class KeyLocks:
    """A lock per key, created on demand and dropped when unused: operations on one memory, name or
    fact run one after the other."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[anyio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, keys: Iterable[str]) -> AsyncIterator[None]:
        """Hold all keys. They are locked in sorted order, so that two callers cannot deadlock."""
        held: list[str] = []
        try:
            for key in sorted(set(keys)):
                await self._lock(key)
                held.append(key)
            yield
        finally:
            for key in held:
                self._locks[key][0].release()
                self._leave(key)

    async def _lock(self, key: str) -> None:
        lock, users = self._locks.get(key, (anyio.Lock(), 0))
        self._locks[key] = (lock, users + 1)
        if not users:  # nobody has it: no other task need run first
            lock.acquire_nowait()
            return
        try:
            await lock.acquire()
        except BaseException:
            self._leave(key)
            raise

    def _leave(self, key: str) -> None:
        lock, users = self._locks[key]
        if users == 1:
            del self._locks[key]
        else:
            self._locks[key] = (lock, users - 1)


class Gate:
    """Operations pass it side by side; while it is closed, none is inside."""

    def __init__(self) -> None:
        self._inside = 0
        self._single = 0  # of these, those that are not bulk work
        self._single_left = anyio.Event()  # set when the last of them has left
        self._left = anyio.Event()  # set when the last operation has left
        self._opened: anyio.Event | None = None  # None: the gate is open

    @asynccontextmanager
    async def passing(self) -> AsyncIterator[None]:
        """Wait while the gate is closed. Must not be nested: the inner one could wait for ever."""
        while self._opened is not None:
            await self._opened.wait()
        is_single = not BULK.get()
        self._inside += 1
        self._single += is_single
        try:
            yield
        finally:
            self._inside -= 1
            self._single -= is_single
            if not self._inside:
                self._left.set()
            if not self._single:
                self._single_left.set()

    async def let_ahead(self, seconds: float) -> None:
        """For bulk work that is about to enter: wait until no other operation is inside, but no
        longer than this."""
        with anyio.move_on_after(seconds):
            while self._single:
                self._single_left = anyio.Event()
                await self._single_left.wait()

    @asynccontextmanager
    async def closed(self) -> AsyncIterator[None]:
        """Let nothing in, wait until all are out, and stay closed inside the block. One caller at
        a time."""
        self._opened = opened = anyio.Event()
        try:
            while self._inside:
                self._left = anyio.Event()
                await self._left.wait()
            yield
        finally:
            self._opened = None
            opened.set()


async def _nothing(ids: Collection[str]) -> None: ...


async def _nobody_else() -> None: ...


@dataclass(slots=True)
class Parts:
    """The store, the data derived from it, and the settings. Whoever replaces the index, with the
    model of its vectors, closes the gate first: an operation inside sees one of them only."""

    store: Store
    index: Index
    embedding: Embedding
    clock: Callable[[], float]
    lifetimes: Lifetimes
    memory: MemorySettings
    search: SearchSettings
    snapshots: Snapshots
    backup: BackupSettings = field(default_factory=BackupSettings)
    lifecycle: LifecycleSettings = field(default_factory=LifecycleSettings)
    sessions: SessionSettings = field(default_factory=SessionSettings)
    phases: PhaseSettings = field(default_factory=PhaseSettings, kw_only=True)
    hooks: HookSettings = field(default_factory=HookSettings, kw_only=True)
    monotonic: Callable[[], float] = time.monotonic
    clock_record: ClockRecord = field(default_factory=NoRecord)
    locks: KeyLocks = field(default_factory=KeyLocks)
    gate: Gate = field(default_factory=Gate)
    reranking: Reranking = field(default_factory=Reranking)
    language: Language = field(default_factory=lambda: Language(LlmSettings()))
    mirror_files: MirrorFiles | None = None  # the folder of the mirror, if there is one
    block_files: BlockFiles | None = None  # files with a block that memoryd keeps
    block_tokens: int = 1500  # of such a block
    audiences: Audiences = field(default_factory=Audiences)  # who sees what in a shared store
    source: Source = field(default_factory=Source)
    # For a store that several daemons share. `catch_up` reads what the others have written until
    # now; call it outside the gate and all locks. `store_trouble`: why that is not possible.
    catch_up: Callable[[], Awaitable[None]] = _nobody_else
    store_trouble: Callable[[], str] = str
    # Called with the ids of deleted memories, before the deletion is answered, under their locks.
    after_drop: Callable[[Collection[str]], Awaitable[None]] = _nothing


def now_in_zone(clock: Callable[[], float], in_system_zone: bool) -> float:
    """The time to the microsecond. Every operation calls this first, so a changed time zone of the
    system is noticed here: the C library reads it again only on `tzset`."""
    if in_system_zone and sys.platform != "win32":
        time.tzset()
    return round(clock(), MICRO)


def lifetimes_of(settings: MemorySettings) -> Lifetimes:
    """The expiry rules as configured."""
    zone = ZoneInfo(settings.timezone) if settings.timezone else None
    return Lifetimes(conversation=settings.conversation_days * DAY, zone=zone)


def settled_expiry(
    type: MemoryType, created_at: float, override: object, pinned: bool, parts: Parts
) -> float | None:
    """When a memory expires; None: never. Raises InvalidInput for a time in the past."""
    at = checks.moment(override, "expires_at", parts.lifetimes.zone)
    if at is not None and at <= parts.clock() and not pinned:
        raise InvalidInput(
            "expires_at is not in the future: the memory would expire immediately.",
            code="expires_at_invalid",
            hint="Give a later time, or leave it out.",
        )
    return expiry(type, created_at, parts.lifetimes, override=at, pinned=pinned)
