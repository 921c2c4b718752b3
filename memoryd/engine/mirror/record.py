"""What the mirror wrote into MEMORY.md, version by version, kept between starts.

A person may edit an older version than the newest one. Only the record of that version tells what
the person removed from it. The record holds ids and checksums, no texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

KEPT = 50  # versions


@dataclass(frozen=True, slots=True)
class Mark:
    """An item of a version: the memory, and the checksum of its text."""

    id: str
    check: str


@dataclass(slots=True)
class MirrorRecord:
    """The last versions by their names, oldest first, each with its items by their handles; the
    newest one whose file was certainly written; and the ids of memories whose items were removed,
    but which are held until a person confirms."""

    folder: str
    versions: dict[str, dict[str, Mark]] = field(default_factory=dict)
    newest: str | None = None
    held: list[str] = field(default_factory=list)

    def add(self, version: str, items: dict[str, Mark]) -> None:
        self.versions[version] = items
        for name in list(self.versions)[:-KEPT]:
            del self.versions[name]

    def ids(self) -> set[str]:
        """Every memory that is named."""
        return {mark.id for items in self.versions.values() for mark in items.values()}

    def drop(self, ids: Iterable[str]) -> None:
        """Nothing is left of these memories."""
        gone = set(ids)
        for items in self.versions.values():
            for handle in [handle for handle, mark in items.items() if mark.id in gone]:
                del items[handle]
        self.held = [id for id in self.held if id not in gone]

    def id_of(self, handle: str) -> str | None:
        """The memory that a handle names, in the newest version that has it."""
        for items in reversed(self.versions.values()):
            if handle in items:
                return items[handle].id
        return None

    def text(self) -> str:
        versions = {
            name: {handle: [mark.id, mark.check] for handle, mark in items.items()}
            for name, items in self.versions.items()
        }
        facts = {"folder": self.folder, "versions": versions, "newest": self.newest}
        return json.dumps(facts | {"held": self.held})


def record_from(text: str | None, folder: str) -> MirrorRecord:
    """The record of this folder; an empty one if there is none, or if it is damaged."""
    try:
        found: Any = json.loads(text or "{}")
        if found.get("folder") != folder:
            return MirrorRecord(folder)
        versions = {
            str(name): {str(handle): Mark(str(id), str(check)) for handle, (id, check) in i.items()}
            for name, i in found["versions"].items()
        }
        return MirrorRecord(folder, versions, found["newest"], [str(id) for id in found["held"]])
    except (ValueError, KeyError, TypeError, AttributeError):
        return MirrorRecord(folder)
