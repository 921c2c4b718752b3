"""The one format of exports and backups: what is damaged is refused by its line, and neither a
compressed file nor one in the older format of backups needs anything else to be read."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memoryd.adapters import backup_file
from memoryd.adapters.backup_file import BackupWriter, newest_in, read_records
from memoryd.errors import FileDamaged, InvalidInput
from memoryd.export_file import (
    Header,
    Reader,
    Writer,
    fields_of,
    fields_with_vectors,
    open_reader,
    vector_from,
)
from memoryd.model import Memory, MemoryType
from memoryd.ports import Identity, Passage, Record

IDENTITY = Identity("m", 3)
VECTOR = np.array([0.6, 0.0, -0.8], dtype=np.float32)
RICH = Record(
    Memory("a" * 20, MemoryType.FACT, "Tea: ü €\u2028.", 1.5, 9e9, {"n": 1.0}, "tea", "s", True),
    (Passage((0, 3), VECTOR), Passage((3, 9), -VECTOR)),
)
PLAIN = Record(Memory("b" * 20, MemoryType.CONTEXT, "Bare.", 2.0))


def written(header: Header, *records: Record) -> bytes:
    file = io.BytesIO()
    writer = Writer(file, header)
    for record in records:
        writer.memory(fields_with_vectors(record))
    writer.end()
    return file.getvalue()


def reader_of(data: bytes) -> Reader:
    return Reader(io.BytesIO(data), "a file")


def test_a_backup_is_the_export_gzipped_with_vectors(tmp_path: Path) -> None:
    """Byte for byte, but for what its first line says more."""
    writer = BackupWriter(tmp_path, IDENTITY, "v7", 5.25)
    writer.add([RICH, PLAIN])
    made = writer.finish()
    header = Header("m", 3, embeddings=True, created_at=5.25, store_version="v7")
    assert gzip.decompress(Path(made.path).read_bytes()) == written(header, RICH, PLAIN)
    assert made.memories == 2
    with open_reader(Path(made.path)) as reader:
        assert reader.header() == header
        assert [fields for _, fields, _ in reader.memories()] == [
            fields_with_vectors(RICH),
            fields_of(PLAIN.memory),
        ]


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzipped"])
def test_a_file_is_read_whether_it_is_compressed_or_not(pack: Any) -> None:
    reader = reader_of(pack(written(Header(count=2), RICH, PLAIN)))
    for _ in range(2):  # it can be read again
        assert reader.verify() == 2
        assert [number for number, _, _ in reader.memories()] == [2, 3]
    assert reader.header() == Header(count=2)


@pytest.mark.parametrize("at", range(0, 400, 7))
def test_a_compressed_file_that_was_cut_or_changed_is_refused(at: int) -> None:
    data = gzip.compress(written(Header(), RICH, PLAIN), mtime=0)
    at %= len(data)
    changed = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
    if at not in range(3, 10):  # flags, time and system: they do not change what is in it
        with pytest.raises(FileDamaged):
            reader_of(changed).verify()
    with pytest.raises(FileDamaged):
        reader_of(data[:at]).verify()


def test_a_line_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one of a gzip bomb."""
    monkeypatch.setattr("memoryd.export_file.MAX_LINE_BYTES", 1000)
    head, *_ = written(Header()).splitlines(keepends=True)
    with pytest.raises(FileDamaged, match="line 2: the line has no end"):
        reader_of(gzip.compress(head + b"x" * 10_000_000)).verify()


def test_an_export_is_not_restored_and_the_error_says_what_to_do(tmp_path: Path) -> None:
    """A restore checks no field, and an export may be somebody else's."""
    file = tmp_path / "my export.jsonl"
    file.write_bytes(written(Header("m", 3, embeddings=True), RICH))
    with pytest.raises(InvalidInput) as caught:
        backup_file.verify(file)
    assert caught.value.code == "not_a_backup"
    assert caught.value.hint == f"Run: memoryd import '{file}'"


def test_what_is_no_memory_is_refused_with_its_line(tmp_path: Path) -> None:
    header = Header("m", 3, embeddings=True, created_at=1.0, store_version="")
    for wrong in ({"type": "gossip"}, {"colour": "red"}, {"passages": [{"span": [0, 1]}]}):
        file = io.BytesIO()
        writer = Writer(file, header)
        writer.memory(fields_of(PLAIN.memory) | wrong)
        writer.end()
        with pytest.raises(FileDamaged, match="line 2: it is not a memory"):
            list(read_records(reader_of(file.getvalue()), 10))


def old_backup(folder: Path) -> Path:
    """A backup as it was written before it had the format of exports."""

    def text(vector: Any) -> str:
        return base64.b64encode(vector.tobytes()).decode()

    head = {"memoryd": "backup", "format": 1, "version": "v1", "model": "m", "dimension": 3}
    memories = [
        fields_of(RICH.memory)
        | {"passages": [[*passage.span, text(passage.vector)] for passage in RICH.passages]},
        fields_of(PLAIN.memory)
        | {"name": None, "session_id": None, "pinned": False, "passages": []},
    ]
    lines = [json.dumps(line).encode() + b"\n" for line in (head | {"created_at": 7.5}, *memories)]
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    lines.append(json.dumps({"memories": 2, "sha256": digest}).encode() + b"\n")
    path = folder / "memoryd-000001-20260101-000000-000.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(lines)))
    return path


def test_a_backup_in_the_older_format_is_read(tmp_path: Path) -> None:
    path = old_backup(tmp_path)
    assert backup_file.verify(path) == 2
    newest = newest_in(tmp_path)
    assert newest is not None
    assert (newest[0].path, newest[0].created_at, newest[1]) == (str(path), 7.5, "v1")
    with backup_file.open_backup(path) as (reader, header):
        assert (header.model, header.dimension) == ("m", 3)
        (found,) = read_records(reader, 10)
    assert [record.memory for record in found] == [RICH.memory, PLAIN.memory]
    assert [p.span for p in found[0].passages] == [(0, 3), (3, 9)]
    assert np.array_equal(found[0].passages[1].vector, -VECTOR)
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"passages": [[', b'"passages": [["x", ')
    with pytest.raises(FileDamaged, match="line 2: it is not a memory"):
        reader_of(b"".join(lines)).verify()


@pytest.mark.parametrize("text", ["?", "AAA=", "AA==", "ü"])
def test_what_is_no_vector_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        vector_from(text)


def test_reading_and_writing_files_needs_only_the_standard_library() -> None:
    """The command line does both, and must start quickly."""
    code = "import sys, memoryd.export_file; print({'numpy', 'anyio'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "set()\n", done.stderr
