"""A recall in a phase: facts by kind, with citations, in the budget; without one, as before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from memoryd.engine.search.fold import tokens
from memoryd.engine.sessions import phase_facts
from memoryd.errors import InvalidInput
from memoryd.phases import PHASES
from memoryd.settings import Config, SessionSettings
from tests.engine.conftest import Clock
from tests.engine.sessions.recalling import Mind, open_mind, part, text_of
from tests.one_task import in_one_task

pytestmark = pytest.mark.usefixtures("forked_worker")
OWN = "acme/one"


@pytest.fixture
async def mind_(config: Config, clock: Clock) -> AsyncIterator[Mind]:
    config = replace(config, sessions=SessionSettings(auto_compact=False))
    async with in_one_task(open_mind(config, clock)) as opened:
        yield opened


async def store(mind: Mind, kind: str | None, number: int, **more: Any) -> str:
    made = {} if kind is None else {"kind": kind}
    text = f"{kind or 'plain'} number {number} says that the gauge reads {number * 7} at the pump"
    metadata = made | more.pop("metadata", {})
    return (await mind.engine.store(text, metadata=metadata, own_project=OWN, **more)).memory.id


async def fill(mind: Mind, count: int = 12) -> None:
    for kind in ("gotcha", "workflow_recipe", "work_unit_outcome", "module_insight", None):
        for number in range(count):
            await store(mind, kind, number)


async def test_each_phase_shows_its_kinds_first(mind_: Mind) -> None:
    await fill(mind_)
    first = {"implement": "gotcha", "define": "workflow_recipe", "reflect": "work_unit_outcome"}
    for phase, kind in first.items():
        found = await mind_.recall("s", max_tokens=400, own_project=OWN, phase=phase)
        lines = part(found, "facts").splitlines()
        of_kind = [line for line in lines if line.startswith(f"- ({kind})")]
        assert len(lines) > len(of_kind) > len(lines) / 2, (phase, lines)
        assert found.tokens == tokens(text_of(found)) <= 400


async def test_without_a_phase_everything_is_as_before(mind_: Mind) -> None:
    await fill(mind_, 3)
    plain = await mind_.recall("s", "the pump", own_project=OWN)
    assert await mind_.recall("s", "the pump", own_project=OWN, phase=None) == plain
    assert await mind_.recall("s", "the pump", own_project=OWN, phase="") == plain
    facts = mind_.durable.facts(OWN, mind_.parts.clock())
    assert part(plain, "facts") == "\n".join(f"- {fact.content}" for fact in facts)


async def test_a_phase_has_its_own_budget_unless_the_call_says_one(mind_: Mind) -> None:
    await fill(mind_, 40)
    for phase in PHASES:
        found = await mind_.recall("s", own_project=OWN, phase=phase)
        budget = mind_.parts.phases.tokens[phase]
        assert 0.8 * budget < found.tokens <= budget
    assert (await mind_.recall("s", max_tokens=300, own_project=OWN, phase="define")).tokens <= 300


async def test_a_hint_leads(mind_: Mind) -> None:
    await fill(mind_, 3)
    text, metadata = "Invoices are rounded per line item", {"kind": "gotcha"}
    wanted = (await mind_.engine.store(text, metadata=metadata, own_project=OWN)).memory
    found = await mind_.recall("s", "invoices rounded per line", own_project=OWN, phase="implement")
    assert "Invoices are rounded" in part(found, "facts").splitlines()[0]
    assert list(found.ids).count(wanted.id) == 1


async def test_pinned_facts_come_first_and_files_together(mind_: Mind) -> None:
    for number in range(3):
        await store(mind_, "gotcha", number, metadata={"related_files": [f"f{number % 2}.py"]})
    await store(mind_, None, 9, pinned=True)
    found = await mind_.recall("s", own_project=OWN, phase="implement")
    lines = part(found, "facts").splitlines()
    assert lines[0].startswith("- plain number 9")
    files = [line.split(", ")[1].split(")")[0] for line in lines[1:]]
    assert files in (["f0.py", "f0.py", "f1.py"], ["f1.py", "f0.py", "f0.py"])
    assert all(line.endswith("]") for line in lines)


async def test_nothing_of_another_project_is_shown(mind_: Mind) -> None:
    await store(mind_, "gotcha", 1)
    found = await mind_.recall("s", own_project="acme/two", phase="implement")
    assert found.parts == ()


async def test_what_is_forgotten_while_facts_are_chosen_is_not_shown(
    mind_: Mind, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, forgotten = [await store(mind_, "gotcha", number) for number in (1, 2)]

    async def slow(work: Any) -> Any:
        made = work()
        await mind_.engine.forget(forgotten)
        return made

    monkeypatch.setattr(phase_facts, "in_thread", slow)
    found = await mind_.recall("s", own_project=OWN, phase="implement")
    assert (found.ids, found.warnings) == ((kept,), ())


async def test_an_unknown_phase_is_refused(mind_: Mind) -> None:
    with pytest.raises(InvalidInput) as refused:
        await mind_.recall("s", phase="party")
    assert refused.value.code == "phase_unknown"
