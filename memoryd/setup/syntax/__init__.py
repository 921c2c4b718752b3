"""The syntaxes of configuration files: each module finds a key in a text and changes only that.

A configuration belongs to its user: rewriting it from its parsed value would lose comments, order
and layout. So each syntax is edited as text, in the smallest part, and whoever edits parses the
text before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Protocol, cast

Key = str | int  # a number is a place in an array, which only the syntaxes of JSON can edit


class Fault(Exception):
    """The text cannot be parsed, or not be edited here."""

    def __init__(self, text: str, position: int, why: str) -> None:
        super().__init__(why)
        self.line = text.count("\n", 0, position) + 1
        self.why = why


class Syntax(Protocol):
    """What every module here has."""

    def parse(self, text: str) -> dict[str, Any]:
        """The value of a text; empty if it has none. Raises Fault."""

    def put(self, text: str, path: Sequence[Any], value: Any) -> str:
        """The text with this value at this path; what is missing on the way is made. The place
        after the last of an array adds to it."""

    def drop(self, text: str, path: Sequence[Any], keep: int) -> str:
        """The text without this key, and without the parents that are empty then. The first `keep`
        parents stay."""


def syntax(name: str) -> Syntax:
    """The syntax of this name, imported late: only one is needed at a time."""
    import importlib

    module: ModuleType = importlib.import_module(f"{__name__}.{name}")
    return cast(Syntax, module)


def newline(text: str) -> str:
    """What ends the lines of a text."""
    end = text.find("\n")
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def nested(path: Sequence[Key], value: Any) -> Any:
    """The value below these keys; below a place, it is the only one of its array."""
    for key in reversed(path):
        value = {key: value} if isinstance(key, str) else [value]
    return value
