"""The toolset `manage`: list, change, review and forget memories."""

from __future__ import annotations

from memoryd.doors.schemas.schema import (
    AUDIENCE,
    COUNT,
    FILTER,
    FLAG,
    HINT,
    MAYBE,
    MAYBE_TEXT,
    MEMORY,
    OBJECT,
    TEXT,
    TEXTS,
    TYPE,
    WHEN,
    WHOLE,
    Schema,
    answer,
    many,
    shape,
    tool,
)

PROJECT_FACTS: Schema = {"project": MAYBE_TEXT, "memories": WHOLE, "types": OBJECT, "newest": TEXT}
SELECTED: Schema = {
    "memory_type": TYPE,
    "session_id": TEXT,
    "metadata": FILTER,
    "since": WHEN,
    "until": WHEN,
}
REVIEWS = ["confirm", "correct", "reject", "flag"]
ORDERED = ["newest", "oldest", "expiring", "most_used", "least_sure"]

MANAGE = (
    tool(
        "list_memories",
        "List memories, page by page, without a query. Pass cursor, with the same arguments, for "
        "the next page; null: this was the last.",
        shape(
            SELECTED
            | {
                "project": TEXT,
                "order": {"type": "string", "enum": ORDERED, "default": "newest"},
                "limit": {**COUNT, "maximum": 1000, "default": 20},
                "cursor": TEXT,
            }
        ),
        answer(
            {"notice": TEXT, "memories": many(MEMORY | MAYBE), "total": WHOLE, "cursor": MAYBE_TEXT}
        ),
        reads=True,
        repeats=True,
    ),
    tool(
        "update_memory",
        "Change a memory: only what is given. The old content is gone for good.",
        shape(
            {
                "memory_id": {"type": "string", "description": "id or name"},
                "content": TEXT,
                "memory_type": TYPE,
                "name": TEXT,
                "metadata": {"type": "object", "description": "merged; null removes a key"},
                "replace_metadata": {"type": "boolean", "description": "replace, do not merge"},
                "pinned": {"type": "boolean", "description": "never expires"},
                "expires_at": WHEN,
                "clear": {
                    "type": "array",
                    "items": {"type": "string", "enum": ["name", "expires_at"]},
                    "description": "remove the name; return to the type's lifetime",
                },
                "audience": AUDIENCE,
            },
            ["memory_id"],
        ),
        answer(MEMORY | {"changed": FLAG, "warnings": TEXTS}, MAYBE),
        destroys=True,
        repeats=True,
    ),
    tool(
        "memory_chain",
        "The memories that a memory supersedes and that supersede it, oldest first.",
        shape({"memory_id": {"type": "string", "description": "id or name"}}, ["memory_id"]),
        answer({"notice": TEXT, "id": TEXT, "memories": many(MEMORY | MAYBE)}),
        reads=True,
        repeats=True,
    ),
    tool(
        "list_projects",
        "The projects that have memories; null: shared by all. own: this connection's.",
        shape({}),
        answer({"own": MAYBE_TEXT, "projects": many(PROJECT_FACTS)}),
        reads=True,
        repeats=True,
    ),
    tool(
        "review_memory",
        "Record the user's judgement of a memory. confirm: right; correct: content is right "
        "instead; reject: wrong, deleted for good; flag: to be reviewed, reason says why.",
        shape(
            {
                "memory_id": {"type": "string", "description": "id or name"},
                "action": {"type": "string", "enum": REVIEWS},
                "content": TEXT,
                "reason": TEXT,
            },
            ["memory_id", "action"],
        ),
        answer(
            {"id": TEXT, "action": TEXT, "forgotten": FLAG, "warnings": TEXTS},
            {"memory": shape(MEMORY | MAYBE)},
        ),
        destroys=True,
        repeats=True,
    ),
    tool(
        "forget_memories",
        "Delete for good all memories that match. First call it without confirm: it only says how "
        "many match. Then confirm that number.",
        shape(
            SELECTED
            | {
                "older_than": {"type": "number", "description": "seconds"},
                "confirm": {**WHOLE, "description": "matched, as answered before"},
            }
        ),
        answer(
            {
                "matched": WHOLE,
                "forgotten": WHOLE,
                "types": OBJECT,
                "first": many(MEMORY | MAYBE),
            },
            HINT,
        ),
        destroys=True,
        repeats=True,
    ),
)
