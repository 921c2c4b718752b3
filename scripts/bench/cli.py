"""What `memoryd search` costs beside a bare client: whole processes, side by side.

    python -m scripts.bench.cli [--runs 40]

The bare client is a Python that imports `memoryd.client`, searches and prints the contents. Both
ask the same daemon, in turns, so that a busy machine hits both alike. Exit code 1 if the ratio of
the medians is above the limit.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT = 2.0  # times a bare client
MEMORIES = 50
BARE = """
import asyncio, sys
from memoryd.client import Client

async def main():
    async with Client(data_dir=sys.argv[1]) as memory:
        page = await memory.search(sys.argv[2])
    for hit in page["results"]:
        print(hit["content"])

asyncio.run(main())
"""
QUERY = "where does Ann keep the tea"


def seconds(command: list[str], env: dict[str, str]) -> float:
    """How long a process takes."""
    began = time.perf_counter()
    subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def measure(folder: Path, runs: int) -> dict[str, list[float]]:
    """The times of each way to search, in turns."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("MEMORYD_")}
    env = kept | {"MEMORYD_EMBEDDING_BACKEND": "hash", "MEMORYD_PROJECT": ""}
    memoryd = [sys.executable, "-m", "memoryd", "--data-dir", str(folder)]
    for number in range(MEMORIES):
        text = f"Ann keeps tea number {number} in the cupboard"
        subprocess.run([*memoryd, "store", text], env=env, stdout=subprocess.DEVNULL, check=True)
    ways = {
        "bare Python": [sys.executable, "-c", "pass"],
        "bare client": [sys.executable, "-c", BARE, str(folder), QUERY],
        "memoryd search": [*memoryd, "search", QUERY],
        "memoryd search --json": [*memoryd, "search", QUERY, "--json"],
        "memoryd": memoryd,
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    try:
        for _ in range(runs):
            for way, command in ways.items():
                times[way].append(seconds(command, env))
    finally:
        subprocess.run([*memoryd, "stop"], env=env, stdout=subprocess.DEVNULL, check=True)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as folder:
        times = measure(Path(folder) / "data", options.runs)
    bare = statistics.median(times["bare client"])
    for way, taken in times.items():
        median = statistics.median(taken)
        print(f"{way:<22}  {1000 * median:6.1f} ms  {median / bare:4.2f} times a bare client")
    return 0 if statistics.median(times["memoryd search"]) <= LIMIT * bare else 1


if __name__ == "__main__":
    sys.exit(main())
