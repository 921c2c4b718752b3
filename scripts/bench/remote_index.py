"""A daemon without an index (`search.index: remote`) beside one with it, on a real Chroma server.

    python -m scripts.bench.remote_index quality [FILE ...]
    python -m scripts.bench.remote_index memory --rows 10000 100000

`quality`: how often the memories that answer a question are found, as in `retrieval`, with the real
model. Both daemons use the same collection. `memory`: the resident memory of daemon and worker, and
what calls take, with the hash embedder, after searches over collections of these sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import anyio
import chromadb
import numpy as np

from memoryd.adapters.chroma import rows
from memoryd.client import Client
from memoryd.doors.live import resident
from memoryd.engine.engine import Engine
from memoryd.errors import MemorydError
from memoryd.logs import log_to_stderr
from memoryd.settings import Config, LogSettings
from memoryd.wiring.engine import open_engine
from scripts.bench.cluster import COLLECTION, Server
from scripts.bench.corpus import DIMENSION, records, texts
from scripts.bench.retrieval import Texts, _store, _tell
from scripts.conformance import free_port

INDEXES = ("memory", "remote")
LIMIT = 10
BATCH = 2000
CALLS = 60  # of each kind
MIB = 1 << 20
Found = dict[str, dict[str, list[float]]]  # index: figure: of each question


@asynccontextmanager
async def running_server() -> AsyncIterator[Server]:
    """A `chroma run` on a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as name:
        (folder := Path(name) / "chroma").mkdir()
        server = Server(folder, free_port())
        await server.start()
        try:
            yield server
        finally:
            server.stop()


async def quality(data: dict[str, Any], server: Server, name: str) -> Found:
    """The figures of every question of one set."""
    found: Found = {index: defaultdict(list) for index in INDEXES}
    for number, part in enumerate(data.get("conversations") or [data]):
        texts: Texts = {}
        for index in INDEXES:
            async with _engine(server, index, f"{name}-{number}") as engine:
                texts = texts or await _tell(engine, part) | await _store(engine, part)
                await _ask(engine, texts, part["questions"], found[index])
        print(".", end="", flush=True, file=sys.stderr)
    return found


@asynccontextmanager
async def _engine(server: Server, index: Any, collection: str) -> AsyncIterator[Engine]:
    config = Config()
    with tempfile.TemporaryDirectory() as folder:
        memory = replace(config.memory, path=Path(folder), max_content_bytes=10_000_000)
        store = replace(config.store, mode="http", port=server.port, collection=collection)
        config = replace(
            config,
            memory=memory,
            store=store,
            search=replace(config.search, index=index),
            sessions=replace(config.sessions, auto_compact=False),
        )
        async with open_engine(config) as engine:
            yield engine


async def _ask(
    engine: Engine, texts: Texts, questions: list[dict[str, Any]], found: dict[str, list[float]]
) -> None:
    known = {id for ids, _ in texts.values() for id in ids}
    for question in questions:
        if not (wanted := set(question["evidence"]) & known):
            continue
        began = time.perf_counter()
        page = await engine.search(question["question"], limit=LIMIT, min_score=0.0)
        found["ms"].append(1000 * (time.perf_counter() - began))
        each = [wanted & set(texts[hit.memory.id][0]) for hit in page.hits]
        for count in (1, 5, 10):
            got = set[str]().union(*each[:count])
            found[f"R@{count}"].append(100 * len(got) / len(wanted))
        first = next((place for place, got in enumerate(each, start=1) if got), None)
        found["MRR"].append(0.0 if first is None else 100 / first)


def show_quality(name: str, found: Found) -> None:
    for index, figures in found.items():
        means = [f"{statistics.fmean(figures[key]):.1f}" for key in ("R@1", "R@5", "R@10", "MRR")]
        p50 = statistics.median(figures["ms"])
        p95 = sorted(figures["ms"])[int(0.95 * len(figures["ms"]))]
        cells = [name, index, str(len(figures["ms"])), *means, f"{p50:.0f}", f"{p95:.0f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


class Daemon:
    """`memoryd serve` with one kind of index on a server."""

    def __init__(self, folder: Path, port: int, index: str) -> None:
        folder.mkdir(mode=0o700)
        self.folder, self.socket, self.port, self.index = folder, folder / "s", port, index
        self.process: subprocess.Popen[bytes] | None = None

    def spawn(self) -> subprocess.Popen[bytes]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("MEMORYD_")}
        settings = {
            "MEMORYD_STORE_MODE": "http",
            "MEMORYD_STORE_AUDIENCE": "team",
            "MEMORYD_STORE_PORT": str(self.port),
            "MEMORYD_SEARCH_INDEX": self.index,
            "MEMORYD_EMBEDDING_BACKEND": "hash",
            "MEMORYD_PROJECT": "",
            "MEMORYD_BACKUP_EVERY_HOURS": "0",
            "MEMORYD_DOORS_TOOLSETS": "all",
        }
        flags = ["--data-dir", str(self.folder / "data"), "--socket", str(self.socket)]
        command = [sys.executable, "-m", "memoryd", *flags, "serve"]
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(command, stderr=log, env=kept | settings)

    async def start(self) -> float:
        """Start it; seconds until it serves."""
        began = time.perf_counter()
        self.process = self.spawn()
        while True:
            with suppress(MemorydError, OSError):
                async with Client(self.socket) as client:
                    if (await client.status())["health"] == "ready":
                        return time.perf_counter() - began
            assert self.process.poll() is None, (self.folder / "log").read_text()
            await anyio.sleep(0.05)

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(120)


