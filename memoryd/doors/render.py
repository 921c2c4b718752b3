"""Memories and errors as clients read them: plain JSON values, times in ISO 8601 with zone.

Recalled text goes out as data (`sanitize`), in JSON strings, which it cannot end, and after a
notice. The same value is the structured answer and, serialised as JSON, the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, tzinfo
from typing import Any

from memoryd.engine.census import Values
from memoryd.engine.turn_keys import ORDER, OWN_KEYS
from memoryd.engine.windows import Window
from memoryd.errors import MemorydError
from memoryd.fields import SOURCE, TOOL, TOOLS_USED
from memoryd.model import ROLE, SPEAKER, Chain, Hit, Listed, Memory, Page, Reviewed, Stored, Why
from memoryd.recall_text import NOTICE
from memoryd.sanitize import as_data, metadata_as_data

OF_MESSAGES = {*OWN_KEYS, SOURCE, TOOL, TOOLS_USED}  # metadata that a message shows by itself


def moment(at: float, zone: tzinfo | None) -> str:
    """Local time with its offset, to the millisecond."""
    when = datetime.fromtimestamp(at, zone) if zone else datetime.fromtimestamp(at).astimezone()
    return when.isoformat(timespec="milliseconds")


def memory(found: Memory, zone: tzinfo | None) -> dict[str, Any]:
    """One memory; name, session, pin and time of change only if it has them."""
    made = exact_memory(found, zone)
    texts = {key: as_data(made[key]) for key in ("content", "name", "session_id") if key in made}
    return made | texts | {"metadata": metadata_as_data(found.metadata)}


def exact_memory(found: Memory, zone: tzinfo | None) -> dict[str, Any]:
    """The same with its text as it is stored: for its owner, never for an agent."""
    made: dict[str, Any] = {
        "id": found.id,
        "content": found.content,
        "type": str(found.type),
        "created_at": moment(found.created_at, zone),
        "expires_at": None if found.expires_at is None else moment(found.expires_at, zone),
        "metadata": dict(found.metadata),
    }
    changed = None if found.updated_at is None else moment(found.updated_at, zone)
    extra: dict[str, Any] = {"name": found.name, "session_id": found.session_id}
    extra |= {"pinned": found.pinned or None, "updated_at": changed}
    return made | {key: value for key, value in extra.items() if value is not None}


def recalled(found: Memory, zone: tzinfo | None) -> dict[str, Any]:
    """One memory that was asked for."""
    return {"notice": NOTICE} | memory(found, zone)


def hit(found: Hit, zone: tzinfo | None) -> dict[str, Any]:
    made = memory(found.memory, zone) | {"score": round(found.score, 4)}
    extra: dict[str, Any] = {
        "passage": None if found.passage is None else as_data(found.passage),
        "cut": found.cut or None,
        "similar": list(found.folded) or None,
        "deprecated": found.deprecated or None,
        "why": None if found.why is None else why(found.why),
    }
    return made | {key: value for key, value in extra.items() if value is not None}


def why(parts: Why) -> dict[str, float]:
    """The parts of a score; those that are zero are left out, except for the two signals."""
    found = {key: round(value, 4) for key, value in asdict(parts).items()}
    return {key: value for key, value in found.items() if value or key in ("dense", "lexical")}


def page(found: Page, zone: tzinfo | None, *, explain: bool = False) -> dict[str, Any]:
    """The results of a search; `explain`: with the time of each step."""
    results = [hit(h, zone) for h in found.hits]
    made = {"notice": NOTICE, "results": results, "warnings": list(found.warnings)}
    if not explain:
        return made
    return made | {"timings": {key: round(1000 * s, 2) for key, s in found.timings.items()}}


def listed(found: Listed, zone: tzinfo | None) -> dict[str, Any]:
    memories = [memory(m, zone) for m in found.memories]
    return {
        "notice": NOTICE,
        "memories": memories,
        "total": found.total,
        "cursor": found.cursor,
    }


def chain(found: Chain, zone: tzinfo | None) -> dict[str, Any]:
    memories = [memory(m, zone) for m in found.memories]
    return {"notice": NOTICE, "id": found.id, "memories": memories}


def reviewed(done: Reviewed, zone: tzinfo | None) -> dict[str, Any]:
    now = {} if done.memory is None else {"memory": memory(done.memory, zone)}
    how = {"id": done.id, "action": done.action, "forgotten": done.memory is None}
    return how | {"warnings": list(done.warnings)} | now


def stored(done: Stored, zone: tzinfo | None) -> dict[str, Any]:
    how = {"duplicate": done.duplicate, "replaced": done.replaced}
    return memory(done.memory, zone) | how | {"warnings": list(done.warnings)}


def values(found: Values, most: int) -> list[dict[str, Any]]:
    """The first values with how many memories have each."""
    return [
        {"value": None if value is None else as_data(value), "memories": count}
        for value, count in found[:most]
    ]


def window(found: Window, zone: tzinfo | None) -> dict[str, Any]:
    return {
        "notice": NOTICE,
        "session_id": as_data(found.session_id),
        "messages": [message(m, zone) for m in found.messages],
    } | ({"hint": hidden(found.hidden)} if found.hidden else {})


def hidden(count: int) -> str:
    """The hint for messages that a window leaves out."""
    return f"{count} messages of another project, or no longer valid, are not shown."


def message(said: Memory, zone: tzinfo | None) -> dict[str, Any]:
    """One message of a window."""
    made = {
        "id": said.id,
        "role": said.metadata[ROLE],
        "content": as_data(said.content),
        "at": moment(said.created_at, zone),
        "order": said.metadata[ORDER],
    }
    for key in (SPEAKER, SOURCE, TOOL):
        if isinstance(value := said.metadata.get(key), str):
            made[key] = as_data(value)
    return made


def whole_message(said: Memory, zone: tzinfo | None) -> dict[str, Any]:
    """One message with the tools that were used for it and its own metadata, if it has some."""
    own = {key: value for key, value in said.metadata.items() if key not in OF_MESSAGES}
    extra = {TOOLS_USED: said.metadata.get(TOOLS_USED), "metadata": own}
    return message(said, zone) | metadata_as_data({k: v for k, v in extra.items() if v})


def mirror(state: Mapping[str, Any] | None, zone: tzinfo | None) -> dict[str, Any] | None:
    """The state of the mirror; None if there is none."""
    if state is None:
        return None
    return written(state, zone)


def written(state: Mapping[str, Any], zone: tzinfo | None) -> dict[str, Any]:
    """The state of files that memoryd writes: the mirror, or one block."""
    at, trouble = state["written_at"], state["trouble"]
    return {
        **state,
        "written_at": None if at is None else moment(at, zone),
        "trouble": None if trouble is None else error(trouble),
    }


def error(exc: MemorydError) -> dict[str, Any]:
    """Code, sentence and hint; for some errors also the seconds until a retry makes sense."""
    again = getattr(exc, "retry_after", None)
    facts = {"code": exc.code, "message": exc.message, "hint": exc.hint}
    return facts | ({} if again is None else {"retry_after": again})


def error_text(exc: MemorydError) -> str:
    """The same as text."""
    return f"Error ({exc.code}): {exc.message}" + (f"\nTry: {exc.hint}" if exc.hint else "")
