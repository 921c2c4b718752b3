"""How sure a memory is now: the rules of use, decay and deprecation, as pure functions.

    confidence now = confidence * 0.5 ** (days on its clock / half-life of its kind)

The clock of a memory starts when its text is stored, and again whenever it is used, confirmed or
stored again, or when its kind, confidence or files are set. Kinds without a half-life, and memories
without a kind, do not decay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from memoryd.fields import (
    COMMIT,
    CONFIRMED_AT,
    DEFAULT_CONFIDENCE,
    DEPRECATED_AT,
    FILES,
    KIND,
    LAST_USED_AT,
    MACHINE_SOURCES,
    NEEDS_REVIEW,
    REVIEW_REASON,
    REVIEW_USES,
    SOURCE,
    USER_VERIFIED,
    USES,
    confidence_of,
    half_life_of,
    moment_of,
    source_of,
    trust_of,
    uses_of,
)
from memoryd.model import CONFIDENCE, DAY, Memory

DEPRECATED_BELOW = 0.1  # default of the setting
MAX_HALF_LIVES = 3  # on the clock; older ones are deprecated
USES_A_STEP, STEP, MAX_EARNED = 5, 0.05, 0.95  # every five uses raise the confidence
USES_WITHOUT_COMPLAINT = 10  # lift a flag for review
DIGITS = 6  # of a confidence that was computed

REVIEW_KEYS = (NEEDS_REVIEW, REVIEW_REASON, REVIEW_USES)
# What was found out about a text, and does not hold for another one.
CLAIMS = (*REVIEW_KEYS, USER_VERIFIED, CONFIRMED_AT, DEPRECATED_AT)


@dataclass(frozen=True, slots=True)
class Use:
    """How often a memory was used, and when last."""

    count: int
    last: float


def clock_start(memory: Memory) -> float:
    """Since when its confidence decays."""
    later = (moment_of(memory, key) for key in (CONFIRMED_AT, LAST_USED_AT))
    return max([memory.created_at, *(at for at in later if at is not None)])


def confidence_now(memory: Memory, now: float) -> float:
    """How sure it is now, 0..1."""
    half_life = half_life_of(memory)
    if half_life is None:
        return confidence_of(memory)
    days = max(0.0, now - clock_start(memory)) / DAY
    return float(confidence_of(memory) * 0.5 ** (days / half_life))


def is_deprecated(memory: Memory, now: float, below: float = DEPRECATED_BELOW) -> bool:
    """Whether too little of its confidence is left, or it is too long on its clock. Only kinds
    that decay can be. It is still found by a search, and never given to an agent unasked."""
    half_life = half_life_of(memory)
    if half_life is None:
        return False
    days = (now - clock_start(memory)) / DAY
    return days > MAX_HALF_LIVES * half_life or confidence_now(memory, now) < below


def is_plain(memory: Memory) -> bool:
    """Whether nothing says how sure it is: no kind, no source and no confidence."""
    return all(memory.metadata.get(key) is None for key in (KIND, SOURCE, CONFIDENCE))


def certainty(
    memory: Memory, now: float, trust: Mapping[str, float], below: float = DEPRECATED_BELOW
) -> float:
    """How much surer it is than a memory that says nothing about it: -1..1, 0 for a plain one. A
    deprecated memory has the least."""
    if is_plain(memory):
        return 0.0
    if is_deprecated(memory, now, below):
        return -1.0
    sure = confidence_now(memory, now) * trust_of(memory, trust)
    return min(1.0, max(-1.0, sure / DEFAULT_CONFIDENCE - 1.0))


def is_due(memory: Memory, now: float, below: float, kept_days: float) -> bool:
    """Whether it may be deleted: deprecated for so long, stored by a machine, and nobody verified
    or pinned it."""
    since = moment_of(memory, DEPRECATED_AT)
    return (
        since is not None
        and now - since >= kept_days * DAY
        and source_of(memory) in MACHINE_SOURCES
        and not memory.pinned
        and memory.metadata.get(USER_VERIFIED) is not True
        and is_deprecated(memory, now, below)
    )


def used(memory: Memory, use: Use) -> Memory:
    """The memory after some more uses."""
    before, total = uses_of(memory), uses_of(memory) + use.count
    last = max(use.last, moment_of(memory, LAST_USED_AT) or use.last)
    fields: dict[str, Any] = {USES: total, LAST_USED_AT: last}
    steps = total // USES_A_STEP - before // USES_A_STEP
    sure = confidence_of(memory)
    if steps and sure < MAX_EARNED and not is_plain(memory):
        fields[CONFIDENCE] = round(min(MAX_EARNED, sure + steps * STEP), DIGITS)
    flagged_at = memory.metadata.get(REVIEW_USES)
    earned = total - (flagged_at if isinstance(flagged_at, int) else 0)
    lifted = REVIEW_KEYS if earned >= USES_WITHOUT_COMPLAINT else ()
    return _with(memory, fields, without=lifted)


def marked(memory: Memory, now: float, below: float) -> Memory:
    """The memory with `deprecated_at` if it is deprecated now, and without it otherwise; itself if
    it is so already."""
    if is_deprecated(memory, now, below) == (DEPRECATED_AT in memory.metadata):
        return memory
    if DEPRECATED_AT in memory.metadata:
        return _with(memory, {}, without=(DEPRECATED_AT,))
    return _with(memory, {DEPRECATED_AT: now})


def confirmed(memory: Memory, now: float) -> dict[str, Any]:
    """The change of its metadata when a person says that it is right; None removes a key."""
    fields: dict[str, Any] = dict.fromkeys((*REVIEW_KEYS, DEPRECATED_AT))
    fields |= {USER_VERIFIED: True, CONFIRMED_AT: now}
    low = confidence_of(memory) < DEFAULT_CONFIDENCE
    return fields | ({CONFIDENCE: DEFAULT_CONFIDENCE} if low else {})


def without_claims(before: Memory, after: Memory) -> Memory:
    """A changed memory without what was found out about another text."""
    return after if after.content == before.content else _with(after, {}, without=CLAIMS)


def restarted(before: Memory, after: Memory, now: float) -> Memory:
    """A memory that a caller changed, with its clock started again if it has another text, kind or
    confidence, or names other files."""
    decays = half_life_of(after) is not None
    keys = (FILES, COMMIT, *((KIND, CONFIDENCE) if decays else ()))
    is_new = after.content != before.content or any(
        after.metadata.get(key) != before.metadata.get(key) for key in keys
    )
    return stored_again(after, now) if is_new else after


def stored_again(memory: Memory, now: float) -> Memory:
    """A memory that a caller stored once more: its clock starts again, if it has one."""
    if half_life_of(memory) is None and not memory.metadata.get(FILES):
        return memory
    return _with(memory, {CONFIRMED_AT: now}, without=(DEPRECATED_AT,))


def _with(memory: Memory, fields: Mapping[str, Any], without: tuple[str, ...] = ()) -> Memory:
    kept = {key: value for key, value in memory.metadata.items() if key not in without}
    return replace(memory, metadata=kept | dict(fields))
