"""What becomes of a queued write when it reaches the server."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from memoryd.engine.offline.merge import merge, resolve
from memoryd.model import Memory, MemoryType
from memoryd.ports import Passage, Record

BASE = Memory("a" * 20, MemoryType.FACT, "old", 1.0, None, {"kept": 1, "gone": 2}, name="n")
PASSAGE = Passage((0, 3), np.ones(2, dtype=np.float32))


def reads(memory: Memory) -> str:
    return memory.content


def written(memory: Memory, revision: int, replaces: int | None) -> Record:
    return Record(memory, (PASSAGE,), revision, replaces)


def test_each_side_keeps_the_fields_that_only_it_changed() -> None:
    mine = replace(BASE, content="new", metadata={"kept": 1, "mine": 3}, updated_at=5.0)
    theirs = replace(BASE, pinned=True, metadata={"kept": 9, "gone": 2}, updated_at=4.0)
    merged = merge(BASE, mine, theirs)
    assert (merged.content, merged.pinned, merged.updated_at) == ("new", True, 5.0)
    assert merged.metadata == {"kept": 9, "mine": 3}


def test_of_a_field_that_both_changed_the_queued_one_stays() -> None:
    """It reaches the server later."""
    merged = merge(BASE, replace(BASE, content="mine"), replace(BASE, content="theirs"))
    assert merged.content == "mine"


@pytest.mark.parametrize(
    ("base", "is_store", "was_sent", "is_noted", "sent", "rejected"),
    [
        (None, True, False, False, True, False),  # new
        (None, True, True, False, True, False),  # new, and did not arrive
        (None, True, True, True, False, False),  # arrived, and was forgotten
        (None, True, False, True, True, False),  # an id that was used before
        (BASE, False, False, True, False, False),  # an update of what was forgotten
        (BASE, True, False, True, True, False),  # stored again under its name
        (BASE, True, True, True, False, True),  # nobody knows which came first
    ],
)
def test_what_is_not_on_the_server(
    base: Memory | None, is_store: bool, was_sent: bool, is_noted: bool, sent: bool, rejected: bool
) -> None:
    record = written(replace(BASE, content="new"), 7, 3 if base else 0)
    done = resolve(
        record, base, None, reads, is_store=is_store, was_sent=was_sent, is_noted=is_noted
    )
    assert (done.send is not None, done.is_rejected) == (sent, rejected)
    assert done.send is None or (done.send.replaces, done.send.revision) == (0, 7)
    assert done.is_other is not sent


def test_a_write_that_arrived_is_not_sent_again() -> None:
    record = written(replace(BASE, content="new"), 7, 3)
    done = resolve(record, BASE, record, reads, is_store=False, was_sent=True, is_noted=False)
    assert (done.send, done.is_other) == (None, False)


def test_a_memory_as_it_was_known_gets_the_write_itself() -> None:
    record = written(replace(BASE, content="new"), 7, 3)
    present = written(BASE, 3, 0)
    done = resolve(record, BASE, present, reads, is_store=False, was_sent=False, is_noted=False)
    assert done.send is record


def test_a_merged_version_has_a_number_of_its_own_and_the_right_vector() -> None:
    """With the queued number, this daemon would not read the merged text."""
    record = written(replace(BASE, metadata={"kept": 2}), 7, 3)
    other = Passage((0, 6), np.zeros(2, dtype=np.float32))
    present = Record(replace(BASE, content="theirs"), (other,), 5, 3)
    done = resolve(record, BASE, present, reads, is_store=False, was_sent=False, is_noted=False)
    assert done.is_other
    assert done.send is not None
    assert done.send.revision not in (0, 3, 5, 7)
    assert (done.send.replaces, done.send.passages) == (5, (other,))
    assert (done.send.memory.content, done.send.memory.metadata) == ("theirs", {"kept": 2})


def test_what_was_new_and_is_changed_by_another_stays_as_that_one_left_it() -> None:
    record = written(BASE, 7, 0)
    present = written(replace(BASE, content="theirs"), 8, 7)
    done = resolve(record, None, present, reads, is_store=True, was_sent=True, is_noted=False)
    assert (done.send, done.is_other) == (None, True)
