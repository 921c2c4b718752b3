"""The digest: durable facts that do not fit, shortened by the language model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.run import run_engine
from memoryd.engine.sessions.digest import listed
from memoryd.fields import DIGEST_OF
from memoryd.settings import Config, SessionSettings
from tests.engine.conftest import Clock
from tests.one_task import in_one_task
from tests.ramstore import RamStore

ROOM = 2000
ENTRY = json.dumps({"history_entry": "[2026-07-01 12:00] They talked."})


class Model:
    """A language model that shortens every fact to its first two words."""

    def __init__(self) -> None:
        self.digests = 0
        self.answer = ""

    async def __call__(self, prompt: str) -> str:
        if "You shorten" not in prompt:
            return ENTRY
        self.digests += 1
        facts = json.loads(prompt.splitlines()[-1])
        short = "\n".join("- " + " ".join(fact.split()[:2]) for fact in facts)
        return self.answer or f"Here it is:\n{short}"


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
async def engine(
    config: Config, store: RamStore, clock: Clock, model: Model, tmp_path: Path
) -> AsyncIterator[Engine]:
    config = replace(config, sessions=SessionSettings(max_memory_size=ROOM))
    running = run_engine(config, store, HashEncoder(), 384, clock, prompt=model)
    async with in_one_task(running) as opened:
        yield opened


async def consolidated(engine: Engine) -> None:
    await engine.add_turn("user", "hello", "s")
    await engine.sessions.sleep("s")


async def shown(engine: Engine) -> str:
    found = await engine.recall("s", max_tokens=10_000)
    return next((part["text"] for part in found.parts if part["part"] == "facts"), "")


async def filled(engine: Engine, count: int) -> list[str]:
    made = [
        await engine.store(f"Fact{n} number{n} is about {'x' * 70}.", metadata={"uses_it": n})
        for n in range(count)
    ]
    return [stored.memory.id for stored in made]


async def test_what_does_not_fit_is_shortened(engine: Engine, model: Model) -> None:
    await filled(engine, 10)
    await consolidated(engine)
    assert model.digests == 0  # all of them fit
    await filled(engine, 30)
    before = await shown(engine)
    await consolidated(engine)
    assert model.digests == 1
    after = await shown(engine)
    assert len(after.encode()) <= ROOM
    for n in range(30):  # each is there, whole or short
        assert f"Fact{n} number{n}" in after, n
    assert not all(f"Fact{n} number{n}" in before for n in range(30))
    await consolidated(engine)
    assert model.digests == 1  # nothing has changed


async def test_a_forgotten_fact_is_in_no_digest(engine: Engine) -> None:
    ids = await filled(engine, 30)
    await consolidated(engine)
    hidden = {DIGEST_OF: {"$exists": True}}
    [digest] = (await engine.list_memories(metadata=hidden)).memories
    assert (await engine.list_memories(limit=1000, memory_type="fact")).total == 31  # an archive
    gone = next(id for id in ids if id in digest.metadata["derived_from"])
    assert await engine.forget(gone)
    assert (await engine.list_memories(metadata=hidden)).total == 0
    assert await engine.get(digest.id) is None


async def test_a_changed_fact_hides_the_digest_until_it_is_made_again(
    engine: Engine, clock: Clock, model: Model
) -> None:
    await filled(engine, 30)
    await consolidated(engine)
    [digest] = (await engine.list_memories(metadata={DIGEST_OF: {"$exists": True}})).memories
    clock.now += 1
    await engine.update_memory(digest.metadata["derived_from"][0], content="Another truth entirely")
    assert digest.content not in await shown(engine)
    await consolidated(engine)
    assert model.digests == 2


@pytest.mark.parametrize("answer", ["I cannot do that.", "{]", "- " + "y" * 5000])
async def test_a_useless_answer_changes_nothing(engine: Engine, model: Model, answer: str) -> None:
    model.answer = answer
    await filled(engine, 30)
    before = await shown(engine)
    await consolidated(engine)
    assert model.digests == 1
    assert await shown(engine) == before


def test_lines_that_do_not_fit_are_left_out() -> None:
    assert listed("Sure:\n- a\n* bb\n\u2022 ccc\n- dddd", 15) == "- a\n- bb\n- ccc"
