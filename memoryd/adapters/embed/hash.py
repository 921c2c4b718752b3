"""A deterministic substitute for a model: hashed words and letter trigrams. For unit tests only.

Texts that share words get similar vectors, and nothing has to be loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memoryd.adapters.embed.spans import passages
from memoryd.ports import Span
from memoryd.settings import EmbeddingSettings

WORD = re.compile(r"\S+")


class HashEncoder:
    """See `memoryd.ports.Encoder`."""

    def __init__(self, dimension: int = 384, max_words: int = 200) -> None:
        self._dimension = dimension
        self._max_words = max_words

    @property
    def model(self) -> str:
        return f"hash-{self._dimension}"

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def prefers_large_calls(self) -> bool:
        return False

    def knows(self, text: str) -> bool:
        return True

    def split(self, text: str, lead: str = "") -> list[Span]:
        starts = [match.start() for match in WORD.finditer(text)]
        room = max(1, self._max_words - _count_words([lead])[0])
        return passages(text, starts, room, _count_words)

    def encode(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), self._dimension), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            row[0] = 1e-3  # never a zero vector, even for a text without words
            for feature, weight in _features(text):
                row[int.from_bytes(feature, "big") % self._dimension] += weight
            row /= np.linalg.norm(row)
        return vectors


def _count_words(texts: list[str]) -> list[int]:
    return [len(WORD.findall(text)) for text in texts]


def _features(text: str) -> Iterator[tuple[bytes, float]]:
    for word in re.findall(r"\w+", text.casefold()):
        yield _hash(word), 1.0
        padded = f"^{word}$"
        for n in range(len(padded) - 2):
            yield _hash(padded[n : n + 3]), 0.2


def _hash(part: str) -> bytes:
    return blake2b(part.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def load(model: str, settings: EmbeddingSettings, cache: Path) -> HashEncoder:
    """The encoder of the backend `hash`."""
    return HashEncoder()
