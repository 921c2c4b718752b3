"""Health in one number: what takes points away, and how many."""

from __future__ import annotations

import pytest

from memoryd.doors.health import DAY, ERROR, Facts, health

WELL = Facts(memories=100, backup_age=3600.0, disk_free=10**11)
CASES = [
    ("all is well", {}, 100, []),
    ("nothing stored, no backup yet", {"memories": 0, "backup_age": None}, 100, []),
    ("no backup in the first hour", {"backup_age": None, "age": 60.0}, 100, []),
    ("the store has failed", {"store_error": "Gone."}, 40, ["store_error"]),
    ("rows that are no memories", {"unreadable": 3}, 90, ["rows_unreadable"]),
    ("no model", {"has_model": False}, 80, ["words_only"]),
    ("the model's server fails", {"model_trouble": "No answer."}, 80, ["words_only"]),
    (
        "no model, as configured",
        {"has_model": False, "words_by_choice": True},
        95,
        ["words_by_choice"],
    ),
    ("one vector waits", {"pending": 1}, 100, []),
    ("half of the vectors wait", {"pending": 50}, 95, ["vectors_pending"]),
    ("no backup", {"backup_age": None}, 85, ["backup_missing"]),
    ("backups are off", {"backup_hours": 0.0}, 95, ["backup_off"]),
    ("a backup of two days", {"backup_age": 2 * DAY}, 100, []),
    ("a backup of four days", {"backup_age": 4 * DAY}, 90, ["backup_old"]),
    ("a disk that is nearly full", {"disk_free": 10**8}, 90, ["disk_low"]),
    ("a full disk", {"disk_free": 10**7}, 70, ["disk_full"]),
    ("a disk of unknown size", {"disk_free": None}, 100, []),
    ("a clock in doubt", {"clock_doubted": True}, 90, ["clock_doubted"]),
    ("few calls tell nothing", {"calls": 10, "faults": 10}, 100, []),
    ("one call of ten failed", {"calls": 100, "faults": 10}, 96, ["calls_failed"]),
    ("all calls failed", {"calls": 100, "faults": 100}, 80, ["calls_failed"]),
    ("some to review", {"needs_review": 20}, 100, []),
    ("many to review", {"needs_review": 21}, 98, ["review_backlog"]),
    ("too many to review", {"needs_review": 101}, 95, ["review_backlog"]),
    ("a fifth is stale", {"stale": 20}, 98, ["stale_files"]),
    ("the language model fails", {"llm_trouble": "No answer."}, 97, ["llm_failed"]),
    ("the mirror fails", {"mirror_trouble": "No space."}, 95, ["mirror_failed"]),
    (
        "the gravest comes first",
        {"clock_doubted": True, "store_error": "Gone."},
        30,
        ["store_error", "clock_doubted"],
    ),
]


@pytest.mark.parametrize(("what", "facts", "score", "codes"), CASES, ids=[c[0] for c in CASES])
def test_score(what: str, facts: dict[str, object], score: int, codes: list[str]) -> None:
    """Each reason takes its points, and nothing else does."""
    fields = {name: getattr(WELL, name) for name in Facts.__slots__} | facts
    found = health(Facts(**fields))
    assert (found.score, [reason.code for reason in found.reasons]) == (score, codes)
    assert found.score == max(0, 100 - sum(reason.points for reason in found.reasons))


def test_score_is_never_negative() -> None:
    """The worst is 0, and every reason is told."""
    worst = Facts(
        memories=100,
        store_error="Gone.",
        has_model=False,
        pending=100,
        disk_free=0,
        clock_doubted=True,
    )
    found = health(worst)
    assert found.score == 0
    assert len(found.reasons) == 6
    assert found.reasons[0].severity == ERROR
