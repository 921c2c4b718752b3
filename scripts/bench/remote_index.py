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
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio

from memoryd.engine.engine import Engine
from memoryd.logs import log_to_stderr
from memoryd.settings import Config, LogSettings
from memoryd.wiring.engine import open_engine
from scripts.bench.cluster import Server
from scripts.bench.retrieval import Texts, _store, _tell
from tests.processes import free_port

INDEXES = ("memory", "remote")
LIMIT = 10
BATCH = 2000
SEARCHES = 200
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
        pass


async def _all_quality(files: Iterable[Path]) -> None:
    print("| set | index | questions | R@1 | R@5 | R@10 | MRR | p50 ms | p95 ms |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    async with running_server() as server:
        for file in files:
            name = file.stem.removesuffix("_dev")
            show_quality(name, await quality(json.loads(file.read_text()), server, name))


if __name__ == "__main__":
    main()
