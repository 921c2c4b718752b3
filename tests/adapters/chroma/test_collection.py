"""Going through all rows of a real embedded store while others write."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from memoryd.adapters.chroma import collection as module
from memoryd.adapters.chroma.collection import Collection
from memoryd.adapters.chroma.open import open_embedded
from memoryd.settings import StoreSettings
from tests.adapters.chroma.test_contract import IDENTITY, record

COUNT = 40


@pytest.fixture
def collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collection]:
    monkeypatch.chdir(tmp_path)  # opening it changes the directory
    monkeypatch.setattr(module, "PAGE", 5)
    made = open_embedded(StoreSettings(), tmp_path / "store", IDENTITY)
    made.write([record(f"m{n:02}") for n in range(COUNT)], [], [])
    yield made
    made.close()


def test_a_listing_ends_although_rows_are_written_all_the_time(collection: Collection) -> None:
    """One row for each page: waiting for an empty page would take for ever."""
    found: list[str] = []
    for number, page in enumerate(islice(collection.id_pages(), 5 * COUNT)):
        found += page
        collection.write([record(f"later {number}")], [], [])
    assert found[:COUNT] == [f"m{n:02}" for n in range(COUNT)]
    assert len(found) < 2 * COUNT


def test_a_listing_has_every_row_that_stays_although_others_are_deleted(
    collection: Collection,
) -> None:
    found: set[str] = set()
    gone: set[str] = set()
    for number, page in enumerate(collection.id_pages()):
        found.update(page)
        one = f"m{2 * number:02}"
        gone |= collection.write([], [], [one])
    assert len(gone) > 5
    assert found | gone == {f"m{n:02}" for n in range(COUNT)}


def test_the_number_of_pages_does_not_grow_with_the_store(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ChromaDB goes through all rows before the offset of a page."""
    monkeypatch.setattr(module, "ID_PAGES", 4)
    assert [len(page) for page in collection.id_pages()] == [10, 10, 10, 10, 0]
