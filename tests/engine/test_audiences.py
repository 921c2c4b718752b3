"""Who a memory is for, and who may change what, by the rules of a shared store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memoryd.audience import Viewer, audience_of, may_name, owner_of
from memoryd.engine.audiences import Audiences
from memoryd.engine.chains import Chains
from memoryd.engine.engine import Engine
from memoryd.engine.memories import Memories
from memoryd.engine.takeover import ForeignRow
from memoryd.errors import InvalidInput
from memoryd.fields import SUPERSEDED_BY, ids_of
from memoryd.hook_events import HookInput
from memoryd.model import Memory, MemoryType
from memoryd.ports import Record
from tests.engine.conftest import Start
from tests.engine.push.test_transcript import SESSION, line
from tests.one_task import in_one_task

APP = {"project": "acme/app"}


@pytest.fixture
async def engine(start: Start) -> AsyncIterator[Engine]:
    """That of anna, who sees the memories of the project acme/app."""
    async with in_one_task(start()) as running:
        viewer = Viewer("anna", ("acme/app",))
        running._parts.audiences = Audiences(viewer)
        yield running


def memory(id: str = "m", **metadata: Any) -> Memory:
    return Memory(id, MemoryType.FACT, f"content of {id}", 1000.0, metadata=metadata)


def bens(engine: Engine, memory: Memory) -> Memory:
    """Put a memory of ben into the index, as following the server does."""
    owned = replace(memory, metadata={"owner": "ben", "audience": "team", **memory.metadata})
    engine._parts.index.put(Record(owned, revision=1))
    return owned


async def code_of(call: Any) -> str:
    with pytest.raises(InvalidInput) as refused:
        await call
    return str(refused.value.code)


@pytest.mark.parametrize(
    ("metadata", "seen"),
    [
        ({}, True),
        ({"audience": "team"}, True),
        ({"audience": "private", "owner": "anna"}, False),
        ({"audience": "project", "owner": "anna"}, True),
        ({"audience": "project", "owner": "ben", **APP}, True),
        ({"audience": "project", "owner": "ben", "project": "acme/web"}, False),
        ({"audience": "project", "owner": "ben", "project": ["acme/app"]}, False),
        ({"audience": "project"}, False),
    ],
)
def test_what_a_user_sees_of_a_server(metadata: dict[str, Any], seen: bool) -> None:
    assert Viewer("anna", ("acme/app",)).may_see(metadata) is seen
    assert Viewer("anna", ("*",)).may_see(metadata) is (metadata.get("audience") != "private")


def test_a_memory_names_only_what_all_who_see_it_may_know_of() -> None:
    private, team = memory(audience="private"), memory(audience="team")
    app, web = (memory(audience="project", project=name) for name in ("app", "web"))
    allowed = [(private, private), (private, app), (private, team), (app, app), (app, team)]
    allowed += [(web, team), (team, team), (team, memory())]
    refused = [(team, private), (team, app), (app, web), (app, private), (memory(), private)]
    assert all(may_name(*pair) for pair in allowed)
    assert not any(may_name(*pair) for pair in refused)


async def test_a_new_memory_has_the_owner_and_the_default_audience(engine: Engine) -> None:
    made = (await engine.store("a")).memory
    assert (owner_of(made), audience_of(made)) == ("anna", "private")
    made = (await engine.store("b", audience="team")).memory
    assert (owner_of(made), audience_of(made)) == ("anna", "team")
    assert await code_of(engine.store("c", audience="everyone")) == "field_invalid"
    assert await code_of(engine.store("c", audience="project")) == "audience_invalid"
    engine._parts.audiences = replace(engine._parts.audiences, default="project")
    made = (await engine.store("d", own_project="acme/app")).memory
    assert audience_of(made) == "project"
    assert audience_of((await engine.store("e")).memory) == "private"  # it has no project


async def test_what_memoryd_makes_of_memories_is_private(engine: Engine) -> None:
    """A summary or a record says what they say, whatever the default is."""
    engine._parts.audiences = replace(engine._parts.audiences, default="team")
    await engine.add_turn("user", "I always drink green tea in the morning.", "s")
    await engine.add_turn("assistant", "Noted.", "s")
    await engine.sessions.sleep("s")
    made = [memory for memory in engine.all_memories() if "order" not in memory.metadata]
    assert made
    assert {audience_of(memory) for memory in made} == {"private"}
    said = [memory for memory in engine.all_memories() if "order" in memory.metadata]
    assert {audience_of(memory) for memory in said} == {"team"}


async def test_what_hooks_take_in_is_private(engine: Engine, tmp_path: Path) -> None:
    """From transcripts and from events: nobody asked to store it."""
    engine._parts.audiences = replace(engine._parts.audiences, default="team")
    transcript = tmp_path / "transcript.jsonl"
    transcript.write_bytes(line("user", "Where is the tea?", "u1") + b"\n")
    of_events = HookInput("prompt", "codex", session_id="s", prompt="Is it green?")
    of_file = HookInput("stop", "claude-code", session_id=SESSION, transcript=str(transcript))
    for event in (of_events, of_file):
        await engine.hooks.handle(event, "acme/app")
    await engine.intake.drained()
    said = [memory for memory in engine.all_memories() if "order" in memory.metadata]
    assert {memory.content for memory in said} == {"Where is the tea?", "Is it green?"}
    assert {audience_of(memory) for memory in engine.all_memories()} == {"private"}


async def test_what_is_taken_over_is_private(engine: Engine) -> None:
    """Whatever it says of itself; and known when it comes again. What a person imports is not."""
    engine._parts.audiences = replace(engine._parts.audiences, default="team")
    rows = [ForeignRow("a", "one", {}), ForeignRow("b", "two", {"audience": "team"})]
    for outcome in ("added", "known"):
        found = await engine.import_rows(rows, embed=False, unasked=True)
        assert [one.outcome for one in found] == [outcome] * 2
    assert {audience_of(memory) for memory in engine.all_memories()} == {"private"}
    for outcome in ("added", "known"):
        (one,) = await engine.import_rows([ForeignRow("c", "three", {})], embed=True)
        assert one.outcome == outcome
    asked = await engine.get("c")
    assert asked is not None
    assert audience_of(asked) == "team"


async def test_identical_facts_are_merged_within_an_audience(engine: Engine) -> None:
    bens(engine, replace(memory("b"), content="tea is green"))
    mine = await engine.store("tea is green", metadata={"note": "from my diary"})
    assert not mine.duplicate
    again = await engine.store("tea is green")
    assert (again.duplicate, again.memory.id) == (True, mine.memory.id)
    theirs = await engine.store("tea is green", audience="team")
    assert (theirs.duplicate, theirs.memory.id) == (True, "b")
    assert owner_of(theirs.memory) == "ben"
    assert "note" not in theirs.memory.metadata


async def test_a_name_means_the_smallest_audience_and_is_free_in_the_others(
    engine: Engine,
) -> None:
    bens(engine, replace(memory("b"), name="plan"))
    mine = (await engine.store("mine", name="plan")).memory
    found = await engine.get("plan")
    assert found is not None
    assert found.id == mine.id
    replaced = await engine.store("ours", name="plan", audience="team")
    assert (replaced.replaced, replaced.memory.id, owner_of(replaced.memory)) == (True, "b", "ben")
    assert await code_of(engine.update_memory(mine.id, audience="team")) == "name_taken"
    note = await engine.notes.add_note("Birds", "private")
    engine._parts.audiences = replace(engine._parts.audiences, default="team")
    other = await engine.notes.add_note("birds", "for the team")
    assert note.memory.id != other.memory.id
    assert await code_of(engine.notes.add_note("BIRDS", "again")) == "name_taken"


async def test_a_shared_memory_does_not_get_the_id_of_a_private_one(engine: Engine) -> None:
    old = (await engine.store("the door is red", audience="team")).memory
    new = (await engine.store("the door is blue", metadata={"supersedes": [old.id]})).memory
    known = await engine.get(old.id)
    assert known is not None
    assert ids_of(known, SUPERSEDED_BY) == []
    found = await engine.search("door", min_score=0.0)  # superseded for this user
    assert [hit.memory.id for hit in found.hits] == [new.id]
    naming = {"derived_from": [new.id]}
    assert await code_of(engine.store("x", audience="team", metadata=naming)) == "relation_private"
    private = (await engine.store("y", metadata=naming)).memory
    assert await code_of(engine.update_memory(private.id, audience="team")) == "relation_private"


async def test_relations_of_others_are_not_mended(engine: Engine) -> None:
    """The ids may be of memories that this user does not see."""
    unknown = "0123456789abcdef0123"
    theirs = bens(engine, memory("b", derived_from=[unknown]))
    mine = memory("a", derived_from=[unknown[::-1]], owner="anna", audience="private")
    await engine.import_memory(mine)
    chains = Chains(engine._parts, Memories(engine._parts))
    for _ in range(2):
        await chains.mend_relations()
    kept = await engine.get("b")
    mended = await engine.get("a")
    assert kept is not None
    assert mended is not None
    assert kept.metadata == theirs.metadata
    assert "derived_from" not in mended.metadata


async def test_an_import_keeps_owner_and_audience(engine: Engine) -> None:
    for given in (
        memory("a", owner="ben", audience="team"),
        memory("b", owner="ben", audience="project", **APP),
        memory("c", owner="ben", audience="private"),
    ):
        assert (await engine.import_memory(given)).outcome == "added"
        assert (await engine.import_memory(given)).outcome == "known"
        kept = await engine.get(given.id)
        assert kept is not None
        assert kept.metadata == given.metadata
    assert (await engine.import_memory(memory("d"))).outcome == "added"
    made = await engine.get("d")
    assert made is not None
    assert made.metadata == {"owner": "anna", "audience": "private"}
    unseen = memory("e", owner="ben", audience="project", project="acme/web")
    assert await code_of(engine.import_memory(unseen)) == "audience_invalid"


async def test_projects_of_others_are_not_moved(engine: Engine) -> None:
    bens(engine, memory("b", audience="project", **APP))
    await engine.store("mine", audience="project", own_project="acme/app")
    assert (await engine.projects.rename("acme/app", "acme/new")).moved == 1
    theirs = await engine.get("b")
    assert theirs is not None
    assert theirs.metadata["project"] == "acme/app"


async def test_an_embedded_store_carries_the_keys_along(start: Start) -> None:
    async with start() as engine:
        plain = (await engine.store("a")).memory
        assert plain.metadata == {}
        given = (await engine.store("b", audience="team", metadata={"owner": "the cook"})).memory
        assert given.metadata == {"owner": "the cook", "audience": "team"}
        changed = await engine.update_memory(given.id, metadata={"owner": "me"}, audience="private")
        assert changed.memory.metadata == {"owner": "me", "audience": "private"}
