"""What growth costs: the same figures at several sizes, of a daemon and of plain Chroma.

For each size a store is filled with memories of eight to thirty words and vectors of hashed words,
and a plain collection with the same rows. Then a real daemon is started twice (without a snapshot
of its index, and with one), searched with filters that leave 50, 5, 0.5 and 0.05 % of the
memories, written to, backed up, purged and stopped. A process of its own does the same with plain
Chroma: its backup is a copy of its folder, its purge a new collection with all rows. At the end it
prints how each figure grows: 1.0 means in proportion to the number of memories.

Run: .venv/bin/python -m scripts.bench.scale [--sizes 10000 100000] [--queries 100] [--json]
A million memories take hours and 20 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import numpy as np

from memoryd.adapters.chroma.new_store import BATCH_ROWS, NewStore
from memoryd.adapters.chroma.rows import plain_rows
from memoryd.adapters.embed.hash import HashEncoder
from memoryd.client import Client
from memoryd.client.owner import OwnerClient
from memoryd.errors import MemorydError
from memoryd.logs import log_to_stderr
from memoryd.ports import Identity, Passage, Record
from memoryd.settings import LogSettings, StoreSettings
from scripts.bench.corpus import records, texts
from scripts.bench.startup import resident_tree

SHARES = {"50 %": 2, "5 %": 20, "0.5 %": 200, "0.05 %": 2000}  # one memory in so many
STORES, TOP = 50, 10
START_LIMIT, STOP_LIMIT = 1800.0, 120.0  # seconds
SETTLED = 2.0  # seconds without a change, after which nothing more is being saved
PAGE = 5_000
OURS, PLAIN = "ours", "plain Chroma"
Row = dict[str, float]


def share_key(one_in: int) -> str:
    """The metadata key that one memory in so many has."""
    return f"one_in_{one_in}"


def made(count: int) -> list[Record]:
    """Memories with vectors of hashed words, and a metadata key for each share they belong to."""
    return [record for page in _made(count) for record in page]


def _made(count: int) -> Iterator[list[Record]]:
    encoder = HashEncoder()
    rows = iter(enumerate(records(count, time.time())))
    while part := list(islice(rows, BATCH_ROWS)):
        found: list[Record] = []
        vectors = encoder.encode([record.memory.content for _, record in part])
        for (number, record), vector in zip(part, vectors, strict=True):
            keys = {share_key(n): True for n in SHARES.values() if number % n == 0}
            memory = replace(record.memory, metadata={**record.memory.metadata, **keys})
            passage = Passage((0, len(memory.content)), vector)
            found.append(Record(memory, (passage,), number + 1))
        yield found


def fill(folder: Path, count: int) -> None:
    """A store with these memories as a rewrite leaves it, without a snapshot of its index."""
    # In a process of its own, because opening ChromaDB changes the working directory.
    command = [sys.executable, "-m", "scripts.bench.scale", "--fill", str(folder)]
    subprocess.run([*command, "--sizes", str(count)], check=True)


def _fill(folder: Path, count: int) -> None:
    encoder = HashEncoder()
    identity = Identity(encoder.model, encoder.dimension)
    store = NewStore(StoreSettings(), folder, identity, [])
    for part in _made(count):
        store.add(plain_rows(part, encoder.dimension))
    store.close()
    store.finish("made")


class Daemon:
    """A daemon on the folder, with vectors of hashed words."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._socket = Path(tempfile.mkdtemp(prefix="memoryd-bench-")) / "s"
        self._flags = ["--data-dir", str(folder), "--socket", str(self._socket)]
        self._env = os.environ | {"MEMORYD_EMBEDDING_BACKEND": "hash"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "memoryd", *self._flags, "serve"],
            stderr=subprocess.DEVNULL,
            env=self._env,
        )

    def client(self) -> OwnerClient:
        return OwnerClient(self._socket, serves=self.folder, timeout=START_LIMIT)

    async def first_answer(self, wanted: Record) -> float:
        """Seconds from the spawn to the right answer."""
        started = time.perf_counter()
        await anyio.to_thread.run_sync(self._wait_for_socket)
        while True:
            with suppress(MemorydError):
                async with self.client() as client:
                    page = await client.search(wanted.memory.content, limit=1)
                    if page["results"] and page["results"][0]["id"] == wanted.memory.id:
                        return time.perf_counter() - started
            if self.process.poll() is not None:
                sys.exit("The daemon ended before it answered.")
            await anyio.sleep(0.01)

    def _wait_for_socket(self) -> None:
        """Cheaper than attempts to connect, on the cores that the daemon needs."""
        while not self._socket.exists() and self.process.poll() is None:
            time.sleep(0.005)

    def wait_for_snapshot(self) -> None:
        """Until there is one, and no newer one is being written."""
        end, since = time.monotonic() + START_LIMIT, time.monotonic()
        while time.monotonic() < min(end, since + SETTLED):
            is_there = (self.folder / "index.snapshot").exists()
            if not is_there or (self.folder / "index.new").exists():
                since = time.monotonic()
            time.sleep(0.05)

    def command(self, *words: str) -> float:
        """Seconds that a command of the command line takes."""
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "memoryd", *words, *self._flags],
            check=True,
            stdout=subprocess.DEVNULL,
            env=self._env,
        )
        return time.perf_counter() - started

    def stop(self) -> tuple[float, int]:
        """Seconds, and the exit code."""
        started = time.perf_counter()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(STOP_LIMIT)
        self._socket.parent.rmdir()
        return time.perf_counter() - started, code


