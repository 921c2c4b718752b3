"""Read every row of a store that was not closed in order, a few at a time.

A kill can leave an index that has lost rows, and nothing tells but reading them. In a large store
that takes a minute or more, so it is done while calls are served. Nothing is at risk meanwhile:
what is written is in the database, from which the index can be rebuilt.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from memoryd.adapters.chroma.collection import Collection
from memoryd.adapters.chroma.worker_events import milliseconds, send_event

ROWS = 200  # in one step: a few milliseconds that a call may have to wait, more at a new page


class RowCheck:
    """Goes through all rows once."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._steps = self._run()

    def step(self) -> bool:
        """Read some rows; false if there are no more. Raises whatever Chroma raises."""
        return next(self._steps, False)

    def _run(self) -> Iterator[bool]:
        began, count = time.perf_counter(), 0
        for ids in self._collection.id_pages():
            for start in range(0, len(ids), ROWS):
                self._collection.read_vectors(ids[start : start + ROWS])
                yield True
            count += len(ids)
        send_event("info", "rows_checked", rows=count, ms=milliseconds(began))
