"""What waits for a Chroma server that cannot be reached: queued writes, and the file for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from memoryd.errors import StoreError
from memoryd.model import Memory
from memoryd.ports import Record, Store

REFUSE, QUEUE = "refuse", "queue"  # values of store.offline
FULL = "offline_queue_full"
KNOWN = " This is what was known"  # in a warning, after the reason


@dataclass(frozen=True, slots=True)
class QueuedWrite:
    """One commit that the server has not got yet."""

    number: int = 0  # in the order of the queue; 0: not queued yet
    records: tuple[Record, ...] = ()  # memories to store or replace
    bases: tuple[Memory | None, ...] = ()  # each of them before, as this daemon knew it
    deleted: tuple[str, ...] = ()  # ids of memories to delete
    is_store: bool = False  # a caller stored something, and did not only change a memory
    was_sent: bool = False  # the server may have got it: no answer came

    @property
    def ids(self) -> list[str]:
        return [*(record.memory.id for record in self.records), *self.deleted]


class QueueFile(Protocol):
    """Keeps queued writes over a kill, in order. Synchronous: call it on a thread, one call at a
    time. Every method may raise OSError."""

    def load(self) -> list[QueuedWrite]:
        """What is queued. What a kill left half written is removed: it was never acknowledged."""

    def size(self) -> int:
        """Bytes that it has now."""

    def append(self, write: QueuedWrite, most: int) -> None:
        """Add a write, durably. Raises `offline_queue_full` if it would get more than `most`
        bytes."""

    def mark_sending(self, first: int, last: int) -> None:
        """Note, durably, that the writes with these numbers may reach the server from now on, and
        that those before them need not be sent any more."""

    def replace(self, writes: Sequence[QueuedWrite]) -> None:
        """Rewrite the file with these writes only; without any it is removed."""

    def reject(self, write: QueuedWrite, why: str) -> None:
        """Keep a write that the server refuses, for a person to read."""

    def rejected(self) -> tuple[int, str]:
        """How many writes were rejected, and the path of the file with them."""


class SharedStore(Store, Protocol):
    """A store that several daemons share."""

    async def noted(self, ids: Sequence[str]) -> Collection[str]:
        """Those of `ids` that a daemon has deleted within the last day."""


def queue_full(limit: str) -> StoreError:
    """The error when no more writes can be queued."""
    return StoreError(
        f"The Chroma server cannot be reached, and the queue is full ({limit}). "
        "Nothing was changed.",
        code=FULL,
        hint="Bring the server back, or raise store.offline_limit or store.offline_bytes.",
    )


_queued: ContextVar[list[str] | None] = ContextVar("queued", default=None)
_is_store: ContextVar[bool] = ContextVar("is_store", default=False)


@contextmanager
def noting_queued() -> Iterator[list[str]]:
    """Inside the block, ids of memories whose write is queued by this call are added to the
    list."""
    ids: list[str] = []
    token = _queued.set(ids)
    try:
        yield ids
    finally:
        _queued.reset(token)


def note_queued(ids: Sequence[str]) -> None:
    """The running call has queued a write of these memories."""
    if (noted := _queued.get()) is not None:
        noted += ids


@contextmanager
def storing() -> Iterator[None]:
    """What is written inside the block is stored by a caller: if it replaces a memory that another
    daemon forgets meanwhile, it is stored all the same."""
    token = _is_store.set(True)
    try:
        yield
    finally:
        _is_store.reset(token)


def is_storing() -> bool:
    return _is_store.get()
