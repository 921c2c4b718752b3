"""Does one client starve another? Latency of a client's short calls, alone and while another client
floods the daemon from a process and over a connection of its own, through a real daemon and model:

- searches while the other stores memories of a phrase each, 64 at a time,
- short stores while the other has 64 stores of long texts under way,
- searches while the other has 64 searches under way.

Run: .venv/bin/python -m scripts.bench.fairness [--samples 100] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from memoryd.client import Client
from scripts.bench.store import texts

IN_FLIGHT = 64
LONG = 20_000  # characters of a long text
PATIENCE = 600.0  # seconds: a flood must not end because its own calls wait

Call = Callable[[str], Awaitable[object]]


async def times(call: Call, given: Iterator[str], count: int) -> list[float]:
    """Seconds of each call, one after another."""
    taken: list[float] = []
    for text in itertools.islice(given, count):
        started = time.perf_counter()
        await call(text)
        taken.append(time.perf_counter() - started)
    return taken


def phrases(seed: int) -> Iterator[str]:
    for more in itertools.count(seed, 1000):
        yield from texts(1000, more)


def long_texts(seed: int) -> Iterator[str]:
    """Texts of many passages, each another."""
    for more in itertools.count(seed, 1000):
        yield " ".join(texts(LONG // 60, more))[:LONG]


async def flood(kind: str, place: str) -> None:
    """So many calls under way, a new one for each that was answered, until killed."""
    async with Client(data_dir=place, timeout=PATIENCE) as client:

        async def store(text: str) -> object:
            return await client.store(text, "conversation")

        given = long_texts(5) if kind == "long stores" else phrases(6)
        call: Call = client.search if kind == "searches" else store

        async def work() -> None:
            for text in given:
                await call(text)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(IN_FLIGHT):
                tasks.create_task(work())
            await asyncio.sleep(1.0)  # so that all of them are under way
            print("flooding", flush=True)


@asynccontextmanager
async def flooded(kind: str, place: str) -> AsyncIterator[None]:
    """Another process that floods the daemon inside the block."""
    command = [sys.executable, "-m", "scripts.bench.fairness", "--flood", kind, "--place", place]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        yield
    finally:
        process.kill()
        await process.wait()


async def measure(folder: Path, count: int) -> dict[str, float]:
    place = str(folder)
    found: dict[str, float] = {}
    async with Client(data_dir=place, start=True, timeout=PATIENCE) as client:
        daemon = (await client.status())["pid"]

        async def store(text: str) -> object:
            return await client.store(text, "conversation")

        try:
            given = phrases(7)
            await times(store, given, 200)
            for name, call, kind in (
                ("search, bulk store", client.search, "short stores"),
                ("short store, 64 long stores", store, "long stores"),
                ("search, 64 searches", client.search, "searches"),
            ):
                idle = await times(call, given, count)
                async with flooded(kind, place):
                    busy = await times(call, given, count)
                found |= compared(name, idle, busy)
        finally:
            os.kill(daemon, signal.SIGTERM)
    return found


def compared(name: str, idle: list[float], busy: list[float]) -> dict[str, float]:
    """Milliseconds alone and beside the other, and how many times as long that is."""
    found: dict[str, float] = {}
    for part in (50, 95):
        alone, beside = (statistics.quantiles(t, n=100)[part - 1] * 1000 for t in (idle, busy))
        found |= {f"{name}: p{part} alone, ms": alone, f"{name}: p{part} beside, ms": beside}
        found[f"{name}: p{part} beside / alone"] = beside / alone
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Latency of one client beside another.")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--flood", help=argparse.SUPPRESS)
    parser.add_argument("--place", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.flood:
        asyncio.run(flood(options.flood, options.place))
        return
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-", ignore_cleanup_errors=True) as folder:
        found = asyncio.run(measure(Path(folder), options.samples))
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:52} {value:10.2f}")


if __name__ == "__main__":
    main()
