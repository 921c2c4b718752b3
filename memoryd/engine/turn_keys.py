"""The metadata keys that callers may not write: those of messages, and memoryd's own.

Role, speaker, order and the mark of a cleared window are metadata of a message, where searches and
exports find them. Only `add_turn` sets them: otherwise a caller could insert messages into the
window of another session, or set an order that no message can follow. memoryd's own keys are in
`fields`. An import accepts all of them as they were exported, after a check of each value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memoryd.engine import checks
from memoryd.errors import InvalidInput
from memoryd.fields import (
    KIND,
    LAST_USED_AT,
    PROJECT,
    SYSTEM_KEYS,
    USES,
    check_fields,
    check_system_fields,
)
from memoryd.metadata import check_metadata
from memoryd.model import ROLE, SPEAKER, Memory

ORDER, CLEARED = "order", "cleared"
ROLES = ("user", "assistant", "system", "tool")
TURN_KEYS = (ROLE, SPEAKER, ORDER, CLEARED)
OWN_KEYS = (*TURN_KEYS, *SYSTEM_KEYS)
MAX_ORDER = 2**53 - 1  # the largest integer that every JSON reader keeps exactly
MAX_IMPORTED = 2**48  # leaves enough room for later messages


def user_metadata(value: object, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Checked metadata from a user. Raises InvalidInput if it sets a key of messages or of memoryd
    to another value than in `before`, or a well-known field to a wrong one. With `before`, those
    keys are left out: memoryd may change them before the user's change is applied. Fewer uses are
    accepted too: the user has read the memory before the last of them."""
    clean = check_metadata(value)
    old = before or {}
    changed = {k: v for k, v in clean.items() if before is None or not _same(v, old.get(k))}
    for key in changed:
        if key in OWN_KEYS and not _is_outdated(key, clean[key], old.get(key)):
            raise _reserved(key)
    check_fields(changed, old.get(KIND))
    if isinstance(project := changed.get(PROJECT), str):
        clean[PROJECT] = checks.label(project, PROJECT)
    return clean if before is None else {k: v for k, v in clean.items() if k not in OWN_KEYS}


def _reserved(key: str) -> InvalidInput:
    if key in TURN_KEYS:
        whose, hint = "messages of a session", "Add a message with add_turn, or choose another key."
    else:
        whose, hint = "memoryd itself", "Choose another key."
    return InvalidInput(
        f"The metadata key {key!r} is reserved for {whose}.", code="metadata_reserved", hint=hint
    )


def imported_metadata(value: object) -> dict[str, Any]:
    """Checked metadata, perhaps of a message. Raises InvalidInput for values that no message has,
    or that memoryd never writes."""
    clean = check_metadata(value)
    check_system_fields(clean)
    for key in TURN_KEYS:
        if key in clean and not _could_be(key, clean[key]):
            raise InvalidInput(
                f"The metadata key {key!r} has a value that no message of a session has.",
                code="metadata_reserved",
                hint=f"Rename the key {key!r}, or leave it out.",
            )
    return clean


def is_message(memory: Memory) -> bool:
    """Whether a memory belongs in the window of its session."""
    return memory.metadata.get(ROLE) in ROLES and _is_order(memory.metadata.get(ORDER), MAX_ORDER)


def order_of(memory: Memory) -> int:
    """Its order among messages of the same time; 0 if it is not a message."""
    order = memory.metadata.get(ORDER, 0)
    return int(order) if _is_order(order, MAX_ORDER) else 0


def _could_be(key: str, value: object) -> bool:
    if key == ROLE:
        return value in ROLES
    if key == ORDER:
        return _is_order(value, MAX_IMPORTED)
    if key == CLEARED:
        return value is True
    try:
        return checks.label(value, SPEAKER) == value
    except InvalidInput:
        return False


def _is_order(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _is_outdated(key: str, value: Any, now: Any) -> bool:
    numbers = isinstance(value, int | float) and isinstance(now, int | float)
    return key in (USES, LAST_USED_AT) and numbers and bool(value < now)


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other
