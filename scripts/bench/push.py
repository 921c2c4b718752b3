"""Whether hooks speak and stay silent rightly: what a prompt gets unasked, on the real model.

Each retrieval set (see `retrieval`) is a memory. A prompt whose answer is in it should get that
answer; a prompt whose answer is not should get nothing. The second kind are questions of the other
sets and conversations, and prompts of everyday work. For each threshold:

- right: of the prompts with an answer, how many got it
- silent: of the prompts without one, how many got nothing
- tokens: of what a prompt with an answer got

The last table leaves each set out in turn: the threshold that is best for the others, and what it
does to the one that was left out. A wrong push counts 1.5 times as much as a missed one: an agent
can search for what it misses.

Run: .venv/bin/python -m scripts.bench.push [FILE ...] [--data DIR] [--most N]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from memoryd.engine.engine import Engine
from memoryd.engine.push import relevant
from memoryd.engine.push.relevant import CANDIDATES, MAX_SHOWN, item
from memoryd.engine.search.fold import tokens
from memoryd.logs import log_to_stderr
from memoryd.settings import Config, LogSettings
from memoryd.wiring.engine import open_engine
from scripts.bench.retrieval import Texts, _store, _tell

THRESHOLDS = (0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9)
WRONG_COUNTS = 1.5
ASKED, FOREIGN = 120, 100  # prompts with and without an answer, for each store
WORK = (
    "continue with the next step",
    "fix the failing test in the parser module",
    "Add a --verbose flag to the command line",
    "why does this function return None?",
    "refactor this class into smaller pieces",
    "run the tests again and show me the output",
    "there is a type error in line 40, please fix it",
    "make the button in the header blue",
    "rename the variable to something clearer",
    "the docker build fails with exit code 137",
    "upgrade the dependencies to the latest versions",
    "write a regex that matches ISO dates",
    "what is the difference between a list and a tuple?",
    "Implement pagination for the search results",
    "summarise what you did in three sentences",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt: whether its answer is there, and each candidate as score, rightness and tokens."""

    has_answer: bool
    found: tuple[tuple[float, bool, int], ...]

    def pushed(self, threshold: float) -> list[tuple[float, bool, int]]:
        return [one for one in self.found if one[0] >= threshold][:MAX_SHOWN]


async def measure(name: str, part: dict[str, Any], others: list[str]) -> list[Asked]:
    """The prompts of one store."""
    drawn = random.Random(name)
    relevant.MAX_SHOWN = CANDIDATES  # the thresholds are tried afterwards
    config = Config()
    with tempfile.TemporaryDirectory() as folder:
        memory = replace(config.memory, path=Path(folder), max_content_bytes=10_000_000)
        sessions = replace(config.sessions, auto_compact=False)
        hooks = replace(config.hooks, prompt_min_score=0.0, prompt_tokens=2500)
        config = replace(config, memory=memory, sessions=sessions, hooks=hooks)
        async with open_engine(config) as engine:
            texts = await _tell(engine, part) | await _store(engine, part)
            known = {id for ids, _ in texts.values() for id in ids}
            asked = [(row["question"], set(row["evidence"]) & known) for row in part["questions"]]
            asked = [pair for pair in asked if pair[1]]
            asked = drawn.sample(asked, min(ASKED, len(asked)))
            foreign = drawn.sample(others, min(FOREIGN, len(others)))
            asked += [(prompt, set()) for prompt in (*foreign, *WORK)]
            return [await _ask(engine, prompt, wanted, texts) for prompt, wanted in asked]


async def _ask(engine: Engine, prompt: str, wanted: set[str], texts: Texts) -> Asked:
    chosen = await engine.hooks.explain(prompt, "", None)
    found = [
        (
            one.hit.score,
            bool(wanted & set(texts[one.hit.memory.id][0])),
            tokens(item(one.hit.memory, None, one.hit.passage)),
        )
        for one in chosen.judged
        if not one.refused
    ]
    return Asked(bool(wanted), tuple(found))


def figures(asked: list[Asked], threshold: float) -> tuple[float, float, float]:
    """Shares of right and of silent prompts, and tokens of what a prompt with an answer got."""
    with_answer = [one.pushed(threshold) for one in asked if one.has_answer]
    without = [one.pushed(threshold) for one in asked if not one.has_answer]
    right = sum(any(hit[1] for hit in hits) for hits in with_answer) / max(1, len(with_answer))
    silent = sum(not hits for hits in without) / max(1, len(without))
    spent = [sum(hit[2] for hit in hits) for hits in with_answer if hits]
    return right, silent, sum(spent) / max(1, len(spent))


def worth(asked: list[Asked], threshold: float) -> float:
    right, silent, _ = figures(asked, threshold)
    return right + WRONG_COUNTS * silent


def tell(sets: dict[str, list[Asked]]) -> None:
    """Print both tables."""
    print(f"{'set':12}" + "".join(f"{threshold:>22g}" for threshold in THRESHOLDS))
    for name, asked in sets.items():
        cells = (figures(asked, threshold) for threshold in THRESHOLDS)
        texts = (f"{100 * r:4.0f} {100 * s:4.0f} {t:4.0f} tokens" for r, s, t in cells)
        print(f"{name:12}" + "".join(f"{text:>22}" for text in texts))
    print("\nleft out     threshold of the others   right  silent")
    for name, asked in sets.items():
        rest = [other for key, other in sets.items() if key != name]
        best = max(THRESHOLDS, key=lambda t: sum(worth(one, t) for one in rest))
        right, silent, _ = figures(asked, best)
        print(f"{name:12} {best:23g} {100 * right:7.0f} {100 * silent:7.0f}")


def _parts(data: dict[str, Any], most: int) -> list[dict[str, Any]]:
    """The stores of a file; of a large pool the evidence and a sample of the rest."""
    if "conversations" in data:
        return list(data["conversations"][:4])
    wanted = {id for row in data["questions"] for id in row["evidence"]}
    kept = [row for row in data["memories"] if row["id"] in wanted]
    rest = [row for row in data["memories"] if row["id"] not in wanted]
    kept += random.Random(1).sample(rest, max(0, min(len(rest), most - len(kept))))
    return [data | {"memories": kept}]


async def run(files: list[Path], most: int) -> None:
    parts = {file.stem: _parts(json.loads(file.read_text()), most) for file in files}
    questions = {
        (name, number): [row["question"] for row in part["questions"]]
        for name, stores in parts.items()
        for number, part in enumerate(stores)
    }
    sets: dict[str, list[Asked]] = defaultdict(list)
    for name, stores in parts.items():
        for number, part in enumerate(stores):
            here = (name, number)
            others = [text for key, texts in questions.items() if key != here for text in texts]
            sets[name] += await measure(f"{name} {number}", part, others)
            print(".", end="", flush=True, file=sys.stderr)
    tell(sets)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("files", nargs="*", type=Path)
    options.add_argument("--data", type=Path, default=Path("../shared/data"))
    options.add_argument("--most", type=int, default=2000, help="memories of a pool")
    given = options.parse_args()
    log_to_stderr(LogSettings(level="error"))
    files = given.files or sorted(given.data.glob("*_dev.json"))
    anyio.run(run, files, given.most)


if __name__ == "__main__":
    main()
