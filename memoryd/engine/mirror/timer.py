"""When the next round of the mirror is due."""

from __future__ import annotations

from memoryd.engine.parts import Parts

MAX_WAIT = 10.0  # seconds that a change waits at most for others to follow
RETRY = 30.0  # seconds after a failure
Changes = tuple[int, int]  # an index, and how often it was changed


class Timer:
    """Rounds follow changes, once no more come, and the time of the upkeep."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._done: Changes | None = None  # the changes of the last round
        self._seen: Changes | None = None
        self._since = 0.0  # when changes were first seen
        self._last = 0.0  # the end of the last round
        self._failed = False

    def is_due(self, changes: Changes, next_expiry: float | None) -> bool:
        now, seen, self._seen = self._parts.monotonic(), self._seen, changes
        if self._done is None:
            return True
        if self._failed:
            return now - self._last >= RETRY
        if next_expiry is not None and self._parts.clock() >= next_expiry:
            return True
        if changes == self._done:
            self._since = now
            return now - self._last >= self._parts.memory.cleanup_interval
        return changes == seen or now - self._since >= MAX_WAIT

    def done(self, changes: Changes, *, failed: bool) -> None:
        self._done, self._failed = changes, failed
        self._last = self._since = self._parts.monotonic()
