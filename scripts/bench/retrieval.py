"""Evidence recall: how often the memories that answer a question are among the top k.

Two kinds of files (`docs/benchmarks.md`). Conversations: each is a store of its own, its turns go
in through `add_turn`. Pools: all memories are facts of one store. Each question is one `search`.

Beside ours, on the same vectors and the same word index: meaning alone (the text as most systems
embed it), meaning with who spoke, words alone (BM25) and both by reciprocal rank fusion. The last
table has, for every set and category with at least 20 questions, ours beside the better of meaning
and words alone: ours must not lose to its better half. With `--rerank` ours is asked twice, without
and with it, and the table tells what each search took.

Without names, every `*_dev.json` of the data directory (`--data`). With `--mixed` stores of several
kinds as well (`mixtures`).

Run: .venv/bin/python -m scripts.bench.retrieval [FILE ...] [--mixed] [--model NAME] [--rerank DIR]
[--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from memoryd.engine.engine import Engine
from memoryd.engine.filters import Filter
from memoryd.engine.index.terms import terms
from memoryd.engine.index.words import Norms
from memoryd.engine.search.rank import largest
from memoryd.logs import log_to_stderr
from memoryd.ports import Encoder
from memoryd.settings import Config, LogSettings
from memoryd.wiring.engine import open_engine
from scripts.bench.mixtures import mixtures

KS = (1, 5, 10, 25)
FACTS = Path(__file__).parents[2] / "tests" / "data" / "facts.json"
FEWEST = 20  # questions of a category that are worth a comparison
TOLERANCE = 0.5  # points
MOST = 25
RRF = 60  # the textbook's constant
ALIKE = 1.0  # every word of a query weighs the same in the textbook's BM25
Floats = NDArray[np.float32]
Order = list[str]  # memory ids, best first
Texts = dict[str, tuple[list[str], str]]  # memory id: its ids in the file, its text
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

    async def orders(self, engine: Engine, text: str) -> dict[str, Order]:
        query = await engine._parts.embedding.query(text)
        assert query is not None
        dense = np.zeros(len(self._ids), dtype=np.float32)
        np.maximum.at(dense, self._owners, self._vectors @ query)
        words, said = self._index_signals(engine, text, query)
        return {
            "dense": self._top(dense),
            "dense, speaker named": self._top(said),
            "BM25": self._top(words),
            "RRF of dense and BM25": self._top(_rrf(dense, words)),
        }

    def _index_signals(self, engine: Engine, text: str, query: Floats) -> tuple[Floats, Floats]:
        """BM25 over bare texts and the cosines of our own vectors, in the order of `ids`."""
        index = engine._parts.index
        view = index.view(terms(text), Filter(), 0.0, ALIKE)
        lone = _none(view.words.before)
        alone = replace(view.words, before=lone, after=lone, norms=Norms())
        signals = replace(view, words=alone).signals(query)
        slots = {entry.memory.id: n for n, entry in enumerate(index.entries()) if entry}
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


async def measure(data: dict[str, Any], config: Config) -> tuple[Recalls, Times]:
    """The recall of each question, by method and category; and what our searches took."""
    recalls: Recalls = defaultdict(lambda: defaultdict(list))
    taken: Times = defaultdict(list)
    for part in data.get("conversations") or [data]:
        with tempfile.TemporaryDirectory() as folder:
            memory = replace(config.memory, path=Path(folder), max_content_bytes=10_000_000)
            # What is asked for are messages, not the archives that a long session leaves.
            sessions = replace(config.sessions, auto_compact=False)
            async with open_engine(replace(config, memory=memory, sessions=sessions)) as engine:
                texts = await _tell(engine, part) | await _store(engine, part)
                await _ask(engine, texts, part["questions"], recalls, taken)
        print(".", end="", flush=True, file=sys.stderr)
    return recalls, taken


async def _tell(engine: Engine, conversation: dict[str, Any]) -> Texts:
    """Add every turn; sessions beside each other, each in its order."""
    told: Texts = {}

    async def tell(session: dict[str, Any]) -> None:
        for turn in session["turns"]:
            role, speaker = _role(turn["speaker"])
            said = (await engine.add_turn(role, turn["text"], str(session["id"]), speaker)).memory
            told[said.id] = ([turn["id"]], turn["text"])

    async with anyio.create_task_group() as sessions:
        for session in conversation.get("sessions", ()):
            sessions.start_soon(tell, session)
    return told


async def _store(engine: Engine, pool: dict[str, Any]) -> Texts:
    """Store every memory as a fact; those with the same text are one."""
    stored: Texts = {}
    room = anyio.CapacityLimiter(64)

    async def store(memory: dict[str, Any]) -> None:
        async with room:
            id = (await engine.store(memory["text"], "fact")).memory.id
        stored.setdefault(id, ([], memory["text"]))[0].append(memory["id"])

    async with anyio.create_task_group() as tasks:
        for memory in pool.get("memories", ()):
            tasks.start_soon(store, memory)
    return stored


async def _ask(
    engine: Engine, texts: Texts, questions: list[dict[str, Any]], recalls: Recalls, taken: Times
) -> None:
    encoder = engine._parts.embedding.encoder
    assert encoder is not None, "There is no model: run `memoryd setup` first."
    contents = [text for _, text in texts.values()]
    bare = await anyio.to_thread.run_sync(Baselines, encoder, list(texts), contents)
    reranker, trouble = engine._parts.reranking.reranker, engine._parts.reranking.trouble
    assert reranker or not engine._parts.search.rerank_model, trouble
    known = {id for ids, _ in texts.values() for id in ids}
    for question in questions:
        wanted = set(question["evidence"]) & known
        if not wanted:
            continue
        orders = await bare.orders(engine, question["question"])
        for method, used in (("ours", None), ("ours, reranked", reranker)):
            if method == "ours" or used is not None:
                engine.attach_reranker(used)
                started = time.perf_counter()
                page = await engine.search(question["question"], limit=MOST, min_score=0.0)
                taken[method].append(time.perf_counter() - started)
                orders[method] = [hit.memory.id for hit in page.hits]
        for method, order in orders.items():
            found = [_recall(wanted, order[:k], texts) for k in KS]
            for category in {"all", str(question.get("category", "all"))}:
                recalls[method][category].append(found)


def _recall(wanted: set[str], order: Order, texts: Texts) -> float:
    found = {id for memory in order for id in texts[memory][0]}
    return len(wanted & found) / len(wanted)


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
        f"\n{name}\n\n| method | category | questions | R@1 | R@5 | R@10 | R@25 |"
        "\n|---|---|---|---|---|---|---|"
    )
    for method, by in rows.items():
        for category, found in by.items():
            if category == "all" or method.startswith("ours"):
                cells = " | ".join(f"{value:.1f}" for value in found)
                print(f"| {method} | {category} | {counts[category]} | {cells} |")


def compare(rows: dict[str, dict[str, list[float]]], counts: dict[str, int]) -> list[list[str]]:
    """For every category with enough questions: the better of meaning and words alone, and ours,
    at 1, 5 and 10; marked where ours is worse."""
    lines = []
    for category, ours in rows["ours"].items():
        if counts[category] < FEWEST:
            continue
        alone = rows["dense"][category], rows["BM25"][category]
        better = [max(pair) for pair in zip(*alone, strict=True)]
        cells = [
            f"{best:.1f} / {mine:.1f}{'' if mine >= best - TOLERANCE else ' (worse)'}"
            for best, mine in list(zip(better, ours, strict=True))[:3]
        ]
        lines.append([category, str(counts[category]), *cells])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--mixed", action="store_true", help="mixed stores as well")
    parser.add_argument("--model", default=Config().memory.embedding_model)
    parser.add_argument("--rerank", default="", help="folder of a cross-encoder")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    log_to_stderr(LogSettings(level="warning"))  # stdout is for the figures
    files = given.files or sorted(given.data.glob("*_dev.json"))
    if not files:
        sys.exit("There are no *_dev.json files: name some, or give --data.")
    config = Config()
    memory = replace(config.memory, embedding_model=given.model)
    search = replace(config.search, rerank_model=given.rerank)
    config = replace(config, memory=memory, search=search)
    answers: dict[str, Any] = {"model": given.model, "rerank": given.rerank}
    summary: list[list[str]] = []
    sets = {file.stem: json.loads(file.read_text()) for file in files}
    if given.mixed:
        sets |= dict(mixtures(json.loads(FACTS.read_text()), sets))
    for name, data in sets.items():
        recalls, taken = anyio.run(measure, data, config)
        median = {way: round(1000 * statistics.median(times), 1) for way, times in taken.items()}
        rows = table(recalls)
        counts = {category: len(found) for category, found in recalls["ours"].items()}
        answers[name] = rows | {"milliseconds": median}
        summary += [[name, *line] for line in compare(rows, counts)]
        if not given.json:
            show(f"{name} ({given.model})", rows, counts)
            for method, value in median.items():
                print(f"\nA search of {method} took {value} ms (median).", flush=True)
    if given.json:
        print(json.dumps(answers | {"summary": summary}, indent=1))
        return
    print("\nThe better of meaning and words alone / ours\n")
    print("| set | category | questions | R@1 | R@5 | R@10 |\n|---|---|---|---|---|---|")
    for line in summary:
        print(f"| {' | '.join(line)} |")


if __name__ == "__main__":
    main()
