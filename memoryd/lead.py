"""What a model reads of a memory: some of its fields, its speaker, and the text.

    Files: src/db.ts | Module: auth | Kind: gotcha
    Anna: The pool must be closed before a fork.

A memory without such fields is read as its text alone. Which fields are read is configured; the
lead is short, because a model reads few words and it is repeated before each passage of a text.
"""

from __future__ import annotations

from collections.abc import Sequence

from memoryd import fields
from memoryd.errors import InvalidInput
from memoryd.model import Memory, who

LABELS = {
    fields.FILES: "Files",
    fields.MODULES: "Module",
    fields.KIND: "Kind",
    fields.TAGS: "Tags",
    fields.CATEGORY: "Category",
    fields.NAME: "Name",
    fields.STEPS: "Steps",
    fields.TRIED: "Tried",
    fields.WHY_FAILED: "Failed",
    fields.USED_INSTEAD: "Instead",
}
KNOWN = tuple(LABELS)
DEFAULT = (fields.FILES, fields.MODULES, fields.KIND, fields.TAGS, fields.CATEGORY, fields.NAME)
MAX_LEAD = 200  # characters of fields


def lead_of(memory: Memory, names: Sequence[str]) -> str:
    """What a model reads before the text: the fields of these names, and the speaker."""
    speaker = who(memory)
    return _fields(memory, names) + (f"{speaker}: " if speaker else "")


def read_text(memory: Memory, names: Sequence[str]) -> str:
    """All that a model reads of a memory."""
    return lead_of(memory, names) + memory.content


def check_names(names: Sequence[str]) -> None:
    """Raise InvalidInput if one of these is not a field that a model can read."""
    for name in names:
        if name not in LABELS:
            raise InvalidInput(
                f"There is no field {name[:50]!r} to read.",
                code="field_unknown",
                hint=f"Use {', '.join(KNOWN)}.",
            )


def _fields(memory: Memory, names: Sequence[str]) -> str:
    """The fields on one line, as many texts of each as fit."""
    parts: list[str] = []
    room = MAX_LEAD
    for name in names:
        taken: list[str] = []
        for text in fields.texts_of(memory, name):
            text = " ".join(text.split())
            if len(text) + 2 > room:
                break
            taken.append(text.replace("_", " ") if name == fields.KIND else text)
            room -= len(text) + 2
        if taken:
            parts.append(f"{LABELS[name]}: {', '.join(taken)}")
    return " | ".join(parts) + "\n" if parts else ""
