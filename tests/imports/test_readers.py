"""What each reader makes of a sample in its format."""

from __future__ import annotations

import json
import shutil
import time
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memoryd.errors import InvalidInput
from memoryd.formats import memory_md
from memoryd.imports import PRODUCTS
from memoryd.imports.recognise import FORMATS, is_unknown, recognised
from memoryd.imports.rows import Row, Skipped
from memoryd.model import FOREIGN_ID
from tests.imports import samples
from tests.imports.samples import SAMPLES

AT = time.time() - 3600


def read(path: Path) -> tuple[dict[str, Row], list[Skipped]]:
    """The rows by text, and what was left out."""
    found = recognised(path)
    assert found is not None
    rows = list(FORMATS[found.format].read(found.path))
    made = {row.text: row for row in rows if isinstance(row, Row)}
    return made, [row for row in rows if isinstance(row, Skipped)]


def reasons(skipped: list[Skipped]) -> dict[str, int]:
    made: dict[str, int] = {}
    for one in skipped:
        made[one.reason] = made.get(one.reason, 0) + one.count
    return made


def test_the_names_of_formats_are_those_of_the_readers() -> None:
    assert set(PRODUCTS) == set(FORMATS) == {name.split()[0] for name in SAMPLES}


@pytest.mark.parametrize("name", SAMPLES)
def test_each_format_is_recognised_and_read(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    path = sample.write(tmp_path, AT)
    found = recognised(path)
    assert found is not None
    assert found.format == name.split()[0]
    rows, skipped = read(path)
    assert [one for one in skipped if one.is_fault] == []
    types = [row.type for row in rows.values()]
    assert types.count("fact") == sample.facts
    assert types.count("conversation") == sample.messages + sample.old
    for row in rows.values():
        assert FOREIGN_ID.fullmatch(row.id)
        assert row.metadata["source"] == "import"
        assert row.metadata["imported_from"] in FORMATS
        assert (row.created_at or row.file_time or 0) > 0
        assert row.type == "fact" or (row.session and row.metadata["role"] in ("user", "assistant"))


@pytest.mark.parametrize("name", SAMPLES)
def test_reading_twice_and_elsewhere_makes_the_same_ids(name: str, tmp_path: Path) -> None:
    """Ids depend on the content, not on the place of the file."""
    ids = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        rows, _ = read(SAMPLES[name].write(tmp_path / folder, AT))
        ids.append([row.id for row in rows.values()])
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == len(ids[0])


def test_server_memory(tmp_path: Path) -> None:
    rows, _ = read(samples.server_memory(tmp_path, AT))
    assert list(rows) == [
        "Anna: prefers tea", "Anna speaks Danish", "billing (service)", "Anna works on billing",
    ]  # fmt: skip
    assert rows["Anna: prefers tea"].metadata["tags"] == ["person"]
    assert rows["Anna: prefers tea"].metadata["entity"] == "Anna"


def test_a_transcript_of_claude_code(tmp_path: Path) -> None:
    rows, skipped = read(samples.claude_code(tmp_path, AT))
    asked = rows["Why does the import hang?"]
    assert asked.id == "00000001-aaaa-4bbb-8ccc-000000000000"
    assert asked.session == "11111111-2222-4333-8444-555555555555"
    assert asked.created_at == pytest.approx(AT, abs=1e-3)
    assert asked.metadata["project"] == "/nowhere/work/app"
    assert (asked.metadata["role"], rows["Fix it then."].metadata["role"]) == ("user", "user")
    answer = rows["The pool is never closed."]
    assert answer.metadata["role"] == "assistant"
    assert asked.metadata["order"] < answer.metadata["order"]
    assert rows["They talked about a pool."].metadata["kind"] == "session_summary"
    assert reasons(skipped) == {
        "thoughts": 1, "tool calls and their results": 2, "turns that the program wrote": 1,
        "messages of subagents": 1, "transcripts of subagents": 1, "links of the index": 1,
    }  # fmt: skip
    tests = rows["how to run tests\n\nRun the tests with two workers."]
    assert tests.metadata["kind"] == "preference"
    assert tests.created_at == datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC).timestamp()
    assert tests.metadata["original_session"] == "11111111-2222-4333-8444-555555555555"
    assert tests.metadata["project"] == "/nowhere/work/app"  # from the transcript


def test_a_session_that_was_continued_in_another_file_is_readonce(tmp_path: Path) -> None:
    from memoryd.imports.report import once

    folder = samples.claude_code(tmp_path, AT)
    [file] = folder.glob("*/s1.jsonl")
    (file.parent / "s2.jsonl").write_text(file.read_text())
    found = recognised(folder)
    assert found is not None
    rows = list(once(iter(FORMATS[found.format].read(found.path))))
    ids = [row.id for row in rows if isinstance(row, Row)]
    assert len(ids) == len(set(ids)) == 7


