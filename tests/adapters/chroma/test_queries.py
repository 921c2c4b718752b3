"""Finding memories without an index, in a real embedded store and on a real Chroma server."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memoryd.adapters.chroma import queries
from memoryd.adapters.chroma import shared as module
from memoryd.adapters.chroma.collection import Collection
from memoryd.adapters.chroma.open import open_embedded, open_remote
from memoryd.adapters.chroma.shared import SharedCollection
from memoryd.audience import Viewer
from memoryd.model import MemoryType
from memoryd.ports import Record
from memoryd.queries import CandidatesWanted, Conditions, Place
from memoryd.settings import StoreSettings
from tests.adapters.chroma.test_contract import IDENTITY, record


@pytest.fixture
def shared(own_collection: StoreSettings) -> SharedCollection:
    made = open_remote(own_collection, IDENTITY)
    assert isinstance(made, SharedCollection)
    return made


@pytest.fixture
def embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collection]:
    monkeypatch.chdir(tmp_path)  # opening it changes the directory
    made = open_embedded(StoreSettings(), tmp_path / "store", IDENTITY)
    yield made
    made.close()


@pytest.fixture(params=["embedded", "shared"])
def collection(request: pytest.FixtureRequest) -> Collection:
    made: Collection = request.getfixturevalue(request.param)
    return made


def times(seed: int) -> list[float]:
    """Some in the future, many at the same moment, the others over years."""
    pick = random.Random(seed)
    now = 1_800_000_000.0
    spread = [now - 10 ** pick.uniform(0, 9) for _ in range(60)]
    return [*spread, *[now - 500.0] * 40, now + 60.0, 0.0]


def test_pages_of_the_newest_have_each_memory_once_in_order(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MOST", 10)  # so that windows have to become narrower
    made = [record(f"m{n:03}", created_at=at) for n, at in enumerate(times(3))]
    collection.write(made, [], [])
    wanted = sorted((-one.memory.created_at, one.memory.id) for one in made)
    found: list[Place] = []
    after: Place | None = None
    while page := collection.newest(Conditions(), 1_800_000_000.0, after, 13):
        found += page
        after = page[-1]
    assert [id for _, id in found] == [id for _, id in wanted]


def test_candidates_by_words_have_the_rarest_and_all_passages(
    collection: Collection,
) -> None:
    plain = [record(f"p{n}", content=f"the common thing {n}") for n in range(30)]
    rare = record("rare", 3, content="a COMMON walrus thing" * 20)
    collection.write([*plain, rare], [], [])
    wanted = CandidatesWanted(None, 0, (r"(?i)\bwalrus", r"(?i)\bcommon"), each=10, by_words=5)
    found = collection.candidates(wanted)
    by_id = {one.memory.id: one for one in found.records}
    assert found.counts == (1, 10)
    assert len(by_id["rare"].passages) == 3
    assert len(by_id) == 5


def test_a_filter_does_not_hide_the_later_passages_of_a_memory(
    collection: Collection,
) -> None:
    long = record("long", 3, content="x" * 90)
    collection.write([long, *[record(f"p{n}") for n in range(5)]], [], [])
    asked = Conditions(MemoryType.FACT)
    wanted = CandidatesWanted(long.passages[2].vector, 1, (), 1, 1, asked)
    assert "long" in {one.memory.id for one in collection.candidates(wanted).records}


def test_a_sample_is_spread_over_the_collection(collection: Collection) -> None:
    made = [record(f"m{n}", 2, content=f"text {n}") for n in range(50)]
    collection.write(made, [], [])
    found, rows = collection.sample(16)
    assert rows == 100
    assert 0 < len(found) <= 16
    assert len(collection.sample(1000)[0]) == 50


def test_moves_that_were_begun_are_found(collection: Collection) -> None:
    moved = replace(record("moved"), revision=2, moved_from=1)
    collection.write([moved, record("other")], [], [])
    assert collection.find([Conditions(moved=True)], 10) == ["moved"]


def test_the_next_clock_is_found_with_few_rows(
    shared: SharedCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 8)
    kept = (shared._chroma, shared._notes, IDENTITY, shared.client)
    other = SharedCollection(*kept, Viewer("anna", ()))
    records: list[Record] = [record(f"m{n}") for n in range(40)]
    for one in records:
        shared.write([one], [], [])
    shared.write([], [], ["m0"])
    highest = shared.changes(0).clock
    other.write([record("last")], [], [])
    assert other.get(["last"])[0].clock == highest + 1
