"""Word search at 100,000 memories: ours beside tantivy and SQLite FTS5 in memory.

What a daemon needs of it: answers in milliseconds, and a write that is found by the very next
search. The other two are not dependencies: what is not installed is left out, and said.

Run: .venv/bin/pip install tantivy; .venv/bin/python -m scripts.bench.lexical [--count N] [--json]
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from memoryd.engine.index.terms import terms
from memoryd.engine.index.words import WordIndex
from scripts.bench.corpus import texts

TOP = 256  # what the fusion takes from each signal


class Engine(Protocol):
    def add(self, number: int, text: str) -> None: ...
    def show(self) -> None: ...  # what was added is found from here on
    def search(self, query: str) -> object: ...
    def remove(self, number: int, text: str) -> None: ...


class Ours:
    def __init__(self) -> None:
        self._index, self._count, self._changes = WordIndex(), 0, 0

    def add(self, number: int, text: str) -> None:
        self._index.put(number, terms(text))
        self._changes += 1
        self._count = max(self._count, number + 1)

    def show(self) -> None: ...

    def search(self, query: str) -> object:
        alone = np.full(self._count, -1, dtype=np.int32)
        scores = self._index.look_up(terms(query), alone, alone, 1.0, self._changes).scores()
        return np.argpartition(-scores, TOP)[:TOP]

    def remove(self, number: int, text: str) -> None:
        self._index.remove(number, terms(text))
        self._changes += 1


class Tantivy:
    def __init__(self) -> None:
        import tantivy

        self._tantivy = tantivy
        schema = tantivy.SchemaBuilder()
        schema.add_integer_field("id", stored=True, indexed=True, fast=True)
        schema.add_text_field("text", stored=False, tokenizer_name="en_stem")
        self._index = tantivy.Index(schema.build())
        self._writer = self._index.writer(heap_size=50_000_000, num_threads=1)

    def add(self, number: int, text: str) -> None:
        self._writer.add_document(self._tantivy.Document(id=number, text=text))

    def show(self) -> None:
        self._writer.commit()
        self._index.reload()

    def search(self, query: str) -> object:
        searcher = self._index.searcher()
        hits = searcher.search(self._index.parse_query(query, ["text"]), TOP).hits
        return [searcher.doc(address)["id"] for _, address in hits]

    def remove(self, number: int, text: str) -> None:
        self._writer.delete_documents_by_term("id", number)


class Fts5:
    def __init__(self) -> None:
        self._sqlite = sqlite3.connect(":memory:")
        self._sqlite.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize='porter unicode61')")

    def add(self, number: int, text: str) -> None:
        self._sqlite.execute("INSERT INTO t(rowid, x) VALUES (?, ?)", (number, text))

    def show(self) -> None:
        self._sqlite.commit()

    def search(self, query: str) -> object:
        words = " OR ".join(f'"{word}"' for word in query.split())
        found = "SELECT rowid, bm25(t) AS b FROM t WHERE t MATCH ? ORDER BY b LIMIT ?"
        return self._sqlite.execute(found, (words, TOP)).fetchall()

    def remove(self, number: int, text: str) -> None:
        self._sqlite.execute("DELETE FROM t WHERE rowid = ?", (number,))


def measure(make: Callable[[], Engine], count: int) -> dict[str, float]:
    """Milliseconds: of building one memory, of a search, of a write until it is found."""
    documents, queries = list(texts(count + 100)), list(texts(100, seed=9, words=(4, 9)))
    engine = make()
    started = time.perf_counter()
    for number, text in enumerate(documents[:count]):
        engine.add(number, text)
    engine.show()
    built = time.perf_counter() - started
    search = [_took(lambda q=q: engine.search(q)) for q in queries]  # type: ignore[misc]

    def write(number: int) -> None:
        engine.add(number, documents[number])
        engine.show()

    def forget(number: int) -> None:
        engine.remove(number, documents[number])
        engine.show()

    wrote = [_took(lambda n=n: write(n)) for n in range(count, count + 100)]  # type: ignore[misc]
    gone = [_took(lambda n=n: forget(n)) for n in range(100)]  # type: ignore[misc]
    return {
        "build": 1000 * built / count,
        "search": statistics.median(search),
        "write": statistics.median(wrote),
        "forget": statistics.median(gone),
    }


def _took(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found: dict[str, Any] = {}
    for name, make in (("ours", Ours), ("tantivy", Tantivy), ("SQLite FTS5 in memory", Fts5)):
        try:
            found[name] = measure(make, given.count)
        except ImportError:
            print(f"{name} is not installed and is left out.")
    if given.json:
        print(json.dumps(found, indent=1))
        return
    print(f"\n{given.count} memories; milliseconds\n")
    print("| | build, a memory | search, best 256 | write until found | forget until gone |")
    print("|---|---|---|---|---|")
    for name, row in found.items():
        cells = " | ".join(f"{row[key]:.3g}" for key in ("build", "search", "write", "forget"))
        print(f"| {name} | {cells} |")


if __name__ == "__main__":
    main()
