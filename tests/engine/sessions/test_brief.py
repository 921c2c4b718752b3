"""A brief: so many of each kind, for the task, in the budget, of the own project."""

from __future__ import annotations

from typing import Any

import pytest

from memoryd.engine.engine import Engine
from memoryd.engine.search.fold import tokens
from memoryd.engine.sessions.brief import COUNTS
from memoryd.errors import InvalidInput
from memoryd.recall_text import as_text

OWN, OTHER = "acme/one", "acme/two"
TASK = "change how the billing export is written"


async def store(engine: Engine, kind: str, number: int, project: str = OWN, **more: Any) -> str:
    text = f"The billing export {kind} {number}: written by the job of hour {number}"
    metadata = {"kind": kind, **more}
    return (await engine.store(text, metadata=metadata, own_project=project)).memory.id


async def test_a_brief_has_so_many_of_each_kind(engine: Engine) -> None:
    for kind in (*COUNTS, "gotcha"):
        for number in range(12):
            await store(engine, kind, number)
    found = await engine.brief(TASK, max_tokens=10_000, own_project=OWN)
    assert {part["part"]: len(part["ids"]) for part in found.parts} == COUNTS
    lines = [line for part in found.parts for line in part["text"].splitlines()]
    assert len(lines) == sum(COUNTS.values())
    assert all(line.endswith("]") for line in lines)
    assert found.warnings == ()


async def test_a_brief_stays_in_its_budget_and_says_what_is_missing(engine: Engine) -> None:
    for kind in COUNTS:
        for number in range(12):
            await store(engine, kind, number)
    found = await engine.brief(TASK, max_tokens=500, own_project=OWN)
    assert 300 < found.tokens == tokens(as_text(found.parts, ())) <= 500
    assert len(found.parts) == len(COUNTS)
    missing = sum(COUNTS.values()) - len(found.ids)
    assert found.warnings == (f"{missing} of 30 did not fit into max_tokens.",)


async def test_a_brief_is_of_the_own_project_and_shared(engine: Engine) -> None:
    own = await store(engine, "dead_end", 1)
    await store(engine, "dead_end", 2, OTHER)
    replaced = await store(engine, "dead_end", 3)
    newer = await store(engine, "dead_end", 4, supersedes=[replaced])
    found = await engine.brief(TASK, own_project=OWN)
    assert set(found.ids) == {own, newer}
    assert (await engine.brief(TASK)).ids == ()


async def test_a_memory_about_one_of_the_files_comes_first(engine: Engine) -> None:
    for number in range(8):
        await store(engine, "dead_end", number)
    text = "Threads were tried, and the driver lost its locks"
    metadata = {"kind": "dead_end", "related_files": ["src/pay.py"]}
    about = (await engine.store(text, metadata=metadata, own_project=OWN)).memory.id
    assert about not in (await engine.brief(TASK, own_project=OWN)).ids
    for file in ("src/pay.py", "/home/me/shop/src/pay.py"):
        assert about in (await engine.brief("pay out", [file], own_project=OWN)).ids


async def test_a_task_that_nothing_matches_gets_nothing(engine: Engine) -> None:
    await store(engine, "dead_end", 1)
    found = await engine.brief("zebra crossing", own_project=OWN)
    assert (found.parts, found.tokens) == ((), 0)


@pytest.mark.parametrize(("task", "files"), [("", ()), (TASK, [1]), (TASK, ["a"] * 101)])
async def test_wrong_arguments_are_refused(engine: Engine, task: str, files: Any) -> None:
    with pytest.raises(InvalidInput):
        await engine.brief(task, files)
