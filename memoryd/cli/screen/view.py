"""What a live view shows, as plain data; `live` draws it, a pipe gets it as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


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
