"""Kill it, break its files, move its clock, and count what was lost: it must be nothing.

A daemon with a tiny index threshold takes a stream of stores, replacements, forgets and expiries
while it sweeps, compacts and backs itself up. In each round one of these happens: the daemon, its
store worker or both are killed at a random moment, or just as Chroma writes its index; a file is
damaged while the daemon is down (damage.py has the kinds); the clock leaps 40 days, while the
daemon runs or while it is down, and comes back. Then it has to start without help, and every
acknowledged answer has to be true. Only a broken database may be refused; the undamaged files are
then put back and have to serve.

Run: .venv/bin/python -m scripts.bench.crash [--rounds 200] [--seed 1] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from memoryd.client import Client, DaemonLost, DaemonUnavailable
from memoryd.client.owner import OwnerClient
from memoryd.errors import MemorydError, StoreError
from scripts.bench.damage import DAMAGES, Damage, FolderGone
from scripts.bench.leaping_daemon import CLOCK_VARIABLE

VICTIMS = ("daemon", "worker", "both", "worker in flush", "both in flush")
LEAPS = ("ahead, running", "ahead, stopped", "behind, running", "behind, stopped")
LEAP = 40 * 86400.0  # seconds: beyond the life of a conversation
WRITERS = 4
MOST = 25  # living memories a writer
SETTINGS = {
    "MEMORYD_EMBEDDING_BACKEND": "hash",
    "MEMORYD_STORE_SYNC_THRESHOLD": "5",
    "MEMORYD_STORE_COMPACT_ROWS": "60",
    "MEMORYD_MEMORY_CLEANUP_INTERVAL": "0.3",
    "MEMORYD_BACKUP_EVERY_HOURS": "0.0005",
    "MEMORYD_BACKUP_KEEP": "2",
}
BAD = ("lost", "undead", "garbled", "no start", "wrongly refused")
COLUMNS = ("rounds", "acknowledged", *BAD, "refused", "repairs", "no such file")

Event = str | Damage | FolderGone


@dataclass
class Book:
    """What each name may hold: one text (None: nothing), or two while a call is under way."""

    may: dict[str, set[str | None]] = field(default_factory=dict)
    ends: dict[str, float] = field(default_factory=dict)
    conversations: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    acknowledged: int = 0
    repairs: set[str] = field(default_factory=set)
    is_open: bool = True  # writers go on

    def living(self, owner: str) -> list[str]:
        return [n for n, may in self.may.items() if n.startswith(owner) and None not in may]


def text_of(name: str, rng: random.Random) -> str:
    """A text that proves to be whole; some are long enough for several passages."""
    words = " ".join(f"word{rng.randrange(1000)}" for _ in range(rng.choice((5, 20, 450))))
    return f"{name} {words} {sha256(words.encode()).hexdigest()}"


class Daemon:
    """`memoryd serve` as a process that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.data, self.socket, self.log = folder / "data", folder / "s", folder / "log"
        self.clock, self.kept = folder / "clock", folder / "kept"
        self.process: subprocess.Popen[bytes] | None = None

    def spawn(self) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("MEMORYD_")}
        flags = ["--data-dir", str(self.data), "--socket", str(self.socket)]
        with open(self.log, "ab") as log:
            command = [sys.executable, "-m", "scripts.bench.leaping_daemon", *flags, "serve"]
            clock = {CLOCK_VARIABLE: str(self.clock)}
            self.process = subprocess.Popen(command, stderr=log, env=kept | SETTINGS | clock)

    def leap(self, seconds: float) -> None:
        """Have the daemon's clock be so far from ours."""
        part = self.clock.with_suffix(".part")
        part.write_text(str(seconds))
        part.replace(self.clock)

    async def ready(self, seconds: float = 120.0) -> dict[str, Any] | None:
        """Its status once it serves; None if it does not come up."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            assert self.process is not None
            if self.process.poll() is not None:
                return None
            with contextlib.suppress(MemorydError, OSError):
                async with Client(self.socket) as client:
                    status: Any = await client.status()
                    error = status.get("store", {}).get("error")
                    if status["health"] == "ready" and error is None:
                        return dict(status)
                    if status["health"] == "failed" and error["code"] == "store_corrupt":
                        return None  # it stays up to say so
            await asyncio.sleep(0.02)
        return None

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)

    def stop(self) -> None:
        """End it, and wait for its store worker, which outlives a daemon that was killed."""
        assert self.process is not None
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
        self.wait_for_worker()

    def wait_for_worker(self) -> None:
        with contextlib.suppress(FileNotFoundError), open(self.data / "lock", "rb+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the worker's, until it is gone


async def write(client: Client, owner: str, book: Book, rng: random.Random) -> None:
    """Store, replace, forget and let expire, one call after the other, to the end."""
    number = 0
    while book.is_open:
        living = book.living(owner)
        kind = rng.choice(("store", "store", "replace", "forget", "expire"))
        if len(living) > MOST:
            kind = "forget"
        number += 1
        fresh = f"{owner}-{number}-{rng.randrange(10**9)}"
        name = rng.choice(living) if living and kind in ("replace", "forget") else fresh
        text = None if kind == "forget" and name != fresh else text_of(name, rng)
        before = book.may.get(name, {None})
        book.may[name] = before | {text}
        try:
            if text is None:
                await client.forget(name)
            elif kind == "expire":
                book.texts.add(text)
                book.ends[name] = time.time() + 0.6
                await client.store(text, name=name, expires_at=book.ends[name])
            else:
                book.texts.add(text)
                if name == fresh and rng.random() < 0.3:
                    book.conversations.add(name)
                type_ = "conversation" if name in book.conversations else "fact"
                await client.store(text, memory_type=type_, name=name)
        except (DaemonLost, DaemonUnavailable):
            return
        book.may[name] = {text, None} if kind == "expire" else {text}
        book.acknowledged += 1


async def compare(client: Client, book: Book, found: Counter[str]) -> None:
    """Ask for every name; count what contradicts an answer that was given."""
    for name, may in list(book.may.items()):
        memory = await client.get(name)
        text = memory["content"] if memory else None
        if text is not None and text not in book.texts:
            found["garbled"] += 1
        elif text not in may:
            found["lost" if text is None else "undead"] += 1
        if name in book.ends and text is not None and time.time() > book.ends[name] + 1:
            found["undead"] += 1
        # What will expire may be alive now and gone at the next look.
        book.may[name] = {text, None} if name in book.ends else {text}
        if text is None:
            del book.may[name]  # looked at once more in vain: it stays forgotten


async def compare_ahead(client: Client, book: Book, found: Counter[str]) -> None:
    """While the clock is too far ahead no conversation is shown, and every fact is."""
    for name, may in book.may.items():
        is_shown = await client.get(name) is not None
        if is_shown and (name in book.conversations or name in book.ends):
            found["undead"] += 1
        elif not is_shown and name not in book.conversations and None not in may:
            found["lost"] += 1


async def settled(daemon: Daemon) -> bool:
    """Whether index and collection come to hold the same, with a vector for everything."""
    for _ in range(600):
        status = await daemon.ready()
        if status is None:
            return False
        async with OwnerClient(daemon.socket) as client:
            held = await client.audit()
        if status["pending_vectors"] == 0 and held["index"] == held["store"]:
            return True
        await asyncio.sleep(0.05)
    return False


async def is_refused(daemon: Daemon) -> bool:
    """Whether the store turns out to be broken although it was opened: a page of the database may
    be read for the first time by a later call."""
    try:
        await settled(daemon)
    except StoreError as exc:
        return exc.code == "store_corrupt"
    return await daemon.ready() is None


def index_state(data: Path) -> list[tuple[str, int, int]]:
    """Changes whenever Chroma writes a file of its index."""
    found = []
    with contextlib.suppress(OSError):  # a rewrite may take the folder away meanwhile
        for path in data.glob("store/*-*/*"):
            stat = path.stat()
            found.append((path.name, stat.st_mtime_ns, stat.st_size))
    return sorted(found)


async def wait_for_flush(data: Path, seconds: float = 3.0) -> None:
    before, until = index_state(data), time.monotonic() + seconds
    while index_state(data) == before and time.monotonic() < until:  # noqa: ASYNC110 (a file)
        await asyncio.sleep(0)


async def kill(daemon: Daemon, victim: str, rng: random.Random) -> None:
    status = await daemon.ready()
    assert status is not None
    await asyncio.sleep(rng.uniform(0.05, 0.8))
    if "flush" in victim:
        await wait_for_flush(daemon.data)
    if "daemon" not in victim:
        with contextlib.suppress(ProcessLookupError):
            os.kill(status["store"]["pid"], signal.SIGKILL)
    if "worker" not in victim:
        daemon.kill()


async def one_round(daemon: Daemon, book: Book, event: Event, rng: random.Random) -> Counter[str]:
    """Write, have something bad happen, start, compare."""
    found, before = Counter(rounds=1), book.acknowledged
    book.is_open = True
    async with Client(daemon.socket) as client:
        writers = [asyncio.ensure_future(write(client, f"w{n}", book, rng)) for n in range(WRITERS)]
        if event in VICTIMS:
            await kill(daemon, str(event), rng)
        if event not in VICTIMS or "worker" in str(event):
            await asyncio.sleep(0.3)  # the daemon goes on
        book.is_open = False
        await asyncio.wait(writers)
    if event in LEAPS:
        await leap_and_return(daemon, book, str(event), found)
    elif not isinstance(event, str):
        await damage(daemon, event, found, rng)
    elif "worker" not in event:
        daemon.spawn()
    status = await daemon.ready()
    if status is None:
        sys.stderr.write("".join(daemon.log.read_text().splitlines(True)[-30:]))
        return found + Counter({"no start": 1})
    if status["store"]["since_by"] == "repair" and status["store"]["since"] not in book.repairs:
        book.repairs.add(status["store"]["since"])
        found["repairs"] += 1
    async with Client(daemon.socket) as client:
        await compare(client, book, found)
    found["lost"] += not await settled(daemon)
    found["acknowledged"] = book.acknowledged - before
    return found


async def leap_and_return(daemon: Daemon, book: Book, event: str, found: Counter[str]) -> None:
    """The clock is wrong for two sweeps, in a running daemon or over a restart each way."""
    is_ahead, is_stopped = event.startswith("ahead"), event.endswith("stopped")
    for seconds in (LEAP if is_ahead else -LEAP, 0.0):
        if is_stopped:
            daemon.stop()
        daemon.leap(seconds)
        if is_stopped:
            daemon.spawn()
        if await daemon.ready() is None:
            return  # counted by who looks next
        async with OwnerClient(daemon.socket) as client:
            for _ in range(2):
                with contextlib.suppress(MemorydError):  # refused while the clock is in doubt
                    await client.sweep()
            await asyncio.sleep(2 * float(SETTINGS["MEMORYD_MEMORY_CLEANUP_INTERVAL"]))
            if seconds > 0:
                await compare_ahead(client, book, found)


async def damage(
    daemon: Daemon, event: Damage | FolderGone, found: Counter[str], rng: random.Random
) -> None:
    """Damage a file while nobody runs. A daemon that refuses gets the undamaged files back."""
    if event.may_refuse or rng.random() < 0.5:  # what only the write-ahead log has is out of reach
        daemon.stop()
    else:
        daemon.kill()
        daemon.wait_for_worker()
    shutil.rmtree(daemon.kept, ignore_errors=True)
    shutil.copytree(daemon.data, daemon.kept, ignore=shutil.ignore_patterns("*.sock"))
    if not event.apply(daemon.data, rng):
        found["no such file"] += 1
    daemon.spawn()
    if await daemon.ready() is not None and not (event.may_refuse and await is_refused(daemon)):
        return
    if not event.may_refuse:
        found["wrongly refused"] += 1
        sys.stderr.write(f"{event.name}\n" + "".join(daemon.log.read_text().splitlines(True)[-5:]))
    found["refused"] += 1
    daemon.stop()
    shutil.rmtree(daemon.data)
    daemon.kept.rename(daemon.data)
    daemon.spawn()


async def run(
    rounds: int, seed: int, folder: Path, events: Sequence[Event] = VICTIMS
) -> dict[str, Counter[str]]:
    """The counts by event, which are taken in turn."""
    daemon, book, rng = Daemon(folder), Book(), random.Random(seed)
    results: dict[str, Counter[str]] = {title(event): Counter() for event in events}
    daemon.spawn()
    try:
        assert await daemon.ready() is not None, daemon.log.read_text()
        for number in range(rounds):
            event = events[number % len(events)]
            found = await one_round(daemon, book, event, rng)
            results[title(event)].update(found)
            if number % 20 == 19:
                sys.stderr.write(f"{number + 1} rounds\n")
            if any(found[column] for column in BAD):
                sys.stderr.write(f"round {number}, {title(event)}: {dict(found)}\n")
            if found["no start"]:
                break
    finally:
        daemon.stop()
    return results


def title(event: Event) -> str:
    if isinstance(event, str):
        return f"killed: {event}" if event in VICTIMS else f"clock {event}"
    return event.name


def shuffled(seed: int) -> list[Event]:
    """Every event once, the kills three times, in an order that the seed decides."""
    events: list[Event] = [*VICTIMS * 3, *LEAPS, *DAMAGES]
    random.Random(seed).shuffle(events)
    return events


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=200)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="memoryd-crash-") as folder:
        results = asyncio.run(run(given.rounds, given.seed, Path(folder), shuffled(given.seed)))
    if given.json:
        print(json.dumps(results))
    else:
        print("| what happened | " + " | ".join(COLUMNS) + " |")
        print("|---" * (len(COLUMNS) + 1) + "|")
        for victim, counts in results.items():
            cells = " | ".join(str(counts[column]) for column in COLUMNS)
            print(f"| {victim} | {cells} |")
    total = sum(results.values(), Counter[str]())
    return int(any(total[column] for column in BAD))


if __name__ == "__main__":
    sys.exit(main())
