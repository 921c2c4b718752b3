"""Evidence recall: how often the turns that answer a question are among the top k.

Every conversation is a store of its own: its turns go in through `add_turn`, each question is
one `search`. Beside ours, on the same vectors and the same word index: meaning alone (the turn
as most systems embed it, bare), meaning with who spoke, words alone (BM25 over bare turns), and
both by reciprocal rank fusion. With `--rerank` ours is asked twice, without and with it, and the
table tells what each search took.

Reads any file of the format described in `docs/benchmarks.md`; without names, every
`*_dev.json` of the data directory (`--data`).

Run: .venv/bin/python -m scripts.bench.retrieval [FILE ...] [--model NAME] [--rerank DIR] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from memoryd.engine.engine import Engine
from memoryd.engine.lexical import Norms
from memoryd.engine.rank import largest
from memoryd.engine.terms import terms
from memoryd.model import Filter
from memoryd.ports import Encoder
from memoryd.settings import Config
from memoryd.wiring import open_engine

KS = (5, 10, 25)
MOST = 25
RRF = 60  # the textbook's constant
ALIKE = 1.0  # every word of a query weighs the same in the textbook's BM25
Floats = NDArray[np.float32]
Order = list[str]  # turn ids, best first
Recalls = dict[str, dict[str, list[list[float]]]]  # method, category: recalls at KS
Times = dict[str, list[float]]  # method: seconds


class Baselines:
    """What the others do, computed from the same parts."""

    def __init__(self, encoder: Encoder, ids: list[str], texts: list[str]) -> None:
        self._ids = ids
        spans = [(n, text[a:b]) for n, text in enumerate(texts) for a, b in encoder.split(text)]
        self._owners = np.array([n for n, _ in spans], dtype=np.int32)
        pieces = [piece for _, piece in spans]
        parts = [encoder.encode(pieces[n : n + 256]) for n in range(0, len(pieces), 256)]
        self._vectors = np.concatenate(parts)

    async def orders(self, engine: Engine, turns: dict[str, str], text: str) -> dict[str, Order]:
        query = await engine._parts.embedding.query(text)
        assert query is not None
        dense = np.zeros(len(self._ids), dtype=np.float32)
        np.maximum.at(dense, self._owners, self._vectors @ query)
        words, said = self._index_signals(engine, turns, text, query)
        return {
            "dense, bare turns": self._top(dense),
            "dense, speaker named": self._top(said),
            "BM25": self._top(words),
            "RRF of dense and BM25": self._top(_rrf(dense, words)),
        }

    def _index_signals(
        self, engine: Engine, turns: dict[str, str], text: str, query: Floats
    ) -> tuple[Floats, Floats]:
        """BM25 over bare turns and the cosines of our own vectors, in the order of `ids`."""
        index = engine._parts.index
        view = index.view(terms(text), Filter(), 0.0, ALIKE)
        lone = _none(view.words.before)
        alone = replace(view.words, before=lone, after=lone, norms=Norms())
        signals = replace(view, words=alone).signals(query)
        slots = {turns[entry.memory.id]: n for n, entry in enumerate(index.entries()) if entry}
        order = [slots[id] for id in self._ids]
        return signals.words[order], signals.meaning[order]

    def _top(self, scores: Floats) -> Order:
        return [self._ids[n] for n in largest(scores, MOST)]


def _none(links: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.full_like(links, -1)


def _rrf(*signals: Floats) -> Floats:
    total = np.zeros(len(signals[0]), dtype=np.float32)
    for signal in signals:
        order = largest(signal, len(signal))
        total[order] += 1.0 / (RRF + 1.0 + np.arange(len(order), dtype=np.float32))
    return total


async def measure(data: Sequence[dict[str, Any]], config: Config) -> tuple[Recalls, Times]:
    """The recall of each question, by method and category; and what our searches took."""
    recalls: Recalls = defaultdict(lambda: defaultdict(list))
    taken: Times = defaultdict(list)
    for conversation in data:
        with tempfile.TemporaryDirectory() as folder:
            memory = replace(config.memory, path=Path(folder), max_content_bytes=10_000_000)
            async with open_engine(replace(config, memory=memory)) as engine:
                await _measure_one(engine, conversation, recalls, taken)
        print(".", end="", flush=True, file=sys.stderr)
    return recalls, taken


async def _measure_one(
    engine: Engine, conversation: dict[str, Any], recalls: Recalls, taken: Times
) -> None:
    turns: dict[str, str] = {}

    async def tell(session: dict[str, Any]) -> None:
        for turn in session["turns"]:
            role, speaker = _role(turn["speaker"])
            said = (await engine.add_turn(role, turn["text"], str(session["id"]), speaker)).memory
            turns[said.id] = turn["id"]

    async with anyio.create_task_group() as sessions:  # each in its order, beside the others
        for session in conversation["sessions"]:
            sessions.start_soon(tell, session)
    encoder = engine._parts.embedding.encoder
    assert encoder is not None, "There is no model: run `memoryd setup` first."
    all_turns = [turn for session in conversation["sessions"] for turn in session["turns"]]
    texts = {turn["id"]: turn["text"] for turn in all_turns}
    bare = await anyio.to_thread.run_sync(Baselines, encoder, list(texts), list(texts.values()))
    reranker, trouble = engine._parts.embedding.reranker, engine._parts.embedding.rerank_trouble
    assert reranker or not engine._parts.search.rerank_model, trouble
    for question in conversation["questions"]:
        wanted = set(question["evidence"]) & set(turns.values())
        if not wanted:
            continue
        orders = await bare.orders(engine, turns, question["question"])
        for method, used in (("ours", None), ("ours, reranked", reranker)):
            if method == "ours" or used is not None:
                engine.attach_reranker(used)
                started = time.perf_counter()
                page = await engine.search(question["question"], limit=MOST, min_score=0.0)
                taken[method].append(time.perf_counter() - started)
                orders[method] = [turns[hit.memory.id] for hit in page.hits]
        for method, order in orders.items():
            found = [len(wanted & set(order[:k])) / len(wanted) for k in KS]
            for category in ("all", str(question["category"])):
                recalls[method][category].append(found)


def _role(speaker: str) -> tuple[str, str | None]:
    """A turn by user or assistant has a role; one by a person has a name as well."""
    known = speaker.strip().lower()
    return (known, None) if known in ("user", "assistant", "system", "tool") else ("user", speaker)


def table(recalls: Recalls) -> dict[str, dict[str, list[float]]]:
    """Mean recall in percent."""
    return {
        method: {
            category: [round(100 * statistics.fmean(at), 1) for at in zip(*found, strict=True)]
            for category, found in sorted(by.items(), key=lambda item: (item[0] != "all", item[0]))
        }
        for method, by in recalls.items()
    }


def show(name: str, rows: dict[str, dict[str, list[float]]], counts: dict[str, int]) -> None:
    print(
        f"\n{name}\n\n| method | category | questions | R@5 | R@10 | R@25 |"
        "\n|---|---|---|---|---|---|"
    )
    for method, by in rows.items():
        for category, found in by.items():
            if category == "all" or method.startswith("ours"):
                cells = " | ".join(f"{value:.1f}" for value in found)
                print(f"| {method} | {category} | {counts[category]} | {cells} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--model", default=Config().memory.embedding_model)
    parser.add_argument("--rerank", default="", help="folder of a cross-encoder")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    files = given.files or sorted(given.data.glob("*_dev.json"))
    if not files:
        sys.exit("There are no *_dev.json files: name some, or give --data.")
    config = Config()
    memory = replace(config.memory, embedding_model=given.model)
    search = replace(config.search, rerank_model=given.rerank)
    config = replace(config, memory=memory, search=search)
    answers: dict[str, Any] = {"model": given.model, "rerank": given.rerank}
    for file in files:
        data = json.loads(file.read_text())["conversations"]
        recalls, taken = anyio.run(measure, data, config)
        median = {name: round(1000 * statistics.median(times), 1) for name, times in taken.items()}
        answers[file.stem] = table(recalls) | {"milliseconds": median}
        if not given.json:
            counts = {category: len(found) for category, found in recalls["ours"].items()}
            show(f"{file.stem} ({given.model})", table(recalls), counts)
            for name, value in median.items():
                print(f"\nA search of {name} took {value} ms (median).")
    if given.json:
        print(json.dumps(answers, indent=1))


if __name__ == "__main__":
    main()
