"""A file to import, whatever its format: recognised by its content and its name, then verified.

JSON lines are read line by line. The other formats are for people: they are read as a whole, and
limited in size. An item that a person wrote has no id. It gets one made of its text, so that a
second import finds it.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import IO, Any

from memoryd.errors import FileDamaged, InvalidInput
from memoryd.export_file import GZIP_MAGIC, Header, Reader
from memoryd.fields import MAX_ITEMS, SOURCE, TAGS
from memoryd.formats import TEXT, claude_md, json_file, markdown, text_file

MAX_BYTES = 256 << 20  # of a file that is read as a whole
PEEK = 1 << 16  # bytes that decide on the format
MARKDOWN_ENDINGS = (".md", ".markdown", ".mdc", ".txt")
ITEM = re.compile(rb"^ {0,3}[-*+] +\S", re.M)
# No item begins like this.
NOTICE_LINE = re.compile(rf"^(?:{re.escape(claude_md.NOTICE)}|{re.escape(claude_md.TOOLS)})$", re.M)
EXPORTED = re.compile(markdown.HEADER_START.pattern.encode())
Entry = tuple[int, dict[str, Any], int]  # line, fields, size in bytes


class Source:
    """The memories of a file. Those in `written` are items that a person wrote, by their ids."""

    def __init__(self, file: IO[bytes], name: str, format: str | None = None) -> None:
        """Read and verify a file that can be read twice. `name`: for messages. Raises FileDamaged
        and InvalidInput."""
        self.format = format or recognised(file, name)
        self.header = Header()
        self.skipped = 0  # lines of Markdown that are neither an item nor a heading
        self.written: set[str] = set()
        self._name = name
        self._reader = Reader(file, name) if self.format == "jsonl" else None
        self._entries: list[tuple[int, dict[str, Any]]] = []
        self.count = self._verify(self._reader) if self._reader else self._load(file)

    def memories(self) -> Iterator[Entry]:
        """Each memory: its line, its fields, its size in bytes."""
        if self._reader:
            yield from self._reader.memories()
            return
        for line, fields in self._entries:
            yield line, fields, len(json.dumps(fields))

    def _verify(self, reader: Reader) -> int:
        self.header = reader.header()
        return reader.verify()

    def _load(self, file: IO[bytes]) -> int:
        text = _text(file, self._name)
        try:
            if self.format == "json":
                self.header, found = json_file.read(text)
                self._entries = list(enumerate(found, start=1))
            elif self.format == TEXT:
                self._load_text(text)
            else:
                self._load_markdown(claude_md.within(text) if self.format != "md" else text)
        except ValueError as exc:
            line, sentence = exc.args
            raise FileDamaged(f"{self._name}, line {line}: {sentence}.") from None
        return len(self._entries)

    def _load_markdown(self, text: str) -> None:
        entries, self.skipped = markdown.read(NOTICE_LINE.sub("", text))
        now = time.time()
        for line, fields in entries:
            if "id" not in fields:
                fields = _fact(fields["content"], now, {})
                self.written.add(fields["id"])
            self._entries.append((line, fields))

    def _load_text(self, text: str) -> None:
        now = time.time()
        for found in text_file.read(text):
            tags = {TAGS: found.tags[:MAX_ITEMS]} if found.tags else {}
            fields = _fact(found.text, now if found.at is None else found.at, tags)
            self.written.add(fields["id"])
            self._entries.append((found.line, fields))


def _fact(text: str, at: float, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The fact that an item says."""
    return {
        "id": hashlib.sha256(text.encode()).hexdigest()[:20],
        "type": "fact",
        "content": text,
        "created_at": at,
        "expires_at": None,
        "metadata": {SOURCE: "import", **metadata},
    }


def recognised(file: IO[bytes], name: str) -> str:
    """The format of a file, by its content and then by its name. What is none of them is read as
    JSON lines, whose reader says what is wrong."""
    file.seek(0)
    start = file.read(PEEK)
    ending = PurePath(name).suffix.lower()
    if start.startswith(GZIP_MAGIC) or ending in (".jsonl", ".gz"):
        return "jsonl"
    if text_file.is_named(name):
        return _kind_of_markdown(file, otherwise=TEXT)
    if ending in MARKDOWN_ENDINGS:
        return _kind_of_markdown(file)
    first = start.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")[0].strip()
    value = _parsed(first)
    if isinstance(value, dict):
        return "json" if json_file.MEMORIES in value else "jsonl"
    if isinstance(value, list) or first in (b"{", b"[") or ending == ".json":
        return "json"
    return _kind_of_markdown(file) if ITEM.search(start) else "jsonl"


def _kind_of_markdown(file: IO[bytes], otherwise: str = "md") -> str:
    """The format of Markdown by its markers; `otherwise` without any."""
    file.seek(0)
    text = file.read(MAX_BYTES)
    if claude_md.BEGIN.encode() in text:
        return "claude-md"
    return "md" if EXPORTED.search(text) else otherwise


def _parsed(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _text(file: IO[bytes], name: str) -> str:
    """The whole file as text, without a byte order mark; lines end in a line feed."""
    file.seek(0)
    data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise InvalidInput(
            f"{name} is larger than {MAX_BYTES >> 20} MiB.",
            code="file_too_large",
            hint="Export it as JSON lines (--format jsonl), which are read line by line.",
        )
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise FileDamaged(f"{name}, line {line}: it is not UTF-8 text.") from None
