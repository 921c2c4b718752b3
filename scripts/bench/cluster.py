"""Several daemons on one Chroma server, with kills, pauses and wrong clocks: do all end equal?

    python -m scripts.bench.cluster --writes 10000 --kills 10

Each writer owns some memories and names, and sends every call to a daemon at random, one call after
the other; so the last acknowledged call decides what its memories must be in the end. A few names
are written by all at once: there any of the texts may win, but only one. Meanwhile daemons are
killed and started again, one is paused, the server is stopped and started, and the clocks of the
daemons are minutes apart; with `--cuts` single daemons lose their connection. In the end every
daemon must have exactly the memories of the server.

With `--offline queue` writes are queued while the server is stopped. What a daemon has queued, the
server gets late, so each writer then sends all its calls to one daemon.

The latency of the feed is the time from the answer to a store on one daemon until another daemon
shows the memory: during the run, and at the end, when nothing else is written. A store that was
answered as queued counts from when the server has it; how long that took is shown by itself. And
nothing reaches a daemon that is dead, paused or cut off, or comes from a stopped server: what was
on its way in such a moment is shown by itself, too, and counts from the end of the disturbance.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import chromadb
import httpx
from chromadb.errors import ChromaError

from memoryd.client import Client
from memoryd.errors import DaemonUnavailable, InvalidInput, MemorydError, NotFound
from scripts.bench.leaping_daemon import CLOCK_VARIABLE
from scripts.bench.link import Link

SKEWS = (0.0, 300.0, -300.0)  # seconds by which the clocks of the daemons are wrong
WRITERS = 6
SHARED_NAMES = 3
COLLECTION = "memories"
SETTLE = 90.0  # seconds in which all must be equal once nothing is written
PROBES = 100  # stores whose way to another daemon is timed at the end
PROBE_LIMIT = 120.0  # seconds; more than a pause and the sending of a queue

State = dict[str, tuple[str | None, str]]  # by id: name and text


class Server:
    """A real `chroma run`."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.process: subprocess.Popen[bytes] | None = None
        self._rows: chromadb.Collection | None = None

    def spawn(self) -> None:
        command = [str(Path(sys.executable).with_name("chroma")), "run"]
        flags = ["--path", str(self.folder), "--host", "127.0.0.1", "--port", str(self.port)]
        with open(self.folder.with_suffix(".log"), "ab") as log:
            self.process = subprocess.Popen([*command, *flags], stdout=log, stderr=log)

    async def start(self) -> None:
        """Start it and wait until it answers."""
        self.spawn()
        async with httpx.AsyncClient(trust_env=False) as client:
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    url = f"http://127.0.0.1:{self.port}/api/v2/heartbeat"
                    if (await client.get(url)).is_success:
                        return
                await asyncio.sleep(0.05)

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(60)

    def has(self, id: str) -> bool:
        """Whether it has this memory now; False while it is stopped."""
        try:
            if self._rows is None:
                client = chromadb.HttpClient(host="127.0.0.1", port=self.port)
                self._rows = client.get_collection(COLLECTION, embedding_function=None)
            return bool(self._rows.get(ids=[id], include=[])["ids"])
        except (ValueError, httpx.HTTPError, ChromaError):
            return False

    def state(self) -> State:
        """The memories that it holds."""
        client = chromadb.HttpClient(host="127.0.0.1", port=self.port)
        rows = client.get_collection(COLLECTION, embedding_function=None).get()
        columns = zip(rows["ids"], rows["metadatas"] or [], rows["documents"] or [], strict=True)
        return {
            id: (None if (name := (meta or {}).get("memoryd:name")) is None else str(name), text)
            for id, meta, text in columns
            if "memoryd:of" not in (meta or {})
        }


