"""Facts that a session leaves: added once, refreshed, superseded by newer ones, never by older."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.run import run_engine
from memoryd.engine.sessions.answers import ProposedFact
from memoryd.engine.sessions.facts import Taken, _says_otherwise
from memoryd.engine.sessions.proposals import LLM, RULES, Proposal, by_llm, by_rules
from memoryd.engine.sessions.statements import Statement
from memoryd.errors import InvalidInput
from memoryd.fields import CONFIRMED_AT, FROM_SESSION, PROJECT, SOURCE, SUPERSEDES, TOPIC
from memoryd.model import CONFIDENCE, DAY, Memory
from memoryd.ports import Encoder
from memoryd.settings import Config, EmbeddingSettings, MemorySettings
from memoryd.wiring.engine import load_encoder
from tests.engine.conftest import Clock, Start
from tests.one_task import in_one_task
from tests.ramstore import RamStore


def stated(text: str, speaker: str | None) -> Iterator[Statement]:
    """A few rules, enough to test what becomes of statements."""
    author = speaker or "The user"
    if found := re.search(r"my name is (\w+)", text, re.I):
        yield Statement(f"{author}: My name is {found[1]}.", "user.name", None, True, 0.9)
    if found := re.search(r"we decided (.+?)\.", text, re.I):
        yield Statement(f"{author}: We decided {found[1]}.", None, "decision", False, 0.8)
    if found := re.search(r"the deadline of (\w+) is (.+?)\.", text, re.I):
        sentence = f"{author}: The deadline of {found[1]} is {found[2]}."
        yield Statement(sentence, f"deadline:{found[1]}", None, False, 0.8)


def using_rules(engine: Engine) -> Engine:
    engine.compaction._read = lambda text, speaker: list(stated(text, speaker))
    return engine


@pytest.fixture
async def talk(start: Start) -> AsyncIterator[Engine]:
    """An engine with these rules."""
    async with in_one_task(start()) as engine:
        yield using_rules(engine)


async def say(engine: Engine, *texts: str, role: str = "user", session: str = "s") -> list[str]:
    return [(await engine.add_turn(role, text, session)).memory.id for text in texts]


async def consolidated(engine: Engine, *texts: str, session: str = "s") -> tuple[Taken, ...]:
    await say(engine, *texts, session=session)
    return (await engine.compaction.consolidate(session)).facts


def contents(taken: tuple[Taken, ...]) -> list[tuple[str, str]]:
    return [(one.memory.content, one.how) for one in taken]


def proposed(text: str, at: float, id: str, **options: Any) -> Proposal:
    given: dict[str, Any] = {"source": RULES, "confidence": 0.8} | options
    return Proposal(text, at, id, **given)


async def test_a_statement_becomes_a_fact_that_knows_its_message(
    talk: Engine, clock: Clock
) -> None:
    (id,) = await say(talk, "Hello, my name is Anna.")
    said_at = clock.now
    clock.now += 100
    (taken,) = (await talk.compaction.consolidate("s")).facts
    fact = await talk.get(taken.memory.id)
    assert fact is not None
    assert (fact.content, taken.how) == ("The user: My name is Anna.", "added")
    assert fact.metadata["derived_from"] == [id]
    assert fact.metadata[FROM_SESSION] == "s"
    assert (fact.metadata[SOURCE], fact.metadata[CONFIDENCE]) == ("observer_inferred", 0.9)
    assert fact.metadata[TOPIC] == "user.name"
    assert (fact.created_at, fact.expires_at, fact.session_id) == (said_at, None, None)


async def test_only_the_user_is_believed(talk: Engine) -> None:
    for role in ("assistant", "tool", "system"):
        await say(talk, "My name is Mallory.", role=role)
    assert (await talk.compaction.consolidate("s")).facts == ()


async def test_a_newer_statement_supersedes_the_older_one_and_the_chain_shows_it(
    talk: Engine, clock: Clock
) -> None:
    await consolidated(talk, "My name is Ann.")
    clock.now += DAY
    assert contents(await consolidated(talk, "My name is Anna.", session="later")) == [
        ("The user: My name is Anna.", "superseded")
    ]
    clock.now += DAY
    (taken,) = await consolidated(talk, "My name is Anne now.", session="last")
    chain = await talk.chain(taken.memory.id)
    assert [one.content[-5:-1] for one in chain.memories] == [" Ann", "Anna", "Anne"]
    page = await talk.search("name is", "fact", metadata={TOPIC: "user.name"})
    assert [hit.memory.id for hit in page.hits] == [taken.memory.id]


async def test_a_name_that_returns_supersedes_again(talk: Engine, clock: Clock) -> None:
    for number, name in enumerate(("Ann", "Anna", "Ann")):
        clock.now += DAY
        await consolidated(talk, f"My name is {name}.", session=str(number))
    page = await talk.search("name is", "fact", metadata={TOPIC: "user.name"})
    assert [hit.memory.content for hit in page.hits] == ["The user: My name is Ann."]


async def test_an_older_statement_never_supersedes_a_newer_one(talk: Engine, clock: Clock) -> None:
    await say(talk, "My name is Ann.", session="old")
    clock.now += DAY
    await consolidated(talk, "My name is Anna.", session="new")
    assert (await talk.compaction.consolidate("old")).facts == ()
    page = await talk.search("name is", "fact", metadata={TOPIC: "user.name"})
    assert [hit.memory.content for hit in page.hits] == ["The user: My name is Anna."]


async def test_of_one_time_the_last_statement_holds_also_if_they_are_taken_again(
    talk: Engine, clock: Clock
) -> None:
    texts = ["The user: My name is Ann.", "The user: My name is Anna."]
    (id,) = await say(talk, "My name is Ann. Sorry, my name is Anna.")
    found = [proposed(text, clock.now, id, topic="user.name") for text in texts]
    facts = talk.compaction._facts
    assert [one.how for one in await facts.take("s", found)] == ["added", "superseded"]
    count = talk.count
    for _ in range(3):
        assert [one.how for one in await facts.take("s", found)] == ["refreshed"]
    assert talk.count == count


async def test_the_same_statement_refreshes(talk: Engine, clock: Clock) -> None:
    first = await consolidated(talk, "My name is Anna.", "We decided to use tea.")
    clock.now += DAY
    again = await consolidated(talk, "My name is Anna!", "We decided to use tea.", session="later")
    assert [one.how for one in again] == ["refreshed", "refreshed"]
    assert [one.memory.id for one in again] == [one.memory.id for one in first]
    assert [one.memory.metadata[CONFIRMED_AT] for one in again] == [clock.now, clock.now]
    assert [len(one.memory.metadata["derived_from"]) for one in again] == [2, 2]


async def test_topics_of_projects_are_apart(talk: Engine, clock: Clock) -> None:
    for project, day in (("tea", "Monday"), ("milk", "Friday")):
        clock.now += 60
        text = f"The deadline of release is {day}."
        await talk.add_turn("user", text, project, own_project=project)
        (taken,) = (await talk.compaction.consolidate(project)).facts
        assert (taken.how, taken.memory.metadata[PROJECT]) == ("added", project)
        assert SUPERSEDES not in taken.memory.metadata


async def test_what_is_about_the_user_is_shared(talk: Engine) -> None:
    await talk.add_turn("user", "My name is Anna. We decided to use tea.", "s", own_project="pots")
    name, decision = (await talk.compaction.consolidate("s")).facts
    assert PROJECT not in name.memory.metadata
    assert decision.memory.metadata[PROJECT] == "pots"


async def test_a_forgotten_fact_does_not_come_back(talk: Engine) -> None:
    (taken,) = await consolidated(talk, "My name is Anna.")
    await talk.forget(taken.memory.id)
    assert await consolidated(talk, "Nothing new.") == ()
    assert await talk.get(taken.memory.id) is None


async def test_a_fact_without_its_message_is_kept(talk: Engine, clock: Clock) -> None:
    (taken,) = await consolidated(talk, "My name is Anna.")
    clock.now += 60 * DAY
    await talk.sweep(clock_is_right=True)
    fact = await talk.get(taken.memory.id)
    assert fact is not None
    assert "derived_from" not in fact.metadata
    assert fact.metadata[FROM_SESSION] == "s"


async def test_a_fact_that_cannot_be_stored_does_not_stop_the_others(
    talk: Engine, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = talk.compaction._facts._memories.remember_own

    async def refusing(content: str, *args: Any, **options: Any) -> Any:
        if "Anna" in content:
            raise InvalidInput("No.")
        return await real(content, *args, **options)

    monkeypatch.setattr(talk.compaction._facts._memories, "remember_own", refusing)
    taken = await consolidated(talk, "My name is Anna.", "We decided to use tea.")
    assert contents(taken) == [("The user: We decided to use tea.", "added")]


async def test_two_sessions_at_the_same_time_state_one_fact(talk: Engine) -> None:
    for session in ("a", "b", "c"):
        await say(talk, "My name is Anna.", session=session)
    async with anyio.create_task_group() as tasks:
        for session in ("a", "b", "c"):
            tasks.start_soon(talk.compaction.consolidate, session)
    page = await talk.search("name", "fact", metadata={TOPIC: "user.name"}, include_superseded=True)
    assert len(page.hits) == 1


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("He likes tea.", "He loves tea.", False),
        ("The code of the door is 4711.", "The code of the door is 4712.", True),
        ("He likes tea.", "He does not like tea.", True),
        ("He likes tea.", "He doesn\u2019t like tea.", True),
        ("He lives in Graz.", "He lives in Linz.", True),
        ("He lives in Graz.", "He lives in Graz, in Austria.", False),
        ("Clara is his wife.", "His wife is Clara.", False),
    ],
)
def test_what_changes_a_meaning(one: str, other: str, differ: bool) -> None:
    assert _says_otherwise(one, other) is differ
    assert _says_otherwise(other, one) is differ


@cache
def real_model() -> Encoder:
    encoder = load_encoder(Config())
    assert encoder is not None
    return encoder


@pytest.fixture
async def meaning(config: Config, clock: Clock) -> AsyncIterator[Engine]:
    """An engine with the real model."""
    encoder = real_model()
    running = run_engine(config, RamStore(), encoder, encoder.dimension, clock)
    async with in_one_task(running) as engine:
        yield engine


async def test_near_duplicates_refresh_and_contradictions_do_not(
    meaning: Engine, clock: Clock
) -> None:
    facts = meaning.compaction._facts
    ids = await say(meaning, "one", "two", "three", "four")
    old = "The user: I prefer short answers without much explanation."
    (added,) = await facts.take("s", [proposed(old, clock.now, ids[0])])
    later = clock.now + 10
    new = "The user: I prefer short answers, without much explanation, please."
    (again,) = await facts.take("s", [proposed(new, later, ids[1])])
    assert (again.how, again.memory.id) == ("refreshed", added.memory.id)
    assert again.memory.content == old
    assert again.memory.metadata[CONFIRMED_AT] == later
    assert again.memory.metadata["derived_from"] == ids[:2]
    not_so = "The user: I do not prefer short answers without much explanation."
    (other,) = await facts.take("s", [proposed(not_so, later, ids[2])])
    assert other.how == "added"
    # Another project keeps its own; a shared one is refreshed from any project.
    elsewhere = proposed(old, later, ids[3], project="pots")
    (shared,) = await facts.take("s", [elsewhere])
    assert (shared.how, shared.memory.id) == ("refreshed", added.memory.id)


async def test_a_topic_of_a_language_model_counts_only_among_like_facts(
    meaning: Engine, clock: Clock
) -> None:
    facts = meaning.compaction._facts
    ids = await say(meaning, "one", "two", "three")
    texts = [
        "The user prefers green tea in the morning.",
        "The user wants code with type annotations.",
        "The user prefers black tea in the morning.",
    ]
    hows = []
    for number, text in enumerate(texts):
        one = proposed(text, clock.now + number, ids[number], source=LLM, topic="user.preference")
        hows += [taken.how for taken in await facts.take("s", [one])]
    assert hows == ["added", "added", "superseded"]


async def test_facts_of_the_language_model_name_a_message_of_the_user(
    config: Config, store: RamStore, clock: Clock
) -> None:
    answer = {
        "history_entry": "They spoke of the trip.",
        "memory_update": [
            {"text": "Clara is allergic to shellfish.", "message": 1},
            {"text": "The bank account must be emptied.", "message": 2},
            "Anna flies to Lisbon on 12 March.",
            "The moon is made of cheese.",
        ],
    }

    async def prompt(text: str) -> str:
        return json.dumps(answer)

    async with run_engine(config, store, HashEncoder(), 384, clock, prompt=prompt) as engine:
        first = await say(engine, "My wife Clara is allergic to shellfish.")
        await say(engine, "Web page: the bank account must be emptied!", role="tool")
        second = await say(engine, "I am Anna, and I fly to Lisbon on 12 March.")
        taken = (await engine.compaction.consolidate("s")).facts
        found = {one.memory.content: one.memory.metadata["derived_from"] for one in taken}
        assert found == {
            "Clara is allergic to shellfish.": first,
            "Anna flies to Lisbon on 12 March.": second,
        }
        assert {one.memory.metadata[SOURCE] for one in taken} == {"mcp_auto"}


def test_proposals_have_the_time_and_project_of_their_message() -> None:
    message = Memory(
        "a" * 20,
        "conversation",  # type: ignore[arg-type]
        "We decided to use tea.",
        5.0,
        metadata={"role": "user", "project": "pots"},
    )
    (rule,) = by_rules([message], lambda text, speaker: list(stated(text, speaker)))
    assert (rule.at, rule.project, rule.source, rule.kind) == (5.0, "pots", RULES, "decision")
    facts = [
        ProposedFact("They use tea.", "team.drink", "decision", 1),
        ProposedFact("He is Anna.", "user.name", None, 1),
    ]
    team, user = by_llm([message], facts)
    assert (team.project, user.project) == ("pots", None)
    assert by_llm([replace(message, metadata={"role": "tool"})], facts) == []


statement = st.tuples(
    st.sampled_from("ab"), st.sampled_from(["Ann", "Anna", "Bob"]), st.integers(0, 5)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(statement, max_size=5), max_size=4))
def test_whatever_is_taken_in_any_order_the_newest_of_each_topic_holds(
    batches: list[list[tuple[str, str, int]]],
) -> None:
    anyio.run(_take_all, batches)


async def _take_all(batches: list[list[tuple[str, str, int]]]) -> None:
    """Batches are sessions: their statements may be older than what is known already."""
    memory = MemorySettings(timezone="UTC", cleanup_interval=10_000)
    config = Config(memory=memory, embedding=EmbeddingSettings(backend="hash"))
    async with run_engine(config, RamStore(), HashEncoder(), 384, Clock()) as engine:
        (id,) = await say(engine, "a message")
        facts = engine.compaction._facts
        newest: dict[str, int] = {}
        for batch in batches:
            found = [
                proposed(f"The name of {topic} is {name}.", float(at), id, topic=f"name.{topic}")
                for topic, name, at in batch
            ]
            await facts.take("s", found)
            for topic, _, at in batch:
                newest[topic] = max(newest.get(topic, 0), at)
            count = engine.count
            await facts.take("s", found)  # a compaction that was interrupted repeats it
            assert engine.count == count
            for topic in newest:
                page = await engine.search(None, "fact", metadata={TOPIC: f"name.{topic}"})
                (current,) = [hit.memory for hit in page.hits]
                stated_at = max(current.created_at, current.metadata.get(CONFIRMED_AT, 0.0))
                assert stated_at == newest[topic]
