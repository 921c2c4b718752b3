"""An index that reads from its snapshot is like one that has everything in RAM."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memoryd.adapters.snapshot_file import LocalSnapshotFile
from memoryd.engine.filters import Filter, parse_where
from memoryd.engine.index import view
from memoryd.engine.index.index import Index
from memoryd.engine.index.sealing import KEPT
from memoryd.engine.index.terms import terms
from memoryd.errors import StoreError
from memoryd.model import Memory, MemoryType
from memoryd.ports import Passage, Record

DIMENSION = 16
NOW = 1_000.0
WORDS = "robot hall tea Anna winter river green charge bay lamp".split()
FILTERS: list[dict[str, Any]] = [
    {"n": 3},
    {"n": {"$gt": 4}},
    {"n": {"$in": [1, 2.0, 7]}},
    {"tags": "t1"},
    {"tags": {"$contains": "t2"}},
    {"$or": [{"n": {"$lt": 2}}, {"flag": True}]},
    {"n": {"$ne": 5}},
    {"flag": {"$exists": False}},
    {"$not": {"tags": {"$contains": "t0"}}},
]


def unit(rng: random.Random) -> Any:
    made = np.array([rng.gauss(0, 1) for _ in range(DIMENSION)], dtype=np.float32)
    return made / np.linalg.norm(made)


def record(rng: random.Random, id: str, revision: int) -> Record:
    content = " ".join(rng.choices(WORDS, k=rng.randint(2, 12)))
    type = rng.choice(list(MemoryType))
    metadata: dict[str, Any] = {"n": rng.randint(0, 9)}
    if rng.random() < 0.5:
        metadata["tags"] = rng.sample(["t0", "t1", "t2"], k=2)
    if rng.random() < 0.3:
        metadata["flag"] = True
    if rng.random() < 0.3:
        metadata["speaker"] = rng.choice(["Anna Berg", "Tom"])
    if rng.random() < 0.2 and revision > 5:
        metadata["supersedes"] = [f"m{rng.randint(0, 30)}"]
    name = f"name {id}" if rng.random() < 0.2 else None
    memory = Memory(
        id,
        type,
        content,
        float(rng.randint(0, 900)),
        metadata=metadata,
        name=name,
        session_id=rng.choice([None, "s", "t"]),
    )
    middle = len(content) // 2
    spans = [(0, middle), (middle, len(content))] if rng.random() < 0.3 else [(0, len(content))]
    passages = tuple(Passage(span, unit(rng)) for span in spans)
    return Record(memory, passages if rng.random() < 0.9 else (), revision)


def save(index: Index, file: LocalSnapshotFile) -> None:
    sealing = index.seal()
    vectors = file.vectors(DIMENSION)
    sealing.write_vectors(vectors, lambda: None)
    made = file.save({"dimension": DIMENSION}, sealing.pieces(), KEPT)
    index.adopt(sealing, made, vectors)


def change(index: Index, kept: dict[str, Record], rng: random.Random, steps: int) -> None:
    for _ in range(steps):
        id = f"m{rng.randint(0, 60)}"
        if id in kept and rng.random() < 0.4:
            del kept[id]
            assert index.remove(id)
        else:
            kept[id] = record(rng, id, len(kept) + rng.randint(1, 10**6))
            index.put(kept[id])


def loaded(file: Path) -> tuple[Index, LocalSnapshotFile]:
    opened = LocalSnapshotFile(file)
    found = opened.load()
    assert found is not None
    index = Index(DIMENSION)
    index.restore(found.arrays, list(found.heads), [], found.texts, opened.vectors(DIMENSION))
    return index, opened


def assert_same(index: Index, kept: dict[str, Record], rng: random.Random) -> None:
    fresh = Index(DIMENSION)
    for one in sorted(kept.values(), key=lambda r: r.memory.created_at):
        fresh.put(one)
    assert {memory.id: memory for memory in index} == {id: r.memory for id, r in kept.items()}
    for id, expected in kept.items():
        found = index.record(id)
        assert found is not None
        assert (found.memory, found.revision) == (expected.memory, expected.revision)
        assert [p.span for p in found.passages] == [p.span for p in expected.passages]
        for mine, other in zip(found.passages, expected.passages, strict=True):
            np.testing.assert_array_equal(mine.vector, other.vector)
        assert superseded(index, id) == superseded(fresh, id)
        named = expected.memory.name
        assert named is None or index.named(named) == expected.memory
        content, session = expected.memory.content, expected.memory.session_id
        assert ids_of(index.facts(content, session)) == ids_of(fresh.facts(content, session))
        around = [[m.id for m in one.around(id, 2, 2)] for one in (index, fresh)]
        assert around[0] == around[1]
    for given in FILTERS:
        filter = Filter(where=parse_where(given))
        masks = (
            set(one.ids_in(np.flatnonzero(one.selection(filter, NOW).mask()).tolist()))
            for one in (index, fresh)
        )
        assert next(masks) == next(masks), given
    tallies = [tally(one) for one in (index, fresh)]
    assert tallies[0] == tallies[1]
    assert dict(index.last_said()) == dict(fresh.last_said())
    query = unit(rng)
    assert scores(index, query) == pytest.approx(scores(fresh, query), abs=1e-5)
    assert index.tables[1].vocabulary == fresh.tables[1].vocabulary


def ids_of(memories: list[Memory]) -> set[str]:
    return {memory.id for memory in memories}


def superseded(index: Index, id: str) -> float:
    columns, _ = index.for_census([])
    slot = index.slot(id)
    assert slot is not None
    return float(columns.superseded[slot])


def tally(index: Index) -> dict[str, Any]:
    columns, values = index.for_census(["n", "tags", "flag"])
    return {key: of.tally(columns.types != 0) for key, of in values.items()}


def scores(index: Index, query: Any) -> dict[str, float]:
    seen = index.view(terms("Anna robot tea in winter"), Filter(), NOW, 0.2)
    signals = seen.signals(query, count=1000)
    slots = np.flatnonzero(seen.allowed)
    sums = seen.exact(signals, slots).slot_meaning + signals.words[slots]
    return dict(zip(index.ids_in(slots.tolist()), sums.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_after_any_changes_and_snapshots_it_is_like_one_that_has_everything_in_ram(
    seed: int, tmp_path: Path
) -> None:
    rng, index, kept = random.Random(seed), Index(DIMENSION), dict[str, Record]()
    file = LocalSnapshotFile(tmp_path / "index.snapshot")
    for _ in range(4):
        change(index, kept, rng, 40)
        assert_same(index, kept, rng)
        save(index, file)
        assert_same(index, kept, rng)
        if rng.random() < 0.5:
            index, file = loaded(tmp_path / "index.snapshot")
            assert_same(index, kept, rng)
        if rng.random() < 0.3:
            file.clear()  # as a purge does: what the index reads is still there
            assert_same(index, kept, rng)


def test_a_snapshot_that_is_given_up_changes_nothing(tmp_path: Path) -> None:
    rng, index, kept = random.Random(1), Index(DIMENSION), dict[str, Record]()
    file = LocalSnapshotFile(tmp_path / "index.snapshot")
    change(index, kept, rng, 50)
    save(index, file)
    for _ in range(3):
        change(index, kept, rng, 20)
        index.give_up(index.seal())
        change(index, kept, rng, 20)
        assert_same(index, kept, rng)
    save(index, file)
    assert_same(index, kept, rng)


def test_what_changes_while_a_snapshot_is_written_is_right_when_it_is_finished(
    tmp_path: Path,
) -> None:
    rng, index, kept = random.Random(2), Index(DIMENSION), dict[str, Record]()
    file = LocalSnapshotFile(tmp_path / "index.snapshot")
    for _ in range(4):
        change(index, kept, rng, 40)
        sealing = index.seal()
        change(index, kept, rng, 15)
        vectors = file.vectors(DIMENSION)
        sealing.write_vectors(vectors, lambda: None)
        change(index, kept, rng, 15)
        made = file.save({"dimension": DIMENSION}, sealing.pieces(), KEPT)
        change(index, kept, rng, 15)
        index.adopt(sealing, made, vectors)
        assert_same(index, kept, rng)
        change(index, kept, rng, 30)
        assert_same(index, kept, rng)


def test_a_forgotten_vector_leaves_the_file(tmp_path: Path) -> None:
    rng, index, kept = random.Random(3), Index(DIMENSION), dict[str, Record]()
    change(index, kept, rng, 30)
    save(index, LocalSnapshotFile(tmp_path / "index.snapshot"))
    one = next(r for r in kept.values() if r.passages)
    data = one.passages[0].vector.tobytes()
    assert data in (tmp_path / "index.vectors").read_bytes()
    index.remove(one.memory.id)
    assert data not in (tmp_path / "index.vectors").read_bytes()


def test_a_damaged_text_is_an_error_and_no_missing_memory(tmp_path: Path) -> None:
    rng, index, kept = random.Random(4), Index(DIMENSION), dict[str, Record]()
    change(index, kept, rng, 30)
    path = tmp_path / "index.snapshot"
    save(index, LocalSnapshotFile(path))
    id = next(iter(kept))
    at = path.read_bytes().index(b"\n{", path.read_bytes().index(f"{id}\n".encode()))
    with path.open("r+b") as file:
        file.seek(at + 1)
        file.write(b"X")
    with pytest.raises(StoreError, match="cannot read"):
        index.get(id)


def test_damaged_vectors_change_no_ranking_and_are_not_taken_for_the_memories(
    tmp_path: Path,
) -> None:
    rng, index, kept = random.Random(5), Index(DIMENSION), dict[str, Record]()
    change(index, kept, rng, 60)
    save(index, LocalSnapshotFile(tmp_path / "index.snapshot"))
    query = unit(rng)
    before = scores(index, query)
    path = tmp_path / "index.vectors"
    damaged = bytearray(path.read_bytes())
    damaged[64:] = b"\x7f" * (len(damaged) - 64)
    path.write_bytes(damaged)
    assert scores(index, query) == pytest.approx(before, abs=0.05)
    embedded = [id for id, one in kept.items() if one.passages]
    assert all(index.record(id) is None for id in embedded)


@pytest.mark.parametrize("one_in", [2, 20, 200, 2000])
def test_above_the_exact_limit_the_best_are_found_under_any_filter(
    one_in: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As 1,000,000 memories are searched, with fewer."""
    monkeypatch.setattr(view, "ROUNDED_POOL", 64)
    rng = np.random.default_rng(7)
    size = 10_000 if one_in < 2000 else 20_000
    vectors = rng.normal(size=(size, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    index = Index(DIMENSION, exact_limit=100)
    for n, vector in enumerate(vectors):
        metadata = {"kept": True} if n % one_in == 0 else {}
        memory = Memory(f"m{n}", MemoryType.FACT, "x", 1.0, metadata=metadata)
        index.put(Record(memory, (Passage((0, 1), vector),), n + 1))
    save(index, LocalSnapshotFile(tmp_path / "index.snapshot"))
    assert not index.is_exact
    filter = Filter(where=parse_where({"kept": True}))
    found = wanted = 0
    for query in vectors[rng.integers(0, size, 20)]:
        seen = index.view([], filter, NOW, 0.2)
        meaning = seen.signals(query, count=16).meaning
        best = np.argsort(-np.where(seen.allowed, meaning, -1.0), kind="stable")[:10]
        kept = np.arange(0, size, one_in)
        expected = kept[np.argsort(-np.clip(vectors[kept] @ query, 0, 1), kind="stable")][:10]
        found += len({f"m{n}" for n in expected} & set(index.ids_in(best.tolist())))
        wanted += len(expected)
    assert found / wanted >= 0.97
