"""The toolset `notes`."""

from __future__ import annotations

from memoryd.doors.schemas.schema import (
    COUNT,
    FLAG,
    OBJECT,
    TEXT,
    TEXTS,
    WHOLE,
    Schema,
    answer,
    many,
    shape,
    tool,
)

NOTE: Schema = {
    "id": TEXT,
    "name": TEXT,
    "aliases": TEXTS,
    "seq": WHOLE,
    "kind": TEXT,
    "created_at": TEXT,
    "updated_at": TEXT,
    "content": TEXT,
    "metadata": OBJECT,
    "citation": TEXT,
}
NOTE_KIND: Schema = {"type": "string", "enum": ["note", "archive"]}

NOTES = (
    tool(
        "read_notes",
        "Read the note with a name or alias; without a name, list all notes, oldest first. Names "
        "match in any case.",
        shape(
            {
                "name": TEXT,
                "kind": NOTE_KIND,
                "limit": {**COUNT, "maximum": 1000},
                "after": {**WHOLE, "description": "seq of the last note of the page before"},
            }
        ),
        answer({"notice": TEXT, "notes": many(NOTE), "total": WHOLE}),
        reads=True,
        repeats=True,
    ),
    tool(
        "edit_notes",
        "Keep notes under unique names. add: name, content (aliases, kind); a name that exists is "
        "an error. write: name, content; the old content is gone. rename: name, new_name. alias: "
        "name, alias, one more name for it. unalias: alias. remove: name; deletes the note.",
        shape(
            {
                "action": {
                    "type": "string",
                    "enum": ["add", "write", "rename", "alias", "unalias", "remove"],
                },
                "name": TEXT,
                "content": TEXT,
                "new_name": TEXT,
                "keep_alias": {"type": "boolean", "description": "the old name stays as alias"},
                "alias": TEXT,
                "aliases": TEXTS,
                "kind": NOTE_KIND,
                "metadata": OBJECT,
            },
            ["action"],
        ),
        answer({"action": TEXT, "changed": FLAG, "warnings": TEXTS}, {"note": shape(NOTE)}),
        destroys=True,
    ),
)
