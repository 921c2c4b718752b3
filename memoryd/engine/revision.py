"""What an update makes of a memory: checks and rules, no effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from memoryd.engine import checks
from memoryd.engine.context import Parts
from memoryd.errors import InvalidInput
from memoryd.metadata import check_metadata
from memoryd.model import Memory, MemoryType, expiry, is_expired, parse_type

KEEP: Any = object()  # leave this as it is


def clean(given: Mapping[str, Any], parts: Parts) -> dict[str, Any]:
    """The fields that are to change, checked; `expires_at` is settled later."""
    rules: dict[str, Callable[[Any], Any]] = {
        "content": lambda value: checks.content(value, parts.memory.max_content_bytes),
        "type": parse_type,
        "metadata": check_metadata,
        "pinned": lambda value: checks.flag(value, "pinned"),
        "name": lambda value: checks.label(value, "name"),
        "session_id": lambda value: checks.label(value, "session_id"),
    }
    return {key: rules[key](value) for key, value in given.items() if value is not KEEP}


def revised(before: Memory, changes: Mapping[str, Any], expires_at: object, parts: Parts) -> Memory:
    """The memory after the update; InvalidInput if its new name belongs to another."""
    after = replace(before, **changes)
    _check_name_is_free(after, parts)
    return replace(after, expires_at=_new_expiry(before, after, expires_at, parts))


def settled_expiry(
    type: MemoryType, created_at: float, override: object, pinned: bool, parts: Parts
) -> float | None:
    """When a memory expires, as asked for; a time that has passed is refused."""
    at = checks.moment(override, "expires_at", parts.lifetimes.zone)
    if at is not None and at <= parts.clock() and not pinned:
        raise InvalidInput(
            "expires_at is not in the future: the memory would be gone at once.",
            code="expires_at_invalid",
            hint="Give a later time, or leave it out.",
        )
    return expiry(type, created_at, parts.lifetimes, override=at, pinned=pinned)


def _new_expiry(before: Memory, after: Memory, given: object, parts: Parts) -> float | None:
    """An override survives an update; a change of type or pin asks the rule again."""
    changed = (before.type, before.pinned) != (after.type, after.pinned)
    if given is KEEP and not changed:
        return before.expires_at
    override = None if given is KEEP else given
    # The lifetime counts from now where it starts anew: from creation it might be over.
    start = parts.clock() if changed else before.created_at
    return settled_expiry(after.type, start, override, after.pinned, parts)


def _check_name_is_free(memory: Memory, parts: Parts) -> None:
    other = parts.index.named(memory.name) if memory.name else None
    if other and other.id != memory.id and not is_expired(other, parts.clock()):
        raise InvalidInput(
            f"Another memory has the name {memory.name!r}.",
            code="name_taken",
            hint="Forget that one first, or store under the name to replace it.",
        )