async def ours(folder: Path, wanted: Record, queries: int) -> Row:
    daemon = Daemon(folder)
    row = {"start, no snapshot s": await daemon.first_answer(wanted)}
    daemon.wait_for_snapshot()
    row["MB, no snapshot"] = resident_tree(daemon.process.pid)[0] / 1e6
    row["first stop s"], row["first exit code"] = daemon.stop()
    tell(row)
    daemon = Daemon(folder)
    row["start s"] = await daemon.first_answer(wanted)
    row["disk MB"] = _disk(folder)
    async with daemon.client() as client:
        for name, one_in in {"all": 1, **SHARES}.items():
            wants = {share_key(one_in): True} if one_in > 1 else None
            taken = []
            for text in texts(queries, seed=100 + one_in, words=(4, 9)):
                began = time.perf_counter()
                await client.search(text, limit=TOP, min_score=0.0, metadata=wants)
                taken.append(time.perf_counter() - began)
            row |= _percentiles(name, taken)
        row["MB"], row["worker MB"] = _resident(daemon.process.pid)
        row["MB not of files"] = _anonymous(daemon.process.pid)
        row["store p50 ms"] = await _stores(client)
    tell(row)
    row["backup s"] = daemon.command("backup")
    tell(row)
    row["purge s"] = daemon.command("purge")
    row["stop s"], row["exit code"] = daemon.stop()
    return row


async def _stores(client: Client) -> float:
    taken = []
    for text in texts(STORES, seed=9):
        began = time.perf_counter()
        await client.store(text)
        taken.append(time.perf_counter() - began)
    return 1000 * statistics.median(taken)


def plain(folder: Path, queries: int) -> None:
    """In a process of its own: print the first answer's id, then the other figures as JSON."""
    import chromadb

    client = chromadb.PersistentClient(str(folder / "plain"))
    collection = client.get_collection("plain", embedding_function=None)
    answer = collection.query(query_embeddings=[np.load(folder / "query.npy")], n_results=1)
    print(answer["ids"][0][0], flush=True)
    encoder, row = HashEncoder(), {"disk MB": _disk(folder / "plain")}
    for name, one_in in {"all": 1, **SHARES}.items():
        where: Any = {share_key(one_in): True} if one_in > 1 else None
        taken = []
        for text in texts(queries, seed=100 + one_in, words=(4, 9)):
            began = time.perf_counter()
            vector = encoder.encode([text], query=True)[0]
            collection.query(query_embeddings=[vector], n_results=TOP, where=where)
            taken.append(time.perf_counter() - began)
        row |= _percentiles(name, taken)
    row["MB"] = _resident(os.getpid())[0]
    row["store p50 ms"] = 1000 * statistics.median(
        _timed(collection.add, ids=[text], embeddings=encoder.encode([text]), documents=[text])
        for text in texts(STORES, seed=9)
    )
    tell(row)
    row["backup s"] = _timed(shutil.copytree, folder / "plain", folder / "copy")
    row["purge s"] = _timed(rewrite_plain, client, collection)
    print(json.dumps(row), flush=True)


def tell(row: Row) -> None:
    """The figures so far: a run with very many memories takes hours."""
    print(json.dumps(row), file=sys.stderr, flush=True)


def rewrite_plain(client: Any, collection: Any) -> None:
    """Copy all rows into a new collection, and delete the old one."""
    new = client.create_collection(
        "rewritten", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
    )
    for offset in range(0, collection.count(), PAGE):
        wanted = ["embeddings", "documents", "metadatas"]
        page = collection.get(limit=PAGE, offset=offset, include=wanted)
        new.add(ids=page["ids"], **{name: page[name] for name in wanted})
    client.delete_collection(collection.name)


