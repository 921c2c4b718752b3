"""Search at 1,000, 10,000 and 100,000 memories, beside Chroma's own query in the same run.

Both hold the same vectors and metadata. Ours: through the engine's pipeline with a query vector
made beforehand, meaning alone (a query without words in common), the same without the first pass
over rounded vectors, and hybrid. Chroma's: `query` on the collection with the same filter, in
process, which spares it the way to its worker. Recall is against brute force over the same filter.

Run: .venv/bin/python -m scripts.bench.latency [--sizes 1000 10000 100000] [--queries 60] [--json]
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import numpy as np
from numpy.typing import NDArray

from memoryd.engine.filters import Filter
from memoryd.engine.index import view
from memoryd.engine.index.index import Index
from memoryd.engine.index.terms import numbers, terms
from memoryd.engine.search.pipeline import STEPS, SearchState, run
from memoryd.model import DAY, MemoryType
from memoryd.ports import Record
from memoryd.settings import SearchSettings
from scripts.bench.corpus import DIMENSION, plain_chroma, records, texts, vectors

TOP = 10
Floats = NDArray[np.float32]
BY_MEANING = SearchSettings(
    neighbour_weight=0.0, answer_weight=0.0, session_weight=0.0, nudge_weight=0.0
)


def filters(now: float) -> dict[str, tuple[Filter, dict[str, Any] | None]]:
    """Each filter in our words and in Chroma's. A type matches three memories in ten."""
    since = now - 10 * DAY
    fact = {"type": "fact"}
    dated = {"$and": [fact, {"created_at": {"$gte": since}}]}
    return {
        "no filter": (Filter(), None),
        "type": (Filter(type=MemoryType.FACT), fact),
        "type and date": (Filter(type=MemoryType.FACT, since=since), dated),
    }


class Ours:
    """The index alone, searched by the engine's own steps."""

    def __init__(self, made: Sequence[Record], now: float) -> None:
        self._now = now
        before = _resident()
        self.index = Index(DIMENSION)
        for record in made:
            self.index.put(record)
        self.megabytes = (_resident() - before) / 1e6

    async def search(
        self, text: str, query: Floats, filter: Filter, by: SearchSettings
    ) -> SearchState:
        state = SearchState(
            text=text,
            vector=query,
            terms=terms(text),
            numbers=numbers(text),
            filter=filter,
            now=self._now,
            limit=TOP,
            min_score=0.0,
            index=self.index,
            store=None,  # type: ignore[arg-type]
            settings=by,
        )
        await run(state, STEPS)
        return state


@contextmanager
def exact_vectors_only() -> Iterator[None]:
    """Search without the first pass over rounded vectors."""
    least = view.MIN_ROWS
    view.MIN_ROWS = sys.maxsize
    try:
        yield
    finally:
        view.MIN_ROWS = least


def exact(made: Sequence[Record], matrix: Floats, query: Floats, filter: Filter) -> set[str]:
    """The ids that brute force finds."""
    allowed = [
        (filter.type is None or r.memory.type is filter.type)
        and (filter.since is None or r.memory.created_at >= filter.since)
        for r in made
    ]
    scores = np.where(allowed, matrix @ query, -1.0)
    return {made[n].memory.id for n in np.argsort(-scores)[:TOP]}


async def measure(size: int, queries: int, folder: Path) -> dict[str, Any]:
    now = time.time()
    made = list(records(size, now))
    matrix = np.array([record.passages[0].vector for record in made])
    ours, plain = Ours(made, now), plain_chroma(made, folder)
    wanted, asked = vectors(queries, seed=7), list(texts(queries, seed=8, words=(4, 9)))
    found: dict[str, Any] = {"megabytes": ours.megabytes}
    for name, (filter, where) in filters(now).items():
        taken: dict[str, list[float]] = {"dense": [], "unrounded": [], "hybrid": [], "chroma": []}
        recall: dict[str, list[float]] = {"dense": [], "chroma": []}
        # Beforehand: it reads everything, and who comes next would meet cold caches.
        truths = [exact(made, matrix, query, filter) for query in wanted]
        for query, text, truth in zip(wanted, asked, truths, strict=True):
            state = await _timed(taken["dense"], ours, "?", query, filter, BY_MEANING)
            recall["dense"].append(_share(truth, [hit.memory.id for hit in state.hits]))
            with exact_vectors_only():
                await _timed(taken["unrounded"], ours, "?", query, filter, BY_MEANING)
            await _timed(taken["hybrid"], ours, text, query, filter, SearchSettings())
            started = time.perf_counter()
            answer = plain.query(query_embeddings=[query], n_results=TOP, where=where)
            taken["chroma"].append(time.perf_counter() - started)
            recall["chroma"].append(_share(truth, answer["ids"][0]))
        found[name] = _summary(taken, recall)
    return found


async def _timed(
    into: list[float], ours: Ours, text: str, query: Floats, filter: Filter, by: SearchSettings
) -> SearchState:
    started = time.perf_counter()
    state = await ours.search(text, query, filter, by)
    into.append(time.perf_counter() - started)
    return state


def _share(truth: set[str], found: Sequence[str]) -> float:
    return len(truth & set(found)) / len(truth)


def _summary(taken: dict[str, list[float]], recall: dict[str, list[float]]) -> dict[str, float]:
    row: dict[str, float] = {}
    for name, times in taken.items():
        row[f"{name} p50"] = 1000 * statistics.median(times)
        row[f"{name} p99"] = 1000 * sorted(times)[int(len(times) * 0.99)]
    for name, shares in recall.items():
        row[f"{name} recall"] = statistics.fmean(shares)
    return row


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def both(row: dict[str, float], name: str) -> str:
    """p50 and p99."""
    return f"{row[f'{name} p50']:.1f} / {row[f'{name} p99']:.1f}"


def show(found: dict[int, dict[str, Any]]) -> None:
    print(
        "\n| memories | filter | dense p50/p99 ms | unrounded p50/p99 | hybrid p50/p99 "
        "| Chroma p50/p99 | unrounded/dense | Chroma/dense | hybrid/dense "
        "| recall@10 ours, Chroma |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    for size, rows in found.items():
        for name, row in rows.items():
            if name == "megabytes":
                continue
            print(
                f"| {size:,} | {name} | {both(row, 'dense')} | {both(row, 'unrounded')} "
                f"| {both(row, 'hybrid')} "
                f"| {both(row, 'chroma')} | {row['unrounded p50'] / row['dense p50']:.2f}x "
                f"| {row['chroma p50'] / row['dense p50']:.1f}x "
                f"| {row['hybrid p50'] / row['dense p50']:.2f}x "
                f"| {row['dense recall']:.3f}, {row['chroma recall']:.3f} |"
            )
    for size, rows in found.items():
        print(f"\n{size:,} memories take {rows['megabytes']:.0f} MB in RAM.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found: dict[int, dict[str, Any]] = {}
    for size in given.sizes:
        with tempfile.TemporaryDirectory() as folder:
            found[size] = anyio.run(measure, size, given.queries, Path(folder))
    if given.json:
        print(json.dumps(found, indent=1))
    else:
        show(found)


if __name__ == "__main__":
    main()