def test_a_folder_with_a_memory_file_is_not_yet_a_memory_folder(tmp_path: Path) -> None:
    """Neither a checkout with a MEMORY.md nor our own mirror is one."""
    (tmp_path / "MEMORY.md").write_text("# Memory\n\n- An item.\n")
    (tmp_path / "README.md").write_text("# A program\n")
    assert recognised(tmp_path) is None
    mirror = tmp_path / "memory"
    mirror.mkdir()
    (mirror / "MEMORY.md").write_text(f"# Memory\n\n{memory_md.HEADER.format('0a1b2c3d')}\n")
    assert recognised(mirror) is None
    samples.memory_files(tmp_path)
    rows, skipped = read(tmp_path)
    assert list(rows) == [
        "The office is in Bonn.",
        "how to run tests\n\nRun the tests with two workers.",
    ]
    assert reasons(skipped) == {"links of the index": 1, "files without a head": 1}


def test_chatgpt_shows_what_the_user_saw(tmp_path: Path) -> None:
    rows, skipped = read(samples.chatgpt(tmp_path, AT))
    asked = next(row for row in rows.values() if row.id == "c-1-m2")
    assert asked.session == "c-1"
    assert asked.metadata["title"] == "Roses"
    assert next(row for row in rows.values() if row.id == "c-1-m4").type == "fact"
    assert "A dropped answer." not in rows
    assert reasons(skipped) == {
        "hidden messages": 2, "answers that were made again": 2,
        "messages of tools and of the system": 2,
    }  # fmt: skip


def test_chatgpt_has_facts_that_a_conversation_began_with_and_speech(tmp_path: Path) -> None:
    """Each fact once, whatever the number of conversations that began with it. Null in the place of
    a text, and parts of other kinds, are no fault."""
    path = tmp_path / "conversations.json"
    second = samples.chatgpt_spoken(AT + 9) | {"id": "t"}
    path.write_text(json.dumps([samples.chatgpt_spoken(AT), second]))
    rows, skipped = read(path)
    facts = {row.text: row.metadata.get("kind") for row in rows.values() if row.type == "fact"}
    assert facts == {
        "I keep bees.": None, "Answer briefly.": "preference", "Lives in Bonn.": None,
        "Has a dog.": None,
    }  # fmt: skip
    assert rows["What is this?\n[attached: bee.jpg]"].metadata["role"] == "user"
    assert rows["A bee."].metadata["role"] == "assistant"
    assert not any(found.is_fault for found in skipped)
    found = [row for row in FORMATS["chatgpt"].read(path) if isinstance(row, Row)]
    assert sum(row.type == "fact" for row in found) == 4


def test_claude_export(tmp_path: Path) -> None:
    rows, skipped = read(samples.claude(tmp_path, AT))
    assert list(rows) == [
        "They planned a trip.", "Plan a trip.\n[attached: map.txt]", "Gladly.", "By train.",
        "**Work**\n\nWrites software.", "**Home**\n\nHas two cats.", "Likes trains.",
        "Prefer trains to planes.",
    ]  # fmt: skip
    assert rows["They planned a trip."].metadata["kind"] == "session_summary"
    assert rows["Gladly."].session == "conv-1"
    for text in ("Gladly.", "Likes trains.", "Prefer trains to planes."):
        assert rows[text].metadata["project"] == "Travel"
    assert reasons(skipped) == {"messages without text": 2, "documents of projects": 1}


def test_a_folder_of_several_programs_is_refused_unless_one_is_named(tmp_path: Path) -> None:
    samples.claude(tmp_path, AT)
    samples.chatgpt(tmp_path, AT)
    with zipfile.ZipFile(tmp_path / "chatgpt.zip") as archive:
        archive.extractall(tmp_path / "gpt")
    shutil.copy(samples.mem0_history(tmp_path, AT) / "history.db", tmp_path)
    with pytest.raises(InvalidInput, match=r"mem0.*ChatGPT and a data export of Claude") as told:
        recognised(tmp_path)
    assert "--format mem0 or chatgpt or claude" in (told.value.hint or "")
    found = recognised(tmp_path, "mem0")
    assert found is not None
    assert found.path == tmp_path / "history.db"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.png", b"\x89PNG\r\n\x00\x01"),
        ("a.zip", b"PK\x03\x04\x00"),
        ("a.json", b'{"settings": {"theme": "dark"}}'),
        ("a.jsonl", b'{"level": "info"}\n{"level": "info"}\n'),
        ("a.csv", b"name,age\nAnna,7\n"),
    ],
)
def test_a_file_of_none_of_the_formats_is_unknown(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert is_unknown(path)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.md", b"# Mine\n\n- An item.\n"),
        ("CLAUDE.md", b"Use tabs.\n"),
        ("a.json", b'{"memories": []}'),
        ("a.json", b'[{"content": "x"}]'),
        ("a.jsonl", b'{"memoryd": {"version": 1}}\n{"cut'),
        ("a.json", b'[{"content": "x", "cut'),
    ],
)
def test_a_text_or_an_export_is_not_unknown(tmp_path: Path, name: str, data: bytes) -> None:
    """Also if it is damaged: then its reader says where."""
    path = tmp_path / name
    path.write_bytes(data)
    assert not is_unknown(path)


