"""Search on the real model: never worse than the better of meaning and words alone.

Facts that are asked for in other words (`data/facts.json`) are the case where words know nothing;
part numbers are the case where meaning knows nothing.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from memoryd.engine.engine import Engine
from memoryd.settings import Config, MemorySettings
from memoryd.wiring.engine import load_encoder, open_engine

pytestmark = pytest.mark.slow

FACTS = json.loads((Path(__file__).parent / "data" / "facts.json").read_text())
QUESTIONS = [(row["question"], row["fact"]) for row in FACTS if "question" in row]
CHAT = (
    "Did you get home all right last night?",
    "Yes, the train was late again but it was fine.",
    "How long did it take you in the end?",
    "Nearly two hours, I could not believe it.",
    "What are you up to this weekend?",
    "Nothing much, maybe a movie and some new music.",
    "We should meet for a hot drink one of these days.",
    "Good idea, which day would be best for you?",
    "I have to be careful with money this month.",
    "Same here, the bills never stop.",
    "My notebook computer is so slow by now.",
    "Is it a good idea to get a new one before summer?",
)


async def answered(engine: Engine, k: int) -> int:
    """How many questions have their fact among the first k."""
    count = 0
    for question, fact in QUESTIONS:
        page = await engine.search(question, limit=k)
        count += fact in [hit.memory.content for hit in page.hits]
    return count


def by_meaning_alone(texts: list[str], k: int) -> int:
    encoder = load_encoder(Config())
    assert encoder is not None
    vectors = encoder.encode(texts)
    count = 0
    for question, fact in QUESTIONS:
        cosines = vectors @ encoder.encode([question], query=True)[0]
        best = np.argsort(-cosines, kind="stable")[:k]
        count += texts.index(fact) in best[cosines[best] >= 0.3]  # what the default would show
    return count


async def test_facts_asked_in_other_words_are_found_as_by_meaning_alone(tmp_path: Path) -> None:
    """Words that happen to be shared ("last", "long") do not push the right fact down, and the
    default `min_score` hides nothing that meaning alone would show."""
    facts = [row["fact"] for row in FACTS]
    async with open_engine(Config(memory=MemorySettings(path=tmp_path))) as engine:
        for fact in facts:
            await engine.store(fact)
        for k in (1, 5, 10):
            assert await answered(engine, k) >= by_meaning_alone(facts, k)


async def test_conversations_do_not_push_facts_out_of_the_results(tmp_path: Path) -> None:
    """A message gets no head start over a fact for having neighbours."""
    facts = [row["fact"] for row in FACTS]
    texts = facts + list(CHAT)
    async with open_engine(Config(memory=MemorySettings(path=tmp_path))) as engine:
        for fact in facts:
            await engine.store(fact)
        for number, text in enumerate(CHAT):
            role = ("user", "assistant")[number % 2]
            await engine.add_turn(role, text, f"chat {number // 6}")
        for k in (1, 5, 10):
            # A message is embedded with who said it, so the two orders can differ by a little.
            assert await answered(engine, k) >= by_meaning_alone(texts, k) - 1


@pytest.mark.parametrize(
    ("ticket", "question"),
    [("QX-{}", "what happened to QX-{}?"), ("{}", "how did we deal with ticket {}?")],
)
async def test_numbers_that_the_model_cannot_tell_apart_are_found_by_their_words(
    tmp_path: Path, ticket: str, question: str
) -> None:
    """Also where the number is the only word that tells otherwise equal texts apart."""
    async with open_engine(Config(memory=MemorySettings(path=tmp_path))) as engine:
        for number in range(1040, 1080):
            name = ticket.format(number)
            await engine.store(f"Ticket {name} was closed after the pump was replaced.")
        for number in range(1040, 1080, 3):
            page = await engine.search(question.format(number), limit=1)
            assert f" {ticket.format(number)} " in page.hits[0].memory.content


async def test_the_own_project_decides_near_ties_only(tmp_path: Path) -> None:
    """Asked from another project, two results change places only if they differ by less than the
    boost, and all facts but one that were first still are."""
    config = Config(memory=MemorySettings(path=tmp_path))
    weight, projects = config.search.project_weight, ("acme/app", "acme/site", "acme/docs")
    async with open_engine(config) as engine:
        homes = {row["fact"]: projects[n % 3] for n, row in enumerate(FACTS)}
        for fact, home in homes.items():
            await engine.store(fact, own_project=home)
        lost = 0
        for question, fact in QUESTIONS:
            plain = (await engine.search(question, limit=25, min_score=0.0)).hits
            other = next(name for name in projects if name != homes[fact])
            page = await engine.search(question, limit=25, min_score=0.0, own_project=other)
            places = {hit.memory.id: n for n, hit in enumerate(page.hits)}
            shown = [hit for hit in plain if hit.memory.id in places]
            for n, better in enumerate(shown):
                for worse in shown[n + 1 :]:
                    if places[worse.memory.id] < places[better.memory.id]:
                        assert better.score - worse.score <= weight + 1e-4
            lost += plain[0].memory.content == fact != page.hits[0].memory.content
        assert lost <= 1
