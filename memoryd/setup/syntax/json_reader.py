"""Reads JSON with the place of every value, and with comments and trailing commas if allowed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from json import JSONDecodeError, JSONDecoder
from typing import Any

from memoryd.setup.syntax import Fault, Key

BLANK = " \t\r\n"
NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
STRINGS = JSONDecoder()
LITERALS = {"true": True, "false": False, "null": None}


@dataclass(slots=True)
class Node:
    """A value from `start` to `end`; an object and an array have their members."""

    start: int
    end: int
    value: Any
    members: list[Member] | None = None

    @property
    def is_object(self) -> bool:
        return isinstance(self.value, dict)

    def find(self, text: str, key: Key) -> Member | None:
        """The member of this key, or at this place of an array; None if there is none. Fault if
        there are two, or this is something else."""
        if self.members is None or self.is_object != isinstance(key, str):
            expected = "an object" if isinstance(key, str) else "an array"
            raise Fault(text, self.start, f"{expected} is expected here")
        found = [member for member in self.members if member.key == key]
        if len(found) > 1:
            raise Fault(text, found[1].start, f"the key {key!r} is there twice")
        return found[0] if found else None


@dataclass(slots=True)
class Member:
    """A key and its value, and where the comma after it is. In an array the key is the place, which
    is not written."""

    key: Key
    start: int
    value: Node
    comma: int | None = None


@dataclass(slots=True)
class Reader:
    """Reads one text. Strict JSON unless `lenient`."""

    text: str
    lenient: bool
    at: int = field(default=0)

    def read(self) -> Node | None:
        """The whole text; None if it is empty."""
        self._skip()
        if self.at == len(self.text):
            return None
        try:
            found = self._value()
        except RecursionError:
            raise Fault(self.text, self.at, "it is nested too deeply") from None
        self._skip()
        if self.at < len(self.text):
            raise self._fault("nothing more is expected here")
        return found

    def _value(self) -> Node:
        start, first = self.at, self.text[self.at : self.at + 1]
        if first == "{":
            return self._object(start)
        if first == "[":
            return self._array(start)
        if first == '"':
            return self._text_node(start)
        for word, value in LITERALS.items():
            if self.text.startswith(word, start):
                self.at += len(word)
                return Node(start, self.at, value)
        if found := NUMBER.match(self.text, start):
            self.at = found.end()
            return Node(start, self.at, self._number(found[0]))
        raise self._fault("a value is expected here")

    def _number(self, said: str) -> int | float:
        try:
            return float(said) if re.search(r"[.eE]", said) else int(said)
        except ValueError:
            raise self._fault("the number before this is too long") from None

    def _text_node(self, start: int) -> Node:
        value = self._string()
        return Node(start, self.at, value)

    def _string(self) -> str:
        try:
            value, self.at = STRINGS.raw_decode(self.text, self.at)
        except JSONDecodeError as exc:
            raise Fault(self.text, exc.pos, f"{exc.msg[:1].lower()}{exc.msg[1:]}") from None
        return str(value)

    def _object(self, start: int) -> Node:
        members: list[Member] = []
        self.at += 1
        while not self._closes("}", bool(members) and members[-1].comma is None, bool(members)):
            at = self.at
            if self.text[at : at + 1] != '"':
                raise self._fault("a key in double quotes is expected here")
            key = self._string()
            self._skip()
            if self.text[self.at : self.at + 1] != ":":
                raise self._fault("a colon is expected here")
            self.at += 1
            self._skip()
            members.append(Member(key, at, self._value(), self._comma()))
        return Node(start, self.at, {m.key: m.value.value for m in members}, members)

    def _array(self, start: int) -> Node:
        members: list[Member] = []
        self.at += 1
        while not self._closes("]", bool(members) and members[-1].comma is None, bool(members)):
            at = self.at
            members.append(Member(len(members), at, self._value(), self._comma()))
        return Node(start, self.at, [m.value.value for m in members], members)

    def _closes(self, bracket: str, must: bool, after_comma: bool) -> bool:
        """Whether the bracket comes now; then it is read. `must`: nothing else may."""
        self._skip()
        if self.text[self.at : self.at + 1] == bracket:
            if after_comma and not must and not self.lenient:
                raise self._fault("the comma before this is one too many")
            self.at += 1
            return True
        if must or self.at == len(self.text):
            raise self._fault(f"a comma or {bracket} is expected here")
        return False

    def _comma(self) -> int | None:
        """Reads the comma after a value; its place, None if there is none."""
        self._skip()
        if self.text[self.at : self.at + 1] != ",":
            return None
        self.at += 1
        return self.at - 1

    def _skip(self) -> None:
        """Go on to the next character that is neither blank nor in a comment."""
        while self.at < len(self.text):
            if self.text[self.at] in BLANK:
                self.at += 1
            elif self.text[self.at] == "/" and self.lenient:
                self.at = comment_end(self.text, self.at)
            else:
                return

    def _fault(self, why: str) -> Fault:
        return Fault(self.text, self.at, why)


def comment_end(text: str, at: int) -> int:
    """Where the comment that begins here ends; for one of a line, before the line's end."""
    if text.startswith("//", at):
        found = re.compile(r"[^\r\n]*").match(text, at)
        return found.end() if found else at
    end = text.find("*/", at + 2)
    if not text.startswith("/*", at) or end < 0:
        raise Fault(text, at, "this is neither a value nor a whole comment")
    return end + 2