def test_one_file_of_an_export_is_enough(tmp_path: Path) -> None:
    export = samples.claude(tmp_path, AT)
    rows, _ = read((export / "memories.json").rename(tmp_path / "my memories.json"))
    assert len(rows) == 3
    path = tmp_path / "talks.json"
    path.write_text(json.dumps([samples.chatgpt_conversation(AT)]))
    assert "How do I prune roses in c-1?" in read(path)[0]


def test_mem0(tmp_path: Path) -> None:
    rows, _ = read(samples.mem0_json(tmp_path, AT))
    tea = rows["Likes green tea"]
    assert tea.id == "m0-1"
    assert tea.updated_at == pytest.approx(AT + 5, abs=1e-3)
    assert tea.metadata == {
        "kind": "preference", "tags": ["food"], "related_files": ["a.py"], "project": "kitchen",
        "user_id": "ann", "original_uses": 7, "source": "import", "imported_from": "mem0",
    }  # fmt: skip
    rows, skipped = read(samples.mem0_history(tmp_path, AT))
    assert {text: row.id for text, row in rows.items()} == {
        "Lives in Bergen": "m-1", "Likes green tea": "m-3",
    }  # fmt: skip
    moved = rows["Lives in Bergen"]
    assert moved.created_at == pytest.approx(AT, abs=1e-3)
    assert moved.updated_at == pytest.approx(AT + 5, abs=1e-3)
    assert reasons(skipped) == {"memories that were deleted there": 1}
    rows, _ = read(samples.mem0_markdown(tmp_path, AT))
    first = rows["Use Postgres.\n---\nNot MySQL."]
    assert first.metadata["related_files"] == ["a.py", "b.py"]
    assert (first.metadata["confidence"], first.metadata["branch"]) == (0.9, "main")


def test_a_block_of_mem0_without_the_optional_keys_is_a_memory_of_its_own(tmp_path: Path) -> None:
    """It is not taken for the text of the block before it."""
    path = samples.mem0_markdown(tmp_path, AT)
    with path.open("a") as file:
        file.write(f"---\nid: m-3\ncreated_at: {samples.iso(AT)}\ntype: decision\n---\nShort.\n")
    rows, _ = read(path)
    assert {row.id: text for text, row in rows.items()} == {
        "m-1": "Use Postgres.\n---\nNot MySQL.", "m-2": "Two replicas.", "m-3": "Short.",
    }  # fmt: skip


def test_mcp_memory_service(tmp_path: Path) -> None:
    path = samples.memory_service(tmp_path, AT)
    rows, skipped = read(path)
    port = rows["Port 8081."]
    assert port.id == "a" * 64
    assert port.created_at == pytest.approx(AT, abs=1e-3)
    assert port.updated_at == pytest.approx(AT + 9, abs=1e-3)
    assert port.metadata["tags"] == ["billing", "port"]
    assert port.metadata["kind"] == "reference"
    assert (port.metadata["original_source"], port.metadata["n"]) == ("x", 2)
    assert reasons(skipped) == {"memories that were deleted there": 1}


def test_mempalace(tmp_path: Path) -> None:
    rows, _ = read(samples.mempalace(tmp_path, AT))
    first = rows["Use Postgres.\n\n## not a heading"]
    assert first.id == "drawer_1"
    assert first.created_at == pytest.approx(AT, abs=1e-3)
    assert (first.metadata["project"], first.metadata["tags"]) == ("wing_app", ["db"])
    assert "added_by" not in first.metadata


def test_claude_mem(tmp_path: Path) -> None:
    rows, _ = read(samples.claude_mem(tmp_path, AT))
    leak, summary, prompt, old = rows.values()
    assert leak.text == (
        "Pool leak. In the importer.\n\nThe pool was never closed.\n\n- Close it in finally"
    )
    assert leak.id == f"claude-mem:observation:1:{int(AT * 1000)}"
    assert leak.metadata["kind"] == "bugfix"
    assert leak.metadata["related_files"] == ["a.py", "b.py"]
    assert summary.text == "Request: Fix the leak\nLearned: Pools leak\nCompleted: Closed it"
    assert (prompt.session, prompt.metadata["project"], old.created_at) == (
        "c-1", "app", samples.OLD,
    )  # fmt: skip


def test_basic_memory(tmp_path: Path) -> None:
    rows, skipped = read(samples.basic_memory(tmp_path, AT))
    said = rows["Billing service: Uses Postgres #db (since 2025)"]
    assert (said.metadata["kind"], said.metadata["tags"]) == ("decision", ["billing", "db"])
    assert said.where.endswith("line 13")
    assert "Billing service depends on Ledger" in rows
    prose = next(row for row in rows.values() if "It sends invoices." in row.text)
    assert "## Relations" not in prose.text
    assert "a task" in prose.text
    assert reasons(skipped) == {"files without a head": 1}
