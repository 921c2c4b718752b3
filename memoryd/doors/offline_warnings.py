"""Warnings of a store whose server cannot be reached, in the answers of all tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memoryd.doors.schemas import READING
from memoryd.engine.engine import Engine
from memoryd.offline import KNOWN

QUEUED = "Queued, not yet on the server: it cannot be reached. It is sent when the server is back."


def with_warnings(
    engine: Engine, name: str, answer: dict[str, Any], queued: Sequence[str]
) -> dict[str, Any]:
    """The answer of a tool, with a warning if it shows what was known before the outage, or if a
    write of it is `queued`."""
    known = answer.get("warnings") or []
    new = [QUEUED] if queued else []
    if name in READING and (trouble := engine.store_trouble()):
        reason = trouble.partition(KNOWN)[0]
        new += [] if any(said.startswith(reason) for said in known) else [trouble]
    return answer | {"warnings": [*known, *new]} if new else answer
