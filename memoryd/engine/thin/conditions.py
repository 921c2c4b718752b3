"""The part of a filter that the store can test itself."""

from __future__ import annotations

from memoryd.engine.filters import Filter, OneOf
from memoryd.fields import PROJECT
from memoryd.queries import Conditions, Values


def conditions_of(filter: Filter) -> Conditions:
    """Conditions that every memory of the filter meets. Others may meet them, too: expired and
    superseded ones, and those that only the rest of the filter leaves out."""
    tests = [test for one in filter.where.equal if (test := _testable(one))]
    if filter.projects is not None and None not in filter.projects:
        tests.append((PROJECT, tuple(project for project in filter.projects if project)))
    return Conditions(
        type=filter.type,
        session_id=filter.session_id,
        since=filter.since,
        until=filter.until,
        pinned=filter.pinned,
        having=tuple(tests),
    )


def _testable(one: OneOf) -> tuple[str, Values] | None:
    """A condition on texts or truth values; None for others. A number may be stored as 1 or as 1.0,
    which a server keeps in different ways; see `adapters.chroma.rows`."""
    values = [_plain(value) for value in one.values]
    if one.key.startswith(("chroma:", "#", "$")) or None in values:
        return None
    return one.key, tuple(value for value in values if value is not None)


def _plain(value: object) -> str | bool | None:
    if isinstance(value, str) and "\0" not in value:
        return value
    is_flag = isinstance(value, tuple) and len(value) == 1 and isinstance(value[0], bool)
    return value[0] if is_flag and isinstance(value, tuple) else None
