"""Whether the clock may be believed when it says that memories have expired.

A clock that is wrong by a month for a minute would delete every conversation. A long pause of the
daemon looks the same as a clock that leapt ahead, so both are treated alike: after more than
`memory.clock_gap_days` since the last time that was believed, the sweep deletes nothing until the
daemon has run for `memory.clock_steady_hours` without another leap, or the user says that the date
is right. Reads go by the clock as it is: what has expired is not shown, and comes back if the clock
is put right.
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
LEAP = 300.0  # seconds that the clock may differ from the time that really passed


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why nothing is deleted: when the clock was last believed, and for how long it is watched."""

    believed: float
    seconds_left: float


class NoRecord:
    """A `ClockRecord` that lasts as long as the engine."""

    def load(self) -> Seen | None:
        return None

    def save(self, seen: Seen) -> None:
        pass


class ClockGuard:
    """Compares the clock with the time seen last and with the time that really passed."""

    def __init__(
        self,
        record: ClockRecord,
        settings: MemorySettings,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        newest_memory: Callable[[float], float | None],
    ) -> None:
        """`newest_memory` stands in for a record that is missing: when the newest memory that is
        not later than the given time was made."""
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
        """Why nothing is deleted now; None if the clock is believed."""
        ahead = self._clock() - self._seen.believed - (self._monotonic() - self._believed_at)
        if ahead <= self._gap:
            return None
        return Doubt(self._seen.believed, max(0.0, self._steady - self._seen.steady))

    async def believed_now(self) -> float | None:
        """The time by which what has expired may be deleted; None: delete nothing. To be asked at
        every sweep, which goes by this time: the clock may leap right after."""
        async with self._lock:
            return await self._look()

    async def _look(self) -> float | None:
        now, at = self._clock(), self._monotonic()
        passed = at - self._looked_at
        drift = now - self._seen.latest - passed  # across a restart: also the time between
        off = now - self._seen.believed - (at - self._believed_at)
        has_leapt = self._has_looked and drift > LEAP
        self._looked_at, self._has_looked = at, True
        if -self._gap <= off <= self._gap:
            await self._believe(now)
            if has_leapt:
                log.warning("clock_leapt", seconds=round(drift))
            return None if has_leapt else now  # it may be put right before the next sweep
        is_steady = -LEAP <= drift <= self._gap
        steady = self._seen.steady + passed if is_steady else 0.0
        if steady >= self._steady:
            await self._believe(now)
            return now
        await self._save(replace(self._seen, latest=now, steady=steady))
        if off > 0:
            log.warning("clock_doubted", days=round(off / DAY, 1), steady=round(steady))
        return now if off < 0 else None  # behind: what is due by that clock is due by any

    async def confirm(self) -> None:
        """The user says that the clock is right."""
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
        except OSError as exc:  # a full disk must not stop the sweep, which makes room
            log.warning("clock_not_recorded", errno=exc.errno)
