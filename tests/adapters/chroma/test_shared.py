"""A collection that two daemons write to, on a real Chroma server, step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memoryd.adapters.chroma.open import open_remote
from memoryd.adapters.chroma.shared import SharedCollection
from memoryd.errors import StoreConflict
from memoryd.ports import Record
from memoryd.settings import StoreSettings
from tests.adapters.chroma.test_contract import IDENTITY, record

Two = tuple[SharedCollection, SharedCollection]


@pytest.fixture
def two(own_collection: StoreSettings) -> Two:
    one, other = (open_remote(own_collection, IDENTITY) for _ in range(2))
    assert isinstance(one, SharedCollection)
    assert isinstance(other, SharedCollection)
    return one, other


def version(number: int, replaces: int, passages: int = 1, **fields: str) -> Record:
    made = record("a", passages, content=f"version {number}", **fields)
    return replace(made, revision=number, replaces=replaces)


def test_a_write_on_an_older_version_is_refused_and_changes_nothing(two: Two) -> None:
    one, other = two
    one.write([version(1, 0)], [], [])
    other.write([], [version(2, 1)], [])
    with pytest.raises(StoreConflict):
        one.write([], [version(3, 1)], [])
    with pytest.raises(StoreConflict):
        one.write([version(4, 0)], [], [])
    assert [found.memory.content for found in one.get(["a"])] == ["version 2"]
    one.write([], [version(2, 1)], [])  # sent again after its worker died
    one.write([], [version(5, 2)], [])
    assert [found.revision for found in other.get(["a"])] == [5]


@pytest.mark.parametrize("passages", [1, 4])
def test_what_is_forgotten_while_it_is_replaced_stays_forgotten(two: Two, passages: int) -> None:
    """The other daemon deletes it after this one has checked its write."""
    one, other = two
    one.write([version(1, 0, passages=2)], [], [])
    checked = one._metadatas(["a"])
    assert other.write([], [], ["a"]) == {"a"}
    with pytest.raises(StoreConflict):
        one._store([version(2, 1, passages)], checked)
    assert one.row_count() == 0
    with pytest.raises(StoreConflict):
        one.write([], [version(2, 1, passages)], [])
    assert one.row_count() == 0


def test_every_write_and_deletion_has_a_higher_clock_than_those_before(two: Two) -> None:
    one, other = two
    one.write([version(1, 0)], [], [])
    first = other.changes(0)
    assert (first.revisions, first.noted) == ({"a": 1}, frozenset())
    other.write([], [version(2, 1)], [])
    second = one.changes(first.clock)
    assert second.revisions == {"a": 2}
    assert second.clock > first.clock
    one.write([], [], ["a"])
    third = other.changes(second.clock)
    assert (third.revisions, third.noted) == ({}, frozenset({"a"}))
    assert third.clock > second.clock
    other.write([version(3, 0)], [], [])  # such as an import of what was exported before
    assert one.changes(third.clock).revisions == {"a": 3}


def test_a_longer_or_shorter_version_has_exactly_its_own_rows(two: Two) -> None:
    one, other = two
    one.write([version(1, 0, passages=2)], [], [])
    other.write([], [version(2, 1, passages=5)], [])
    assert [len(found.passages) for found in one.get(["a"])] == [5]
    one.write([], [version(3, 2, passages=1)], [])
    assert one.row_count() == 1
