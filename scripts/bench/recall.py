"""How much a search above `search.exact_limit` misses, how long it takes, and what the index costs.

The index of a daemon, without a store: filled with memories of some words and clustered vectors,
saved as a snapshot, and read from it. Then the ten nearest memories under filters that leave 50, 5,
0.5 and 0.05 % are compared with those of a comparison with every vector.

Run: .venv/bin/python -m scripts.bench.recall [--memories 1000000] [--queries 50]
A million memories take about six minutes, 6 GB of RAM while they are made, and 3 GB of disk.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memoryd.adapters.snapshot_file import LocalSnapshotFile
from memoryd.engine.filters import Filter, parse_where
from memoryd.engine.index.index import Index
from memoryd.engine.index.sealing import KEPT
from memoryd.engine.index.terms import terms
from memoryd.index_files import VectorFile
from memoryd.model import Memory, MemoryType
from memoryd.ports import Passage, Record
from scripts.bench.corpus import texts, vectors

DIMENSION, TOP, POOL = 384, 10, 256
SHARES = {"all": 1, "50 %": 2, "5 %": 20, "0.5 %": 200, "0.05 %": 2000}  # one memory in so many
BLOCK = 10_000
Floats = NDArray[np.float32]


def fill(folder: Path, count: int) -> None:
    """Save a snapshot of an index with `count` memories."""
    index, every = Index(DIMENSION), vectors(count)
    for number, (text, vector) in enumerate(zip(texts(count), every, strict=False)):
        keys = {f"one_in_{n}": True for n in SHARES.values() if number % n == 0}
        memory = Memory(f"m{number:08d}", MemoryType.FACT, text, float(number), metadata=keys)
        index.put(Record(memory, (Passage((0, len(text)), vector),), number + 1))
    file = LocalSnapshotFile(folder / "index.snapshot")
    sealing, stored = index.seal(), file.vectors(DIMENSION)
    sealing.write_vectors(stored, lambda: None)
    file.save({"dimension": DIMENSION}, sealing.pieces(), KEPT)


def resident() -> float:
    """MB of this process."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def measure(folder: Path, count: int, queries: int, limit: int) -> None:
    """Load the snapshot and search; print a table."""
    began, before = time.perf_counter(), resident()
    file = LocalSnapshotFile(folder / "index.snapshot")
    found = file.load()
    if found is None:
        raise SystemExit("There is no snapshot.")
    index = Index(DIMENSION, exact_limit=limit)
    stored = file.vectors(DIMENSION)
    index.restore(found.arrays, list(found.heads), [], found.texts, stored)
    took, own = time.perf_counter() - began, resident() - before
    print(f"{count:,} memories: loaded in {took:.2f} s, {own:.0f} MB, {index.search_way}")
    asked = np.random.default_rng(6).integers(0, count, queries)
    rng = np.random.default_rng(7)
    print("| filter leaves | recall@10 | p50 ms | p99 ms |\n|---|---|---|---|")
    for name, one_in in SHARES.items():
        kept = np.arange(0, count, one_in)
        where = parse_where({f"one_in_{one_in}": True}) if one_in > 1 else parse_where(None)
        hits, times = 0, []
        for row in asked:
            query = stored.read(np.array([row]))[0] + 0.3 * rng.standard_normal(DIMENSION)
            query = (query / np.linalg.norm(query)).astype(np.float32)
            started = time.perf_counter()
            view = index.view(terms("the robot in the hall"), Filter(where=where), 1e9, 0.2)
            meaning = np.where(view.allowed, view.signals(query, count=POOL).meaning, -1.0)
            best = np.argpartition(meaning, -TOP)[-TOP:]
            times.append(1000 * (time.perf_counter() - started))
            hits += len(set(best.tolist()) & set(exact(stored, query, kept)))
        p50, p99 = np.percentile(times, [50, 99])
        print(f"| {name} | {hits / (TOP * queries):.3f} | {p50:.0f} | {p99:.0f} |")
    print(f"after these searches: {resident():.0f} MB")


def exact(stored: VectorFile, query: Floats, kept: NDArray[np.int64]) -> list[int]:
    """The nearest of these rows, by comparing all of them."""
    scores = [stored.read(kept[s : s + BLOCK]) @ query for s in range(0, len(kept), BLOCK)]
    best: list[int] = kept[np.argsort(-np.concatenate(scores))[:TOP]].tolist()
    return best


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--memories", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--exact-limit", type=int, default=250_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as folder:
        # In a process of its own: what it needed while it was filled is not measured.
        filling = multiprocessing.Process(target=fill, args=(Path(folder), given.memories))
        filling.start()
        filling.join()
        measure(Path(folder), given.memories, given.queries, given.exact_limit)


if __name__ == "__main__":
    main()
