"""The file of queued writes: durable, ordered, private, and never worse than what a kill leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from memoryd.adapters.offline_file import QUEUE, REJECTED, LocalQueueFile
from memoryd.errors import StoreError
from memoryd.files import NotAFile
from memoryd.model import Memory, MemoryType
from memoryd.offline import FULL, QueuedWrite
from memoryd.ports import Passage, Record

MOST = 1_000_000
MEMORY = Memory(
    "b" * 20, MemoryType.CONTEXT, "line\nend ü", 1.5, 9.25, {"deep": {"a": [1]}}, name="n"
)


def write(number: int, text: str = "text") -> QueuedWrite:
    vector = np.asarray([0.25, -1.0], dtype=np.float32)
    record = Record(replace(MEMORY, content=text), (Passage((0, 4), vector),), 77, 5)
    return QueuedWrite(number, (record,), (MEMORY,), ("c" * 20,), is_store=True)


def filled(folder: Path, *numbers: int) -> LocalQueueFile:
    file = LocalQueueFile(folder)
    for number in numbers:
        file.append(write(number), MOST)
    return file


def numbers(folder: Path) -> list[tuple[int, bool]]:
    return [(found.number, found.was_sent) for found in LocalQueueFile(folder).load()]


def test_every_field_is_read_back(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    (found,) = LocalQueueFile(tmp_path).load()
    expected = write(1)
    vectors = [record.passages[0].vector.tolist() for record in (*found.records, *expected.records)]
    assert vectors[0] == vectors[1]
    bare = [
        replace(one, records=tuple(replace(record, passages=()) for record in one.records))
        for one in (found, expected)
    ]
    assert bare[0] == bare[1]
    assert (tmp_path / QUEUE).stat().st_mode & 0o777 == 0o600


def test_what_a_kill_left_half_written_is_removed(tmp_path: Path) -> None:
    """At every byte of the last line."""
    filled(tmp_path, 1)
    path = tmp_path / QUEUE
    first = path.read_bytes()
    filled(tmp_path, 2)
    whole = path.read_bytes()
    for end in range(len(first), len(whole), 17):
        path.write_bytes(whole[:end])
        assert numbers(tmp_path) == [(1, False)]
        filled(tmp_path, 3)  # goes after the whole line
        assert numbers(tmp_path) == [(1, False), (3, False)]
    assert not (tmp_path / REJECTED).exists()


def test_a_line_that_cannot_be_read_is_kept_for_a_person(tmp_path: Path) -> None:
    filled(tmp_path, 1, 2, 3)
    path = tmp_path / QUEUE
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:-30], lines[2], ""]))
    assert numbers(tmp_path) == [(1, False), (3, False)]
    assert LocalQueueFile(tmp_path).rejected()[0] == 1
    assert lines[1][:-30] in json.loads((tmp_path / REJECTED).read_text())["line"]
    assert (tmp_path / REJECTED).stat().st_mode & 0o777 == 0o600


def test_what_was_being_sent_is_known_after_a_kill(tmp_path: Path) -> None:
    file = filled(tmp_path, 1, 2, 3, 4)
    file.mark_sending(1, 1)
    file.mark_sending(2, 3)
    assert numbers(tmp_path) == [(2, True), (3, True), (4, False)]
    assert numbers(tmp_path) == [(2, True), (3, True), (4, False)]  # the rewritten file says so too


def test_it_does_not_grow_beyond_its_bytes(tmp_path: Path) -> None:
    file = filled(tmp_path, 1)
    with pytest.raises(StoreError) as caught:
        file.append(write(2, "long " * 1000), 2 * file.size())
    assert caught.value.code == FULL
    assert caught.value.hint
    assert numbers(tmp_path) == [(1, False)]


def test_an_empty_queue_has_no_file(tmp_path: Path) -> None:
    file = filled(tmp_path, 1)
    file.replace([])
    assert not (tmp_path / QUEUE).exists()
    assert (file.load(), file.size()) == ([], 0)


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("")
    (tmp_path / QUEUE).symlink_to(elsewhere)
    with pytest.raises(NotAFile):
        filled(tmp_path, 1)
    assert elsewhere.read_text() == ""
