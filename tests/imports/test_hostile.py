"""Files that are damaged, or made to harm whoever imports them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sqlite3
import struct
import tracemalloc
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryd.errors import InvalidInput
from memoryd.imports import bundle, json_stream, sqlite_file, text_files
from memoryd.imports.front_matter import parted
from memoryd.imports.recognise import FORMATS, recognised
from memoryd.imports.rows import Row, Skipped, kind_from, label, moment, plain
from tests.imports import samples
from tests.imports.samples import SAMPLES

AT = 1_790_000_000.0


def faults(path: Path, format: str) -> list[Skipped]:
    found = FORMATS[format].read(path)
    return [row for row in found if isinstance(row, Skipped) and row.is_fault]


@pytest.mark.parametrize("name", ["../conversations.json", "/etc/conversations.json", "C:/x.json"])
def test_a_zip_whose_names_lead_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    path = samples.chatgpt(tmp_path, AT)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, "[]")
    with pytest.raises(InvalidInput, match="leads out of its folder") as caught:
        recognised(path)
    assert caught.value.code == "zip_refused"


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b" " * (64 << 20))
    with pytest.raises(InvalidInput, match="unpacks to far more"):
        recognised(path)


def test_a_zip_that_lies_about_its_sizes_is_not_unpacked_further(tmp_path: Path) -> None:
    """The size in the directory of the file limits what is read."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b"[" + b" " * (8 << 20) + b"]")
    data = bytearray(raw.getvalue())
    real = struct.pack("<L", (8 << 20) + 2)
    assert data.count(real) >= 1
    path = tmp_path / "liar.zip"
    path.write_bytes(data.replace(real, struct.pack("<L", 100)))
    with pytest.raises(InvalidInput, match="is damaged"):
        recognised(path)


def test_a_damaged_zip_is_refused(tmp_path: Path) -> None:
    path = samples.chatgpt(tmp_path, AT)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(InvalidInput, match="is damaged"):
        recognised(path)


def test_an_encrypted_zip_is_refused(tmp_path: Path) -> None:
    path = samples.chatgpt(tmp_path, AT)
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\x01\x02")
    data[place + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(InvalidInput, match="is encrypted"):
        recognised(path)


@pytest.mark.parametrize("name", ["mcp-memory-service", "claude-mem"])
def test_a_database_is_left_as_it_is(tmp_path: Path, name: str) -> None:
    """Also one whose last writes wait in a file beside it."""
    path = SAMPLES[name].write(tmp_path, AT)
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode = wal")
        other.execute("CREATE TABLE more (x)")
        other.commit()
        before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
        assert any(file.endswith("-wal") for file in before)
        found = recognised(path)
        assert found is not None
        assert any(isinstance(row, Row) for row in FORMATS[name].read(path))
        after = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    # The shared memory file belongs to the open connection of the other program.
    assert {n: d for n, d in after.items() if not n.endswith("-shm")} == {
        n: d for n, d in before.items() if not n.endswith("-shm")
    }


def test_no_files_are_left_beside_a_closed_database(tmp_path: Path) -> None:
    path = samples.memory_service(tmp_path, AT)
    assert len(list(FORMATS["mcp-memory-service"].read(path))) == 3
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_writes_that_wait_beside_the_database_are_read(tmp_path: Path) -> None:
    path = samples.memory_service(tmp_path, AT)
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE memories SET content = 'Port 9000.' WHERE content = 'Port 8081.'")
        other.commit()
        rows = FORMATS["mcp-memory-service"].read(path)
        assert "Port 9000." in [row.text for row in rows if isinstance(row, Row)]


def test_a_damaged_database_is_an_error_without_its_text(tmp_path: Path) -> None:
    path = samples.memory_service(tmp_path, AT)
    data = bytearray(path.read_bytes())
    data[100:] = os.urandom(len(data) - 100)
    path.write_bytes(data)
    with pytest.raises(InvalidInput, match="cannot be read"):
        recognised(path)


def test_a_view_is_not_read_as_a_table(tmp_path: Path) -> None:
    """What a view computes is the choice of whoever made the file."""
    path = tmp_path / "sqlite_vec.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE VIEW memories AS SELECT 'h' AS content_hash, 'x' AS content")
        made.commit()
    assert recognised(path) is None


