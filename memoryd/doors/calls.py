"""Duration and outcome of every call: one log event a call, figures for `status` and `/metrics`.

The percentiles cover the latest calls of each tool, so they show the present state, not the average
since the start. The latest calls of all tools are kept for `memoryd top`. Queries, answers and
texts of memories are never part of any of it.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import structlog

log = structlog.get_logger()
LATEST = 1_000  # calls of a tool that its percentiles cover
RECENT = 200  # calls of all tools that `recent` returns
RECENT_IDS = 5  # memories that are named for each of them
MAX_SESSION = 100  # characters of a session id
UNSHOWN = {"recent_calls"}  # who watches must not fill the view
OK = "ok"


@dataclass(slots=True)
class Call:
    """One running call; the server sets its outcome."""

    outcome: str = OK  # else the code of the error
    is_fault: bool = False  # it failed through no fault of the caller
    counts: Mapping[str, int] = field(default_factory=dict)
    steps: Mapping[str, float] = field(default_factory=dict)  # seconds of each step of a search
    session: str | None = None
    ids: Sequence[str] = ()  # of memories that it stored or found


@dataclass(frozen=True, slots=True)
class RecentCall:
    """A call that has ended. `number` counts the calls since the start."""

    number: int
    at: float  # epoch seconds of its end
    tool: str
    ms: float
    outcome: str
    counts: Mapping[str, int]
    session: str | None
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallFacts:
    """One call that has ended."""

    tool: str
    seconds: float
    ok: bool
    is_fault: bool


@dataclass(slots=True)
class _Tool:
    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    latest: deque[float] = field(default_factory=lambda: deque(maxlen=LATEST))
    steps: dict[str, deque[float]] = field(default_factory=dict)


_current: ContextVar[Call] = ContextVar("current")


def note_steps(steps: Mapping[str, float]) -> None:
    """Log these times with the call that is running, and count them in `status`."""
    if (call := _current.get(None)) is not None:
        call.steps = steps


class CallLog:
    """Counts and times calls by tool."""

    def __init__(
        self,
        timer: Callable[[], float] = time.perf_counter,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._timer = timer
        self._clock = clock
        self._tools: dict[str, _Tool] = {}
        self._recent: deque[RecentCall] = deque(maxlen=RECENT)
        self._count = 0
        self._watchers: list[Callable[[CallFacts], None]] = []

    def watch(self, watcher: Callable[[CallFacts], None]) -> None:
        """Tell `watcher` of every call that ends."""
        self._watchers.append(watcher)

    @contextmanager
    def timed(self, tool: str) -> Iterator[Call]:
        """Measure a call and log it, however it ends."""
        call, started = Call(), self._timer()
        token = _current.set(call)
        try:
            yield call
        except BaseException as exc:
            if call.outcome == OK:
                call.outcome = type(exc).__name__  # a client that went away, for example
            raise
        finally:
            _current.reset(token)
            self._note(tool, call, self._timer() - started)

    def _note(self, tool: str, call: Call, seconds: float) -> None:
        noted = self._tools.setdefault(tool, _Tool())
        noted.outcomes[call.outcome] += 1
        noted.seconds += seconds
        noted.latest.append(seconds)
        facts_of_call = CallFacts(tool, seconds, call.outcome == OK, call.is_fault)
        for watcher in self._watchers:
            watcher(facts_of_call)
        for step, took in call.steps.items():
            noted.steps.setdefault(step, deque(maxlen=LATEST)).append(took)
        steps = {f"{step}_ms": milliseconds(took) for step, took in call.steps.items()}
        facts: dict[str, Any] = {"tool": tool, "ms": milliseconds(seconds)}
        facts["outcome"] = call.outcome
        log.info("call", **facts, **call.counts, **steps)
        if tool not in UNSHOWN:
            self._keep(tool, call, facts["ms"])

    def _keep(self, tool: str, call: Call, ms: float) -> None:
        self._count += 1
        session = None if call.session is None else call.session[:MAX_SESSION]
        ids = tuple(call.ids[:RECENT_IDS])
        self._recent.append(
            RecentCall(
                self._count, self._clock(), tool, ms, call.outcome, call.counts, session, ids
            )
        )

    def recent(self, limit: int = RECENT) -> list[RecentCall]:
        """The latest calls of all tools, newest first."""
        return list(self._recent)[: -limit - 1 : -1]

    def summary(self) -> dict[str, dict[str, Any]]:
        """By tool: how many calls, how many of them failed, and percentiles of the latest; of a
        search also the median of each step."""
        return {tool: _figures(noted) for tool, noted in sorted(self._tools.items())}

    def metrics(self) -> Iterator[str]:
        """The same as lines of the Prometheus text format."""
        yield "# TYPE memoryd_calls_total counter"
        for tool, noted in sorted(self._tools.items()):
            for outcome, count in sorted(noted.outcomes.items()):
                yield f'memoryd_calls_total{{tool="{tool}",outcome="{outcome}"}} {count}'
        yield "# TYPE memoryd_call_seconds summary"
        for tool, noted in sorted(self._tools.items()):
            for share in (0.5, 0.99):
                value = percentile(noted.latest, share)
                yield f'memoryd_call_seconds{{tool="{tool}",quantile="{share}"}} {value:.6f}'
            yield f'memoryd_call_seconds_sum{{tool="{tool}"}} {noted.seconds:.6f}'
            yield f'memoryd_call_seconds_count{{tool="{tool}"}} {noted.outcomes.total()}'


def _figures(noted: _Tool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "calls": noted.outcomes.total(),
        "errors": noted.outcomes.total() - noted.outcomes[OK],
        "p50_ms": milliseconds(percentile(noted.latest, 0.50)),
        "p99_ms": milliseconds(percentile(noted.latest, 0.99)),
    }
    steps = {step: milliseconds(percentile(times, 0.5)) for step, times in noted.steps.items()}
    return found | ({"steps_p50_ms": steps} if steps else {})


def milliseconds(seconds: float) -> float:
    return round(1000 * seconds, 1)


def percentile(values: deque[float], share: float) -> float:
    """The value that this share of the values does not exceed; 0 if there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
