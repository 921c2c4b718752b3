"""Checks of arguments. Each returns the clean value or raises InvalidInput with a stable code, a
sentence and a hint. All run before anything is changed, and test the size of a value before they
read it."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, tzinfo
from typing import Any

from memoryd.engine import checks
from memoryd.engine.filters import Filter, parse_where
from memoryd.errors import InvalidInput
from memoryd.fields import DIGEST_OF, SESSION_RECORD
from memoryd.labels import has_hidden, normal_name
from memoryd.metadata import plain_text
from memoryd.model import ID, MICRO, parse_type

MAX_LIMIT = 1000
MAX_NAME = 200
MAX_QUERY = 10_000
MAX_PATH = 4096
MAX_MOMENT = 100  # characters of a time
# Times that can be shown as a date in any time zone.
EARLIEST, LATEST = (datetime(*day, tzinfo=UTC).timestamp() for day in ((1, 1, 3), (9999, 12, 30)))


def content(value: object, max_bytes: int) -> str:
    """Content that can be stored, embedded and searched."""
    if not isinstance(value, str):
        raise _refused("content_not_text", f"Content must be text, not {_kind(value)}.")
    _check_size(len(value), max_bytes)  # a character has at least one byte
    _check_size(len(_utf8(value, "content_has_surrogate", "Content")), max_bytes)
    if "\0" in value:
        raise _refused("content_has_nul", "Content contains a NUL character.", "Remove it.")
    if not _is_visible(value):
        raise _refused("content_empty", "Content is empty.", "Give some text to remember.")
    return plain_text(value)


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise _refused(
            "content_too_long",
            f"Content has {size} bytes or more; at most {most} fit into one memory.",
            "Split it, or raise memory.max_content_bytes.",
        )


def query(value: object) -> str:
    """The query of a search, with spaces in place of NUL characters."""
    if not isinstance(value, str):
        raise _refused("query_not_text", f"The query must be text, not {_kind(value)}.")
    if len(value) > MAX_QUERY:
        raise _refused(
            "query_too_long",
            f"The query has {len(value)} characters; at most {MAX_QUERY} can be searched for.",
            "Shorten it to the words that matter.",
        )
    _utf8(value, "query_has_surrogate", "The query")
    if not _is_visible(value):
        hint = "Say what to look for, or give a filter."
        raise _refused("query_empty", "The query is empty.", hint)
    return value.replace("\0", " ")


def limit(value: object) -> int:
    """How many results: 1 to MAX_LIMIT."""
    number = _whole(value)
    if number is None or not 1 <= number <= MAX_LIMIT:
        raise _refused(
            "limit_invalid",
            f"The limit must be a whole number from 1 to {MAX_LIMIT}, not {_shown(value)}.",
            "Leave it out for the default.",
        )
    return number


def count(value: object, what: str) -> int:
    """A whole number of at least 1."""
    number = _whole(value)
    if number is None or number < 1:
        raise _refused(
            f"{what}_invalid",
            f"{what} must be a whole number above 0, not {_shown(value)}.",
            "Leave it out for the default.",
        )
    return number


def min_score(value: object) -> float:
    """The least score of a result: 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise _refused(
            "min_score_invalid",
            f"min_score must be a number from 0 to 1, not {_shown(value)}.",
            "Leave it out for the default.",
        )
    return float(value)


def label(value: object, what: str) -> str | None:
    """A name, session id or speaker: one short line in its normal form. None if empty or not
    given."""
    if value is None or value == "":
        return None
    code = f"{what}_invalid"
    if not isinstance(value, str):
        raise _refused(code, f"The {what} must be text, not {_kind(value)}.")
    if len(value) > MAX_NAME:
        raise _refused(code, f"The {what} has {len(value)} characters; at most {MAX_NAME} fit.")
    _utf8(value, code, f"The {what}")
    label = normal_name(value)
    # A speaker is only shown, and chats use names with direction marks. The others are addresses.
    hidden = _has_controls(label) if what == "speaker" else has_hidden(label)
    if hidden or not _is_visible(label):
        raise _refused(
            code,
            f"The {what} must be one line of visible text, without hidden characters.",
            "Type it again: copied text can contain zero-width or direction characters.",
        )
    if what == "name" and ID.fullmatch(label):
        raise _refused(code, "A name may not look like an id.", "Choose a name made of words.")
    if len(label) > MAX_NAME:  # the normal form of some characters has several
        raise _refused(code, f"The {what} has {len(label)} characters; at most {MAX_NAME} fit.")
    return label