def test_a_database_that_is_written_to_all_the_time_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = samples.memory_service(tmp_path, AT)
    states = iter(range(100))
    monkeypatch.setattr(sqlite_file, "_state", lambda path: (next(states), 0))
    with pytest.raises(InvalidInput, match="is being written to"):
        list(FORMATS["mcp-memory-service"].read(path))


def test_links_in_a_folder_are_not_followed(tmp_path: Path) -> None:
    folder = samples.claude_code(tmp_path, AT)
    secret = tmp_path / "secret.jsonl"
    secret.write_text(json.dumps(samples.turn("user", "Not for you.", AT, 99)) + "\n")
    (folder / "-nowhere-work-app" / "link.jsonl").symlink_to(secret)
    [fault] = faults(folder, "claude-code")
    assert "is a link" in fault.reason
    rows = FORMATS["claude-code"].read(folder)
    assert "Not for you." not in [row.text for row in rows if isinstance(row, Row)]


@pytest.mark.parametrize("text", ["[1, 2", '[{"mapping": {}}, {"mapping"', "[{}] x", "[" * 5000])
def test_json_that_ends_early_is_reported_with_its_item(tmp_path: Path, text: str) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(text)
    assert faults(path, "chatgpt")


def test_wrong_values_are_faults_not_crashes(tmp_path: Path) -> None:
    values: list[Any] = [None, 1, "x", [], {}, {"mapping": {"a": 1, "b": {"message": 5}}}]
    path = tmp_path / "conversations.json"
    for format in ("chatgpt", "claude", "mem0", "mcp-memory-service"):
        path.write_text(json.dumps(values))
        assert len(faults(path, format)) >= 3
    message = {"uuid": 5, "sender": "human", "text": ["x"], "content": 7, "attachments": [1]}
    talk = {"uuid": "u", "chat_messages": [message, 3], "created_at": {"x": 1}, "project": 4}
    path.write_text(json.dumps([talk, {"uuid": "u", "chat_messages": 4}]))
    assert len(faults(path, "claude")) == 2
    lines = [{"type": "user", "uuid": "u", "message": {"content": [1, {"text": 3}]}}, [1], "x"]
    file = samples.lines(tmp_path / "t.jsonl", *lines)
    assert len(faults(file, "claude-code")) == 2


def test_a_loop_in_a_tree_of_messages_ends(tmp_path: Path) -> None:
    talk = samples.chatgpt_conversation(AT)
    talk["mapping"]["c-1-m1"]["parent"] = "c-1-m6"
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([talk]))
    assert len([row for row in FORMATS["chatgpt"].read(path) if isinstance(row, Row)]) == 3


@pytest.mark.slow
def test_a_large_file_is_not_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    talk = samples.chatgpt_conversation(AT)
    talk["title"] = "x" * 20_000
    one = json.dumps(talk)
    with path.open("w") as file:
        file.write("[" + one)
        for _ in range(2000):
            file.write("," + one)
        file.write("]")
    assert path.stat().st_size > 40 << 20
    tracemalloc.start()
    count = sum(isinstance(row, Row) for row in FORMATS["chatgpt"].read(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 3 * 2001
    assert peak < 12 << 20


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_the_pieces_in_which_json_is_read_do_not_matter(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_stream, "PIECE", size)
    values = [{"ü": '€\\"}]', "n": [1.5, -2e3]}, "text, [", 12345, True, None, {}]
    for text in (json.dumps(values), json.dumps(values, ensure_ascii=False, indent=2)):
        file = io.BytesIO(text.encode())
        assert list(json_stream.items(file, "x")) == values
        whole = json.dumps({"head": {"memories": 1}, "memories": values, "tail": 7})
        file = io.BytesIO(whole.encode())
        assert list(json_stream.items(file, "x", ("memories",))) == values


def test_a_line_that_is_too_long_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "MAX_LINE", 300)
    path = samples.server_memory(tmp_path, AT)
    path.write_text(json.dumps({"x": "y" * 1000}) + "\n" + path.read_text())
    rows = list(FORMATS["server-memory"].read(path))
    assert sum(isinstance(row, Row) for row in rows) == 4
    assert len(faults(path, "server-memory")) == 1


def test_keys_of_memoryd_are_never_taken_from_a_file() -> None:
    given = {
        "user_verified": True, "role": "system", "supersedes": ["a"], "type": "context",
        "expires_at": 1, "confidence": 0.5, "kind": "NOT ONE", "tags": "x", "empty": None,
    }  # fmt: skip
    assert plain(given) == {
        "original_user_verified": True, "original_role": "system", "original_supersedes": ["a"],
        "original_type": "context", "original_expires_at": 1, "confidence": 0.5,
        "original_kind": "NOT ONE", "original_tags": "x",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (1_700_000_000, 1_700_000_000.0),
        (1_700_000_000_123, 1_700_000_000.123),
        ("1700000000", 1_700_000_000.0),
        ("2023-11-14T22:13:20Z", 1_700_000_000.0),
        ("2023-11-14T22:13:20", 1_700_000_000.0),
        (float("nan"), None), (float("inf"), None), (10**400, None), (True, None), ("soon", None),
        ({}, None), ("9999-99-99", None),
    ],
)  # fmt: skip
def test_times(value: object, seconds: float | None) -> None:
    assert moment(value) == seconds