class Daemon:
    """`memoryd serve` on that server, with a clock of its own."""

    def __init__(self, folder: Path, port: int, skew: float, offline: str = "refuse") -> None:
        folder.mkdir(mode=0o700)
        self.folder, self.socket, self.port = folder, folder / "s", port
        self.offline = offline
        (folder / "clock").write_text(str(skew))
        self.process: subprocess.Popen[bytes] | None = None

    def spawn(self) -> subprocess.Popen[bytes]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("MEMORYD_")}
        settings = {
            "MEMORYD_STORE_MODE": "http",
            "MEMORYD_STORE_PORT": str(self.port),
            "MEMORYD_STORE_AUDIENCE": "team",
            "MEMORYD_STORE_OFFLINE": self.offline,
            "MEMORYD_EMBEDDING_BACKEND": "hash",
            "MEMORYD_PROJECT": "",
            "MEMORYD_BACKUP_EVERY_HOURS": "0",
            CLOCK_VARIABLE: str(self.folder / "clock"),
        }
        flags = ["--data-dir", str(self.folder / "data"), "--socket", str(self.socket)]
        command = [sys.executable, "-m", "scripts.bench.leaping_daemon", *flags, "serve"]
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(command, stderr=log, env=kept | settings)

    async def start(self) -> None:
        """Start it and wait until it serves."""
        self.process = self.spawn()
        while True:
            with contextlib.suppress(MemorydError, OSError):
                async with Client(self.socket) as client:
                    if (await client.status())["health"] == "ready":
                        return
            assert self.process.poll() is None, (self.folder / "log").read_text()
            await asyncio.sleep(0.05)

    async def state(self) -> State:
        """The memories that it shows."""
        found: State = {}
        async with Client(self.socket) as client:
            cursor: str | None = None
            while True:
                page = await client.list_memories(limit=100, cursor=cursor)
                found |= {m["id"]: (m.get("name"), m["content"]) for m in page["memories"]}
                if (cursor := page.get("cursor")) is None:
                    return found

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)


@dataclass
class Owned:
    """A memory of one writer: what it may say, None for forgotten."""

    may: set[str | None]
    id: str | None = None
    name: str | None = None


@dataclass
class Feed:
    """How long stores took from one daemon to another, in seconds."""

    plain: list[float] = field(default_factory=list)  # nothing was disturbed meanwhile
    disturbed: list[float] = field(default_factory=list)  # from the end of the disturbance
    queued: list[float] = field(default_factory=list)  # until the server had what was queued
    lost: int = 0  # the reading daemon was killed, or too slow


@dataclass
class Run:
    """All daemons, and what was acknowledged."""

    server: Server
    daemons: list[Daemon]
    rng: random.Random
    left: int
    is_sticky: bool = False  # each writer uses one daemon
    links: list[Link] = field(default_factory=list)  # of the daemons, if some are cut
    owned: list[Owned] = field(default_factory=list)
    shared: dict[str, set[str]] = field(default_factory=dict)  # name: every text it was given
    counts: Counter[str] = field(default_factory=Counter)
    number: int = 0
    busy: Feed = field(default_factory=Feed)
    idle: Feed = field(default_factory=Feed)
    # What was disturbed, and until when; None: the server, and so all.
    disturbed: list[tuple[Daemon | None, float]] = field(default_factory=list)

    @contextlib.contextmanager
    def disturbing(self, daemon: Daemon | None) -> Iterator[None]:
        """Notes that the daemon, or the server, is disturbed inside the block."""
        yield
        self.disturbed.append((daemon, time.monotonic()))

    def end_of_disturbance(self, daemon: Daemon, since: float) -> float:
        """When it could read what is on the server again, or `since`."""
        now = time.monotonic()
        ends = [end for one, end in self.disturbed if one in (None, daemon) and end <= now]
        return max([since, *ends])

    def text(self) -> str:
        self.number += 1
        words = " ".join(f"word{self.rng.randrange(1000)}" for _ in range(5))
        return f"text {self.number} {words}" * self.rng.choice((1, 1, 1, 60))


async def write(run: Run, own: Daemon) -> None:
    """One writer: its calls follow each other, each on a daemon at random, or on its own."""
    mine: list[Owned] = []
    while run.left > 0:
        run.left -= 1
        daemon, kind = own if run.is_sticky else run.rng.choice(run.daemons), run.rng.random()
        try:
            async with Client(daemon.socket) as client:
                await _one_call(run, client, mine, kind)
        except (MemorydError, OSError) as exc:
            run.counts[f"refused: {getattr(exc, 'code', type(exc).__name__)}"] += 1
            if run.is_sticky and isinstance(exc, DaemonUnavailable):
                run.left += 1  # its daemon is being started: no call was made
            await asyncio.sleep(0.05)


