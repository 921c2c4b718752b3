"""`mode: words`: BM25 alone, with no cutoff."""

from __future__ import annotations

import pytest

from memoryd.engine.engine import Engine
from memoryd.engine.search.rank import score
from memoryd.errors import InvalidInput

TEXTS = (
    "The heron stands in the river.",
    "A heron, a heron, a heron!",
    "One long text about many birds, ponds, boats and bridges, which names the heron only once.",
    "Nothing of the kind.",
)


async def test_every_memory_with_a_word_of_the_query_is_found(engine: Engine) -> None:
    """However little of the query it has; and no memory without one."""
    for text in TEXTS:
        await engine.store(text)
    query = "heron " + " ".join(f"unknown{n}" for n in range(40))
    assert len((await engine.search(query, limit=9)).hits) < 3
    page = await engine.search(query, limit=9, mode="words")
    assert {hit.memory.content for hit in page.hits} == set(TEXTS[:3])
    assert page.warnings == ()
    assert (await engine.search("osprey", mode="words")).hits == ()
    assert (await engine.search(query, mode="words", min_score=0.9)).hits == ()


async def test_only_words_count(engine: Engine) -> None:
    """Neither meaning, nor age, pin, length or reranking."""
    for text in TEXTS:
        await engine.store(text, pinned=text == TEXTS[2])
    page = await engine.search("heron", mode="words", explain=True)
    assert [hit.memory.content for hit in page.hits] == [TEXTS[1], TEXTS[0], TEXTS[2]]
    for hit in page.hits:
        assert hit.why is not None
        assert (hit.why.dense, hit.why.recency, hit.why.length) == (0.0, 0.0, 0.0)
        assert hit.score == pytest.approx(score(hit.why.lexical), abs=1e-4)
    assert set(page.timings) == {"gather", "fuse", "pack"}


async def test_an_unknown_mode_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidInput, match="no mode 'meaning'") as refused:
        await engine.search("heron", mode="meaning")
    assert refused.value.code == "mode_unknown"
