"""The items of a large JSON file, one after the other, without the whole of it in RAM.

The file is a list, or an object with the list under one of some keys. A piece of the text is read
and an item parsed; if it is not whole, twice as much is read and it is tried again. So the text
is parsed about twice, and RAM holds the largest item, which is limited.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import IO, Any

from memoryd.imports.rows import Skipped, broken

PIECE = 1 << 20  # bytes
MAX_ITEM = 256 << 20  # characters
SPACE = re.compile(r"\s*")
_decoder = json.JSONDecoder()


class _Broken(Exception):
    """The text is not JSON, or not what is expected."""


class _Text:
    """What was read and not used yet."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0
        self._ended = False

    def _more(self, size: int) -> bool:
        """Read more; whether there was any."""
        if self._ended:
            return False
        data = self._file.read(size)
        self._ended = not data
        try:
            self._text = self._text[self._at :] + self._decoder.decode(data, self._ended)
        except UnicodeDecodeError:
            raise _Broken("not UTF-8 text") from None
        self._at = 0
        return not self._ended

    def next(self) -> str:
        """The next character that is no space, which stays; "" at the end."""
        while True:
            self._at = SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more(PIECE):
                return ""

    def take(self, expected: str) -> None:
        if self.next() != expected:
            raise _Broken(f"no {expected!r} where one is expected")
        self._at += 1

    def value(self) -> Any:
        """The next JSON value."""
        self.next()
        size = PIECE
        while True:
            try:
                value, end = _decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError:
                value, end = None, len(self._text)
            except (ValueError, RecursionError):
                raise _Broken("not JSON") from None
            if end < len(self._text):  # else it may go on
                self._at = end
                return value
            if len(self._text) - self._at > MAX_ITEM or not self._more(size):
                return self._last()
            size *= 2

    def _last(self) -> Any:
        try:
            value, self._at = _decoder.raw_decode(self._text, self._at)
        except (ValueError, RecursionError):
            raise _Broken("not JSON, or cut off") from None
        return value


def items(file: IO[bytes], name: str, keys: tuple[str, ...] = ()) -> Iterator[Any | Skipped]:
    """The items of the list in a file, or of the lists under `keys` if it is an object; an object
    with none of them is the one item. What is not JSON ends it and is reported with the number of
    the item."""
    text, count = _Text(file), 0
    try:
        for item in _items(text, keys):
            count += 1
            yield item
    except _Broken as exc:
        yield broken(f"{name}, item {count + 1}", f"{exc}; the rest was not read")


def _items(text: _Text, keys: tuple[str, ...]) -> Iterator[Any]:
    if text.next() == "[":
        yield from _list(text)
    elif not keys:
        yield text.value()
    else:
        yield from _object(text, keys)
    if text.next():
        raise _Broken("there is more after the end")


def _list(text: _Text) -> Iterator[Any]:
    text.take("[")
    while text.next() != "]":
        yield text.value()
        if text.next() != "]":
            text.take(",")
    text.take("]")


def _object(text: _Text, keys: tuple[str, ...]) -> Iterator[Any]:
    text.take("{")
    while text.next() != "}":
        key = text.value()
        text.take(":")
        if key in keys and text.next() == "[":
            yield from _list(text)
        else:
            text.value()
        if text.next() != "}":
            text.take(",")
    text.take("}")


def first_item(file: IO[bytes], name: str, keys: tuple[str, ...] = ()) -> Any:
    """The first item, None if there is none or it is broken: for recognising a file."""
    for item in items(file, name, keys):
        return None if isinstance(item, Skipped) else item
    return None
