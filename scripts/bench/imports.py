"""A bulk import beside the embedder alone, and what another client feels of it.

A round measures, on texts of its own that have the same lengths:
- the embedder alone, in a process of its own, at its best batch size;
- `memoryd import` of as many memories into a real daemon with the embedded store;
- searches and stores of another client before an import, and during one.

With --hash the vectors cost nothing, which shows the limit of everything else; beside it stands
plain Chroma, which adds the same rows in batches of so many. Ratios are of one round, the table
shows medians of all rounds. Milliseconds of processor time depend less on other
programs than rates.

Run: .venv/bin/python -m scripts.bench.imports [--memories 3000] [--rounds 3] [--words 8 30]
     [--hash] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import compileall
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import memoryd
from memoryd.client import Client
from memoryd.export_file import Header, Writer
from scripts.bench.corpus import vectors
from scripts.bench.store import texts

SIZES = (64, 256, 1024)  # texts in one call of the embedder
PLAIN_SIZES = (64, 1000)  # rows in one call of Chroma
WORDS = [8, 30]  # in a text
SAMPLES = 150  # calls of the other client before an import
PAUSE = 0.02  # seconds at most between two calls: they must not follow the import's rhythm
ALONE = 6.0  # seconds after its last call, when the other client no longer counts as active
TIMEOUT = 600.0
Row = dict[str, float]


def write_export(path: Path, count: int, seed: int, words: tuple[int, int]) -> None:
    """A file as `memoryd export` writes it."""
    with path.open("wb") as file:
        writer = Writer(file, Header(count=count))
        for number, text in enumerate(texts(count, seed, words)):
            memory: dict[str, object] = {"id": f"s{seed}m{number}", "type": "fact"}
            memory |= {
                "content": text,
                "created_at": time.time(),
                "expires_at": None,
                "metadata": {},
            }
            writer.memory(memory)
        writer.end()


def embed(count: int, seed: int, words: tuple[int, int]) -> Row:
    """The embedder alone, in this process."""
    from memoryd.adapters.embed.onnx_encoder import OnnxEncoder
    from memoryd.adapters.embed.resolve import resolve
    from memoryd.places import cache_dir

    encoder = OnnxEncoder(resolve("all-MiniLM-L6-v2", cache_dir() / "models"))
    some = texts(count, seed, words)
    encoder.encode(some[:64])
    best = {"texts/s": 0.0}
    for size in SIZES:
        began, used = time.perf_counter(), _processor()
        for start in range(0, count, size):
            encoder.encode(some[start : start + size])
        rate = count / (time.perf_counter() - began)
        if rate > best["texts/s"]:
            best = {"texts/s": rate, "ms": 1000 * (_processor() - used) / count, "size": size}
    return best


def plain(count: int, seed: int, words: tuple[int, int], folder: Path) -> Row:
    """Rows a second that Chroma adds, at its best batch size, in this process."""
    import chromadb

    some, made = texts(count, seed, words), vectors(count, seed)
    best = 0.0
    for size in PLAIN_SIZES:
        client = chromadb.PersistentClient(str(folder / f"plain{size}"))
        collection = client.create_collection(
            "plain", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )
        began = time.perf_counter()
        for start in range(0, count, size):
            part = range(start, min(count, start + size))
            collection.add(
                ids=[f"s{seed}m{number}" for number in part],
                documents=[some[number] for number in part],
                embeddings=made[part.start : part.stop],
                metadatas=[{"type": "fact", "created_at": time.time()} for _ in part],
            )
        best = max(best, count / (time.perf_counter() - began))
    return {"rows/s": best}


def _processor() -> float:
    """Seconds of processor time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def in_a_process(what: str, asked: argparse.Namespace, seed: int, folder: Path) -> Row:
    command = [sys.executable, "-m", "scripts.bench.imports", "--child", what]
    command += ["--memories", str(asked.memories), "--words", *map(str, asked.words)]
    command += ["--seed", str(seed), "--folder", str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found: Row = json.loads(done.stdout)
    return found


class Other:
    """Another client: searches and stores in turn, one after another."""

    def __init__(self, client: Client, seed: int) -> None:
        self._client = client
        self._phrases = iter(texts(100_000, seed, (5, 12)))
        self._pick = random.Random(seed)

    async def times(self, more: Callable[[int], bool]) -> dict[str, list[float]]:
        """Seconds of each call, while `more` of the number of calls is true."""

        async def store(text: str) -> object:
            return await self._client.store(text, "conversation")

        calls: dict[str, Callable[[str], Awaitable[object]]]
        calls = {"search": self._client.search, "store": store}
        taken: dict[str, list[float]] = {name: [] for name in calls}
        count = 0
        while more(count):
            for name, call in calls.items():
                text = next(self._phrases)
                await asyncio.sleep(self._pick.random() * PAUSE)
                began = time.perf_counter()
                await call(text)
                taken[name].append(time.perf_counter() - began)
            count += 1
        return taken


class Daemon:
    """The daemon on a folder, and the command that imports into it."""

    def __init__(self, folder: Path, pid: int) -> None:
        self._flags = ["--data-dir", str(folder)]
        self._pid = pid

    def used(self) -> dict[str, float]:
        """Seconds of processor time until now, of the daemon and of its worker."""
        found = {"daemon": _used(self._pid), "worker": 0.0}
        for task in Path(f"/proc/{self._pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found["worker"] += _used(int(child))
        return found

    async def imported(self, path: Path, count: int) -> Row:
        """Memories a second of `memoryd import`, and milliseconds of processor time for each."""
        before, began = self.used(), time.perf_counter()
        command = [sys.executable, "-m", "memoryd", "import", str(path), *self._flags, "--json"]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        told, _ = await process.communicate()
        taken = time.perf_counter() - began
        if (added := json.loads(told)["added"]) != count:
            sys.exit(f"{added} of {count} memories were imported.")
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        command_used = ended.ru_utime + ended.ru_stime - children.ru_utime - children.ru_stime
        spent = {name: used - before[name] for name, used in self.used().items()}
        spent["command"] = command_used
        milliseconds = {f"{name} ms": 1000 * used / count for name, used in spent.items()}
        return {"memories/s": count / taken} | milliseconds

    def stop(self) -> None:
        os.kill(self._pid, signal.SIGTERM)


def _used(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(folder: Path, asked: argparse.Namespace, seed: int) -> Row:
    """The figures of one round."""
    row: Row = {}
    count = asked.memories
    if asked.hash:
        row["plain Chroma, rows/s"] = in_a_process("plain", asked, seed, folder)["rows/s"]
    else:
        alone = in_a_process("embed", asked, seed, folder)
        row["embedder alone, texts/s"] = alone["texts/s"]
        row["embedder alone, processor ms"] = alone["ms"]
    files = [folder / "first.jsonl", folder / "second.jsonl"]
    for number, path in enumerate(files):
        write_export(path, count, seed + number, asked.words)
    data = folder / "data"
    data.mkdir(mode=0o700)
    os.environ["MEMORYD_EMBEDDING_BACKEND"] = "hash" if asked.hash else "onnx"
    async with Client(data_dir=str(data), start=True, timeout=TIMEOUT) as client:
        daemon = Daemon(data, (await client.status())["pid"])
        try:
            other = Other(client, seed + 7)
            await other.times(lambda done: done < 20)
            await asyncio.sleep(ALONE)
            first = await daemon.imported(files[0], count)
            row |= {f"import, {name}": value for name, value in first.items()}
            row[f"import / {next(iter(row)).partition(',')[0]}"] = first["memories/s"] / next(
                iter(row.values())
            )
            if not asked.hash:
                spent = sum(value for name, value in first.items() if name.endswith(" ms"))
                row["processor time, embedder alone / import"] = alone["ms"] / spent
            idle = await other.times(lambda done: done < SAMPLES)
            importing = asyncio.create_task(daemon.imported(files[1], count))
            busy = await other.times(lambda done: not importing.done())
            row["import beside the other client, memories/s"] = (await importing)["memories/s"]
            for name in idle:
                row |= compared(name, idle[name], busy[name])
        finally:
            daemon.stop()
    return row


def compared(name: str, idle: list[float], busy: list[float]) -> Row:
    """Milliseconds before and during the import, and how many times as long that is."""
    found: Row = {}
    for part in (50, 99):
        before, during = (1000 * statistics.quantiles(t, n=100)[part - 1] for t in (idle, busy))
        found |= {f"{name} p{part} idle, ms": before, f"{name} p{part} in import, ms": during}
        found[f"{name} p{part} in import / idle"] = during / before
    return found


def compile_modules() -> None:
    """Bytecode, as an installation has it: where the environment forbids to write it, each command
    would compile its modules, which takes longer than its import of a few thousand memories."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    compileall.compile_dir(Path(memoryd.__file__).parent, quiet=1)


def rounds(options: argparse.Namespace) -> Iterator[Row]:
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory(
            prefix="memoryd-bench-", ignore_cleanup_errors=True
        ) as folder:
            seed = options.seed + 10 * number
            yield asyncio.run(measure(Path(folder), options, seed))


def main() -> None:
    parser = argparse.ArgumentParser(description="A bulk import beside the embedder alone.")
    parser.add_argument("--memories", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--words", type=int, nargs=2, default=WORDS, help="in a text, from and to")
    parser.add_argument("--hash", action="store_true", help="vectors of hashed words")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", choices=("embed", "plain"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        asked = (options.memories, options.seed, options.words)
        found = embed(*asked) if options.child == "embed" else plain(*asked, options.folder)
        print(json.dumps(found))
        return
    compile_modules()
    all_rounds = list(rounds(options))
    medians = {name: statistics.median(row[name] for row in all_rounds) for name in all_rounds[0]}
    if options.json:
        print(json.dumps({"medians": medians, "rounds": all_rounds}))
        return
    for name, value in medians.items():
        every = ", ".join(f"{row[name]:.4g}" for row in all_rounds)
        print(f"{name:44} {value:10.2f}   ({every})")


if __name__ == "__main__":
    main()
