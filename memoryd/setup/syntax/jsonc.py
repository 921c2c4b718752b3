"""JSON with comments and trailing commas, as several clients read it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from memoryd.setup.syntax import Fault, Key, nested, newline
from memoryd.setup.syntax.json_reader import Member, Node, Reader, comment_end

DEFAULT_INDENT = "  "
LENIENT = True


def parse(text: str, *, lenient: bool = LENIENT) -> dict[str, Any]:
    """The object of a text; empty if it has none. Raises Fault."""
    root = Reader(text, lenient).read()
    if root is not None and not root.is_object:
        raise Fault(text, root.start, "an object is expected here")
    return root.value if root else {}


def put(text: str, path: Sequence[Key], value: Any, *, lenient: bool = LENIENT) -> str:
    """The text with this value at this path."""
    root = Reader(text, lenient).read()
    if root is None:
        before = text.rstrip()
        before += newline(text) if before else ""
        return before + _written(nested(path, value), DEFAULT_INDENT, "", text) + newline(text)
    style = _Style(text, root)
    node = root
    for depth, key in enumerate(path):
        member = node.find(text, key)
        if member is None:
            return style.insert(node, key, nested(path[depth + 1 :], value))
        node = member.value
    return style.replace(node, value)


def drop(text: str, path: Sequence[Key], keep: int, *, lenient: bool = LENIENT) -> str:
    """The text without this key, and without the parents that are empty then, from `keep` on."""
    root = Reader(text, lenient).read()
    parents: list[tuple[Node, Member]] = []
    node = root
    for key in path:
        member = node.find(text, key) if node else None
        if node is None or member is None:
            return text
        parents.append((node, member))
        node = member.value
    while len(parents) - 1 > keep and _holds_only(text, *parents[-1]):
        parents.pop()
    return _without(text, *parents[-1])


class _Style:
    """Writes members as the rest of the text is written."""

    def __init__(self, text: str, root: Node) -> None:
        self._text = text
        found = re.search(r"\n([ \t]+)[\"}]", text)
        self._unit = found[1] if found else DEFAULT_INDENT
        self._one_line = bool(root.members) and "\n" not in text[root.start : root.end]
        self._compact = self._one_line and not re.search(r'":\s', text)

    def insert(self, node: Node, key: Key, value: Any) -> str:
        """The text with one more member at the end of an object or an array."""
        assert node.members is not None  # it was looked for there
        if not node.members:
            return self._insert_first(node, key, value)
        text, last = self._text, node.members[-1]
        is_inline = "\n" not in text[node.start : node.members[0].start]
        if is_inline:
            space = "" if self._compact else " "
            piece = space + self._inline_member(key, value)
            if last.comma is None:
                return text[: last.value.end] + "," + piece + text[last.value.end :]
            return text[: last.comma + 1] + piece + "," + text[last.comma + 1 :]
        at = _line_end(text, last.value.end if last.comma is None else last.comma + 1)
        head = text[: last.value.end] + ("," if last.comma is None else "")
        piece = self._member(key, value, _indent(text, last.start))
        piece += "" if last.comma is None else ","
        return head + text[last.value.end : at] + newline(text) + piece + text[at:]

    def _insert_first(self, node: Node, key: Key, value: Any) -> str:
        text, end = self._text, newline(self._text)
        inner = text[node.start + 1 : node.end - 1]
        if self._one_line:
            piece = self._inline_member(key, value)
            return text[: node.start + 1] + piece + text[node.start + 1 :]
        outer = _indent(text, node.start)
        piece = end + self._member(key, value, outer + self._unit)
        if "\n" in inner:
            return text[: node.start + 1] + piece + text[node.start + 1 :]
        head = text[: node.end - 1].rstrip(" \t")
        return head + piece + end + outer + text[node.end - 1 :]

    def replace(self, node: Node, value: Any) -> str:
        """The text with another value in the place of this one."""
        text = self._text
        if "\n" in text[node.start : node.end]:
            written = _written(value, self._unit, _indent(text, node.start), text)
        else:
            written = self._inline(value)
        return text[: node.start] + written + text[node.end :]

    def _member(self, key: Key, value: Any, indent: str) -> str:
        name = f"{_scalar(key)}: " if isinstance(key, str) else ""
        return indent + name + _written(value, self._unit, indent, self._text)

    def _inline(self, value: Any) -> str:
        separators = (",", ":") if self._compact else (", ", ": ")
        return json.dumps(value, ensure_ascii=False, separators=separators)

    def _inline_member(self, key: Key, value: Any) -> str:
        return self._inline({key: value} if isinstance(key, str) else [value])[1:-1]


def _written(value: Any, unit: str, indent: str, text: str) -> str:
    """A value in several lines; a list of words in one, as people write it."""
    below = indent + unit
    if isinstance(value, dict) and value:
        brackets = "{}"
        parts = [f"{_scalar(k)}: {_written(v, unit, below, text)}" for k, v in value.items()]
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        brackets = "[]"
        parts = [_written(item, unit, below, text) for item in value]
    else:
        return _scalar(value)
    end = newline(text)
    inner = f",{end}{below}".join(parts)
    return f"{brackets[0]}{end}{below}{inner}{end}{indent}{brackets[1]}"


def _scalar(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _indent(text: str, at: int) -> str:
    """The blanks at the beginning of the line of this place."""
    start = text.rfind("\n", 0, at) + 1
    found = re.compile(r"[ \t]*").match(text, start)
    return found[0] if found else ""


def _line_end(text: str, at: int) -> int:
    """Where the blanks and comments that follow on this line end."""
    end = at
    while at < len(text) and text[at] not in "\r\n":
        if text[at] == "/":
            after = comment_end(text, at)
            if "\n" in text[at:after]:
                return end
            at = end = after
        elif text[at] in " \t":
            at += 1
        else:
            return end
    return at


def _holds_only(text: str, node: Node, member: Member) -> bool:
    """Whether an object has this member and nothing else, not even a comment."""
    after = member.value.end if member.comma is None else member.comma + 1
    rest = text[node.start + 1 : member.start] + text[after : node.end - 1]
    return node.members == [member] and not rest.strip()


def _without(text: str, node: Node, member: Member) -> str:
    """The text without a member, its comma and its line."""
    assert node.members is not None
    if _holds_only(text, node, member):
        return text[: node.start + 1] + text[node.end - 1 :]
    index = node.members.index(member)
    previous = node.members[index - 1] if index else None
    before = node.start + 1 if previous is None else (previous.comma or 0) + 1
    end = member.value.end if member.comma is None else member.comma + 1
    gap = text[before : member.start]
    blanks = gap[len(gap.rstrip()) :]
    # The user's comments and blank lines before it stay; its own line goes.
    line = blanks.rfind("\r\n") if "\r\n" in blanks else blanks.rfind("\n")
    start = member.start - len(blanks) + max(line, 0)
    if line < 0 and index == 0:
        start = member.start
        end += len(text[end:]) - len(text[end:].lstrip(" \t")) if member.comma is not None else 0
    head = text[:start]
    if member.comma is None and previous is not None and previous.comma is not None:
        head = text[: previous.comma] + text[previous.comma + 1 : start]
    rest = text[end:]
    if _in_line_comment(gap) and not re.match(r"[ \t]*(?:\r?\n|\Z|//)", rest):
        head += newline(text) + _indent(text, member.start)
    return head + rest


def _in_line_comment(gap: str) -> bool:
    """Whether what was skipped before a key ends in a comment that takes the rest of its line."""
    at = 0
    last = ""
    while at < len(gap):
        if gap[at] == "/":
            end = comment_end(gap, at)
            last, at = gap[at : at + 2], end
        else:
            at += 1
    return last == "//"
