"""What rewriting a store costs, and what others notice of it.

A real daemon with vectors of hashed words purges its store, backs it up, and embeds everything for
another model, while another client searches and stores; the same client was measured before, while
nothing else ran. Plain Chroma copies the same rows into a new collection, in a process of its own
and at another time, so that neither delays the other. Then a purge is stopped half way, and the
time that the next daemon needs to finish it is measured.

Run: .venv/bin/python -m scripts.bench.rewrite [--size 20000] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import cycle
from pathlib import Path

import anyio
import anyio.to_process
import anyio.to_thread

from memoryd.adapters.chroma.open import open_embedded
from memoryd.adapters.chroma.rows import MODEL_KEY
from memoryd.client import Client
from memoryd.logs import log_to_stderr
from memoryd.settings import LogSettings, StoreSettings
from scripts.bench.corpus import texts
from scripts.bench.scale import Daemon, Row, fill, fill_plain, made, rewrite_plain

IDLE_SECONDS = 20.0
THINK = 0.02  # seconds between two calls of the other client
NEW = "store.new"


class Other:
    """The other client: a search and a store in turn, each timed."""

    def __init__(self, client: Client, words: Iterator[str]) -> None:
        self._client, self._words = client, words
        self.searches: list[float] = []
        self.stores: list[float] = []

    async def run(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            text = next(self._words)
            self.searches.append(await _timed(self._client.search(text, limit=10)))
            await anyio.sleep(THINK)
            self.stores.append(await _timed(self._client.store(f"{text} {time.time_ns()}")))
            await anyio.sleep(THINK)

    def row(self, name: str) -> Row:
        found: Row = {}
        for what, taken in (("search", self.searches), ("store", self.stores)):
            p99 = sorted(taken)[min(len(taken) - 1, int(len(taken) * 0.99))]
            found[f"{what} p50 ms, {name}"] = 1000 * statistics.median(taken)
            found[f"{what} p99 ms, {name}"] = 1000 * p99
            found[f"{what} worst ms, {name}"] = 1000 * max(taken)
        return found


async def _timed(call: Awaitable[object]) -> float:
    began = time.perf_counter()
    await call
    return time.perf_counter() - began


async def beside(
    daemon: Daemon, words: Iterator[str], name: str, work: Callable[[], Awaitable[object]]
) -> Row:
    """Seconds of the work, and what the other client noticed of it."""
    async with daemon.client() as client:
        other, ended = Other(client, words), False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other.run, lambda: ended)
            seconds = await _timed(work())
            ended = True
    return {f"{name} s": seconds, **other.row(name)}


async def ours(folder: Path) -> Row:
    words = cycle(texts(2_000, seed=77, words=(4, 9)))
    daemon = await started(folder)
    row = await beside(daemon, words, "idle", lambda: anyio.sleep(IDLE_SECONDS))
    async with daemon.client() as client:
        row["purge, nobody else, s"] = await _timed(client.purge())
        row |= await beside(daemon, words, "purge", client.purge)
        row |= await beside(daemon, words, "backup", client.backup)
    row |= await stopped_half_way(daemon, row["purge, nobody else, s"])
    row |= await change_of_model(folder, words)
    return row


async def started(folder: Path) -> Daemon:
    """A daemon that answers."""
    daemon = Daemon(folder)
    with anyio.fail_after(600):
        while True:
            try:
                async with daemon.client() as client:
                    await client.search("anything")
                    return daemon
            except Exception:
                await anyio.sleep(0.05)


async def stopped_half_way(daemon: Daemon, whole: float) -> Row:
    """Stop a purge in the middle, start again, and wait until it is finished."""

    async def purge() -> None:
        try:
            async with daemon.client() as client:
                await client.purge()
        except Exception:
            return  # it was stopped

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(purge)
        await anyio.sleep(whole / 2)
        seconds, code = await anyio.to_thread.run_sync(daemon.stop)
        tasks.cancel_scope.cancel()
    left = (daemon.folder / NEW).exists()
    again = await started(daemon.folder)
    began = time.perf_counter()
    with anyio.fail_after(20 * whole + 60):
        while (daemon.folder / NEW).exists():  # noqa: ASYNC110 (a file)
            await anyio.sleep(0.05)
    row = {"finish after a stop half way s": time.perf_counter() - began if left else 0.0}
    row |= {"stop during a purge s": seconds, "its exit code": float(code)}
    again.stop()
    return row


async def change_of_model(folder: Path, words: Iterator[str]) -> Row:
    """Call the stored model by another name, so that the daemon embeds everything again."""
    await anyio.to_process.run_sync(rename_model, folder)
    daemon = await started(folder)

    async def changed() -> None:
        async with daemon.client() as client:
            while (await client.status())["model_change"]:  # noqa: ASYNC110 (a daemon)
                await anyio.sleep(0.1)

    row = await beside(daemon, words, "change of model", changed)
    daemon.stop()
    return row


def rename_model(folder: Path) -> None:
    collection = open_embedded(StoreSettings(), folder / "store", identity=None)
    facts = collection.metadata | {MODEL_KEY: "hash-of-another-name"}
    collection._chroma.modify(metadata=facts)
    collection.close()
    (folder / "store" / "clean").touch()


def plain(folder: Path) -> None:
    """In a process of its own: print the seconds of a rewrite by plain Chroma."""
    import chromadb

    client = chromadb.PersistentClient(str(folder / "plain"))
    collection = client.get_collection("plain", embedding_function=None)
    began = time.perf_counter()
    rewrite_plain(client, collection)
    print(time.perf_counter() - began)


def measure(size: int, folder: Path) -> Row:
    rows = made(size)
    (folder / "ours").mkdir(mode=0o700)
    fill(folder / "ours", size)
    fill_plain(folder / "plain", rows)
    del rows
    row = anyio.run(ours, folder / "ours")
    command = [sys.executable, "-m", "scripts.bench.rewrite", "--child", str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return row | {"plain Chroma s": float(done.stdout)}


def ratios(row: Row) -> Row:
    """The figures that count: speed beside plain Chroma's, and latency beside that when idle."""
    found: Row = {}
    for name in ("purge, nobody else,", "purge", "backup", "change of model"):
        found[f"{name.strip(',')}: speed / plain Chroma's rewrite"] = (
            row["plain Chroma s"] / row[f"{name} s"]
        )
    for name in ("purge", "backup", "change of model"):
        for what in ("search", "store"):
            ratio = row[f"{what} p99 ms, {name}"] / row[f"{what} p99 ms, idle"]
            found[f"{what} p99 during {name} / idle"] = ratio
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    log_to_stderr(LogSettings(level="warning"))  # stdout is for the figures
    if given.child:
        plain(given.child)
        return
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as folder:
        row = measure(given.size, Path(folder))
    row |= ratios(row)
    if given.json:
        print(json.dumps(row, indent=1))
        return
    print(f"| {given.size:,} memories | |\n|---|---|")
    for name, value in row.items():
        print(f"| {name} | {value:.3g} |")


if __name__ == "__main__":
    main()
