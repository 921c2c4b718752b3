"""The filter that a caller means, checked; the same for searching and for forgetting."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo
from typing import Any

from memoryd.engine import checks
from memoryd.metadata import check_metadata
from memoryd.model import Filter, parse_type


def asked_filter(
    zone: tzinfo | None,
    memory_type: str | None,
    session_id: str | None,
    metadata: Mapping[str, Any] | None,
    since: object,
    until: object,
) -> Filter:
    """What each argument asks for; InvalidInput for what cannot be meant."""
    return Filter(
        type=None if memory_type in (None, "") else parse_type(memory_type),
        session_id=checks.label(session_id, "session_id"),
        metadata=check_metadata(metadata),
        since=checks.moment(since, "since", zone),
        until=checks.moment(until, "until", zone),
    )
