"""Made-up memories for benchmarks that need many: words as unequal as a language's, vectors in
clusters as a model's are, types, days, tags and sessions. The same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoryd.model import DAY, Memory, MemoryType
from memoryd.ports import Passage, Record

DIMENSION = 384
CLUSTERS = 256
VOCABULARY = 20_000
SESSION = 20  # turns in one
SYLLABLES = "ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu".split()
Vectors = NDArray[np.float32]


def _word(number: int) -> str:
    """A word for each number, short ones for the frequent."""
    letters = SYLLABLES[number % 20]
    while number := number // 20:
        letters += SYLLABLES[number % 20]
    return letters


def texts(count: int, seed: int = 1, words: tuple[int, int] = (8, 30)) -> Iterator[str]:
    """Sentences whose words follow Zipf's law."""
    pick = random.Random(seed)
    vocabulary = [_word(n) for n in range(VOCABULARY)]
    weights = np.cumsum(1.0 / np.arange(3, VOCABULARY + 3)).tolist()
    for _ in range(count):
        yield " ".join(pick.choices(vocabulary, cum_weights=weights, k=pick.randint(*words)))


def vectors(count: int, seed: int = 1) -> Vectors:
    """Unit vectors around common centres."""
    # The centres are the same for every seed: queries lie where documents do.
    centres = np.random.default_rng(0).standard_normal((CLUSTERS, DIMENSION), dtype=np.float32)
    pick = np.random.default_rng(seed)
    noise = pick.standard_normal((count, DIMENSION), dtype=np.float32)
    made = centres[pick.integers(0, CLUSTERS, count)] + 0.9 * noise
    unit: Vectors = made / np.linalg.norm(made, axis=1, keepdims=True)
    return unit


def records(count: int, now: float, seed: int = 1) -> Iterator[Record]:
    """Memories of the last thirty days: six in ten conversation, three facts, one context."""
    pick = random.Random(seed)
    kinds = [MemoryType.CONVERSATION] * 6 + [MemoryType.FACT] * 3 + [MemoryType.CONTEXT]
    made = vectors(count, seed)
    for number, text in enumerate(texts(count, seed)):
        type = pick.choice(kinds)
        said = type is MemoryType.CONVERSATION
        memory = Memory(
            id=f"{seed:02x}{number:018x}",
            type=type,
            content=text,
            created_at=now - pick.random() * 29 * DAY,
            expires_at=None if type is MemoryType.FACT else now + 30 * DAY,
            metadata={"tag": f"t{pick.randrange(50)}"},
            session_id=f"session-{number // SESSION}" if said else None,
        )
        yield Record(memory, (Passage((0, len(text)), made[number]),))


def plain_chroma(made: Sequence[Record], folder: Path) -> Any:
    """A collection as anybody would make it, filled in the largest batches it takes."""
    import chromadb

    collection = chromadb.PersistentClient(str(folder)).create_collection(
        "plain", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
    )
    for start in range(0, len(made), 5000):
        part = made[start : start + 5000]
        collection.add(
            ids=[r.memory.id for r in part],
            embeddings=np.array([r.passages[0].vector for r in part]),
            documents=[r.memory.content for r in part],
            metadatas=[
                {"type": str(r.memory.type), "created_at": r.memory.created_at} for r in part
            ],
        )
    return collection