def fill(server: Server, have: int, count: int) -> None:
    """Add made-up memories until the collection has `count`."""
    client = chromadb.HttpClient(host="127.0.0.1", port=server.port)
    collection: Any = client.get_collection(COLLECTION, embedding_function=None)
    made, clock = records(count - have, time.time(), seed=have + 1), have
    while batch := list(islice(made, BATCH)):
        new = rows.to_rows([replace(one, revision=1) for one in batch], DIMENSION)
        for meta in new.metadatas:
            clock += 1
            meta[rows.CLOCK] = clock
        collection.add(
            ids=new.ids,
            documents=[text or "" for text in new.documents],
            metadatas=new.metadatas,
            embeddings=np.asarray(new.vectors),
        )


async def _calls(client: Client) -> dict[str, list[float]]:
    """What calls of each kind take, in milliseconds."""
    taken: dict[str, list[float]] = defaultdict(list)
    asked = list(texts(CALLS, seed=7, words=(3, 8)))

    async def timed(kind: str, call: Awaitable[Any]) -> Any:
        began = time.perf_counter()
        answer = await call
        taken[kind].append(1000 * (time.perf_counter() - began))
        return answer

    for number, query in enumerate(asked):
        await timed("search", client.search(query))
        await timed("search, one type", client.search(query, "fact"))
        await timed("list", client.list_memories(limit=20))
        stored = await timed("store", client.store(f"Note number {number} of a run."))
        await timed("update", client.update_memory(stored["id"], content="Another text."))
        await timed("forget", client.forget(stored["id"]))
    return taken


async def _measure(folder: Path, server: Server, index: str) -> str:
    """A line of the table."""
    daemon = Daemon(folder, server.port, index)
    ready = await daemon.start()
    try:
        async with Client(daemon.socket) as client:
            taken = await _calls(client)
            worker = (await client.status())["store"]["pid"]
            assert daemon.process is not None
            sizes = [resident(pid) or 0 for pid in (daemon.process.pid, worker)]
    finally:
        daemon.stop()
    medians = [f"{statistics.median(times):.0f}" for times in taken.values()]
    cells = [index, f"{ready:.1f}", *(f"{size / MIB:.0f}" for size in sizes), *medians]
    return " | ".join(cells)


async def _all_memory(sizes: Iterable[int]) -> None:
    kinds = "search | search, one type | list | store | update | forget"
    print(f"| rows | index | ready s | daemon MB | worker MB | {kinds} |")
    print(f"|{'---|' * 11}", flush=True)
    async with running_server() as server:
        with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as name:
            folder, have = Path(name), 0
            first = Daemon(folder / "first", server.port, "remote")
            await first.start()  # makes the collection
            first.stop()
            for size in sizes:
                await anyio.to_thread.run_sync(fill, server, have, size)
                have = size
                for index in INDEXES[::-1]:
                    line = await _measure(folder / f"{index}-{size}", server, index)
                    print(f"| {size} | {line} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("quality", "memory"))
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 100_000])
    given = parser.parse_args()
    log_to_stderr(LogSettings(level="warning"))
    if given.part == "quality":
        anyio.run(_all_quality, given.files or sorted(given.data.glob("*_dev.json")))
    else:
        anyio.run(_all_memory, given.rows)


async def _all_quality(files: Iterable[Path]) -> None:
    print("| set | index | questions | R@1 | R@5 | R@10 | MRR | p50 ms | p95 ms |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    async with running_server() as server:
        for file in files:
            name = file.stem.removesuffix("_dev")
            show_quality(name, await quality(json.loads(file.read_text()), server, name))


if __name__ == "__main__":
    main()