async def _one_call(run: Run, client: Client, mine: list[Owned], kind: float) -> None:
    text = run.text()
    if kind < 0.1:
        name = f"shared {run.rng.randrange(SHARED_NAMES)}"
        run.shared.setdefault(name, set()).add(text)
        await client.store(text, name=name)
    elif kind < 0.45 or not mine:
        own = f"name {run.number}" if kind < 0.25 else None
        memory = Owned({None, text}, name=own)
        run.owned.append(memory)
        memory.id = (await client.store(text, name=own))["id"]
        memory.may = {text}
        mine.append(memory)
    elif kind < 0.8:
        await _change(client, run.rng.choice(mine), text)
    else:
        await _forget(client, mine, run.rng.choice(mine))
    run.counts["acknowledged"] += 1


async def _change(client: Client, memory: Owned, text: str) -> None:
    assert memory.id is not None
    before, memory.may = memory.may, memory.may | {text}
    if memory.name is not None:
        memory.id = (await client.store(text, name=memory.name))["id"]
    else:
        try:
            await client.update_memory(memory.id, content=text)
        except (NotFound, InvalidInput):  # this daemon has not seen it yet
            memory.may = before
            return
    memory.may = {text}


async def _forget(client: Client, mine: list[Owned], memory: Owned) -> None:
    assert memory.id is not None
    memory.may = memory.may | {None}
    done = await client.forget(memory.id)
    if done["success"]:
        memory.may = {None}
        mine.remove(memory)


async def disturb(run: Run, kills: int, pause: float, cuts: int) -> None:
    """Kill daemons, stop the server, pause a daemon and cut links, spread over the run."""
    total = run.left
    events = ["kill"] * kills + ["server", "pause"] + ["cut"] * cuts
    run.rng.shuffle(events)
    for number, event in enumerate(events, start=1):
        while run.left > total * (1 - number / (len(events) + 1)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await _disturb_once(run, event, pause)
        run.counts[event] += 1


async def _disturb_once(run: Run, event: str, pause: float) -> None:
    daemon = run.rng.choice(run.daemons)
    if event == "kill":
        with run.disturbing(daemon):
            daemon.end()
            await daemon.start()
    elif event == "server":
        with run.disturbing(None):
            await asyncio.to_thread(run.server.stop)
            await asyncio.sleep(1.0)
            await run.server.start()
    elif event == "cut":
        link = run.rng.choice(run.links)
        with run.disturbing(run.daemons[run.links.index(link)]):
            link.cut()
            await asyncio.sleep(pause / 2)
            link.mend()
    else:
        with run.disturbing(daemon):
            daemon.signal(signal.SIGSTOP)
            await asyncio.sleep(pause)
            daemon.signal(signal.SIGCONT)


async def probe(run: Run, feed: Feed, more: Callable[[], bool]) -> None:
    """Time how long memories take from one daemon to another."""
    while more():
        one, other = run.rng.sample(run.daemons, 2)
        memory = Owned({None, text := run.text()})
        run.owned.append(memory)
        with contextlib.suppress(MemorydError, OSError, TimeoutError):
            async with asyncio.timeout(PROBE_LIMIT), Client(one.socket) as writer:
                done = await writer.store(text)
                memory.may = {text}
                is_queued = any("not yet on the server" in told for told in done["warnings"])
                await _time_feed(run, feed, done["id"], other, is_queued=is_queued)
                memory.may = {None, text}
                if (await writer.forget(done["id"]))["success"]:
                    memory.may = {None}
        await asyncio.sleep(0.2 * run.rng.random())  # at any moment between two polls


async def _time_feed(run: Run, feed: Feed, id: str, reader: Daemon, *, is_queued: bool) -> None:
    answered = on_server = time.monotonic()
    if is_queued:
        while not await asyncio.to_thread(run.server.has, id):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        on_server = time.monotonic()
        feed.queued.append(on_server - answered)
    try:
        async with Client(reader.socket) as client:
            while await client.get(id) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
    except (MemorydError, OSError):
        feed.lost += 1
        raise
    able = run.end_of_disturbance(reader, on_server)
    took = time.monotonic() - able
    (feed.disturbed if able > on_server else feed.plain).append(took)


def percentiles(seconds: list[float]) -> str:
    """p50, p99 and the most in milliseconds, and how many there are."""
    ordered = sorted(seconds)
    if not ordered:
        return "none"
    at = [ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.99)]
    p50, p99, most = (f"{1000 * value:.0f} ms" for value in (*at, ordered[-1]))
    return f"p50 {p50}, p99 {p99}, most {most}, of {len(ordered)}"


