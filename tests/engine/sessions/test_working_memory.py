"""Working memory: one text for each identity, replaced whole or by section."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.engine.engine import Engine
from memoryd.engine.sessions.working_memory import (
    MAX_INJECTED,
    injected,
    sections_of,
    without_delimiters,
)
from memoryd.errors import InvalidInput
from memoryd.model import MemoryType
from tests.engine.conftest import Start

TEXT = "Remember the dock.\n\n## Goals\nLearn to sail.\n\n## People\nAna lives here."


async def test_it_is_kept_for_each_identity_and_across_restarts(start: Start) -> None:
    async with start() as engine:
        empty = await engine.working_memories.get("robot")
        assert (empty.text, empty.id, empty.sections) == ("", None, {})
        await engine.working_memories.set(TEXT, "robot")
        await engine.working_memories.set("other", None)
    async with start() as engine:
        found = await engine.working_memories.get("robot")
        assert found.text == TEXT
        assert found.sections == {
            "": "Remember the dock.",
            "Goals": "Learn to sail.",
            "People": "Ana lives here.",
        }
        assert (await engine.working_memories.get("default")).text == "other"
        memory = await engine.get("working-memory:robot")
        assert memory is not None
        assert (memory.type, memory.expires_at) == (MemoryType.FACT, None)


async def test_a_section_is_replaced_added_or_removed(engine: Engine) -> None:
    working = engine.working_memories
    await working.set(TEXT, "robot")
    await working.set("Cross the bay.", "robot", "goals")  # in any case
    await working.set("The boat.", "robot", "Projects")
    done = await working.set(" \n", "robot", "People")
    assert done.changed
    assert done.text == ("Remember the dock.\n\n## Goals\nCross the bay.\n\n## Projects\nThe boat.")
    again = await working.set("The boat.", "robot", "Projects")
    assert (again.changed, again.text) == (False, done.text)
    assert (await working.set("", "robot")).text == ""
    assert (await working.get("robot")).id is None


async def test_sections_written_at_once_are_all_kept(engine: Engine) -> None:
    async with anyio.create_task_group() as tasks:
        for n in range(10):
            tasks.start_soon(engine.working_memories.set, f"text {n}", "robot", f"Part {n}")
    sections = (await engine.working_memories.get("robot")).sections
    assert sections == {f"Part {n}": f"text {n}" for n in range(10)}


@pytest.mark.parametrize("identity", ["two\nlines", "x" * 201, 5])
async def test_a_bad_identity_is_refused(engine: Engine, identity: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await engine.working_memories.set("x", identity)
    assert refused.value.code == "identity_invalid"


async def test_secrets_are_masked(engine: Engine) -> None:
    done = await engine.working_memories.set("The key is ghp_" + "a1B2" * 9, "robot")
    assert "a1B2" not in done.text
    assert done.warnings


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("<working_memory>\ntea\n</working_memory>", "tea"),
        ("tea </Working-Memory foo='1'> now <WORKING MEMORY>", "tea  now"),
        ("```markdown\ntea\n```", "tea"),
        ("```\ncode\n```\nmore", "```\ncode\n```\nmore"),
    ],
)
def test_delimiters_are_removed(given: str, kept: str) -> None:
    assert without_delimiters(given) == kept


@given(st.lists(st.text(alphabet="ab \u00e9#", max_size=600), max_size=40))
def test_what_is_injected_is_cut_at_a_line_and_says_so(lines: list[str]) -> None:
    text = without_delimiters("\n".join(lines))
    shown = injected(text)
    assert len(shown) <= MAX_INJECTED
    if len(text) <= MAX_INJECTED:
        assert shown == text
    else:
        *kept, note = shown.splitlines()
        all_lines = text.splitlines()
        assert kept == all_lines[: len(kept)]
        missing = len(all_lines) - len(kept)
        assert note == f"(cut: {missing} of {len(all_lines)} lines are not shown)"


def test_a_heading_needs_a_title() -> None:
    found = sections_of("#tag\n# \ntext\n# Top ##\nx\n### Deep\ny")
    assert found == {"": "#tag\n# \ntext", "Top": "x\n### Deep\ny"}


async def test_headings_within_a_section_stay_in_it(engine: Engine) -> None:
    for n in range(3):
        await engine.working_memories.set(f"# Day {n}\ntext", "robot", "Log")
    found = await engine.working_memories.get("robot")
    assert found.sections == {"Log": "### Day 2\ntext"}
