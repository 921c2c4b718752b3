"""What the boost for the caller's own project does to searches, on the real model.

The facts of the tests, and the pools that are named, are dealt out to projects at random. Each
question is asked without a project, from the project of its answer, and from another one. The boost
should put the answer first a little more often from its own project, and hide it hardly ever from
another: it may change the order of memories that match about equally well, and of no others.

For each weight: recall of the answer at 1 and 5, and of all pairs of neighbours in the plain order
the share that changed places, with the largest difference of their scores.

Run: .venv/bin/python -m scripts.bench.projects [POOL ...] [--projects N] [--weights W,W]
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio

from memoryd.engine.engine import Engine
from memoryd.logs import log_to_stderr
from memoryd.model import Page
from memoryd.settings import Config, LogSettings
from memoryd.wiring.engine import open_engine
from scripts.bench.mixtures import as_pool
from scripts.bench.retrieval import FACTS

WEIGHTS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.1)
LIMIT = 25


async def measure(pool: dict[str, Any], projects: int, weights: list[float]) -> None:
    """Print a row for each weight."""
    drawn = random.Random(1)
    names = [f"acme/p{number}" for number in range(projects)]
    with tempfile.TemporaryDirectory() as folder:
        memory = replace(Config().memory, path=Path(folder), max_content_bytes=10_000_000)
        async with open_engine(replace(Config(), memory=memory)) as engine:
            homes: dict[str, str] = {}  # the id in the file: its project
            ids: dict[str, str] = {}
            for row in pool["memories"]:
                homes[row["id"]] = name = drawn.choice(names)
                ids[row["id"]] = (await engine.store(row["text"], own_project=name)).memory.id
            plain = [await _ask(engine, row["question"], None) for row in pool["questions"]]
            _tell("no project", [_found(p, r, ids) for p, r in _paired(plain, pool)], [])
            for weight in weights:
                engine._parts.search = replace(engine._parts.search, project_weight=weight)
                for where in ("own", "other"):
                    pages = []
                    for row in pool["questions"]:
                        home = homes[row["evidence"][0]]
                        others = [name for name in names if name != home]
                        own = home if where == "own" else drawn.choice(others)
                        pages.append(await _ask(engine, row["question"], own))
                    found = [_found(p, r, ids) for p, r in _paired(pages, pool)]
                    gaps = [gap for a, b in zip(plain, pages, strict=True) for gap in _gaps(a, b)]
                    _tell(f"{weight:g}, {where} project", found, gaps)


def _paired(pages: list[Page], pool: dict[str, Any]) -> Any:
    return zip(pages, pool["questions"], strict=True)


async def _ask(engine: Engine, question: str, own: str | None) -> Page:
    return await engine.search(question, limit=LIMIT, min_score=0.0, own_project=own)


def _found(page: Page, question: dict[str, Any], ids: dict[str, str]) -> int:
    """The place of the first memory that answers the question; LIMIT if there is none."""
    wanted = {ids[id] for id in question["evidence"]}
    places = [n for n, hit in enumerate(page.hits) if hit.memory.id in wanted]
    return min(places, default=LIMIT)


def _gaps(before: Page, after: Page) -> list[float]:
    """For each pair that changed places, the difference of their scores before."""
    places = {hit.memory.id: n for n, hit in enumerate(after.hits)}
    kept = [hit for hit in before.hits if hit.memory.id in places]
    return [
        one.score - two.score
        for n, one in enumerate(kept)
        for two in kept[n + 1 :]
        if places[one.memory.id] > places[two.memory.id]
    ]


def _tell(what: str, places: list[int], gaps: list[float]) -> None:
    first, five = (100 * sum(p < k for p in places) / len(places) for k in (1, 5))
    pairs = len(places) * LIMIT * (LIMIT - 1) / 2
    share, largest = 100 * len(gaps) / pairs, max(gaps, default=0.0)
    changed = f"{share:5.2f} % of pairs changed, largest gap {largest:.3f}"
    print(f"{what:22} R@1 {first:5.1f}  R@5 {five:5.1f}  {changed}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("pools", nargs="*", type=Path)
    options.add_argument("--projects", type=int, default=4)
    options.add_argument("--weights", default=",".join(map(str, WEIGHTS)))
    given = options.parse_args()
    log_to_stderr(LogSettings(level="error"))
    weights = [float(word) for word in given.weights.split(",")]
    pools = {"facts": as_pool(json.loads(FACTS.read_text()))}
    pools |= {file.stem: json.loads(file.read_text()) for file in given.pools}
    for name, pool in pools.items():
        print(f"{name}: {len(pool['memories'])} memories, {len(pool['questions'])} questions")
        anyio.run(measure, pool, given.projects, weights)


if __name__ == "__main__":
    main()