async def settled(run: Run) -> tuple[State, list[State]]:
    """The memories of the server and of each daemon, once they are equal, or after `SETTLE`."""
    until = time.monotonic() + SETTLE
    while True:
        theirs = [await daemon.state() for daemon in run.daemons]
        truth = await asyncio.to_thread(run.server.state)
        names = Counter(name for name, _ in truth.values() if name is not None)
        same = all(state == truth for state in theirs) and max(names.values(), default=1) == 1
        if same or time.monotonic() > until:
            return truth, theirs
        await asyncio.sleep(0.5)


def judge(run: Run, truth: State, theirs: list[State]) -> Counter[str]:
    """What is wrong; all must be 0."""
    bad: Counter[str] = Counter(dict.fromkeys(("different", "lost", "undead", "names"), 0))
    bad["different"] = sum(state != truth for state in theirs)
    by_name = {name: text for name, text in truth.values() if name is not None}
    texts = {text for _, text in truth.values()}
    for memory in run.owned:
        found = texts & {text for text in memory.may if text is not None}
        bad["lost"] += not found and None not in memory.may
    allowed = {text for memory in run.owned for text in memory.may}
    allowed |= {text for texts in run.shared.values() for text in texts}
    bad["undead"] = len(texts - allowed)
    bad["names"] = sum(1 for name in run.shared if by_name.get(name) not in run.shared[name])
    named = [name for name, _ in truth.values() if name is not None]
    bad["names"] += len(named) - len(set(named))
    return bad


async def cluster(
    folder: Path,
    port: int,
    writes: int,
    kills: int,
    seed: int,
    pause: float,
    offline: str = "refuse",
    probes: int = 0,
    cuts: int = 0,
) -> Run:
    """One run; `counts` of the result has what happened and what is wrong."""
    (folder / "chroma").mkdir()
    server = Server(folder / "chroma", port)
    await server.start()
    links = [Link(port) for _ in SKEWS] if cuts else []
    ports = [link.port for link in links] or [port] * len(SKEWS)
    daemons = [Daemon(folder / f"d{n}", ports[n], skew, offline) for n, skew in enumerate(SKEWS)]
    is_sticky = offline == "queue"
    run = Run(server, daemons, random.Random(seed), writes, is_sticky, links)
    try:
        await asyncio.gather(*(daemon.start() for daemon in daemons))
        async with asyncio.TaskGroup() as tasks:
            for number in range(WRITERS):
                tasks.create_task(write(run, daemons[number % len(daemons)]))
            tasks.create_task(disturb(run, kills, pause, cuts))
            if probes:
                tasks.create_task(probe(run, run.busy, lambda: run.left > 0))
        await settled(run)
        await probe(run, run.idle, lambda: len(run.idle.plain) < probes)
        truth, theirs = await settled(run)
        run.counts["memories"] = len(truth)
        run.counts += Counter()
        for name, count in judge(run, truth, theirs).items():
            run.counts[name] = count
    finally:
        for daemon in daemons:
            if daemon.process is not None:
                daemon.signal(signal.SIGCONT)
                daemon.end()
        for link in links:
            link.cut()
        server.stop()
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writes", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--pause", type=float, default=40.0, help="seconds of the paused daemon")
    parser.add_argument("--port", type=int, default=18_321)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cuts", type=int, default=0, help="times that a daemon is cut off")
    parser.add_argument("--offline", choices=("refuse", "queue"), default="refuse")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="memoryd-cluster-") as folder:
        numbers = (given.port, given.writes, given.kills, given.seed, given.pause)
        done = asyncio.run(cluster(Path(folder), *numbers, given.offline, PROBES, given.cuts))
    for name, count in done.counts.items():
        print(f"{name:40} {count:>8}")
    for when, feed in (("under load", done.busy), ("when idle", done.idle)):
        print(f"feed {when}: {percentiles(feed.plain)}")
        print(f"  after a disturbance of the reader or the server: {percentiles(feed.disturbed)}")
        print(f"  queued, until the server had it: {percentiles(feed.queued)}")
        print(f"  not seen, as the reader was killed: {feed.lost}")
    print(f"{'seconds':40} {time.monotonic() - began:>8.0f}")
    bad = sum(done.counts[name] for name in ("different", "lost", "undead", "names"))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
