"""Whether the order of a phase costs relevance: recall at 5 and 10, on the real model.

Each retrieval set (see `retrieval`) is a memory whose memories get a kind, an age, uses, a
confidence and a source by chance, independent of the questions: the worst case, in which none of
these says anything about what is right. What the order by rank loses against the order by relevance
is the price of a phase, by the largest shift of a rank. `mix` is the order without a bound.

Run: .venv/bin/python -m scripts.bench.phases [FILE ...] [--data DIR] [--most N] [--asked N]
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import anyio

from memoryd.engine.sessions import phases as arithmetic
from memoryd.fields import HALF_LIVES, TRUST
from memoryd.logs import log_to_stderr
from memoryd.phases import FACTORS
from memoryd.settings import Config, LogSettings
from memoryd.wiring.engine import open_engine
from scripts.bench.push import _parts
from scripts.bench.retrieval import _recall, _store, _tell

SHIFTS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.1)
CANDIDATES = 100
KS = (5, 10)
MIX = "mix"
Losses = dict[object, list[list[float]]]  # by shift: the recalls of each question and phase


def drawn(id: str) -> tuple[float, float, str, float]:
    """Freshness, use, kind, and trust times confidence of a memory, by chance."""
    chance = random.Random(id)
    trust = TRUST[chance.choice(list(TRUST))]
    return (
        arithmetic.freshness(chance.uniform(0, 120)),
        arithmetic.usage(int(chance.expovariate(0.2))),
        chance.choice(list(HALF_LIVES)),
        trust * chance.uniform(0.3, 1.0),
    )


def key(shift: object, factors: dict[str, float]) -> Callable[[tuple[str, float]], float]:
    """The sort key of a memory with its score, for a shift."""

    def of(hit: tuple[str, float]) -> float:
        fresh, use, kind, sure = drawn(hit[0])
        given = (hit[1], fresh, use, sure * factors.get(kind, 1.0))
        if shift == MIX:
            return -arithmetic.mix(*given)
        moved = arithmetic.rank(*given) - hit[1]
        return -(hit[1] + moved * float(str(shift)) / arithmetic.MAX_SHIFT)

    return of


async def measure(part: dict[str, Any], asked: int, found: Losses) -> None:
    config = Config()
    with tempfile.TemporaryDirectory() as folder:
        memory = replace(config.memory, path=Path(folder), max_content_bytes=10_000_000)
        sessions = replace(config.sessions, auto_compact=False)
        async with open_engine(replace(config, memory=memory, sessions=sessions)) as engine:
            texts = await _tell(engine, part) | await _store(engine, part)
            known = {id for ids, _ in texts.values() for id in ids}
            rows = [row for row in part["questions"] if set(row["evidence"]) & known]
            for row in random.Random(1).sample(rows, min(asked, len(rows))):
                wanted = set(row["evidence"]) & known
                page = await engine.search(row["question"], limit=CANDIDATES, min_score=0.0)
                hits = [(hit.memory.id, hit.score) for hit in page.hits]
                for shift in (*SHIFTS, MIX):
                    for factors in FACTORS.values():
                        order = [id for id, _ in sorted(hits, key=key(shift, factors))]
                        found[shift].append([_recall(wanted, order[:k], texts) for k in KS])


async def run(files: list[Path], most: int, asked: int) -> None:
    print(f"{'set':14}" + "".join(f"{shift!s:>14}" for shift in (*SHIFTS, MIX)))
    for file in files:
        found: Losses = defaultdict(list)
        for part in _parts(json.loads(file.read_text()), most):
            await measure(part, asked, found)
        cells = (
            " / ".join(f"{100 * mean(recall[k] for recall in recalls):.1f}" for k in range(len(KS)))
            for recalls in found.values()
        )
        print(f"{file.stem:14}" + "".join(f"{cell:>14}" for cell in cells), flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("files", nargs="*", type=Path)
    options.add_argument("--data", type=Path, default=Path("data"), help="folder of *_dev.json")
    options.add_argument("--most", type=int, default=2000, help="memories of a pool")
    options.add_argument("--asked", type=int, default=100, help="questions of each store")
    given = options.parse_args()
    log_to_stderr(LogSettings(level="error"))
    anyio.run(run, given.files or sorted(given.data.glob("*_dev.json")), given.most, given.asked)


if __name__ == "__main__":
    main()
