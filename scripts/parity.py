"""Ours and sentence-transformers side by side on the same weights; run by scripts/parity."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from memoryd.adapters.embed.onnx_encoder import OnnxEncoder
from memoryd.adapters.embed.resolve import find_folder, resolve
from memoryd.adapters.embed.sbert import SbertEncoder
from memoryd.places import cache_dir
from scripts.texts import GOLDEN, varied

MODEL = "all-MiniLM-L6-v2"
ENOUGH = 0.9999
TEXTS = [*GOLDEN, *varied(400, 2), *varied(120, 30, seed=8)]
LONG = [text * 40 for text in (*GOLDEN, *varied(16, 10, seed=9))]


class Pair:
    """Both encoders, and the library's own answer to the texts."""

    def __init__(self) -> None:
        models = cache_dir() / "models"
        self.ours = OnnxEncoder(resolve(MODEL, models, allow_download=True))
        self.theirs = SbertEncoder(MODEL, models, allow_download=True)
        library: Any = importlib.import_module("sentence_transformers")
        folder = find_folder(MODEL, models, allow_download=True)
        network = library.SentenceTransformer(str(folder), device="cpu")
        self.golden = network.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)


def vectors_equal_the_library(pair: Pair) -> str:
    return _near(pair.ours.encode(TEXTS), pair.golden)


def both_backends_give_the_same_vectors(pair: Pair) -> str:
    return _near(pair.ours.encode(TEXTS), pair.theirs.encode(TEXTS))


def both_backends_give_the_same_query_vectors(pair: Pair) -> str:
    return _near(pair.ours.encode(GOLDEN, query=True), pair.theirs.encode(GOLDEN, query=True))


def both_backends_have_one_identity(pair: Pair) -> str:
    ours, theirs = pair.ours, pair.theirs
    assert (ours.model, ours.dimension) == (theirs.model, theirs.dimension)
    return f"{ours.model}, {ours.dimension} dimensions"


def both_backends_split_alike(pair: Pair) -> str:
    spans = 0
    for text in (*TEXTS, *LONG):
        found = pair.ours.split(text)
        assert found == pair.theirs.split(text), text[:60]
        spans += len(found)
    return f"{spans} passages of {len(TEXTS) + len(LONG)} texts"


def _near(one: Any, other: Any) -> str:
    cosine = float(np.sum(one * other, axis=1).min())
    assert cosine >= ENOUGH, f"smallest cosine {cosine:.7f}"
    return f"smallest cosine {cosine:.7f} over {len(one)} texts"


CHECKS: tuple[Callable[[Pair], str], ...] = (
    vectors_equal_the_library,
    both_backends_give_the_same_vectors,
    both_backends_give_the_same_query_vectors,
    both_backends_have_one_identity,
    both_backends_split_alike,
)


def main() -> int:
    pair = Pair()
    failed = 0
    for check in CHECKS:
        name = check.__name__.replace("_", " ")
        try:
            print(f"ok    {name}: {check(pair)}")
        except AssertionError as exc:
            failed += 1
            print(f"FAIL  {name}: {exc}")
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