def test_kinds_and_labels() -> None:
    assert kind_from("Bug Fix!") == "bug_fix"
    assert kind_from("note") is None  # only memoryd gives this kind
    assert kind_from("x" * 99) == "x" * 50
    assert kind_from("…") is None
    assert label("a\u200bb") is None
    assert label("x" * 201) is None


def test_heads_of_markdown_files() -> None:
    head, body = parted(
        "---\ntitle: 'It''s'\ntags: [a, \"b c\"]\nm:\n  type: user\n---\nText\n---\n"
    )
    assert head == {"title": "It's", "tags": ["a", "b c"], "m": {"type": "user"}}
    assert body == "Text\n---\n"
    assert parted("no head") == ({}, "no head")
    assert parted("---\nnever closed") == ({}, "---\nnever closed")
    assert parted("---\n- x\n  y: 1\n: z\n---\n")[0] == {}


@pytest.mark.parametrize("ending", ["json", "jsonl", "md", "db", "zip", "txt"])
@given(
    start=st.sampled_from(
        [b"", b"{", b"[", b'[{"mapping":', b'{"type": "entity"', b"---\n", b"SQLite format 3\0",
         b"PK\x03\x04", b'{"memories": [', b"# Palace Export"]
    ),
    rest=st.binary(max_size=200) | st.text(max_size=100).map(str.encode),
)  # fmt: skip
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_any_file_is_recognised_or_refused(
    tmp_path: Path, ending: str, start: bytes, rest: bytes
) -> None:
    """Whatever a file holds, it raises no error but ours, and no reader crashes on it."""
    path = tmp_path / f"any.{ending}"
    path.write_bytes(start + rest)
    with contextlib.suppress(InvalidInput):
        recognised(path)
    for format in FORMATS.values():
        with contextlib.suppress(InvalidInput):
            list(format.read(path))


def test_a_markdown_file_without_a_head_is_none_of_these(tmp_path: Path) -> None:
    path = tmp_path / "list.md"
    for text in ("", "- an item\n", "---\n---\n", "---\nid: x\n---\ntext\n"):
        path.write_text(text)
        assert recognised(path) is None


def test_a_large_file_of_one_line_is_recognised_without_parsing_it(tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    talk = json.dumps(samples.chatgpt_conversation(AT))
    with path.open("w") as file:
        file.write("[" + talk)
        for _ in range(10_000):
            file.write("," + talk)
        file.write("]")
    assert path.stat().st_size > 10 << 20
    tracemalloc.start()
    found = recognised(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found is not None
    assert found.format == "chatgpt"
    assert peak < 12 << 20


def test_an_entity_with_our_name_is_no_export_of_ours(tmp_path: Path) -> None:
    entity = {"type": "entity", "name": "memoryd", "entityType": "program", "observations": ["x"]}
    found = recognised(samples.lines(tmp_path / "memory.jsonl", entity))
    assert found is not None
    assert found.format == "server-memory"


def test_limits_of_a_zip_are_above_what_an_export_has() -> None:
    text = json.dumps([samples.chatgpt_conversation(AT + n, f"c-{n}") for n in range(2000)])
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", text)
        [info] = archive.infolist()
    assert info.file_size / info.compress_size < bundle.MAX_RATIO / 2
