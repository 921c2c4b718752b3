"""Minutes of mixed load from many clients, with memories that expire within seconds.

Clients store, search, get, forget, talk, and leave and come back, all the time. What they keep is
bounded, so the daemon must be too. Afterwards: no error, nothing lost (also not over a restart),
nothing that had expired was ever returned, descriptors flat, and resident memory without a slope.

Run: .venv/bin/python -m scripts.bench.soak [--minutes 3] [--clients 20] [--backend hash] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memoryd.client import Client
from memoryd.errors import MemorydError
from scripts.bench.store import texts

KEPT = 40  # memories that a client holds on to
STAY = 200  # calls before a client leaves and comes back
# MB for 10,000 calls, of the daemon and of its worker, once they are warm. Not MB a minute: a leak
# grows with what is done, and a fast machine does more of it.
MOST_SLOPE = 5.0
MOST_DESCRIPTORS = 10  # more at the end than in the middle
WARM = 0.4  # of the time, until caches are full


@dataclass(slots=True)
class Tally:
    """What happened, over all clients."""

    calls: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    returned_expired: int = 0


@dataclass(slots=True)
class Sample:
    """The daemon and its worker at one moment."""

    at: float
    daemon_bytes: int
    worker_bytes: int
    descriptors: int


class Agent:
    """One client with a mind of its own; what it stores is known to it alone."""

    def __init__(self, number: int, place: str, tally: Tally) -> None:
        self._number = number
        self._place = place
        self._tally = tally
        self._chance = random.Random(number)
        self._texts = texts(2000, seed=number)
        self._said = 0
        self.kept: dict[str, str] = {}
        self._fading: list[tuple[str, float]] = []

    async def live(self, until: float) -> None:
        """Call after call until the time is over; a new connection every so often."""
        while time.monotonic() < until:
            async with Client(data_dir=self._place) as memory:
                for _ in range(STAY):
                    if time.monotonic() >= until:
                        return
                    await self._act(memory)

    async def _act(self, memory: Client) -> None:
        verbs = (self.store, self.fade, self.search, self.get, self.look_back, self.talk)
        verb = self._chance.choice(verbs)
        try:
            await verb(memory)
            self._tally.calls[verb.__name__] += 1
        except MemorydError as exc:
            self._tally.errors[exc.code] += 1

    def _text(self) -> str:
        self._said += 1
        return f"{self._number}/{self._said}: {self._chance.choice(self._texts)}"

    async def store(self, memory: Client) -> None:
        """Keep one more, and let go of the oldest."""
        text = self._text()
        self.kept[(await memory.store(text))["id"]] = text
        if len(self.kept) > KEPT:
            oldest = next(iter(self.kept))
            del self.kept[oldest]
            if not (await memory.forget(oldest))["success"]:
                self._tally.lost += 1

    async def fade(self, memory: Client) -> None:
        """Store what is gone in a second or two."""
        end = datetime.now(UTC) + timedelta(seconds=self._chance.uniform(1, 3))
        stored = await memory.store(self._text(), "context", expires_at=end.isoformat())
        self._fading.append((stored["id"], end.timestamp()))

    async def search(self, memory: Client) -> None:
        asked = time.time()
        page = await memory.search(self._chance.choice(self._texts), limit=10)
        for hit in page["results"]:
            end = hit["expires_at"]
            if end is not None and datetime.fromisoformat(end).timestamp() < asked:
                self._tally.returned_expired += 1

    async def get(self, memory: Client) -> None:
        if self.kept:
            id = self._chance.choice(list(self.kept))
            found = await memory.get(id)
            if found is None or found["content"] != self.kept[id]:
                self._tally.lost += 1

    async def look_back(self, memory: Client) -> None:
        """What has faded must be gone."""
        over = [id for id, end in self._fading if end < time.time()]
        self._fading = [(id, end) for id, end in self._fading if id not in over]
        for id in over[:3]:
            if await memory.get(id) is not None:
                self._tally.returned_expired += 1

    async def talk(self, memory: Client) -> None:
        session = f"soak-{self._number}"
        said = await memory.add_turn("user", self._text(), session_id=session)
        window = await memory.context_window(session)
        if said["id"] not in [message["id"] for message in window["messages"]]:
            self._tally.lost += 1
        await memory.forget(said["id"])


def look(pid: int) -> tuple[int, int]:
    """Resident bytes and open descriptors of a process."""
    process = Path("/proc") / str(pid)
    pages = int((process / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir(process / "fd"))


async def watch(daemon: int, worker: int, samples: list[Sample]) -> None:
    """A sample a second, for ever."""
    while True:
        sizes = [look(pid) for pid in (daemon, worker)]
        descriptors = sum(size[1] for size in sizes)
        samples.append(Sample(time.monotonic(), sizes[0][0], sizes[1][0], descriptors))
        await asyncio.sleep(1)


async def missing(place: str, agents: Sequence[Agent]) -> int:
    """How many of what the agents keep is not there, or not as it was."""
    async with Client(data_dir=place) as memory:
        lost = 0
        for agent in agents:
            for id, text in agent.kept.items():
                found = await memory.get(id)
                lost += found is None or found["content"] != text
        facts = (await memory.status()).get("memories", {}).get("fact", 0)
        return lost + abs(facts - sum(len(agent.kept) for agent in agents))


def slope(samples: Sequence[Sample], what: str) -> float:
    """Least squares, in MB a minute."""
    times = [sample.at / 60 for sample in samples]
    values = [getattr(sample, what) / 1e6 for sample in samples]
    at, mean = sum(times) / len(times), sum(values) / len(values)
    spread = sum((t - at) ** 2 for t in times)
    along = sum((t - at) * (v - mean) for t, v in zip(times, values, strict=True))
    return float(along / (spread or 1))


def serve(folder: str, backend: str) -> subprocess.Popen[bytes]:
    fast = {"MEMORYD_MEMORY_CLEANUP_INTERVAL": "1", "MEMORYD_EMBEDDING_BACKEND": backend}
    return subprocess.Popen(
        [sys.executable, "-m", "memoryd", "serve", "--data-dir", folder],
        env=os.environ | fast,
        stderr=subprocess.DEVNULL,
    )


async def ready(place: str) -> dict[str, Any]:
    """Its status, once its memories are open."""
    while True:
        try:
            async with Client(data_dir=place) as memory:
                if "memories" in (found := dict(await memory.status())):
                    return found
        except MemorydError:
            pass
        await asyncio.sleep(0.1)


async def soak(folder: str, minutes: float, clients: int, backend: str) -> dict[str, Any]:
    process = serve(folder, backend)
    tally, samples = Tally(), list[Sample]()
    try:
        found = await asyncio.wait_for(ready(folder), 120)
        watching = asyncio.create_task(watch(found["pid"], found["store"]["pid"], samples))
        until = time.monotonic() + minutes * 60
        agents = [Agent(number, folder, tally) for number in range(clients)]
        await asyncio.gather(*(agent.live(until) for agent in agents))
        watching.cancel()
        tally.lost += await missing(folder, agents)
        process.send_signal(signal.SIGTERM)
        ended = process.wait(30)
        process = serve(folder, backend)
        await asyncio.wait_for(ready(folder), 120)
        tally.lost += await missing(folder, agents)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    return report(tally, samples, minutes, ended)


def report(tally: Tally, samples: list[Sample], minutes: float, ended: int) -> dict[str, Any]:
    warm = samples[int(len(samples) * WARM) :]
    middle, last = warm[: len(warm) // 2], warm[len(warm) // 2 :]
    grown = max(s.descriptors for s in last) - max(s.descriptors for s in middle)
    facts: dict[str, Any] = {
        "minutes": minutes,
        "calls": sum(tally.calls.values()),
        "calls a second": round(sum(tally.calls.values()) / minutes / 60, 1),
        "errors": dict(tally.errors),
        "lost": tally.lost,
        "returned after expiry": tally.returned_expired,
        "daemon, MB": round(samples[-1].daemon_bytes / 1e6, 1),
        "daemon slope, MB/min": round(slope(warm, "daemon_bytes"), 2),
        "worker, MB": round(samples[-1].worker_bytes / 1e6, 1),
        "worker slope, MB/min": round(slope(warm, "worker_bytes"), 2),
        "descriptors": samples[-1].descriptors,
        "descriptors grown": grown,
        "exit code": ended,
    }
    good = not tally.errors and not tally.lost and not tally.returned_expired and ended == 0
    steepest = max(facts["daemon slope, MB/min"], facts["worker slope, MB/min"])
    tens_of_thousands = sum(tally.calls.values()) / minutes / 10_000
    facts["steepest, MB/10,000 calls"] = round(steepest / tens_of_thousands, 2)
    flat = steepest / tens_of_thousands < MOST_SLOPE and grown <= MOST_DESCRIPTORS
    return facts | {"passed": good and flat}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--backend", choices=("hash", "onnx"), default="hash")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memoryd-soak-") as folder:
        found = asyncio.run(soak(folder, options.minutes, options.clients, options.backend))
    if options.json:
        print(json.dumps(found))
    else:
        print("| | |\n|---|---|")
        for name, value in found.items():
            print(f"| {name} | {value} |")
    return 0 if found["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
