"""A hybrid search with filters through the daemon, beside the same searches in the engine itself.

Both on the same store, one after the other: first the engine in this process, then a daemon over
its socket with the client library. Both embed the query with the real model. Every search differs,
so that no cache helps, and both are asked the same ones, without a filter and with two.

Run: .venv/bin/python -m scripts.bench.through [--count 100000] [--queries 200] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from memoryd.client import Client
from memoryd.logs import log_to_stderr
from memoryd.model import DAY
from memoryd.settings import LogSettings
from memoryd.wiring.engine import open_engine
from scripts.bench.corpus import records, texts
from scripts.bench.start import configured, fill

Asked = Callable[..., Awaitable[Any]]


def filters(now: float) -> dict[str, dict[str, Any]]:
    """What narrows the search."""
    fact = {"memory_type": "fact"}
    return {"no filter": {}, "type": fact, "type and date": fact | {"since": now - 10 * DAY}}


async def timed(search: Asked, queries: int, now: float) -> dict[str, list[float]]:
    """Seconds of each search, by filter."""
    taken: dict[str, list[float]] = {name: [] for name in filters(now)}
    for seed, (name, filter) in enumerate(filters(now).items()):
        for text in texts(queries, seed=100 + seed, words=(4, 9)):
            started = time.perf_counter()
            await search(text, limit=10, min_score=0.0, **filter)
            taken[name].append(time.perf_counter() - started)
    return taken


async def in_engine(folder: Path, queries: int, now: float) -> dict[str, list[float]]:
    async with open_engine(configured(folder)) as engine:
        gc.freeze()  # as the daemon does
        return await timed(engine.search, queries, now)


async def in_daemon(folder: Path, queries: int, now: float) -> tuple[dict[str, list[float]], int]:
    """The times, and the bytes that the daemon takes in RAM."""
    async with Client(data_dir=folder, start=True) as client:
        await client.search("anything")  # waits until it is up
        status = await client.status()
        try:
            return await timed(client.search, queries, now), status["resident_bytes"]
        finally:
            os.kill(status["pid"], signal.SIGTERM)


def measure(count: int, queries: int, folder: Path) -> dict[str, Any]:
    now = time.time()
    asyncio.run(fill(folder, list(records(count, now))))
    engine = asyncio.run(in_engine(folder, queries, now))
    daemon, resident = asyncio.run(in_daemon(folder, queries, now))
    rows = {}
    for name in engine:
        row = {}
        for place, taken in (("engine", engine[name]), ("daemon", daemon[name])):
            row[f"{place} p50"] = 1000 * statistics.median(taken)
            row[f"{place} p99"] = 1000 * statistics.quantiles(taken, n=100)[98]
        rows[name] = row
    return {"rows": rows, "megabytes": resident / 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    log_to_stderr(LogSettings(level="warning"))  # stdout is for the figures
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-", ignore_cleanup_errors=True) as folder:
        found = measure(given.count, given.queries, Path(folder))
    if given.json:
        print(json.dumps(found, indent=1))
        return
    print(f"\n{given.count:,} memories, hybrid search with embedding, milliseconds\n")
    print("| filter | engine p50/p99 | daemon p50/p99 | p50 daemon / engine |\n|---|---|---|---|")
    for name, row in found["rows"].items():
        cells = [f"{row[f'{p} p50']:.1f} / {row[f'{p} p99']:.1f}" for p in ("engine", "daemon")]
        print(f"| {name} | {' | '.join(cells)} | {row['daemon p50'] / row['engine p50']:.2f}x |")
    print(f"\nThe daemon takes {found['megabytes']:.0f} MB in RAM, model and all.")


if __name__ == "__main__":
    main()
