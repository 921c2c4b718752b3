"""The map: how well it keeps neighbours together, what it costs, and what it does to searches.

Quality, against the two main axes (PCA), for vectors of the texts of the retrieval sets (see
`retrieval`), or for made-up ones where there are none; where there are too few texts, each is used
several times with some noise:

- kept: of the ten nearest memories, how many are among the ten nearest points
- trust: trustworthiness, 1 if no point is among the nearest that should not be there

Cost: the seconds until the first map of so many memories is there, with labels, and until the next
one after 100 writes; what it adds to the process's RAM at its highest; and the searches meanwhile,
one after the other, beside the same searches without it.

Run: .venv/bin/python -m scripts.bench.map [--sizes 1000 10000 100000] [--texts 8000] [--data DIR]
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import numpy as np
from numpy.typing import NDArray

from memoryd.engine.filters import Filter
from memoryd.engine.map.layout import SAMPLE, lay_out
from memoryd.engine.map.map import Map
from memoryd.engine.parts import Gate, Parts
from memoryd.logs import log_to_stderr
from memoryd.ports import Passage, Record
from memoryd.settings import Config, LogSettings, SearchSettings
from memoryd.wiring.engine import load_encoder
from scripts.bench.corpus import records, texts, vectors
from scripts.bench.latency import Ours

NEAREST, ASKED = 10, 400
NOISE = 0.03
MAX_CHARS = 300
Floats = NDArray[np.float32]


def set_texts(folder: Path, most: int) -> list[str]:
    """Texts of the retrieval sets, evenly of each; none if there are none."""
    found = [list(_texts(json.loads(file.read_text()))) for file in folder.glob("*_dev.json")]
    drawn = random.Random(1)
    share = most // max(1, len(found))
    return [text for one in found for text in drawn.sample(one, min(share, len(one)))]


def _texts(data: dict[str, Any]) -> Iterator[str]:
    for conversation in data.get("conversations", ()):
        for session in conversation["sessions"]:
            yield from (turn["text"][:MAX_CHARS] for turn in session["turns"] if turn["text"])
    yield from (memory["text"][:MAX_CHARS] for memory in data.get("memories", ()))


def embedded(found: list[str]) -> Floats:
    """Their vectors, by the default model."""
    encoder = load_encoder(Config())
    assert encoder is not None
    made = np.zeros((len(found), encoder.dimension), dtype=np.float32)
    order = sorted(range(len(found)), key=lambda n: len(found[n]))
    for start in range(0, len(order), 32):
        part = order[start : start + 32]
        made[part] = encoder.encode([found[n] for n in part])
    return _unit(made[np.random.default_rng(1).permutation(len(made))])


def grown(known: Floats, count: int) -> Floats:
    """So many vectors: the known ones, then again with noise."""
    pick = np.random.default_rng(2)
    chosen = known[pick.integers(0, len(known), max(0, count - len(known)))]
    noisy = chosen + NOISE * pick.standard_normal(chosen.shape).astype(np.float32)
    return np.concatenate([known[:count], _unit(noisy)])


def _unit(made: Floats) -> Floats:
    unit: Floats = made / np.linalg.norm(made, axis=1, keepdims=True)
    return unit.astype(np.float32)


def quality(made: Floats, places: Floats) -> tuple[float, float]:
    """Shares of kept neighbours, and trustworthiness, of some points against all."""
    count = len(made)
    asked = np.random.default_rng(3).choice(count, min(ASKED, count), replace=False)
    kept, penalty = 0, 0
    for one in asked.tolist():
        likeness = made @ made[one]
        likeness[one] = -np.inf
        distances = ((places - places[one]) ** 2).sum(axis=1)
        distances[one] = np.inf
        near = np.argpartition(distances, NEAREST)[:NEAREST]
        truly = np.argpartition(-likeness, NEAREST)[:NEAREST]
        kept += len(set(near.tolist()) & set(truly.tolist()))
        ranks = 1 + (likeness[None, :] > likeness[near][:, None]).sum(axis=1)
        penalty += int(np.maximum(ranks - NEAREST, 0).sum())
    worst = len(asked) * NEAREST * (2 * count - 3 * NEAREST - 1) / 2
    return kept / (len(asked) * NEAREST), 1 - penalty / worst


def tell_quality(known: Floats, size: int) -> None:
    made = grown(known, size)
    layout = lay_out(made[np.random.default_rng(4).permutation(size)[:SAMPLE]])
    ours = quality(made, layout.place(made))
    axes = quality(made, ((made - layout.mean) @ layout.axes[:, :2]).astype(np.float32))
    print(f"{size:>8}{ours[0]:12.2f}{axes[0]:8.2f}{ours[1]:12.2f}{axes[1]:8.2f}", flush=True)


class Searches:
    """Searches one after the other, each timed, as long as the block runs."""

    def __init__(self, ours: Ours) -> None:
        self._ours = ours
        self._queries = vectors(60, seed=7)
        self._asked = list(texts(60, seed=8, words=(4, 9)))

    async def run(self, into: list[float], most: int = sys.maxsize) -> None:
        for number in range(most):
            place = number % len(self._asked)
            started = time.perf_counter()
            await self._ours.search(
                self._asked[place], self._queries[place], Filter(), SearchSettings()
            )
            into.append(1000 * (time.perf_counter() - started))


async def tell_cost(size: int) -> None:
    now = time.time()
    ours = Ours(list(records(size, now)), now)
    parts = SimpleNamespace(index=ours.index, clock=lambda: now, gate=Gate(), store=None)
    map, searches = Map(cast(Parts, parts)), Searches(ours)
    alone: list[float] = []
    beside: list[float] = []
    await searches.run([], 20)  # warm
    await searches.run(alone, 200)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(map.run)
        before = _peak()
        first = await _made(map)
        added = _peak() - before
        for record in records(100, now, seed=5):
            ours.index.put(_renamed(record))
        again = await _made(map)
        map.ask(renew=True)
        async with anyio.create_task_group() as meanwhile:
            meanwhile.start_soon(searches.run, beside)
            await map.finished()
            meanwhile.cancel_scope.cancel()
        tasks.cancel_scope.cancel()
    shown = [f"{np.percentile(taken, p):8.1f}" for taken in (alone, beside) for p in (50, 99)]
    print(f"{size:>8}{first:9.1f}{again:9.2f}{added:9.0f}" + "".join(shown), flush=True)


def _renamed(record: Record) -> Record:
    memory = replace(record.memory, id=f"new-{record.memory.id}")
    return Record(memory, tuple(Passage(one.span, one.vector) for one in record.passages))


async def _made(map: Map) -> float:
    started = time.perf_counter()
    map.ask()
    await map.finished()
    return time.perf_counter() - started


def _peak() -> float:
    """Megabytes of RAM at the highest so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--sizes", nargs="+", type=int, default=[1000, 10_000, 100_000])
    options.add_argument("--texts", type=int, default=8000, help="texts that are embedded")
    options.add_argument("--data", type=Path, default=Path("../shared/data"))
    given = options.parse_args()
    log_to_stderr(LogSettings(level="error"))
    print("memories   seconds    again       MB     p50     p99   p50 beside   p99 beside")
    for size in given.sizes:
        anyio.run(tell_cost, size)
    found = set_texts(given.data, given.texts)
    if not found:
        print(f"There are no retrieval sets in {given.data}: made-up vectors.", file=sys.stderr)
    known = embedded(found) if found else vectors(given.texts)
    print("\nmemories   kept ours     PCA  trust ours     PCA")
    for size in given.sizes:
        tell_quality(known, size)


if __name__ == "__main__":
    main()
