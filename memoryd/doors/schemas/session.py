"""The toolset `session`: wake, sleep, compact, list, read and rename sessions, and the working
memory."""

from __future__ import annotations

from memoryd.doors.schemas.core import RECALL
from memoryd.doors.schemas.schema import (
    ANY,
    COUNT,
    HINT,
    MESSAGE,
    OBJECT,
    SESSION_ID,
    TEXT,
    TEXTS,
    WHOLE,
    Schema,
    answer,
    many,
    shape,
    tool,
)

IDENTITY: Schema = {"type": "string", "description": "whose; default: default"}


def listed(names: str) -> Schema:
    """Fields that are listed by name only."""
    return dict.fromkeys(names.split(), ANY)


FACT = listed("id content how")
WHOLE_MESSAGE = MESSAGE | listed("tools_used metadata")
MARKER = listed("archive_id archive_name archived_at messages upto")
FACTS_OF_SESSION = listed(
    "session_id title identity created_at closed_at last_at last_consolidated messages turns "
    "archives"
)
COMPACTED = listed("session_id archived archive_name summary_by kept warnings") | {
    "facts": many(FACT)
}

SESSION = (
    tool(
        "wake_session",
        "Open a session and recall what to have in mind. The one before is consolidated first.",
        shape({"identity": IDENTITY, "session_id": TEXT, "hint": TEXT, "max_tokens": COUNT}),
        answer(
            {"notice": TEXT, "session_id": TEXT, "identity": TEXT, "created_at": TEXT},
            RECALL | HINT | {"consolidated": TEXTS},
        ),
    ),
    tool(
        "sleep_session",
        "Close a session: it becomes one history entry, and its lasting facts are kept.",
        shape({"session_id": SESSION_ID}),
        answer(COMPACTED | {"closed_at": TEXT}, HINT),
        repeats=True,
    ),
    tool(
        "compact_session",
        "Archive the older messages of a session; the last ones stay as they are.",
        shape({"session_id": SESSION_ID, "keep": {"type": "integer", "minimum": 0}}),
        answer(COMPACTED, HINT),
    ),
    tool(
        "list_sessions",
        "The sessions, latest first.",
        shape({"identity": TEXT, "limit": {**COUNT, "maximum": 1000, "default": 20}}),
        answer({"sessions": many(FACTS_OF_SESSION), "total": WHOLE}),
        reads=True,
        repeats=True,
    ),
    tool(
        "read_session",
        "The messages of a session, oldest first, and its archives.",
        shape(
            {
                "session_id": SESSION_ID,
                "limit": {**COUNT, "maximum": 1000, "default": 50},
                "before": {**WHOLE, "description": "order: read older ones"},
            }
        ),
        answer(
            FACTS_OF_SESSION
            | {"notice": TEXT, "messages": many(WHOLE_MESSAGE), "markers": many(MARKER)},
            HINT,
        ),
        reads=True,
        repeats=True,
    ),
    tool(
        "rename_session",
        "Give a session a title.",
        shape({"session_id": SESSION_ID, "title": TEXT}, ["title"]),
        answer({"session_id": TEXT, "title": TEXT}, HINT),
        repeats=True,
    ),
    tool(
        "brief",
        "What to know before planning a task: estimates, dead ends, dependencies, recipes.",
        shape({"task": TEXT, "files": TEXTS}, ["task"]),
        answer(listed("notice parts"), listed("tokens warnings")),
        reads=True,
        repeats=True,
    ),
    tool(
        "working_memory",
        "Read what an identity keeps in mind across sessions, or replace it with content: all of "
        "it, or one section.",
        shape({"identity": IDENTITY, "content": TEXT, "section": TEXT}),
        answer(
            {"notice": TEXT, "identity": TEXT, "content": TEXT, "sections": OBJECT},
            listed("updated_at changed warnings"),
        ),
        destroys=True,
        repeats=True,
    ),
)
