"""Files to import: the format is found, and what is not whole is refused."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import pytest

from memoryd.errors import FileDamaged, InvalidInput
from memoryd.export_file import Header, Writer
from memoryd.formats import claude_md, source
from memoryd.formats.source import Source, recognised

FIELDS: dict[str, Any] = {
    "id": "a1", "type": "fact", "content": "Tea.", "created_at": 1.5, "expires_at": None,
    "metadata": {},
}  # fmt: skip


def json_lines() -> bytes:
    file = io.BytesIO()
    writer = Writer(file, Header())
    writer.memory(FIELDS)
    writer.end()
    return file.getvalue()


def opened(data: bytes, name: str = "stdin", format: str | None = None) -> Source:
    return Source(io.BytesIO(data), name, format)


PRETTY = json.dumps({"memories": [FIELDS]}, indent=1).encode()
BLOCK = claude_md.block([FIELDS])[0].encode()


@pytest.mark.parametrize(
    ("data", "name", "format"),
    [
        (json_lines(), "stdin", "jsonl"),
        (json_lines(), "x.json", "jsonl"),
        (gzip.compress(json_lines()), "x.json", "jsonl"),
        (PRETTY, "stdin", "json"),
        (b"\xef\xbb\xbf" + PRETTY, "stdin", "json"),
        (json.dumps([FIELDS]).encode(), "stdin", "json"),
        (json.dumps({"memories": [FIELDS]}).encode(), "x", "json"),
        (b"[]", "stdin", "json"),
        (b"- Tea.\n", "stdin", "md"),
        (b"# Notes\n\ntext\n\n* Tea.\n", "stdin", "md"),
        (b"[a link](x)\n\n- Tea.\n", "notes.md", "md"),
        (b"text\n" + BLOCK, "CLAUDE.md", "claude-md"),
        (BLOCK, "stdin", "claude-md"),
        (b"text\n", "CLAUDE.md", "text"),
        (b"text\n", "agents.md", "text"),
        (b"text\n", "/x/.cursorrules", "text"),
        (b"- Tea.\n", "HISTORY-2026-05.md", "text"),
        (b"# Memories\n\n<!-- memoryd export 1: x -->\n", "MEMORY.md", "md"),
        (b"hello\n", "stdin", "jsonl"),
        (b"", "stdin", "jsonl"),
    ],
)
def test_a_format_is_recognised(data: bytes, name: str, format: str) -> None:
    assert recognised(io.BytesIO(data), name) == format


@pytest.mark.parametrize("data", [json_lines(), PRETTY, json.dumps([FIELDS]).encode()])
def test_each_format_gives_the_same_memory(data: bytes) -> None:
    found = opened(data)
    assert found.count == 1
    assert [fields for _, fields, _ in found.memories()] == [FIELDS]
    assert found.written == set()


def test_a_named_format_beats_what_is_recognised() -> None:
    mine = f"Mine. {claude_md.NOTICE}\n{claude_md.NOTICE}"
    text = f"- {mine}\n\n".replace("\nF", "\n  F").encode() + BLOCK
    block, whole = opened(text, "CLAUDE.md"), opened(text, "CLAUDE.md", "md")
    assert [fields["content"] for _, fields, _ in block.memories()] == ["Tea."]
    assert [fields["content"] for _, fields, _ in whole.memories()] == [mine, "Tea."]
    assert [line for line, _, _ in block.memories()] == [9]
    assert (block.skipped, whole.skipped) == (0, 0)


def test_an_item_is_a_fact_with_an_id_made_of_its_text() -> None:
    found = opened(b"- Tea.\r\n- Tea.\r\n- Cake.\r\n")
    first, again, other = (fields for _, fields, _ in found.memories())
    assert first == again
    assert first["id"] != other["id"]
    assert found.written == {first["id"], other["id"]}
    assert (first["type"], first["content"]) == ("fact", "Tea.")
    assert first["metadata"] == {"source": "import"}


@pytest.mark.parametrize(
    ("data", "name", "sentence"),
    [
        (PRETTY[:-9], "x.json", "line 9: it is not JSON"),
        (b"[" * 100_000, "x.json", "line 1: it is not JSON"),
        (b'{"memories": 3}', "x.json", "neither a list of memories"),
        (b'{"memories": [], "version": 2}', "x.json", "a newer memoryd wrote it"),
        (b"[3]", "x.json", "memory 1 is not a JSON object"),
        (b'[{"id": "a"}]', "x.json", "`type` of memory 1 is missing"),
        (b"- Tea.\n- \xff\n", "x.md", "line 2: it is not UTF-8"),
        (b"<!-- memoryd export 2: -->\n", "x.md", "a newer memoryd wrote it"),
        (f"{claude_md.BEGIN}\n- Tea.\n".encode(), "x.md", "exactly one block"),
    ],
)
def test_what_is_not_whole_is_refused(data: bytes, name: str, sentence: str) -> None:
    with pytest.raises(FileDamaged, match=sentence):
        opened(data, name)


def test_a_file_that_is_read_as_a_whole_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_BYTES", 5)
    with pytest.raises(InvalidInput, match="larger than") as caught:
        opened(b"- Tea.", "x.md")
    assert caught.value.code == "file_too_large"
