"""TOML. A table of ours is added at the end of the file, which is a place where any table may be.

Inline tables (`servers = {a = {...}}`) cannot be added to from outside; they are refused with a
hint instead of being rewritten.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from memoryd.setup.syntax import Fault, newline

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
LINE_OF_ERROR = re.compile(r"\(at line (\d+), column \d+\)")
# A string of each kind, the longer quotes first.
STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.S,
)
KEY_PART = re.compile(r'[ \t]*(?:([A-Za-z0-9_-]+)|("(?:[^"\\\n]|\\.)*")|\'([^\'\n]*)\')[ \t]*')


@dataclass(frozen=True, slots=True)
class Statement:
    """A header or a key with its value: whole lines from `start` to `end`, and its full path."""

    start: int
    end: int
    path: tuple[str, ...]
    is_header: bool


def parse(text: str) -> dict[str, Any]:
    """The value of a text. Raises Fault."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        found = LINE_OF_ERROR.search(str(exc))
        line = int(found[1]) if found else text.count("\n") + 1
        fault = Fault(text, 0, LINE_OF_ERROR.sub("", str(exc)).strip())
        fault.line = line
        raise fault from None
    except ValueError:
        raise Fault(text, 0, "a number in it is too long") from None
    except RecursionError:
        raise Fault(text, 0, "it is nested too deeply") from None


def put(text: str, path: Sequence[str], value: dict[str, Any]) -> str:
    """The text with a table of this path at its end; one that is there is removed first."""
    _refuse_inline(text, path)
    text = drop(text, path, len(path))
    end = newline(text)
    if text and not text.endswith("\n"):
        text += end
    lines = [f"[{'.'.join(map(_key, path))}]"]
    lines += [f"{_key(key)} = {_value(item)}" for key, item in value.items()]
    return text + (end if text else "") + end.join([*lines, ""])


def drop(text: str, path: Sequence[str], keep: int) -> str:
    """The text without this table and those below it. A parent that has a header of its own stays:
    `put` writes none."""
    _refuse_inline(text, path)
    wanted = tuple(path)
    regions: list[tuple[int, int]] = []
    for statement in statements(text):
        if statement.path[: len(wanted)] == wanted:
            start = statement.start
            if statement.is_header and (blank := re.search(r"(?<=\n)\r?\n\Z", text[:start])):
                start = blank.start()
            regions.append((start, statement.end))
    for start, end in reversed(regions):
        text = text[:start] + text[end:]
    return text


def statements(text: str) -> Iterator[Statement]:
    """Every header and key of a text that is known to be valid."""
    at = 0
    table: tuple[str, ...] = ()
    while at < len(text):
        found = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\r?\n|\Z)").match(text, at)
        if found and found.end() > at:  # a blank line or a comment
            at = found.end()
            continue
        start, at = at, at + len(_blanks(text, at))
        brackets = len(text[at:]) - len(text[at:].lstrip("[")) if text[at] == "[" else 0
        path, at = _path(text, at + min(brackets, 2))
        if brackets:
            table = path
        else:
            path = (*table, *path)
        at = _end(text, at)
        yield Statement(start, at, path, bool(brackets))


def _blanks(text: str, at: int) -> str:
    found = re.compile(r"[ \t]*").match(text, at)
    return found[0] if found else ""


def _path(text: str, at: int) -> tuple[tuple[str, ...], int]:
    """A dotted key, and where it ends."""
    parts = []
    while True:
        found = KEY_PART.match(text, at)
        if found is None:
            raise Fault(text, at, "a key is expected here")
        bare, basic, literal = found.groups()
        parts.append(tomllib.loads(f"x = {basic}")["x"] if basic else bare or literal or "")
        at = found.end()
        if text[at : at + 1] != ".":
            return tuple(parts), at
        at += 1


def _end(text: str, at: int) -> int:
    """Where the line ends on which a statement ends: after its strings, brackets and comment."""
    depth = 0
    while at < len(text):
        if found := STRING.match(text, at):
            at = found.end()
            continue
        character = text[at]
        if character == "#":
            line = text.find("\n", at)
            at = len(text) if line < 0 else line
            continue
        at += 1
        if character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        elif character == "\n" and depth <= 0:
            return at
    return at


def _refuse_inline(text: str, path: Sequence[str]) -> None:
    """Fault if the key would be inside of an inline table."""
    for statement in statements(text):
        depth = len(statement.path)
        above = not statement.is_header and depth < len(path)
        if above and statement.path == tuple(path[:depth]):
            name = ".".join(map(_key, path[: depth + 1]))
            why = f"{_key(path[depth - 1])} is an inline table: write its parts as [{name}]"
            raise Fault(text, statement.start, why)


def _key(key: str) -> str:
    return key if BARE_KEY.fullmatch(key) else _value(key)


def _value(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
