"""Does a bulk writer starve a chat? Search latency of one client, idle and while another client
stores thousands of memories over a connection of its own, through a real daemon and model.

Run: .venv/bin/python -m scripts.bench.fairness [--stores 1500] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import tempfile
import time
from pathlib import Path

from memoryd.client import Client
from scripts.bench.store import texts

IN_FLIGHT = 64


async def search_times(client: Client, seed: int, stop: asyncio.Event | None = None) -> list[float]:
    taken: list[float] = []
    for query in texts(100_000 if stop else 300, seed):
        if stop and stop.is_set():
            break
        started = time.perf_counter()
        await client.search(query)
        taken.append(time.perf_counter() - started)
    return taken


async def bulk(client: Client, count: int) -> float:
    """Store `count` memories, many at a time; memories a second."""
    waiting = iter(texts(count, seed=1))

    async def work() -> None:
        for text in waiting:
            await client.store(text, "conversation")

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
    return count / (time.perf_counter() - started)


async def measure(folder: Path, stores: int) -> dict[str, float]:
    place = str(folder)
    async with Client(data_dir=place, start=True) as chat, Client(data_dir=place) as writer:
        daemon = (await chat.status())["pid"]
        try:
            await bulk(writer, 100)
            idle = await search_times(chat, seed=2)
            stop = asyncio.Event()
            searching = asyncio.create_task(search_times(chat, 3, stop))
            rate = await bulk(writer, stores)
            stop.set()
            busy = await searching
        finally:
            os.kill(daemon, signal.SIGTERM)
    p99 = [statistics.quantiles(taken, n=100)[98] * 1000 for taken in (idle, busy)]
    return {
        "search p50 idle, ms": statistics.median(idle) * 1000,
        "search p50 in bulk store, ms": statistics.median(busy) * 1000,
        "search p99 idle, ms": p99[0],
        "search p99 in bulk store, ms": p99[1],
        "p99 bulk / idle": p99[1] / p99[0],
        "stores a second meanwhile": rate,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Search latency beside a bulk writer.")
    parser.add_argument("--stores", type=int, default=1500)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-", ignore_cleanup_errors=True) as folder:
        found = asyncio.run(measure(Path(folder), options.stores))
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:32} {value:10.2f}")


if __name__ == "__main__":
    main()
