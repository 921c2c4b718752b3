"""Operations of the owner on the daemon as a whole, beside its memories: the overview, figures over
time, settings and what is wrong. Served like those of `doors.owner`: on the local socket only, and
never advertised. Unlike those they are answered while the memories are not open.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from memoryd import __version__
from memoryd.doors import recent, render
from memoryd.doors.backups import Backups, Restorer
from memoryd.doors.checkup import Checkup
from memoryd.doors.health import Facts, health
from memoryd.doors.imports import Importing
from memoryd.doors.live import Live
from memoryd.doors.readiness import Readiness
from memoryd.doors.status import Status, store_facts
from memoryd.engine import checks
from memoryd.engine.census import Census, Day
from memoryd.engine.engine import Engine
from memoryd.fields import KIND, PROJECT, SOURCE
from memoryd.setting_view import Origins
from memoryd.settings import Config

Arguments = dict[str, Any]
Call = Callable[[Arguments], Awaitable[Arguments]]
MAX_VALUES = 30  # of a list of counts


class DaemonOperations:
    """Operations on the daemon as a whole, by name."""

    def __init__(
        self,
        readiness: Readiness,
        status: Status,
        config: Config | None = None,
        origins: Origins | None = None,
        restorer: Restorer | None = None,
    ) -> None:
        """`config`: of the daemon; without it nothing can be imported or examined. `origins`:
        where each setting was set. `restorer`: replaces the store by a backup."""
        self._readiness = readiness
        self._status = status
        self.live = Live(readiness, status.calls)
        self.calls: dict[str, Call] = {"overview": self._overview, "samples": self._samples}
        self.arguments: dict[str, set[str]] = {"overview": set(), "samples": {"since"}}
        self.add(recent.NAME, self._recent_calls, recent.ARGUMENTS)
        if config is not None:
            backups = Backups(readiness, config.memory.path, restorer)
            checkup = Checkup(readiness, status, config, origins)
            self.calls |= checkup.calls | backups.calls
            self.arguments |= checkup.arguments | backups.arguments
            importing = Importing(config.memory.path, config.memory.conversation_days)
            for name, call in importing.calls.items():
                self.add(name, self._with_engine(call), importing.arguments[name])

    def add(self, name: str, call: Call, arguments: set[str]) -> None:
        """One more operation."""
        self.calls[name] = call
        self.arguments[name] = arguments

    def _with_engine(self, call: Callable[[Engine, Arguments], Awaitable[Arguments]]) -> Call:
        async def calling(given: Arguments) -> Arguments:
            return await call(await self._readiness.engine(), given)

        return calling

    async def _recent_calls(self, given: Arguments) -> Arguments:
        engine = await self._readiness.engine()
        return await recent.recent_calls(self._status.calls, engine, given)

    async def _overview(self, given: Arguments) -> Arguments:
        """Health, counts, days, and what needs attention."""
        engine = await self._readiness.engine()
        census, state = await engine.censuses.census(), engine.state()
        store = await store_facts(engine)
        facts = await self._facts(engine, census, state, store)
        mirror = state["mirror"] or {}
        return {
            "at": render.moment(engine.now(), engine.zone),
            "version": __version__,
            "uptime_seconds": self._status.uptime,
            "health": asdict(health(facts)),
            **counts(census),
            "attention": {
                "needs_review": census.needs_review,
                "stale": census.stale,
                "deprecated": census.deprecated,
                "pending_vectors": census.pending,
                "mirror_held": mirror.get("held", 0),
                "last_backup": store.get("backup_at"),
                "backup_age_seconds": facts.backup_age,
            },
            "model": state["model"],
            "model_trouble": state["model_trouble"],
            "llm": state["llm"],
            "revision": census.revision,
        }

    async def _facts(
        self, engine: Engine, census: Census, state: Arguments, store: Arguments
    ) -> Facts:
        """What health is made of."""
        error, mirror = store.get("error"), state["mirror"] or {}
        calls, faults = self.live.recent_faults()
        newest = await engine.newest_backup()
        trouble = mirror.get("trouble")
        return Facts(
            memories=census.total,
            store_error=error["message"] if error else None,
            unreadable=store.get("unreadable", {}).get("count", 0),
            has_model=state["model"] is not None,
            words_by_choice=state["embedding_backend"] == "none",
            model_trouble=state["model_trouble"],
            pending=census.pending,
            backup_age=None if newest is None else max(0.0, engine.now() - newest.created_at),
            backup_hours=engine.backup_hours,
            age=census.age,
            disk_free=await self._status.disk_free(),
            clock_doubted=state["clock_doubt"] is not None,
            calls=calls,
            faults=faults,
            needs_review=census.needs_review,
            stale=census.stale,
            llm_trouble=state["llm_trouble"],
            mirror_trouble=trouble.message if trouble else None,
        )

    async def _samples(self, given: Arguments) -> Arguments:
        """Figures over time, from `since` on."""
        return self.live.since(checks.moment(given.get("since"), "since", None) or 0.0)


def counts(census: Census) -> Arguments:
    """The counts of the overview."""
    projects = census.values[PROJECT]
    return {
        "totals": {
            "memories": census.total,
            "sessions": census.sessions,
            "projects": sum(name is not None for name, _ in projects),
            "notes": census.notes,
            "pinned": census.pinned,
            "superseded": census.superseded,
            "expired_waiting": census.expired,
        },
        "by_type": dict(census.types),
        "by_kind": render.values(census.values[KIND], MAX_VALUES),
        "by_project": render.values(projects, MAX_VALUES),
        "by_source": render.values(census.values[SOURCE], MAX_VALUES),
        "remembered": [_day(day) for day in census.remembered],
        "expiring": [_day(day) for day in census.expiring],
    }


def _day(day: Day) -> Arguments:
    return {"day": day.date, **day.types}
