"""The writes that wait for a commit, and which of them go into the next one.

Callers take turns. Bulk writes are last: while others wait too, every second commit is one of bulk
writes, so a single write waits for one of them at most, and a bulk load goes on beside a busy
client. A commit of bulk writes is small: whoever makes a larger one chooses how long it takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import anyio

from memoryd.errors import MemorydError
from memoryd.fair import BULK, CALLER, FairQueue
from memoryd.ports import Record

GROUP_ROWS = 128  # rows in one commit: about 0.1 s that a read may have to wait
SHARED_ROWS = 32  # while several callers wait


@dataclass(slots=True, eq=False)
class Write:
    """Memories to add or replace and ids to delete: the write of one caller."""

    added: list[Record] = field(default_factory=list)
    replaced: list[Record] = field(default_factory=list)
    to_delete: list[str] = field(default_factory=list)
    done: anyio.Event = field(default_factory=anyio.Event)
    deleted: set[str] = field(default_factory=set)  # those of `to_delete` that existed
    error: MemorydError | None = None

    @property
    def size(self) -> int:
        records = (*self.added, *self.replaced)
        return sum(max(1, len(r.passages)) for r in records) + len(self.to_delete)


class WriteQueue:
    """Waiting writes of all callers."""

    def __init__(self) -> None:
        self._single: FairQueue[Write] = FairQueue()
        self._bulk: FairQueue[Write] = FairQueue()
        self._was_single = False  # the group that was taken last

    def push(self, write: Write) -> None:
        queue = self._bulk if BULK.get() else self._single
        queue.push(write, CALLER.get())

    def next_group(self) -> list[Write]:
        """The writes of the next commit; at least one must wait."""
        self._was_single = bool(self._single) and not (self._was_single and self._bulk)
        if not self._was_single:
            return _taken(self._bulk, SHARED_ROWS)
        return _taken(self._single, GROUP_ROWS if self._single.callers == 1 else SHARED_ROWS)

    def __iter__(self) -> Iterator[Write]:
        yield from self._single
        yield from self._bulk

    def __len__(self) -> int:
        return len(self._single) + len(self._bulk)


def _taken(waiting: FairQueue[Write], most: int) -> list[Write]:
    """The next writes, of at most so many rows, but at least one."""
    group = [waiting.pop()]
    size = group[0].size
    while waiting and size + waiting.peek().size <= most:
        group.append(waiting.pop())
        size += group[-1].size
    return group
