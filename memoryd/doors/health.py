"""Health in one number: 100, minus points for each reason. Pure, so that its table can be tested;
docs/owner-operations.md has the same table for people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memoryd.diagnosis import DISK_FULL, DISK_LOW

ERROR, WARNING, NOTE = "error", "warning", "note"
PENDING_SHARE = 0.01  # of the memories; fewer without a vector do not matter
OLD_BACKUP_ROUNDS = 3  # backups that were due and not made
HOUR, DAY = 3600.0, 86_400.0
FEW_CALLS, FAULT_SHARE = 20, 0.02  # calls that tell something, and the share that may fail
BACKLOG, LONG_BACKLOG = 20, 100  # memories that wait for a review
STALE_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Facts:
    """What the number is made of."""

    memories: int = 0
    store_error: str | None = None  # a sentence
    unreadable: int = 0  # rows of the store that are no memories
    has_model: bool = True
    words_by_choice: bool = False  # the configuration asks for no model
    model_trouble: str | None = None
    pending: int = 0  # memories without a vector
    backup_age: float | None = None  # seconds; None: there is none
    backup_hours: float = 24.0  # between two backups; 0: none are made
    age: float = DAY  # seconds since the oldest memory was stored
    disk_free: int | None = None  # bytes; None: unknown
    clock_doubted: bool = False
    calls: int = 0  # of the last hour
    faults: int = 0  # of these, failed through no fault of the caller
    needs_review: int = 0
    stale: int = 0
    llm_trouble: str | None = None
    mirror_trouble: str | None = None


@dataclass(frozen=True, slots=True)
class Reason:
    """Why points are taken away."""

    code: str
    points: int
    severity: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Health:
    """0 to 100, and every reason, the gravest first."""

    score: int
    reasons: tuple[Reason, ...]


def health(facts: Facts) -> Health:
    found = [reason for rule in RULES if (reason := rule(facts)) is not None]
    found.sort(key=lambda reason: -reason.points)
    return Health(max(0, 100 - sum(reason.points for reason in found)), tuple(found))


def _store(facts: Facts) -> Reason | None:
    if facts.store_error is not None:
        return Reason("store_error", 60, ERROR, facts.store_error)
    if facts.unreadable:
        sentence = f"{facts.unreadable} rows of the store are not memories and are not served."
        return Reason("rows_unreadable", 10, WARNING, sentence)
    return None


def _model(facts: Facts) -> Reason | None:
    if facts.words_by_choice:
        return Reason("words_by_choice", 5, NOTE, "Search is by words only, as configured.")
    if facts.has_model and not facts.model_trouble:
        return None
    why = facts.model_trouble or "The embedding model is not loaded."
    return Reason("words_only", 20, WARNING, f"{why} Search is by words only.")


def _pending(facts: Facts) -> Reason | None:
    share = facts.pending / max(1, facts.memories)
    if share <= PENDING_SHARE or facts.words_by_choice:
        return None
    sentence = f"{facts.pending} memories have no vector yet: they are found by words only."
    return Reason("vectors_pending", max(1, round(10 * min(1.0, share))), NOTE, sentence)


def backup_reason(facts: Facts) -> Reason | None:
    """What is wrong with the newest backup."""
    if not facts.memories:
        return None
    if facts.backup_age is None:
        if facts.age < HOUR and facts.backup_hours:
            return None  # the first one is made once there is something to keep
        return Reason("backup_missing", 15, WARNING, "There is no backup.")
    if not facts.backup_hours:
        return Reason("backup_off", 5, NOTE, "No backups are made by themselves.")
    if facts.backup_age > max(DAY, OLD_BACKUP_ROUNDS * facts.backup_hours * HOUR):
        sentence = f"The newest backup is {facts.backup_age / DAY:.0f} days old."
        return Reason("backup_old", 10, WARNING, sentence)
    return None


def _disk(facts: Facts) -> Reason | None:
    free = facts.disk_free
    if free is None or free >= DISK_LOW:
        return None
    sentence = f"Only {free / 1e6:.0f} MB are free on the disk of the memories."
    if free < DISK_FULL:
        return Reason("disk_full", 30, ERROR, sentence)
    return Reason("disk_low", 10, WARNING, sentence)


def _clock(facts: Facts) -> Reason | None:
    if not facts.clock_doubted:
        return None
    sentence = "The clock jumped ahead: expired memories are not deleted until it is trusted."
    return Reason("clock_doubted", 10, WARNING, sentence)


def _calls(facts: Facts) -> Reason | None:
    share = facts.faults / max(1, facts.calls)
    if facts.calls < FEW_CALLS or share <= FAULT_SHARE:
        return None
    sentence = f"{facts.faults} of the last {facts.calls} calls failed."
    return Reason("calls_failed", min(20, max(1, round(40 * share))), WARNING, sentence)


def _review(facts: Facts) -> Reason | None:
    if facts.needs_review <= BACKLOG:
        return None
    points = 5 if facts.needs_review > LONG_BACKLOG else 2
    sentence = f"{facts.needs_review} memories wait for a review."
    return Reason("review_backlog", points, NOTE, sentence)


def _stale(facts: Facts) -> Reason | None:
    share = facts.stale / max(1, facts.memories)
    if share <= STALE_SHARE:
        return None
    sentence = f"{facts.stale} memories are about files that have changed since."
    return Reason("stale_files", min(5, round(10 * share)), NOTE, sentence)


def _language(facts: Facts) -> Reason | None:
    return Reason("llm_failed", 3, NOTE, facts.llm_trouble) if facts.llm_trouble else None


def _mirror(facts: Facts) -> Reason | None:
    if not facts.mirror_trouble:
        return None
    return Reason("mirror_failed", 5, WARNING, facts.mirror_trouble)


RULES: tuple[Callable[[Facts], Reason | None], ...] = (
    *(_store, _model, _pending, backup_reason, _disk, _clock),
    *(_calls, _review, _stale, _language, _mirror),
)
