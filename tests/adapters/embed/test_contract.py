"""What every encoder promises, whatever computes the vectors."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.adapters.embed.onnx_encoder import OnnxEncoder
from memoryd.adapters.embed.resolve import Prepared
from memoryd.adapters.embed.spans import passages
from memoryd.ports import Encoder, Span
from scripts.texts import GOLDEN, varied

QUICK = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
# Words, rare scripts, emoji, control characters and halves of surrogate pairs, repeated to be long.
PIECES = st.text(st.characters(), min_size=1, max_size=30)
LONG_TEXTS = st.tuples(st.lists(PIECES, min_size=1, max_size=8), st.integers(1, 60)).map(
    lambda drawn: " ".join(drawn[0]) * drawn[1]
)


def check_spans(text: str, spans: list[Span]) -> None:
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)
    for (begin, end), (next_begin, next_end) in pairwise(spans):
        assert begin < next_begin <= end < next_end


def test_vectors_have_length_one_and_the_promised_shape(encoder: Encoder) -> None:
    vectors = encoder.encode(GOLDEN)
    assert vectors.shape == (len(GOLDEN), encoder.dimension)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


def test_nothing_in_nothing_out(encoder: Encoder) -> None:
    assert encoder.encode([]).shape == (0, encoder.dimension)


@pytest.mark.slow
def test_a_text_has_the_same_vector_in_any_batch(encoder: Encoder) -> None:
    """Order is kept, and neither batch nor padding changes a vector."""
    together = encoder.encode(GOLDEN)
    alone = np.concatenate([encoder.encode([text]) for text in GOLDEN])
    np.testing.assert_allclose(together, alone, atol=2e-6)


@pytest.mark.slow
def test_threads_get_the_vectors_that_one_alone_gets(encoder: Encoder) -> None:
    chunks = [varied(12, 6, seed) for seed in range(6)]
    alone = [encoder.encode(chunk) for chunk in chunks]
    with ThreadPoolExecutor(6) as pool:
        for one, other in zip(alone, pool.map(encoder.encode, chunks), strict=True):
            np.testing.assert_allclose(one, other, atol=2e-6)


def test_related_texts_are_nearer_than_unrelated_ones(encoder: Encoder) -> None:
    query = encoder.encode(["Which coffee does the user like?"], query=True)[0]
    near, far = encoder.encode(["The user likes dark coffee.", "Turn the valve to the left."])
    assert query @ near > query @ far + 0.1


def test_odd_characters_are_encoded(encoder: Encoder) -> None:
    vectors = encoder.encode(["", "\x00", "\ud800 half a pair", "\u200b"])
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


def test_identity_is_stable(minilm: Prepared, bge: Prepared) -> None:
    assert HashEncoder(64).model == "hash-64"
    assert OnnxEncoder(minilm).model == "all-MiniLM-L6-v2"
    assert OnnxEncoder(bge).model == "bge-small-en-v1.5"


@pytest.mark.parametrize("text", ["", "a", "two words", "日本", "🎉"])
def test_a_short_text_is_one_passage(encoder: Encoder, text: str) -> None:
    assert encoder.split(text) == [(0, len(text))]


@QUICK
@given(text=LONG_TEXTS)
def test_passages_cover_any_text_and_fit(encoder: Encoder, text: str) -> None:
    spans = encoder.split(text)
    check_spans(text, spans)
    for begin, end in spans:
        assert encoder.split(text[begin:end]) == [(0, end - begin)]


@pytest.mark.parametrize(
    "text",
    [
        "The quick brown fox jumps over the lazy dog. " * 2300,
        "我喜欢在早上喝咖啡。" * 3400,
        "no-spaces-but-punctuation," * 4000,
        "q8Zk3vN1" * 12_800,
        "🎉👩‍👩‍👧‍👦" * 3000,
        "\x00\u200b" * 20_000,
        "word " + "\u0301" * 20_000 + " word",
        "\n" * 50_000 + "end",
    ],
    ids=["english", "chinese", "dashes", "one word", "emoji", "dropped", "marks", "blank"],
)
def test_passages_of_a_long_text_cover_it_and_fit(encoder: Encoder, text: str) -> None:
    """Whatever 100 KB are made of, no passage is longer than the model reads."""
    spans = encoder.split(text)
    check_spans(text, spans)
    for begin, end in spans:
        assert encoder.split(text[begin:end]) == [(0, end - begin)]


def test_passages_end_after_sentences_and_overlap(minilm_encoder: OnnxEncoder) -> None:
    text = "The robot took a box from the shelf. " * 200
    spans = minilm_encoder.split(text)
    assert len(spans) > 5
    for (_, end), (begin, _) in pairwise(spans):
        assert text[:end].endswith(". ")
        assert text[begin - 1] == " "
        assert 60 < end - begin < 200


def test_a_passage_that_tokenises_longer_alone_is_halved() -> None:
    """A piece cut out of a word can have more tokens than it had inside; it still fits."""
    text = "abcdefghij" * 10

    def count(texts: list[str]) -> list[int]:
        return [2 * len(piece) for piece in texts]  # twice what the offsets promise

    spans = passages(text, range(len(text)), 20, count)
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)
    assert all(end - begin <= 10 for begin, end in spans)
    assert all(one[1] >= two[0] for one, two in pairwise(spans))
