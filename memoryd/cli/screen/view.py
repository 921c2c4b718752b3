"""What a live view shows, as plain data; `live` draws it, a pipe gets it as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

ABOVE = 3  # lines of a table above its rows: an empty one, its title, the names of its columns


class Section(NamedTuple):
    """A table: its title, columns and rows. A column that ends in ">" is aligned to the right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class View(NamedTuple):
    """Lines, tables, and a last line."""

    head: Sequence[str]
    sections: Sequence[Section]
    foot: str

    def fitted(self, height: int) -> View:
        """The view for a screen of so many lines: every table keeps its first rows. Short tables
        give the room that they do not need to the others."""
        extra = len(self.head) + 2 + len(self.sections) * ABOVE
        left, waiting = height - extra, len(self.sections)
        rows: dict[str, int] = {}
        for section in sorted(self.sections, key=lambda one: len(one.rows)):
            rows[section.title] = max(min(len(section.rows), left // waiting), 1)
            left -= rows[section.title]
            waiting -= 1
        fitted = [one._replace(rows=one.rows[: rows[one.title]]) for one in self.sections]
        return self._replace(sections=fitted)