def path_text(value: object, what: str) -> str:
    """A path as text, of at most 4096 characters."""
    if not isinstance(value, str) or not value or len(value) > MAX_PATH or "\0" in value:
        raise _refused(f"{what}_invalid", f"{what} must be a path.")
    return value


def flag(value: object, what: str) -> bool:
    """True or false; 0, 1 and texts are refused."""
    if not isinstance(value, bool):
        raise _refused(f"{what}_invalid", f"{what} must be true or false, not {_shown(value)}.")
    return value


def moment(value: object, what: str, zone: tzinfo | None) -> float | None:
    """An instant in epoch seconds from a number, a datetime, a date or ISO 8601 text.

    Without an offset it is local time in `zone`; a date alone is its first instant.
    """
    if value is None or value == "":
        return None
    found = _moment(value, zone)
    if found is None or not math.isfinite(found) or not EARLIEST <= found <= LATEST:
        raise _refused(
            f"{what}_invalid",
            f"{what} is not a time: {_shown(value)}.",
            "Use ISO 8601, for example 2030-01-31T09:00:00+01:00, or epoch seconds.",
        )
    return found


def _moment(value: object, zone: tzinfo | None) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return round(float(value), MICRO) if abs(value) <= LATEST else math.inf
    try:
        if isinstance(value, str):
            if len(value) > MAX_MOMENT:
                return None
            value = datetime.fromisoformat(value.strip())
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime.combine(value, datetime.min.time())
        if isinstance(value, datetime):
            return (value if value.tzinfo else value.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _whole(value: object) -> int | None:
    """The value as an integer, None if it is not one; 2.0 is an integer in JSON Schema."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_visible(text: str) -> bool:
    """Whether it has a visible character: not only spaces, controls and joiners."""
    return any(unicodedata.category(c)[0] not in "CZ" for c in text)


def _has_controls(text: str) -> bool:
    return any(unicodedata.category(c) == "Cc" for c in text)


def _utf8(text: str, code: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as exc:
        raise _refused(
            code,
            f"{what} contains half of a character (a lone surrogate).",
            "Send valid Unicode text.",
        ) from exc


def _shown(value: object) -> str:
    """A value for an error message, shortened; Python refuses to print very large numbers."""
    if isinstance(value, str):
        return repr(value[:100])
    if isinstance(value, list | tuple | Mapping):
        return _kind(value)
    try:
        return repr(value)[:100]
    except ValueError:
        return "a very large number"


def _kind(value: object) -> str:
    return "nothing" if value is None else type(value).__name__


def _refused(code: str, message: str, hint: str = "") -> InvalidInput:
    return InvalidInput(message, code=code, hint=hint)


def asked_filter(
    zone: tzinfo | None,
    memory_type: str | None,
    session_id: str | None,
    metadata: Mapping[str, Any] | None,
    since: object,
    until: object,
    pinned: bool | None = None,
) -> Filter:
    """A filter from the arguments of a call. Raises InvalidInput."""
    return Filter(
        type=None if memory_type in (None, "") else parse_type(memory_type),
        session_id=checks.label(session_id, "session_id"),
        where=parse_where(metadata),
        since=checks.moment(since, "since", zone),
        until=checks.moment(until, "until", zone),
        pinned=None if pinned is None else checks.flag(pinned, "pinned"),
    )


def without_records(filter: Filter) -> Filter:
    """The filter that also hides records of sessions and digests, unless it asks for them."""
    asked = any(filter.where.names(key) for key in (SESSION_RECORD, DIGEST_OF))
    return replace(filter, hides_records=not asked)
