"""Fifty thousand memories stored and expired with two thousand alive, beside plain Chroma.

Wave after wave of 2,000 is stored and expires. Compared before and after: the speed of a search,
recall against brute force, memory of the processes, bytes on disk; and with a fresh store that
only ever held the last wave. Plain Chroma adds and deletes the same vectors.

Run: .venv/bin/python -m scripts.bench.churn [--total 50000] [--alive 2000] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio
import numpy as np
from numpy.typing import NDArray

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.logs import log_to_stderr
from memoryd.settings import Config, EmbeddingSettings, LogSettings, MemorySettings
from memoryd.wiring.engine import open_engine
from scripts.bench.corpus import texts

TASKS, QUERIES, TOP = 64, 60, 10
LIFE = 100.0
Floats = NDArray[np.float32]


class Clock:
    now = time.time()

    def __call__(self) -> float:
        return self.now


def configured(folder: Path) -> Config:
    memory = MemorySettings(path=folder, cleanup_interval=1e6)
    return Config(memory=memory, embedding=EmbeddingSettings(backend="hash"))


async def store(engine: Engine, clock: Clock, wave: list[str]) -> None:
    waiting = iter(wave)

    async def work() -> None:
        for text in waiting:
            await engine.store(text, "conversation", expires_at=clock.now + LIFE)

    async with anyio.create_task_group() as tasks:
        for _ in range(TASKS):
            tasks.start_soon(work)


async def search(engine: Engine, alive: list[str]) -> dict[str, float]:
    """Milliseconds of a search by meaning, and its recall against brute force."""
    encoder = HashEncoder()
    matrix = np.concatenate([encoder.encode(alive[n : n + 500]) for n in range(0, len(alive), 500)])
    taken, recalls = [], []
    for query in texts(QUERIES, seed=5, words=(8, 12)):
        started = time.perf_counter()
        page = await engine.search(query, limit=100, min_score=0.0, explain=True)
        taken.append(time.perf_counter() - started)
        truth = matrix @ encoder.encode([query], query=True)[0]
        least = np.sort(truth)[-TOP] - 1e-5  # of equal ones any will do
        dense = sorted((hit.why.dense for hit in page.hits if hit.why), reverse=True)[:TOP]
        recalls.append(sum(value >= least for value in dense) / TOP)
    return {"ms": 1000 * statistics.median(taken), "recall": statistics.fmean(recalls)}


async def ours(folder: Path, waves: list[list[str]]) -> dict[str, float]:
    clock = Clock()
    async with open_engine(configured(folder), clock) as engine:
        await store(engine, clock, waves[0])
        before = await search(engine, waves[0])
        resident = await _resident(engine)
        for wave in waves[1:]:
            clock.now += 2 * LIFE
            await engine.cleanup_expired()
            await store(engine, clock, wave)
            await engine._upkeep.compact()  # as the hourly round does
        after = await search(engine, waves[-1])
        grown = await _resident(engine)
    return {
        "before": before["ms"],
        "after": after["ms"],
        "recall before": before["recall"],
        "recall": after["recall"],
        "MB before": resident,
        "MB": grown,
        "disk": _disk(folder),
    }


def plain(folder: Path, waves: list[list[str]]) -> dict[str, float]:
    import chromadb

    encoder = HashEncoder()
    collection = chromadb.PersistentClient(str(folder)).create_collection(
        "plain", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
    )
    found: dict[str, float] = {}
    for number, wave in enumerate(waves):
        ids = [f"{number}-{n}" for n in range(len(wave))]
        vectors = encoder.encode(wave)
        collection.add(ids=ids, embeddings=vectors, documents=wave)
        if number == 0:
            found["before"], found["recall before"] = _query(collection, vectors, encoder)
            found["MB before"] = _megabytes(os.getpid())
        if number < len(waves) - 1:
            collection.delete(ids=ids)
    found["after"], found["recall"] = _query(collection, vectors, encoder)
    return found | {"MB": _megabytes(os.getpid()), "disk": _disk(folder)}


def _query(collection: Any, matrix: Floats, encoder: HashEncoder) -> tuple[float, float]:
    taken, recalls = [], []
    for text in texts(QUERIES, seed=5, words=(8, 12)):
        query = encoder.encode([text], query=True)[0]
        started = time.perf_counter()
        answer = collection.query(query_embeddings=[query], n_results=TOP)
        taken.append(time.perf_counter() - started)
        least = np.sort(matrix @ query)[-TOP] - 1e-5
        near = [1.0 - distance for distance in answer["distances"][0]]
        recalls.append(sum(value >= least for value in near) / TOP)
    return 1000 * statistics.median(taken), statistics.fmean(recalls)


async def _resident(engine: Engine) -> float:
    worker = (await engine.store_status())["pid"]
    return _megabytes(os.getpid()) + _megabytes(int(str(worker)))


def _megabytes(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _disk(folder: Path) -> float:
    files = [f for f in folder.rglob("*") if f.is_file() and "backups" not in f.parts]
    return sum(file.stat().st_size for file in files) / 1e6


def measure(total: int, alive: int, folder: Path) -> dict[str, dict[str, float]]:
    every = list(texts(total))
    waves = [every[n : n + alive] for n in range(0, total, alive)]
    found = {
        "ours": anyio.run(ours, folder / "ours", waves),
        "ours, fresh store": anyio.run(ours, folder / "fresh", [waves[-1]]),
    }
    for name, given in (("plain Chroma", waves), ("plain Chroma, fresh", [waves[-1]])):
        (folder / name).mkdir()
        found[name] = plain(folder / name, given)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--total", type=int, default=50_000)
    parser.add_argument("--alive", type=int, default=2_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    log_to_stderr(LogSettings(level="warning"))  # stdout is for the figures
    with tempfile.TemporaryDirectory() as folder:
        found = measure(given.total, given.alive, Path(folder))
    if given.json:
        print(json.dumps(found, indent=1))
        return
    print(f"\n{given.total:,} stored, {given.alive:,} alive\n")
    print("| | search ms, first wave | last wave | recall@10 | MB first | MB last | disk MB |")
    print("|---|---|---|---|---|---|---|")
    for name, row in found.items():
        cells = [row["before"], row["after"], row["recall"], row["MB before"], row["MB"]]
        numbers = " | ".join(f"{value:.3g}" for value in [*cells, row["disk"]])
        print(f"| {name} | {numbers} |")
    disk = found["ours"]["disk"] / found["ours, fresh store"]["disk"]
    print(f"\nOur disk after the churn is {disk:.2f} times that of a fresh store.")


if __name__ == "__main__":
    main()
