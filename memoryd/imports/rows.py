"""The shape that every reader makes: rows to import, and what it left out and why.

A row keeps the id and the time that its program gave it. Where a program has no ids, one is derived
from what identifies the row, so that a second import finds it again. The keys of memoryd itself are
never taken from a file: what looks like one is kept as `original_<key>`.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from typing import Any

from memoryd.fields import (
    FILES,
    KIND,
    MAX_ITEMS,
    MAX_KIND,
    MAX_TEXT,
    NOTE_KINDS,
    PROJECT,
    RELATIONS,
    RULES,
    SOURCE,
    SYSTEM_KEYS,
    TAGS,
)
from memoryd.labels import has_hidden, normal_name
from memoryd.model import ROLE, SPEAKER

FACT, CONVERSATION = "fact", "conversation"
USER, ASSISTANT = "user", "assistant"
ORDER, TYPE, CREATED = "order", "type", "created_at"
IMPORT, FROM = "import", "imported_from"
MAX_LABEL = 200  # characters of a project, session or speaker
EPOCH_MILLISECONDS = 1e11  # larger numbers are milliseconds: in seconds it is the year 5138
# Keys that mean something to memoryd, and that no other program may set.
RESERVED = frozenset(
    [
        *(TYPE, CREATED, "expires_at", "timestamp", ROLE, SPEAKER, ORDER, "cleared", SOURCE, FROM),
        *RELATIONS,
        *SYSTEM_KEYS,
    ]
)


@dataclass(frozen=True, slots=True)
class Row:
    """Something to import. `file_time`: of the file, for a row without a time of its own."""

    id: str
    type: str
    text: str
    created_at: float | None
    metadata: dict[str, Any]
    session: str | None = None
    updated_at: float | None = None
    file_time: float | None = None
    where: str = ""  # in which file and line, for messages
    vector: str | None = None  # as `export_file` writes one

    def fields(self, *, keep: bool) -> dict[str, Any]:
        """The row as the daemon takes it. `keep`: it does not expire."""
        own = {TYPE: self.type, CREATED: self.created_at}
        made: dict[str, Any] = {
            "id": self.id,
            "document": self.text,
            "metadata": {key: value for key, value in own.items() if value is not None}
            | self.metadata,
            "session_id": self.session,
            "updated_at": self.updated_at,
            "file_time": self.file_time,
            "vector": self.vector,
            "lasts": keep or None,
        }
        return {key: value for key, value in made.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that is left out. `is_fault`: it is damaged, not just of no use."""

    reason: str
    where: str = ""
    count: int = 1
    is_fault: bool = False


Found = Iterator[Row | Skipped]


def broken(where: str, what: str) -> Skipped:
    """Something damaged that is left out."""
    return Skipped(what, where, is_fault=True)


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes the rows of one format."""

    format: str
    file_time: float | None = None
    shared: dict[str, Any] = field(default_factory=dict)  # metadata that all rows get
    zone: tzinfo | None = UTC  # of times without an offset; None: local time

    def fact(self, id: str, text: str, created_at: object = None, **given: Any) -> Row:
        """A fact. Further arguments are those of `_row`."""
        return self._row(FACT, id, text, created_at, **given)

    def message(
        self, id: str, text: str, created_at: object, *, session: str, role: str, order: int,
        **given: Any,
    ) -> Row:  # fmt: skip
        """A message of a session."""
        keys = {ROLE: role, ORDER: order}
        made = self._row(CONVERSATION, id, text, created_at, own=keys, **given)
        return replace(made, session=label(session) or derived_id("session", session))

    def _row(
        self,
        type: str,
        id: str,
        text: str,
        created_at: object,
        *,
        where: str = "",
        updated_at: object = None,
        kind: object = None,
        tags: Iterable[object] = (),
        files: Iterable[object] = (),
        project: object = None,
        metadata: Mapping[str, Any] | None = None,
        own: Mapping[str, Any] | None = None,
    ) -> Row:
        fields: dict[str, Any] = {
            KIND: kind_from(kind),
            TAGS: texts(tags),
            FILES: texts(files),
            PROJECT: label(project),
        }
        made = plain(metadata or {}) | {key: value for key, value in fields.items() if value}
        made |= self.shared | {SOURCE: IMPORT, FROM: self.format} | dict(own or {})
        changed, created = moment(updated_at, self.zone), moment(created_at, self.zone)
        return Row(
            id=id,
            type=type,
            text=text.strip(),
            created_at=created,
            metadata=made,
            updated_at=None if changed == created else changed,
            file_time=self.file_time if created is None else None,
            where=where,
        )


def derived_id(*parts: object) -> str:
    """An id made of what identifies a row: the same for the same parts, on any machine."""
    text = "\0".join(str(part) for part in parts)
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=10).hexdigest()


def moment(value: object, zone: tzinfo | None = UTC) -> float | None:
    """Epoch seconds from seconds, milliseconds or ISO 8601 text; None if it is no time. A text
    without an offset is of the `zone`; None: local time."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        return _from_text(value.strip(), zone)
    if not isinstance(value, int | float) or not abs(value) < 1e15 or not math.isfinite(value):
        return None
    seconds = value / 1000 if abs(value) > EPOCH_MILLISECONDS else value
    return round(float(seconds), 6)


def _from_text(text: str, zone: tzinfo | None) -> float | None:
    if re.fullmatch(r"\d{9,16}(\.\d+)?", text):
        return moment(float(text))
    try:
        found = datetime.fromisoformat(text[:100])
        return (found if found.tzinfo else found.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def kind_from(value: object) -> str | None:
    """A name as a kind: lower case, words joined by underscores. None if there is none, or if it is
    a kind that only memoryd gives."""
    if not isinstance(value, str):
        return None
    kind = re.sub("[^a-z0-9]+", "_", value.lower()).strip("_")[:MAX_KIND]
    return None if not kind or kind in NOTE_KINDS else kind


def texts(values: object) -> list[str]:
    """The texts of a list, each once, as far as memoryd takes them."""
    items = values if isinstance(values, Iterable) and not isinstance(values, str | bytes) else ()
    found = (item.strip()[:MAX_TEXT] for item in items if isinstance(item, str))
    return list(dict.fromkeys(text for text in found if text))[:MAX_ITEMS]


def split_list(text: object) -> list[str]:
    """The items of a text with commas."""
    return texts(text.split(",")) if isinstance(text, str) else []


def label(value: object) -> str | None:
    """A text as the name of a project or session; None if it cannot be one."""
    if not isinstance(value, str):
        return None
    name = normal_name(value[: 4 * MAX_LABEL])
    return None if not name or len(name) > MAX_LABEL or has_hidden(name) else name


def plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of another program, without what is empty. A key that memoryd reserves, or that has
    a value which memoryd would not accept for it, gets another name."""
    made: dict[str, Any] = {}
    for key, value in metadata.items():
        if value is None or value == "" or value == [] or value == {}:
            continue
        rule = RULES.get(key)
        is_ours = key in RESERVED or (rule is not None and not rule[0](value))
        made[f"original_{key}" if is_ours else str(key)] = value
    return made