def fill_plain(folder: Path, rows: list[Record]) -> None:
    """A collection as anybody would make it, in the largest batches it takes."""
    import chromadb

    collection = chromadb.PersistentClient(str(folder)).create_collection(
        "plain", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
    )
    for start in range(0, len(rows), PAGE):
        part = rows[start : start + PAGE]
        collection.add(
            ids=[r.memory.id for r in part],
            embeddings=np.array([r.passages[0].vector for r in part]),
            documents=[r.memory.content for r in part],
            metadatas=[{"type": str(r.memory.type), **r.memory.metadata} for r in part],
        )


def run_plain(folder: Path, wanted: Record, queries: int) -> Row:
    np.save(folder / "query.npy", wanted.passages[0].vector)
    command = [sys.executable, "-m", "scripts.bench.scale", "--child", str(folder)]
    started = time.perf_counter()
    with subprocess.Popen(
        [*command, "--queries", str(queries)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        answer = child.stdout.readline().strip()
        taken = time.perf_counter() - started
        if answer != wanted.memory.id:
            sys.exit(f"Plain Chroma found {answer!r}, not {wanted.memory.id!r}.")
        row: Row = json.loads(child.stdout.read())
    return {"start s": taken, **row}


def measure(size: int, queries: int, folder: Path) -> dict[str, Row]:
    rows = made(size)
    wanted = rows[size // 2]
    (folder / "ours").mkdir(mode=0o700)
    fill(folder / "ours", size)
    fill_plain(folder / "plain", rows)
    del rows
    found = {OURS: anyio.run(ours, folder / "ours", wanted, queries)}
    found[PLAIN] = run_plain(folder, wanted, queries)
    return found


def _timed(work: Callable[..., object], *args: Any, **named: Any) -> float:
    began = time.perf_counter()
    work(*args, **named)
    return time.perf_counter() - began


def _percentiles(name: str, taken: list[float]) -> Row:
    p99 = sorted(taken)[min(len(taken) - 1, int(len(taken) * 0.99))]
    return {
        f"search {name} p50 ms": 1000 * statistics.median(taken),
        f"search {name} p99 ms": 1000 * p99,
    }


def _resident(pid: int) -> tuple[float, float]:
    """Megabytes of a process, and of its descendants."""
    own, *others = resident_tree(pid)
    return own / 1e6, sum(others) / 1e6


def _anonymous(pid: int) -> float:
    """Megabytes of a process without pages of files, which the system can drop and read again."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024 / 1e6


def _disk(folder: Path) -> float:
    files = [f for f in folder.rglob("*") if f.is_file() and "backups" not in f.parts]
    return sum(file.stat().st_size for file in files) / 1e6


def exponent(sizes: tuple[int, int], values: tuple[float, float]) -> float:
    """How a figure grows: 0 not at all, 1 in proportion to the size."""
    return math.log(values[1] / values[0]) / math.log(sizes[1] / sizes[0])


def show(found: dict[int, dict[str, Row]]) -> None:
    """One table, a column for each size and side, then the exponents."""
    columns = [(size, side) for size in found for side in (OURS, PLAIN)]
    steps = list(pairwise(found))
    heads = [f"{size:,} {side}" for size, side in columns]
    heads += [f"{side} grows {a:,} to {b:,}" for a, b in steps for side in (OURS, PLAIN)]
    print(f"\n| | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 1)}")
    for name in next(iter(found.values()))[OURS]:
        values = [found[size][side].get(name) for size, side in columns]
        cells = ["" if value is None else f"{value:.3g}" for value in values]
        for a, b in steps:
            for side in (OURS, PLAIN):
                pair = (found[a][side].get(name), found[b][side].get(name))
                grows = pair[0] and pair[1] and exponent((a, b), (pair[0], pair[1]))
                cells.append(f"{grows:.2f}" if grows else "")
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--fill", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    log_to_stderr(LogSettings(level="warning"))  # stdout is for the figures
    if given.child:
        plain(given.child, given.queries)
        return
    if given.fill:
        _fill(given.fill.resolve(), *given.sizes)
        return
    found: dict[int, dict[str, Row]] = {}
    for size in given.sizes:
        with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as folder:
            found[size] = measure(size, given.queries, Path(folder))
    if given.json:
        print(json.dumps(found, indent=1))
    else:
        show(found)


if __name__ == "__main__":
    main()
