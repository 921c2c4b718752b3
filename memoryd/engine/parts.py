"""What the engine's operations work with, made once and shared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from memoryd.engine.embedding import Embedding
from memoryd.engine.index import Index
from memoryd.engine.keylocks import KeyLocks
from memoryd.engine.snapshot import Snapshots
from memoryd.model import Lifetimes
from memoryd.ports import Store
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
    locks: KeyLocks = field(default_factory=KeyLocks)
