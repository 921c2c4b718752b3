"""Figures over time: samples of calls, latencies, RAM and memories, and events for whoever watches.

Two rings are kept in RAM: a sample every 10 seconds for an hour, one every 5 minutes for a day. A
sample has numbers only. Watchers get every new sample, and a word when memories have changed;
without watchers nothing looks for changes.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import anyio

from memoryd.doors.calls import CallFacts, CallLog, milliseconds, percentile
from memoryd.doors.readiness import Readiness
from memoryd.engine.engine import Engine
from memoryd.errors import MemorydError

SHORT_SECONDS, SHORT_COUNT = 10.0, 360
LONG_SECONDS, LONG_COUNT = 300.0, 288
CHANGE_SECONDS = 0.5  # between two looks for changes
WORKER_SECONDS = 2.0  # for the store to name its worker
MAX_TIMES = 5_000  # calls of an interval that its percentiles cover
SEARCH = "search_memories"
Event = tuple[str, dict[str, Any]]  # the kind of an event and its data


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures of an interval that ended `at`, in epoch seconds."""

    at: float
    seconds: float
    calls: int
    errors: int  # calls that were answered with an error
    faults: int  # of these, through no fault of the caller
    searches: int
    calls_per_second: float
    p50_ms: float | None
    p99_ms: float | None
    search_p50_ms: float | None
    search_p99_ms: float | None
    daemon_bytes: int
    worker_bytes: int | None
    memories: int
    pending_vectors: int


@dataclass(slots=True)
class _Interval:
    """The calls since an interval began."""

    began: float
    calls: int = 0
    errors: int = 0
    faults: int = 0
    searches: int = 0
    times: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_TIMES))
    search_times: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_TIMES))

    def note(self, call: CallFacts) -> None:
        self.calls += 1
        self.errors += not call.ok
        self.faults += call.is_fault
        self.times.append(call.seconds)
        if call.tool == SEARCH:
            self.searches += 1
            self.search_times.append(call.seconds)


class Live:
    """Takes samples while `run` runs; `changes` are the events for one watcher."""

    def __init__(
        self,
        readiness: Readiness,
        calls: CallLog,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._readiness = readiness
        self._clock, self._monotonic = clock, monotonic
        self._short: deque[Sample] = deque(maxlen=SHORT_COUNT)
        self._long: deque[Sample] = deque(maxlen=LONG_COUNT)
        self._now, self._longer = _Interval(monotonic()), _Interval(monotonic())
        self._sampled = anyio.Event()
        self._worker: int | None = None
        calls.watch(self._note)

    def _note(self, call: CallFacts) -> None:
        self._now.note(call)
        self._longer.note(call)

    async def run(self) -> None:
        """Take samples until cancelled."""
        while True:
            await anyio.sleep(SHORT_SECONDS)
            await self.sample()

    async def sample(self) -> Sample:
        """End the present interval; its figures."""
        worker = await self._worker_bytes()
        made = self._taken(self._now, worker)
        self._short.append(made)
        self._now = _Interval(self._monotonic())
        if self._monotonic() - self._longer.began >= LONG_SECONDS:
            self._long.append(self._taken(self._longer, worker))
            self._longer = _Interval(self._monotonic())
        self._sampled.set()
        self._sampled = anyio.Event()
        return made

    def recent_faults(self) -> tuple[int, int]:
        """How many calls there were in the last hour, and how many of them failed through no fault
        of the caller."""
        calls = sum(one.calls for one in self._short) + self._now.calls
        return calls, sum(one.faults for one in self._short) + self._now.faults

    def since(self, at: float = 0.0) -> dict[str, Any]:
        """Both rings, from this time on."""
        rings = {"short": (SHORT_SECONDS, self._short), "long": (LONG_SECONDS, self._long)}
        return {"now": self._clock()} | {
            name: {
                "seconds": seconds,
                "samples": [asdict(one) for one in ring if one.at > at],
            }
            for name, (seconds, ring) in rings.items()
        }

    async def changes(self) -> AsyncIterator[Event]:
        """Events for one watcher, until it stops: `sample` with each new sample, `changed` when
        memories were written or forgotten, at most two a second."""
        revision, sampled = self._revision(), self._sampled
        while True:
            with anyio.move_on_after(CHANGE_SECONDS):
                await sampled.wait()
            if sampled.is_set():
                sampled = self._sampled
                yield "sample", asdict(self._short[-1])
            if (now := self._revision()) != revision and (engine := self._readiness.opened):
                revision = now
                yield "changed", {"revision": now, "memories": engine.state()["memories"]}

    def _revision(self) -> int | None:
        engine = self._readiness.opened
        return None if engine is None else engine.censuses.revision

    def _taken(self, interval: _Interval, worker: int | None) -> Sample:
        engine, seconds = self._readiness.opened, self._monotonic() - interval.began
        return Sample(
            at=round(self._clock(), 3),
            seconds=round(seconds, 3),
            calls=interval.calls,
            errors=interval.errors,
            faults=interval.faults,
            searches=interval.searches,
            calls_per_second=round(interval.calls / max(seconds, 0.001), 3),
            p50_ms=_percentile(interval.times, 0.50),
            p99_ms=_percentile(interval.times, 0.99),
            search_p50_ms=_percentile(interval.search_times, 0.50),
            search_p99_ms=_percentile(interval.search_times, 0.99),
            daemon_bytes=resident() or 0,
            worker_bytes=worker,
            memories=engine.count if engine else 0,
            pending_vectors=engine.pending_vectors if engine else 0,
        )

    async def _worker_bytes(self) -> int | None:
        """RAM of the store worker. Its pid is asked for only when the last one is gone."""
        if self._worker is not None and (known := resident(self._worker)) is not None:
            return known
        engine = self._readiness.opened
        self._worker = None if engine is None else await _worker_of(engine)
        return None if self._worker is None else resident(self._worker)


async def _worker_of(engine: Engine) -> int | None:
    pid: object = None
    with anyio.move_on_after(WORKER_SECONDS):
        try:
            pid = (await engine.store_status()).get("pid")
        except MemorydError:
            return None
    return pid if isinstance(pid, int) else None


def _percentile(times: deque[float], share: float) -> float | None:
    return milliseconds(percentile(times, share)) if times else None


def resident(pid: int | str = "self") -> int | None:
    """Bytes of a process in RAM; None if it is gone or the system does not tell."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
