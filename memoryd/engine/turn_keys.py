"""The metadata that makes a memory a message of a session, and who may write it.

Role, speaker, order and the mark of a cleared window stand in a message's metadata, where searches
and exports find them. Only `add_turn` makes them: with them anybody could put words into another's
window, or give an order that no message can follow. An import takes them as they were exported,
after a look at each value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memoryd.engine import checks
from memoryd.errors import InvalidInput
from memoryd.metadata import check_metadata
from memoryd.model import ROLE, SPEAKER, Memory

ORDER, CLEARED = "order", "cleared"
ROLES = ("user", "assistant", "system", "tool")
TURN_KEYS = (ROLE, SPEAKER, ORDER, CLEARED)
MAX_ORDER = 2**53 - 1  # what every reader of JSON gets back unchanged
MAX_IMPORTED = 2**48  # more messages can follow than will ever be said


def user_metadata(value: object, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Checked metadata of a memory that is no message, or of a message that stays as it was said
    in `before`; InvalidInput otherwise."""
    clean = check_metadata(value)
    for key in TURN_KEYS:
        if key in clean and (before is None or not _same(clean[key], before.get(key))):
            raise InvalidInput(
                f"The metadata key {key!r} is kept for the messages of a session.",
                code="metadata_reserved",
                hint="Add a message with add_turn, or choose another key.",
            )
    return clean


def imported_metadata(value: object) -> dict[str, Any]:
    """Checked metadata that may be a message's; InvalidInput where no message could have it."""
    clean = check_metadata(value)
    for key in TURN_KEYS:
        if key in clean and not _could_be(key, clean[key]):
            raise InvalidInput(
                f"No message of a session has this value of the metadata key {key!r}.",
                code="metadata_reserved",
                hint=f"Rename the key {key!r}, or leave it out.",
            )
    return clean


def is_message(memory: Memory) -> bool:
    """Whether a memory belongs into its session's window."""
    return memory.metadata.get(ROLE) in ROLES and _is_order(memory.metadata.get(ORDER), MAX_ORDER)


def order_of(memory: Memory) -> int:
    """Its place among messages of the same instant; 0 for what is no message."""
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


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other
