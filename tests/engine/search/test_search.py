"""Search as a whole: both signals, neighbours, scores, why, budgets, any query at all."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.run import run_engine
from memoryd.errors import EmbedError, InvalidInput
from memoryd.model import DAY, Memory, MemoryType, Page
from memoryd.settings import Config
from tests.engine.conftest import Clock, Start
from tests.ramstore import RamStore


def contents(page: Page) -> list[str]:
    return [hit.memory.content for hit in page.hits]


FILLER = ["the garden in winter", "a long walk by the river", "tea with milk", "music at night"]


async def test_an_exact_word_is_never_hidden_by_the_default_score(engine: Engine) -> None:
    for n in range(30):
        await engine.store(f"note {n} about {FILLER[n % 4]} and other things of the day")
    await engine.store(
        "Somewhere in this rather long remark about the cellar, the boiler and the pipes, the "
        "number of the spare part is mentioned: it is ZX-4711, kept on the second shelf."
    )
    for query in ("ZX-4711", "zx-4711", "4711", "where is ZX-4711?"):
        page = await engine.search(query)
        assert "ZX-4711" in contents(page)[0], query
        assert page.hits[0].score >= 0.3


async def test_a_query_that_names_a_time_finds_what_is_of_that_time(
    engine: Engine, clock: Clock
) -> None:
    """The same words on four days: the one of the day that is asked for comes first, and the
    others are still there."""
    noon = clock.now
    for back in (9, 2, 1, 0):
        clock.now = noon - back * DAY
        await engine.store(f"We met in the garden and spoke about the pump, {back} days back")
    for query, back in (
        ("What about the pump yesterday?", 1),
        ("the pump, 2 days ago", 2),
        ("the pump in the garden on 22 June 2026", 9),
        ("what about the pump today", 0),
    ):
        page = await engine.search(query, explain=True)
        assert contents(page)[0].endswith(f", {back} days back"), query
        assert len(page.hits) == 4
        assert [hit.why.time > 0 for hit in page.hits if hit.why] == [True, False, False, False]


async def test_a_query_that_asks_for_a_time_alone_is_answered_by_that_time(
    engine: Engine, clock: Clock
) -> None:
    """In a store with far more memories than candidates, none of which share a word with it."""
    noon = clock.now
    for n in range(600):
        await engine.store(f"what we discussed: {FILLER[n % 4]}, part {n}")
    clock.now = noon - 5 * DAY
    await engine.store("The roof needs new tiles.")
    clock.now = noon
    page = await engine.search("What did we talk about 5 days ago?")
    assert contents(page)[0] == "The roof needs new tiles."


async def test_an_unrelated_query_finds_nothing(engine: Engine) -> None:
    for text in FILLER:
        await engine.store(text)
    assert (await engine.search("quantum chromodynamics lattice")).hits == ()


async def test_scores_fall_and_a_higher_min_score_is_a_prefix(engine: Engine) -> None:
    for n in range(20):
        await engine.store(f"robot {n} waters the {FILLER[n % 4]}")
    whole = (await engine.search("robot waters tea", limit=50, min_score=0.0)).hits
    scores = [hit.score for hit in whole]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 <= score <= 1.0 for score in scores)
    for least in (0.2, 0.5, scores[3], 1.0):
        some = (await engine.search("robot waters tea", limit=50, min_score=least)).hits
        assert [h.memory.id for h in some] == [h.memory.id for h in whole if h.score >= least]


async def test_an_answer_is_found_by_the_question_before_it(engine: Engine) -> None:
    for n in range(6):
        await engine.add_turn("user", f"chat number {n} about {FILLER[n % 4]}", "other")
    await engine.add_turn("user", "Which password opens the cellar door?", "s")
    await engine.add_turn("assistant", "Seven blue elephants.", "s")
    page = await engine.search("password of the cellar door", limit=2, explain=True)
    question, answer = "Which password opens the cellar door?", "Seven blue elephants."
    assert sorted(contents(page)) == sorted([question, answer])
    why = page.hits[contents(page).index(answer)].why
    assert why is not None
    assert why.neighbour > 0


async def neighbour_part(engine: Engine, question: str, reply: str) -> float:
    """The neighbour boost of the reply when the question is asked again."""
    session = f"s-{len(question)}-{len(reply)}"
    await engine.add_turn("user", question, session, "Anna")
    said = await engine.add_turn("user", reply, session, "Tom")
    page = await engine.search("name of the new puppy", limit=50, min_score=0.0, explain=True)
    (why,) = [hit.why for hit in page.hits if hit.memory.id == said.memory.id]
    assert why is not None
    return why.neighbour


async def test_a_brief_reply_to_a_brief_question_gets_a_larger_boost(engine: Engine) -> None:
    for text in FILLER:
        await engine.store(text)
    asked = await neighbour_part(engine, "What is the name of the new puppy?", "Biscuit!")
    await engine.clear_window("s-34-8")
    told = await neighbour_part(engine, "That is the name of the new puppy.", "Biscuit, ok.")
    at_length = await neighbour_part(
        engine, "What is the name of the new  puppy?", "It all began on a rainy day. " * 60
    )
    assert asked > told > 0
    assert asked > at_length


async def test_the_session_boost_raises_results_of_the_best_session(engine: Engine) -> None:
    for n in range(20):
        await engine.store(f"note {n} about {FILLER[n % 4]}")
    await engine.add_turn("user", "The robot repaired the red tractor in the barn.", "farm")
    for n in range(4):
        await engine.add_turn("user", f"{n} {FILLER[n]}", "farm")
    await engine.add_turn("user", "There was a robot as well.", "farm")
    await engine.add_turn("user", "As well there was a robot.", "town")
    page = await engine.search("red tractor robot barn", limit=50, min_score=0.0, explain=True)
    robots = [hit for hit in page.hits if "was a robot" in hit.memory.content]
    assert [hit.memory.session_id for hit in robots] == ["farm", "town"]
    assert page.hits[0].memory.content.startswith("The robot repaired")
    assert page.hits[0].score > robots[0].score > robots[1].score


async def test_forgetting_a_message_takes_its_words_from_its_neighbours(engine: Engine) -> None:
    said = (await engine.add_turn("user", "Which password opens the cellar door?", "s")).memory
    await engine.add_turn("assistant", "Seven blue elephants.", "s")
    await engine.forget(said.id)
    page = await engine.search("password cellar door", min_score=0.0, explain=True)
    (hit,) = page.hits
    assert hit.why is not None
    assert hit.why.lexical == hit.why.neighbour == 0.0


async def test_messages_of_the_named_speaker_come_first(engine: Engine) -> None:
    await engine.add_turn("user", "I planted tomatoes in spring", "s", "Anna")
    await engine.add_turn("user", "I planted tomatoes in spring", "t", "Tom")
    page = await engine.search("What did Tom plant in spring?", explain=True)
    assert page.hits[0].memory.metadata["speaker"] == "Tom"
    assert page.hits[0].why is not None
    assert page.hits[0].why.speaker > 0


async def test_new_pinned_and_certain_memories_get_a_small_boost_only(
    engine: Engine, clock: Clock
) -> None:
    old = await engine.store("the robot charges in the hall at night", metadata={"n": 1})
    clock.now += 20 * DAY
    new = await engine.store("the robot charges in the hall at dawn", metadata={"n": 2})
    page = await engine.search("the robot charges in the hall", explain=True)
    assert [hit.memory.id for hit in page.hits] == [new.memory.id, old.memory.id]
    await engine.update_memory(old.memory.id, pinned=True)
    await engine.update_memory(new.memory.id, metadata={"confidence": 0.1})
    page = await engine.search("the robot charges in the hall")
    assert page.hits[0].memory.id == old.memory.id
    # A clear match stays first, whatever speaks for the others.
    page = await engine.search("the robot charges in the hall at dawn")
    assert page.hits[0].memory.id == new.memory.id


@pytest.mark.parametrize("confidence", [True, "high", 7, -3, None])
async def test_an_odd_confidence_does_no_harm(engine: Engine, confidence: object) -> None:
    """A caller cannot store one, but an import can bring it."""
    odd = {"confidence": confidence}
    await engine.import_memory(
        Memory("a" * 20, MemoryType.FACT, "the robot charges", 1000.0, metadata=odd)
    )
    assert len((await engine.search("the robot charges")).hits) == 1


async def test_near_identical_results_are_folded(engine: Engine) -> None:
    first = (await engine.add_turn("user", "Thanks, that is great!", "s")).memory
    second = (await engine.add_turn("user", "thanks, that is great", "t")).memory
    await engine.store("Thanks is what one says")
    page = await engine.search("thanks, that is great", limit=2)
    ids = {first.id, second.id}
    assert page.hits[0].memory.id in ids
    assert set(page.hits[0].folded) == ids - {page.hits[0].memory.id}
    assert contents(page)[1] == "Thanks is what one says"


async def test_results_are_packed_into_a_budget(engine: Engine) -> None:
    for n in range(8):
        await engine.store(f"robot note {n}: " + "words about the robot and its garden " * (n + 1))
    whole = await engine.search("robot garden", limit=8)
    page = await engine.search("robot garden", limit=8, max_tokens=250)
    assert 0 < len(page.hits) < len(whole.hits)
    assert page.hits[0].memory.id == whole.hits[0].memory.id
    assert "fit" in page.warnings[-1]
    with pytest.raises(InvalidInput) as refused:
        await engine.search("robot", max_tokens=0)
    assert refused.value.code == "max_tokens_invalid"


async def test_why_is_told_only_when_asked(engine: Engine) -> None:
    await engine.store("the robot charges")
    plain = await engine.search("robot")
    assert plain.hits[0].why is None
    assert plain.timings, "they are taken, so they are told"
    page = await engine.search("robot", explain=True)
    why, timings = page.hits[0].why, page.timings
    assert why is not None
    assert why.dense > 0
    assert why.lexical > 0
    assert list(timings) == ["embed", "gather", "fuse", "boost", "rerank", "pack"]
    assert all(seconds > 0 for seconds in timings.values())


async def test_a_query_has_a_length(engine: Engine) -> None:
    with pytest.raises(InvalidInput) as refused:
        await engine.search("a" * 10_001)
    assert refused.value.code == "query_too_long"
    assert "10000" in refused.value.message


@pytest.mark.parametrize(
    "query",
    [
        '"unbalanced AND (NOT OR * ^ ~ NEAR/3 content:x',
        "日本語の質問です",
        "какой чай она любит",
        "🎉🎉🎉",
        "a" * 10_000,
        "word " * 2_000,
        "'; DROP TABLE memories; --",
        "\u202eright to left\u202c",
    ],
)
async def test_any_query_is_answered(engine: Engine, query: str) -> None:
    await engine.store("the robot charges in the hall")
    await engine.store("日本語で質問する")
    await engine.store("Она любит чёрный чай")
    page = await engine.search(query, min_score=0.0)
    assert len(page.hits) == 3


@pytest.mark.parametrize("query", ["?!...;;;", "*", "^ ~ ( )"])
async def test_a_query_without_words_finds_nothing_and_says_why(engine: Engine, query: str) -> None:
    await engine.store("the robot charges in the hall")
    page = await engine.search(query, min_score=0.0)
    assert page.hits == ()
    assert "no word" in page.warnings[0]


class Deaf(HashEncoder):
    """A model of another language."""

    def knows(self, text: str) -> bool:
        return "robot" in text


async def test_words_that_the_model_does_not_know_are_compared_as_words(start: Start) -> None:
    async with start(Deaf()) as engine:
        await engine.store("the robot charges in the hall")
        await engine.store("\u0e41\u0e21\u0e27\u0e19\u0e2d\u0e19")
        page = await engine.search("\u0e41\u0e21\u0e27", min_score=0.0)
        assert contents(page) == ["\u0e41\u0e21\u0e27\u0e19\u0e2d\u0e19"]
        assert "does not know" in page.warnings[0]
        assert (await engine.search("robot")).warnings == ()


async def test_an_expired_message_adds_no_words_to_its_neighbours(
    engine: Engine, clock: Clock
) -> None:
    until = clock.now + 5
    await engine.store(
        "What is the pangolin called?", "conversation", session_id="s", expires_at=until
    )
    clock.now += 1
    await engine.add_turn("user", "Ferdinand, I suppose.", "s")
    assert contents(await engine.search("pangolin"))[-1] == "Ferdinand, I suppose."
    clock.now += 10
    assert (await engine.search("pangolin")).hits == ()


async def test_a_word_in_a_long_text_is_found_by_default(engine: Engine) -> None:
    filler = " ".join(f"{text} number {n}" for n in range(300) for text in FILLER)
    await engine.store(filler + " zyzzyva " + filler)
    assert len(contents(await engine.search("zyzzyva"))) == 1


async def test_what_repeats_itself_does_not_push_out_the_rest(engine: Engine) -> None:
    for n in range(60):
        await engine.store("The battery is low, to the dock", "conversation", session_id=f"s{n}")
    await engine.store("The dock stands in the shed; its battery is an LX-9")
    page = await engine.search("battery dock", limit=5)
    assert len(page.hits) == 2
    assert sorted(len(hit.folded) for hit in page.hits) == [0, 59]


async def test_a_role_is_no_word_of_what_was_said(engine: Engine) -> None:
    for text in FILLER:
        await engine.add_turn("user", text, "s")
    await engine.store("The database user for reports is called ro_reader")
    assert contents(await engine.search("database user", limit=1)) == [
        "The database user for reports is called ro_reader"
    ]


async def test_a_name_is_searched_like_the_text(engine: Engine) -> None:
    await engine.store("black, two sugars", name="coffee order of Bartholomew")
    assert contents(await engine.search("Bartholomew")) == ["black, two sugars"]


async def test_a_score_that_was_told_can_be_asked_for(engine: Engine) -> None:
    for n in range(12):
        await engine.store(f"robot {n} waters the {FILLER[n % 4]}")
    for hit in (await engine.search("robot waters tea", limit=12, min_score=0.0)).hits:
        again = await engine.search("robot waters tea", limit=12, min_score=hit.score)
        assert hit.memory.id in [other.memory.id for other in again.hits]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(query=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200))
def test_no_query_is_an_error_but_an_empty_one(start: Start, query: str) -> None:
    async def ask() -> None:
        async with start() as engine:
            await engine.store("the robot charges in the hall", "conversation", session_id="s")
            if any(unicodedata.category(c)[0] not in "CZ" for c in query):
                await engine.search(query, min_score=0.0)
            else:
                with pytest.raises(InvalidInput):
                    await engine.search(query, min_score=0.0)

    anyio.run(ask)


async def test_with_a_server_candidates_come_from_the_store(
    config: Config, store: RamStore, clock: Clock
) -> None:
    config = replace(config, store=replace(config.store, mode="http"))
    async with run_engine(config, store, HashEncoder(), 384, clock) as engine:
        for n in range(30):
            await engine.store(f"robot {n} waters {FILLER[n % 4]}", metadata={"n": n})
        assert not engine._parts.index.has_vectors
        page = await engine.search("robot 17 waters", metadata={"n": 17})
        assert contents(page) == ["robot 17 waters a long walk by the river"]
        assert len((await engine.search("robot waters", limit=30, min_score=0.0)).hits) == 30
        # What changes metadata keeps its vectors, though they are not in RAM.
        before = store.records[page.hits[0].memory.id].passages
        await engine.update_memory(page.hits[0].memory.id, metadata={"n": 99})
        after = store.records[page.hits[0].memory.id].passages
        assert (after[0].vector == before[0].vector).all()


class Marks:
    """A reranker that likes one word."""

    model = "marks"
    broken = False

    def marks(self, query: str, texts: list[str]) -> list[float]:
        if self.broken:
            raise EmbedError("The rerank model marks failed.")
        return [1.0 if "liked" in text else 0.0 for text in texts]


async def test_a_reranker_looks_again_at_the_first_few(engine: Engine) -> None:
    await engine.store("the robot charges in the hall")
    await engine.store("the robot in the hall is liked")
    await engine.store("the robot charges in the evening")
    without = await engine.search("the robot charges in the hall")
    marks = Marks()
    engine.attach_reranker(marks)  # type: ignore[arg-type]
    page = await engine.search("the robot charges in the hall", explain=True)
    assert contents(page)[0] == "the robot in the hall is liked"
    assert [hit.score for hit in page.hits] == [hit.score for hit in without.hits]
    assert page.hits[0].why is not None
    assert page.hits[0].why.rerank > 0
    marks.broken = True
    page = await engine.search("the robot charges in the hall")
    assert contents(page)[0] == "the robot charges in the hall"
    assert "not reranked" in page.warnings[0]
    engine.attach_reranker(None, "There is no rerank model.")
    assert "not reranked" in (await engine.search("robot")).warnings[0]
