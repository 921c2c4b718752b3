"""Recall beside search, at 10,000 and 100,000 memories, in one run.

A session with messages, archives and a working memory, among many other memories: three in ten are
facts, of which a recall shows the best. Vectors are of hashed words, so that neither of the two is
hidden behind a model. Searches and recalls take turns, each with a new query: once as they are, and
once each after a message was stored, as in a conversation.

Run: .venv/bin/python -m scripts.bench.recall [--sizes 10000 100000] [--queries 60] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path

import anyio

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.turn_keys import ORDER
from memoryd.fields import FROM_SESSION
from memoryd.ports import Passage
from memoryd.settings import Config, EmbeddingSettings, MemorySettings, SessionSettings
from memoryd.wiring.engine import open_engine
from scripts.bench.corpus import records, texts

SESSION, SAID, ARCHIVES = "now", 60, 3
LIMIT = 5
SEARCH, RECALL = WHAT = ("search", "recall")
ALONE, WRITTEN = "alone", "after a write"
BAR = 3.0  # searches that a recall may take


async def fill(engine: Engine, size: int) -> None:
    """Other memories, straight into the index; then a session through the engine."""
    encoder = HashEncoder()
    for made in records(size, time.time()):
        text = made.memory.content
        vector = encoder.encode([text])[0]
        engine._parts.index.put(replace(made, passages=(Passage((0, len(text)), vector),)))
    said = list(texts(SAID, seed=3))
    for number, text in enumerate(said):
        message = (await engine.add_turn("user", text, SESSION)).memory
        if number % 15 == 14 and number < 15 * ARCHIVES:
            await archive(engine, f"archive {number}", " ".join(said[:5]), message.metadata[ORDER])
    await engine.working_memories.set("\n".join(texts(20, seed=4)))


async def archive(engine: Engine, name: str, text: str, upto: int) -> None:
    """An archive of the session up to a message."""
    own = {FROM_SESSION: SESSION}
    note = (await engine.notes.add_note(name, text, kind="archive", own=own)).memory
    marker = {"archive_id": note.id, "archive_name": name, "upto": upto}
    await engine.records.change(SESSION, marker=marker)


async def measure(size: int, queries: int, folder: Path) -> dict[str, dict[str, float]]:
    """The times of searches and recalls, without and with a write before each."""
    hashed = EmbeddingSettings(backend="hash")
    by_hand = SessionSettings(auto_compact=False)
    config = Config(memory=MemorySettings(path=folder), embedding=hashed, sessions=by_hand)
    async with open_engine(config) as engine:
        await fill(engine, size)
        await engine._parts.snapshots.save()  # not while something is measured
        asked = list(texts(4 * queries + 2, seed=8, words=(4, 9)))
        await engine.recall(SESSION, asked.pop())  # the first one reads every fact
        await engine.search(asked.pop())
        taken = {name: {what: list[float]() for what in WHAT} for name in (ALONE, WRITTEN)}
        for _ in range(queries):
            for name, times in taken.items():
                for what in WHAT:
                    if name == WRITTEN:
                        await engine.add_turn("user", asked[0][::-1], "another session")
                    times[what].append(await _timed(_call(engine, what, asked.pop())))
        return {name: _summary(times) for name, times in taken.items()}


def _call(engine: Engine, what: str, text: str) -> Awaitable[object]:
    return engine.recall(SESSION, text) if what == RECALL else engine.search(text, limit=LIMIT)


async def _timed(call: Awaitable[object]) -> float:
    started = time.perf_counter()
    await call
    return time.perf_counter() - started


def _summary(taken: dict[str, list[float]]) -> dict[str, float]:
    row: dict[str, float] = {}
    for name, times in taken.items():
        row[f"{name} p50"] = 1000 * statistics.median(times)
        row[f"{name} p99"] = 1000 * sorted(times)[int(len(times) * 0.99)]
    return row | {"ratio": row["recall p50"] / row["search p50"]}


def show(found: dict[int, dict[str, dict[str, float]]]) -> None:
    print("\n| memories | | search p50/p99 ms | recall p50/p99 ms | recall / search |")
    print("|---|---|---|---|---|")
    for size, rows in found.items():
        for name, row in rows.items():
            times = [f"{row[f'{what} p50']:.1f} / {row[f'{what} p99']:.1f}" for what in WHAT]
            print(f"| {size:,} | {name} | {times[0]} | {times[1]} | {row['ratio']:.2f}x |")
    worst = max(row["ratio"] for rows in found.values() for row in rows.values())
    print(f"\nThe largest ratio is {worst:.2f}; the bar is {BAR:g}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found: dict[int, dict[str, dict[str, float]]] = {}
    for size in given.sizes:
        with tempfile.TemporaryDirectory() as folder:
            found[size] = anyio.run(measure, size, given.queries, Path(folder))
    if given.json:
        print(json.dumps(found, indent=1))
    else:
        show(found)


if __name__ == "__main__":
    main()
