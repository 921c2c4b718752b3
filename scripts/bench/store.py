"""Storing through the engine beside the embedder alone, and searching meanwhile.

Prints ratios, measured in one run on the same texts:
- stores by 32 tasks at once, as a share of what the embedder does with all texts in one call;
- p99 of a search while that bulk store runs, as a multiple of its idle value;
- the longest stall of the event loop.

Run: .venv/bin/python -m scripts.bench.store [--texts 1024] [--json]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

import anyio
import anyio.to_thread

from memoryd.engine.engine import Engine
from memoryd.logs import log_to_stderr
from memoryd.settings import Config, LogSettings, MemorySettings
from memoryd.wiring.engine import open_engine

TASKS, ROUNDS = 32, 3
WORDS = (
    "tea garden robot window winter letter bridge number paper music river engine yellow "
    "market doctor planet kitchen travel story morning camera forest silver coffee"
).split()


LENGTHS = {"a phrase, 6-16 words": (6, 16), "a sentence or two, 20-40 words": (20, 40)}
SHORT = (6, 16)


def texts(count: int, seed: int, words: tuple[int, int] = SHORT) -> list[str]:
    pick = random.Random(seed)
    return [" ".join(pick.choices(WORDS, k=pick.randint(*words))) for _ in range(count)]


async def embed_rate(
    engine: Engine, count: int, seed: int, words: tuple[int, int] = SHORT
) -> float:
    """Texts a second of the embedder alone, all in one call."""
    encoder = engine._parts.embedding.encoder
    assert encoder is not None
    some = texts(count, seed, words)
    started = time.perf_counter()
    await anyio.to_thread.run_sync(encoder.encode, some)
    return count / (time.perf_counter() - started)


async def store_rate(
    engine: Engine, count: int, seed: int, words: tuple[int, int] = SHORT
) -> float:
    """Memories a second through the engine, from 32 tasks."""
    waiting = iter(texts(count, seed, words))

    async def work() -> None:
        for text in waiting:
            await engine.store(text, "conversation")

    started = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for _ in range(TASKS):
            tasks.start_soon(work)
    return count / (time.perf_counter() - started)


async def search_times(engine: Engine, seed: int, stop: anyio.Event | None = None) -> list[float]:
    """Seconds of each search: 200 of them, or until `stop`."""
    taken: list[float] = []
    for query in texts(100_000 if stop else 200, seed):
        if stop and stop.is_set():
            break
        started = time.perf_counter()
        await engine.search(query)
        taken.append(time.perf_counter() - started)
    return taken


async def longest_stall(stop: anyio.Event) -> float:
    longest, last = 0.0, time.perf_counter()
    while not stop.is_set():
        await anyio.sleep(0.001)
        now = time.perf_counter()
        longest, last = max(longest, now - last - 0.001), now
    return longest


async def measure(count: int, words: tuple[int, int]) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as folder:
        async with open_engine(Config(memory=MemorySettings(path=Path(folder)))) as engine:
            await embed_rate(engine, 64, seed=-1)
            results = [await one_round(engine, count, 10 * n, words) for n in range(ROUNDS)]
    return {key: statistics.median(r[key] for r in results) for key in results[0]}


async def one_round(
    engine: Engine, count: int, seed: int, words: tuple[int, int]
) -> dict[str, float]:
    embed = [await embed_rate(engine, count, seed + 1, words)]
    stored = await store_rate(engine, count, seed + 2, words)
    embed.append(await embed_rate(engine, count, seed + 3, words))
    idle = await search_times(engine, seed + 4)
    busy: list[float] = []
    stalls: list[float] = []
    stop = anyio.Event()

    async def searching() -> None:
        busy.extend(await search_times(engine, seed + 5, stop))

    async def watching() -> None:
        stalls.append(await longest_stall(stop))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(searching)
        tasks.start_soon(watching)
        await store_rate(engine, count, seed + 6, words)
        stop.set()
    p99 = [statistics.quantiles(taken, n=100)[98] for taken in (idle, busy)]
    return {
        "embedder alone, texts/s": statistics.mean(embed),
        "engine, 32 tasks, memories/s": stored,
        "engine / embedder": stored / statistics.mean(embed),
        "search p50 idle, ms": 1000 * statistics.median(idle),
        "search p99 idle, ms": 1000 * p99[0],
        "search p99 in bulk store, ms": 1000 * p99[1],
        "search p99 bulk / idle": p99[1] / p99[0],
        "longest stall of the loop, ms": 1000 * stalls[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--texts", type=int, default=1024)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    log_to_stderr(LogSettings(level="warning"))  # stdout is for the figures
    found = {name: anyio.run(measure, options.texts, words) for name, words in LENGTHS.items()}
    if options.json:
        print(json.dumps(found))
        return
    print(f"{'':32}" + "".join(f"{name:>32}" for name in found))
    for row in next(iter(found.values())):
        print(f"{row:32}" + "".join(f"{values[row]:32.2f}" for values in found.values()))


if __name__ == "__main__":
    main()
