"""What the engine's operations work with, made once and shared."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from memoryd.engine.clock_guard import NoRecord
from memoryd.engine.index.index import Index
from memoryd.engine.index.snapshot import Snapshots
from memoryd.engine.keylocks import KeyLocks
from memoryd.engine.models.embedding import Embedding
from memoryd.model import Lifetimes
from memoryd.ports import ClockRecord, Store
from memoryd.settings import BackupSettings, MemorySettings, SearchSettings


@dataclass(frozen=True, slots=True)
class Parts:
    """The store, what is derived from it, and the rules."""

    store: Store
    index: Index
    embedding: Embedding
    clock: Callable[[], float]
    lifetimes: Lifetimes
    memory: MemorySettings
    search: SearchSettings
    snapshots: Snapshots
    backup: BackupSettings = field(default_factory=BackupSettings)
    monotonic: Callable[[], float] = time.monotonic
    clock_record: ClockRecord = field(default_factory=NoRecord)
    locks: KeyLocks = field(default_factory=KeyLocks)
