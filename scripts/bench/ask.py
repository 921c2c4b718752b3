"""Whether `ask` answers rightly: from the right memory, or not at all. On the real model, without a
language model.

Each retrieval set (see `retrieval`) is a memory. Its own questions have an answer in it; questions
of the other sets and prompts of everyday work have none. For each set:

- speaks: of the questions with an answer, how many got one
- right: of those that got one, how many cite a memory that is evidence
- first: of those that got one, how many have evidence as their first source
- precision: of all citations for questions with an answer, how many are evidence
- silent: of the questions without an answer, how many got none
- ms: the median time of a question

Run: .venv/bin/python -m scripts.bench.ask [FILE ...] [--data DIR] [--most N]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from memoryd.engine.engine import Engine
from memoryd.logs import log_to_stderr
from memoryd.settings import Config, LogSettings
from memoryd.wiring.engine import open_engine
from scripts.bench.push import WORK, _parts
from scripts.bench.retrieval import Texts, _store, _tell

ASKED, FOREIGN = 60, 40  # questions with and without an answer, for each store


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: whether its answer is there, which citations are evidence, and the time."""

    has_answer: bool
    cited: tuple[bool, ...]
    seconds: float


async def measure(name: str, part: dict[str, Any], others: list[str]) -> list[Asked]:
    """The questions of one store."""
    drawn = random.Random(name)
    config = Config()
    with tempfile.TemporaryDirectory() as folder:
        memory = replace(config.memory, path=Path(folder), max_content_bytes=10_000_000)
        sessions = replace(config.sessions, auto_compact=False)
        async with open_engine(replace(config, memory=memory, sessions=sessions)) as engine:
            texts = await _tell(engine, part) | await _store(engine, part)
            known = {id for ids, _ in texts.values() for id in ids}
            rows = [(row["question"], set(row["evidence"]) & known) for row in part["questions"]]
            rows = [row for row in rows if row[1]]
            asked = drawn.sample(rows, min(ASKED, len(rows)))
            foreign = drawn.sample(others, min(FOREIGN, len(others)))
            asked += [(question, set()) for question in (*foreign, *WORK)]
            return [await _ask(engine, question, wanted, texts) for question, wanted in asked]


async def _ask(engine: Engine, question: str, wanted: set[str], texts: Texts) -> Asked:
    started = time.perf_counter()
    found = await engine.ask(question)
    took = time.perf_counter() - started
    cited = tuple(bool(wanted & set(texts[one.hit.memory.id][0])) for one in found.sources)
    return Asked(bool(wanted), cited, took)


def row(name: str, asked: list[Asked]) -> str:
    with_answer = [one.cited for one in asked if one.has_answer]
    spoken = [cited for cited in with_answer if cited]
    without = [one.cited for one in asked if not one.has_answer]
    citations = [right for cited in spoken for right in cited]
    shares = (
        len(spoken) / max(1, len(with_answer)),
        sum(any(cited) for cited in spoken) / max(1, len(spoken)),
        sum(cited[0] for cited in spoken) / max(1, len(spoken)),
        sum(citations) / max(1, len(citations)),
        sum(not cited for cited in without) / max(1, len(without)),
    )
    ms = 1000 * statistics.median(one.seconds for one in asked)
    return f"{name:14}" + "".join(f"{100 * share:10.0f}" for share in shares) + f"{ms:8.0f}"


async def run(files: list[Path], most: int, stores: int) -> None:
    parts = {file.stem: _parts(json.loads(file.read_text()), most)[:stores] for file in files}
    questions = {
        name: [row["question"] for part in of_set for row in part["questions"]]
        for name, of_set in parts.items()
    }
    print(f"{'set':14}" + "".join(f"{t:>10}" for t in "speaks right first precision silent".split())
          + f"{'ms':>8}")  # fmt: skip
    for name, of_set in parts.items():
        others = [text for key, texts in questions.items() if key != name for text in texts]
        asked: list[Asked] = []
        for number, part in enumerate(of_set):
            asked += await measure(f"{name} {number}", part, others)
        print(row(name, asked), flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("files", nargs="*", type=Path)
    options.add_argument("--data", type=Path, default=Path("../shared/data"))
    options.add_argument("--most", type=int, default=1500, help="memories of a pool")
    options.add_argument("--stores", type=int, default=2, help="conversations of a set")
    given = options.parse_args()
    log_to_stderr(LogSettings(level="error"))
    files = given.files or sorted(given.data.glob("*_dev.json"))
    if not files:
        sys.exit(f"There are no retrieval sets (*_dev.json) in {given.data}. Name one with --data.")
    anyio.run(run, files, given.most, given.stores)


if __name__ == "__main__":
    main()
