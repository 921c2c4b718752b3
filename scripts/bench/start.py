"""From process start to the first correct search, beside opening plain Chroma and its first query.

Each is a process of its own on a directory that another process filled: ours with the snapshot of
the index, ours without it (as after a change of version), and a plain collection of the same rows.
The search asks for the text of one memory, Chroma's query for its vector; both must find it.

Run: .venv/bin/python -m scripts.bench.start [--count 100000] [--runs 3] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio
import numpy as np

from memoryd.adapters.chroma.store import open_chroma
from memoryd.engine.index import snapshot
from memoryd.logs import log_to_stderr
from memoryd.ports import Identity, Record
from memoryd.settings import Config, LogSettings, MemorySettings, StoreSettings
from memoryd.wiring.engine import open_engine
from scripts.bench.corpus import DIMENSION, plain_chroma, records

MODEL = "all-MiniLM-L6-v2"
TASKS = 128
SNAPSHOT = "index.snapshot"


async def fill(folder: Path, made: list[Record]) -> None:
    """A store as the daemon leaves it, with the snapshot of its index."""
    async with open_chroma(StoreSettings(), folder, Identity(MODEL, DIMENSION)) as store:
        waiting = iter(enumerate(made, start=1))

        async def work() -> None:
            for revision, record in waiting:
                filled = Record(record.memory, record.passages, revision)
                await store.put(filled, new=True)

        async with anyio.create_task_group() as tasks:
            for _ in range(TASKS):
                tasks.start_soon(work)
    snapshot.MIN_MEMORIES = min(snapshot.MIN_MEMORIES, len(made))
    async with open_engine(configured(folder)) as engine:
        await engine._parts.snapshots.save()


def configured(folder: Path) -> Config:
    return Config(memory=MemorySettings(path=folder, cleanup_interval=1e6))


async def first_search(folder: Path, text: str) -> None:
    async with open_engine(configured(folder), wait=False) as engine:
        page = await engine.search(text, limit=1)
        print(page.hits[0].memory.id, flush=True)


def first_query(folder: Path) -> None:
    import chromadb

    vector = np.load(folder / "query.npy")
    collection = chromadb.PersistentClient(str(folder)).get_collection(
        "plain", embedding_function=None
    )
    answer = collection.query(query_embeddings=[vector], n_results=1)
    print(answer["ids"][0][0], flush=True)


def timed(kind: str, folder: Path, asked: str, expected: str) -> float:
    """Seconds from spawn to the right answer."""
    command = [sys.executable, "-m", "scripts.bench.start", "--child", kind, str(folder), asked]
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        answer = child.stdout.readline().strip()
        taken = time.perf_counter() - started
    if answer != expected:
        sys.exit(f"{kind} found {answer!r}, not {expected!r}.")
    return taken


def measure(count: int, runs: int, folder: Path) -> dict[str, Any]:
    made = list(records(count, time.time()))
    wanted = made[count // 2]
    (folder / "plain").mkdir()
    anyio.run(fill, folder / "ours", made)
    plain_chroma(made, folder / "plain")
    np.save(folder / "plain" / "query.npy", wanted.passages[0].vector)
    kept = (folder / "ours" / SNAPSHOT).read_bytes()
    taken: dict[str, list[float]] = {"ours": [], "ours, no snapshot": [], "plain Chroma": []}
    for _ in range(runs):
        (folder / "ours" / SNAPSHOT).write_bytes(kept)
        text, id = wanted.memory.content, wanted.memory.id
        taken["ours"].append(timed("ours", folder / "ours", text, id))
        (folder / "ours" / SNAPSHOT).unlink(missing_ok=True)
        taken["ours, no snapshot"].append(timed("ours", folder / "ours", text, id))
        taken["plain Chroma"].append(timed("plain", folder / "plain", "", id))
    return {name: statistics.median(times) for name, times in taken.items()}


def main() -> None:
    log_to_stderr(LogSettings(level="warning"))  # stdout is for the figures
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        kind, folder, asked = given.child
        if kind == "ours":
            anyio.run(first_search, Path(folder), asked)
        else:
            first_query(Path(folder))
        return
    with tempfile.TemporaryDirectory() as folder:
        found = measure(given.count, given.runs, Path(folder))
    if given.json:
        print(json.dumps(found, indent=1))
        return
    print(f"\n{given.count:,} memories; seconds from process start to the first right answer\n")
    print("| | seconds | times plain Chroma |\n|---|---|---|")
    for name, seconds in found.items():
        print(f"| {name} | {seconds:.2f} | {seconds / found['plain Chroma']:.2f} |")


if __name__ == "__main__":
    main()
