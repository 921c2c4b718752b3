"""Owner operations about the daemon's own state: what is wrong and its repair, and every setting.

The checks are those of `memoryd doctor` that make sense in a running daemon, and two that only it
can repair: a missing backup, and a clock that its owner knows to be right."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import anyio.to_thread

from memoryd.diagnosis import (
    Finding,
    Patient,
    check_clock,
    check_disk,
    check_files,
    check_mirror,
    check_queue,
    check_served_store,
    faults_of,
)
from memoryd.doors.health import ERROR, NOTE, WARNING, Facts, backup_reason
from memoryd.doors.readiness import Readiness
from memoryd.doors.status import Status
from memoryd.engine.engine import Engine
from memoryd.errors import InvalidInput, MemorydError
from memoryd.setting_view import Origins, Setting, explained, section_descriptions
from memoryd.settings import Config

Arguments = dict[str, Any]
Repair = Callable[[], Awaitable[object]]
GRAVE = {"disk_full", "data_unwritable", "takeover_failed", "store_gone", "store_missing"}
SLIGHT = {"store_set_aside", "mirror_held", "takeover_outdated", "rows_unreadable"}
ON_DISK = (check_files, check_disk)
IN_STATUS = (check_served_store, check_queue, check_mirror, check_clock)


@dataclass(frozen=True, slots=True)
class Found:
    """A finding with the repair that this daemon can do, if there is one."""

    finding: Finding
    severity: str
    repair: Repair | None = None

    def facts(self) -> Arguments:
        return {
            "code": self.finding.code,
            "severity": self.severity,
            "sentence": self.finding.message,
            "repair": self.finding.hint,
            "can_repair": self.repair is not None,
        }


class Checkup:
    """The operations `doctor`, `doctor_repair` and `settings`."""

    def __init__(
        self, readiness: Readiness, status: Status, config: Config, origins: Origins | None
    ) -> None:
        """`origins`: where each setting was set."""
        self._readiness = readiness
        self._status = status
        self._config = config
        self._origins = origins
        self.calls: dict[str, Callable[[Arguments], Awaitable[Arguments]]] = {
            "doctor": self._doctor,
            "doctor_repair": self._repair,
            "settings": self._settings,
        }
        self.arguments: dict[str, set[str]] = {
            "doctor": set(),
            "doctor_repair": {"code"},
            "settings": set(),
        }

    async def _doctor(self, given: Arguments) -> Arguments:
        """What is wrong, the gravest first."""
        found = await self._examined()
        return {"healthy": not found, "findings": [one.facts() for one in found]}

    async def _repair(self, given: Arguments) -> Arguments:
        """Repair every finding with this code, as far as this daemon can. Raises InvalidInput."""
        code = given.get("code")
        due = [one for one in await self._examined() if one.finding.code == code]
        repairs = [one.repair for one in due if one.repair]
        if not repairs:
            raise InvalidInput(
                f"{str(code)[:50]!r} cannot be repaired from here."
                if due
                else f"There is no finding {str(code)[:50]!r} now.",
                code="not_repairable" if due else "finding_unknown",
                hint=due[0].finding.hint if due else "Call doctor to see the findings.",
            )
        for repair in repairs:
            try:
                await repair()
            except OSError as exc:
                why = exc.strerror or type(exc).__name__
                message = f"{code} could not be repaired: {why}."
                raise MemorydError(message, code="repair_failed") from exc
        return {"code": code, "repaired": len(repairs)} | await self._doctor({})

    async def _examined(self) -> list[Found]:
        status, engine = await self._status.read(), self._readiness.opened
        patient = Patient(self._config, self._status.socket_path, status)
        found = await anyio.to_thread.run_sync(lambda: _all(patient, ON_DISK))
        found += _all(patient, IN_STATUS)
        found += [Finding(*fault) for fault in faults_of(status.get("takeover") or {})]
        found += _model_faults(status)
        judged = [Found(one, _severity(one.code, status), self._way(one, engine)) for one in found]
        if engine is not None and (missing := await _backup_finding(engine)):
            judged.append(missing)
        order = (ERROR, WARNING, NOTE)
        return sorted(judged, key=lambda one: order.index(one.severity))

    def _way(self, finding: Finding, engine: Engine | None) -> Repair | None:
        """How this daemon can repair it."""
        if finding.repair is not None:
            return partial(anyio.to_thread.run_sync, finding.repair)
        if finding.code == "clock_doubted" and engine is not None:
            return partial(engine.sweep, clock_is_right=True)
        if finding.code == "store_gone" and engine is not None:
            return engine.rescue
        return None

    def _explained(self) -> list[Setting]:
        return list(explained(self._config, self._origins.where if self._origins else {}))

    async def _settings(self, given: Arguments) -> Arguments:
        """Every setting by section."""
        found = await anyio.to_thread.run_sync(self._explained)
        about = section_descriptions()
        return {
            "file": str(self._origins.file) if self._origins else None,
            "sections": [
                {
                    "section": section,
                    "description": about[section],
                    "settings": [
                        {
                            "key": one.key,
                            "name": one.key.partition(".")[2],
                            "value": one.value,
                            "default": one.default,
                            "from": one.kind,
                            "where": one.where,
                            "description": one.description,
                            "secret": one.secret,
                        }
                        for one in settings
                    ],
                }
                for section, settings in groupby(found, key=lambda one: one.section)
            ],
        }


def _all(
    patient: Patient, checks: tuple[Callable[[Patient], Iterator[Finding]], ...]
) -> list[Finding]:
    return [finding for check in checks for finding in check(patient)]


def _model_faults(status: Mapping[str, Any]) -> Iterator[Finding]:
    """What keeps a model from being used."""
    by_choice = status.get("embedding_backend") == "none"
    if (trouble := status.get("model_trouble")) and not by_choice:
        message = f"{trouble} Search is by words only."
        yield Finding("model_missing", message, "Run: memoryd doctor, or: memoryd setup")
    if trouble := status.get("llm_trouble"):
        yield Finding("llm_failed", trouble, "Check llm.url, llm.model and the key.")


def _severity(code: str, status: Mapping[str, Any]) -> str:
    store = status.get("store", {}).get("error")
    if code in GRAVE or (store and store["code"] == code):
        return ERROR
    return NOTE if code in SLIGHT else WARNING


async def _backup_finding(engine: Engine) -> Found | None:
    census, newest = await engine.censuses.census(), await engine.newest_backup()
    age = None if newest is None else max(0.0, engine.now() - newest.created_at)
    facts = Facts(census.total, backup_age=age, backup_hours=engine.backup_hours, age=census.age)
    if (reason := backup_reason(facts)) is None:
        return None
    finding = Finding(reason.code, reason.sentence, "Run: memoryd backup")
    return Found(finding, reason.severity, engine.backup)
