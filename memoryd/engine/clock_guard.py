"""Clock guard: whether the clock can be trusted when it says that memories have expired.

A clock that is wrong by a month for one minute would delete every conversation. A long pause of the
daemon looks the same as a clock that jumped ahead, so both are treated alike: after more than
`memory.clock_gap_days` since the last trusted time, the sweep deletes nothing until the daemon has
run for `memory.clock_steady_hours` without another jump, or the user confirms that the date is
right. Reads use the clock as it is: expired memories are not shown, and are shown again if the
clock is corrected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio
import anyio.to_thread
import structlog

from memoryd.model import DAY
from memoryd.ports import ClockRecord, Seen
from memoryd.settings import MemorySettings

log = structlog.get_logger()
HOUR = 3600.0
MAX_DRIFT = 300.0  # seconds that the clock may differ from the monotonic clock


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why nothing is deleted: the last trusted time, and seconds until it is trusted again."""

    believed: float
    seconds_left: float


class NoRecord:
    """A `ClockRecord` that keeps nothing."""

    def load(self) -> Seen | None:
        return None

    def save(self, seen: Seen) -> None:
        pass


class ClockGuard:
    """Compares the clock with the last time seen and with the monotonic clock."""

    def __init__(
        self,
        record: ClockRecord,
        settings: MemorySettings,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        newest_memory: Callable[[float], float | None],
    ) -> None:
        """`newest_memory` replaces a missing record: it returns the creation time of the newest
        memory that is not later than the given time."""
        self._record, self._clock, self._monotonic = record, clock, monotonic
        self._gap = settings.clock_gap_days * DAY
        self._steady = settings.clock_steady_hours * HOUR
        now = clock()
        believed = newest_memory(now)
        self._seen = record.load() or Seen(now if believed is None else believed, now, 0.0)
        self._looked_at = self._believed_at = monotonic()
        self._has_looked = False
        self._lock = anyio.Lock()

    @property
    def doubt(self) -> Doubt | None:
        """Why nothing is deleted now; None if the clock is trusted."""
        ahead = self._clock() - self._seen.believed - (self._monotonic() - self._believed_at)
        if ahead <= self._gap:
            return None
        return Doubt(self._seen.believed, max(0.0, self._steady - self._seen.steady))

    async def believed_now(self) -> float | None:
        """The time by which expired memories may be deleted; None: delete nothing. A sweep must
        use this time: the clock may jump right after."""
        async with self._lock:
            return await self._look()

    async def _look(self) -> float | None:
        now, at = self._clock(), self._monotonic()
        passed = at - self._looked_at
        drift = now - self._seen.latest - passed  # after a restart: includes the time in between
        off = now - self._seen.believed - (at - self._believed_at)
        has_jumped = self._has_looked and drift > MAX_DRIFT
        self._looked_at, self._has_looked = at, True
        if -self._gap <= off <= self._gap:
            await self._believe(now)
            if has_jumped:
                log.warning("clock_leapt", seconds=round(drift))
            return None if has_jumped else now  # it may be corrected before the next sweep
        is_steady = -MAX_DRIFT <= drift <= self._gap
        steady = self._seen.steady + passed if is_steady else 0.0
        if steady >= self._steady:
            await self._believe(now)
            return now
        await self._save(replace(self._seen, latest=now, steady=steady))
        if off > 0:
            log.warning("clock_doubted", days=round(off / DAY, 1), steady=round(steady))
        return (
            now if off < 0 else None
        )  # behind: what is due by this clock is due by the right one, too

    async def confirm(self) -> None:
        """Trust the clock, as the user says that it is right."""
        async with self._lock:
            self._looked_at, self._has_looked = self._monotonic(), True
            await self._believe(self._clock())

    async def _believe(self, now: float) -> None:
        self._believed_at = self._looked_at
        await self._save(Seen(now, now, 0.0))

    async def _save(self, seen: Seen) -> None:
        self._seen = seen
        try:
            await anyio.to_thread.run_sync(self._record.save, seen)
        except OSError as exc:  # a full disk must not stop the sweep, which frees space
            log.warning("clock_not_recorded", errno=exc.errno)
