"""Notes: unique names, aliases that resolve, numbers, and what other operations do to them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.engine.engine import Engine
from memoryd.engine.transfer import Outcome, memory_from
from memoryd.errors import InvalidInput, NotFound
from memoryd.export_file import fields_of
from memoryd.fields import aliases_of, seq_of
from memoryd.labels import folded_name
from memoryd.model import Memory, MemoryType
from tests.engine.conftest import Start


async def refused(call: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        await call
    return caught.value.code


async def test_a_note_is_a_fact_with_a_name_and_a_number(engine: Engine) -> None:
    first = (
        await engine.notes.add_note("Deploy steps", "Build, then ship.", aliases=["ship"])
    ).memory
    second = (await engine.notes.add_note("Talk of May", "We spoke.", kind="archive")).memory
    assert (first.type, first.name, first.expires_at) == (MemoryType.FACT, "Deploy steps", None)
    assert first.metadata["kind"] == "note"
    assert second.metadata["kind"] == "archive"
    assert (seq_of(first), seq_of(second)) == (1, 2)
    assert await engine.notes.read_note("SHIP") == first == await engine.get("deploy steps")
    listed = await engine.notes.list_notes()
    assert (listed.notes, listed.total) == ((first, second), 2)
    assert (await engine.notes.list_notes(kind="archive")).notes == (second,)
    assert (await engine.notes.list_notes(limit=1, after=1)).notes == (second,)


async def test_a_number_is_not_used_twice_while_the_engine_runs(
    start: Start, engine: Engine
) -> None:
    await engine.notes.add_note("a", "x")
    await engine.notes.add_note("b", "x")
    await engine.notes.remove_note("b")
    assert seq_of((await engine.notes.add_note("c", "x")).memory) == 3
    async with start() as again:
        assert seq_of((await again.notes.add_note("d", "x")).memory) == 4


@pytest.mark.parametrize(
    "name", ["Plan", "PLAN", "pl\u00e1n", "\uff50lan", " plan ", "ship", "SHIP"]
)
async def test_a_name_or_alias_that_is_taken_is_an_error(engine: Engine, name: str) -> None:
    await engine.notes.add_note("Plan", "x", aliases=["ship"])
    other = (await engine.notes.add_note("other", "y")).memory
    assert await refused(engine.notes.add_note(name, "z")) == "name_taken"
    assert await refused(engine.notes.add_note("new", "z", aliases=["free", name])) == "name_taken"
    assert await refused(engine.notes.rename_note("other", name)) == "name_taken"
    assert await refused(engine.notes.alias_note("other", name)) == "name_taken"
    assert await refused(engine.update_memory("other", name=name)) == "name_taken"
    plain = (await engine.store("plain", name="plain")).memory
    assert await refused(engine.update_memory(plain.id, name=name)) == "name_taken"
    assert await engine.notes.read_note("other") == other
    assert (await engine.notes.list_notes()).total == 2


async def test_the_name_of_another_memory_is_taken_too(engine: Engine) -> None:
    """In any case, because the note would hide it."""
    plain = (await engine.store("plain", name="Plan")).memory
    for name in ("Plan", "plan"):
        assert await refused(engine.notes.add_note(name, "x")) == "name_taken"
    note = (await engine.notes.add_note("note", "x")).memory
    assert await refused(engine.update_memory(note.id, name="plan")) == "name_taken"
    assert await engine.get("Plan") == plain


async def test_renaming(engine: Engine) -> None:
    before = (await engine.notes.add_note("a", "x", aliases=["b"])).memory
    after = (await engine.notes.rename_note("b", "c", keep_alias=True)).memory
    assert (after.id, after.name, aliases_of(after)) == (before.id, "c", ["b", "a"])
    after = (await engine.notes.rename_note("c", "B")).memory
    assert (after.name, aliases_of(after)) == ("B", ["a"])
    with pytest.raises(NotFound):
        await engine.notes.read_note("c")
    after = (await engine.update_memory("b", name="a")).memory
    assert (after.name, aliases_of(after)) == ("a", [])
    assert seq_of(after) == seq_of(before)


async def test_aliases(engine: Engine) -> None:
    await engine.notes.add_note("a", "x")
    assert (await engine.notes.alias_note("a", "b")).changed
    assert not (await engine.notes.alias_note("b", "B")).changed
    assert not (await engine.notes.alias_note("a", "A")).changed
    assert await refused(engine.notes.unalias_note("a")) == "alias_invalid"
    assert "aliases" not in (await engine.notes.unalias_note("b")).memory.metadata
    for n in range(100):
        await engine.notes.alias_note("a", f"alias {n}")
    assert await refused(engine.notes.alias_note("a", "one more")) == "aliases_too_many"


async def test_writing_replaces_the_content_only(engine: Engine) -> None:
    before = (
        await engine.notes.add_note("a", "old text", aliases=["b"], metadata={"tags": ["t"]})
    ).memory
    after = (await engine.notes.write_note("b", "new text")).memory
    assert (after.id, after.name, after.content) == (before.id, "a", "new text")
    assert after.metadata == {**before.metadata, "citation": "new text"}
    assert after.created_at == before.created_at
    assert [hit.memory.id for hit in (await engine.search("new text")).hits] == [after.id]


async def test_a_miss_suggests_the_nearest(engine: Engine) -> None:
    await engine.notes.add_note("Deploy steps", "x", aliases=["rollout"])
    await engine.store("plain", name="deplo")
    for call in (
        engine.notes.read_note("deplyo stesp"), engine.notes.write_note("deploy step", "x"),
        engine.notes.rename_note("Deploy", "y"), engine.notes.remove_note("deploystep"),
        engine.notes.alias_note("deploy-steps", "y"), engine.notes.unalias_note("deploy st"),
    ):  # fmt: skip
        with pytest.raises(NotFound) as missed:
            await call
        assert "'Deploy steps'" in missed.value.hint
    with pytest.raises(NotFound, match="no note 'zzz'") as missed:
        await engine.notes.read_note("zzz")
    assert missed.value.hint == "List the notes."
    with pytest.raises(NotFound):
        await engine.notes.read_note("deplo")


async def test_name_and_content_are_searched_and_aliases_are_not(engine: Engine) -> None:
    note = (await engine.notes.add_note("heron colony", "Nests in May.", aliases=["osprey"])).memory
    for query in ("heron colony", "nests"):
        hits = (await engine.search(query, mode="words")).hits
        assert [hit.memory.id for hit in hits] == [note.id]
    assert (await engine.search("osprey", mode="words")).hits == ()


async def test_storing_under_a_name_of_a_note_writes_the_note(engine: Engine) -> None:
    """An alias means the note: a memory of that name would take it from the note."""
    note = (await engine.notes.add_note("Plan", "x", aliases=["b"])).memory
    for name in ("Plan", "plan", "B"):
        done = await engine.store(f"by {name}", name=name, metadata={"tags": [name]})
        assert (done.replaced, done.memory.id, done.memory.name) == (True, note.id, "Plan")
        assert aliases_of(done.memory) == ["b"]
    assert await refused(engine.store("x", "context", name="b")) == "note_invalid"
    assert await refused(engine.store("x", name="b", expires_at=2e9)) == "note_invalid"
    assert await refused(engine.store("x", name="b", metadata={"kind": "gotcha"})) == "note_invalid"
    assert (await engine.notes.read_note("b")).content == "by B"


async def test_a_note_stays_one(engine: Engine) -> None:
    note = (await engine.notes.add_note("a", "x", aliases=["b"])).memory
    changes: list[dict[str, Any]] = [
        {"memory_type": "context"}, {"expires_at": 2e9}, {"clear": ["name"]},
        {"metadata": {"kind": "gotcha"}}, {"metadata": {"kind": None}},
    ]  # fmt: skip
    for change in changes:
        assert await refused(engine.update_memory("a", **change)) == "note_invalid"
    for own in ({"aliases": ["c"]}, {"seq": 7}):
        assert await refused(engine.update_memory("a", metadata=own)) == "metadata_reserved"
        assert await refused(engine.store("y", metadata=own)) == "metadata_reserved"
    done = await engine.update_memory("b", metadata={"tags": ["t"]}, replace_metadata=True)
    assert done.memory.metadata == {**note.metadata, "tags": ["t"]}


async def test_an_equal_fact_is_not_part_of_a_note(engine: Engine) -> None:
    note = (await engine.notes.add_note("a", "The same.")).memory
    stored = await engine.store("The same.", metadata={"kind": "gotcha"})
    assert not stored.duplicate
    assert await engine.notes.read_note("a") == note
    assert (await engine.store("The same.")).memory.id == stored.memory.id


@pytest.mark.parametrize(
    "name", ["", " ", "context:task", "Context: x", "a" * 201, "\u200b", 3, None]
)
async def test_what_cannot_be_a_name_is_refused(engine: Engine, name: Any) -> None:
    note = (await engine.notes.add_note("a", "x")).memory
    assert await refused(engine.notes.add_note(name, "x")) == "name_invalid"
    assert await refused(engine.notes.add_note("b", "x", aliases=[name])) == "name_invalid"
    assert await refused(engine.notes.rename_note("a", name)) == "name_invalid"
    assert await refused(engine.notes.alias_note("a", note.id)) == "name_invalid"


async def test_other_wrong_arguments(engine: Engine) -> None:
    assert await refused(engine.notes.add_note("a", " ")) == "content_empty"
    assert await refused(engine.notes.add_note("a", "x", kind="gotcha")) == "kind_invalid"
    assert (
        await refused(engine.notes.add_note("a", "x", metadata={"kind": "gotcha"}))
        == "kind_invalid"
    )
    assert await refused(engine.notes.add_note("a", "x", aliases="b")) == "aliases_invalid"
    assert await refused(engine.notes.list_notes(kind="x")) == "kind_invalid"
    assert await refused(engine.notes.list_notes(limit=0)) == "limit_invalid"
    assert await refused(engine.notes.rename_note("a", "b", keep_alias=1)) == "keep_alias_invalid"  # type: ignore[arg-type]


async def test_a_secret_is_masked_in_a_note(engine: Engine) -> None:
    secret = "my password is " + "hunter2-" + "Xy9"
    done = await engine.notes.add_note("a", secret)
    assert "hunter2" not in done.memory.content
    assert done.warnings
    assert "hunter2" not in (await engine.notes.write_note("a", f"now {secret}")).memory.content


async def test_a_note_without_a_vector_is_found_by_words_and_says_so(start: Start) -> None:
    async with start(None) as engine:
        done = await engine.notes.add_note("heron", "Nests in May.")
        assert "found by its words only" in done.warnings[0]
        assert (await engine.search("nests", mode="words")).hits[0].memory.name == "heron"


async def test_notes_survive_export_and_import(start: Start, engine: Engine) -> None:
    note = (await engine.notes.add_note("Plan", "x", aliases=["b"])).memory
    again = memory_from(fields_of(note), 10_000)
    assert again == note
    await engine.notes.remove_note("plan")
    assert (await engine.import_memory(again)).outcome is Outcome.ADDED
    assert await engine.notes.read_note("B") == note
    assert seq_of((await engine.notes.add_note("next", "x")).memory) == 2


async def test_an_import_cannot_take_a_name(engine: Engine) -> None:
    """Not by a note or a memory with the name or alias of a note, nor by a note with the name of a
    memory."""
    note = (await engine.notes.add_note("Plan", "x", aliases=["b"])).memory
    plain = (await engine.store("plain", name="Plain")).memory
    base = fields_of(note) | {"id": "f" * 20}
    own = base["metadata"]
    wrong: list[dict[str, Any]] = [
        base | {"name": "PLAN"},
        base | {"name": "new", "metadata": own | {"aliases": ["plan"]}},
        base | {"name": "new", "metadata": own | {"aliases": ["plain"]}},
        base | {"name": "B", "metadata": {}},
        base | {"name": "b", "metadata": {}, "type": "conversation"},
    ]
    for fields in wrong:
        done = await engine.import_memory(memory_from(fields, 10_000))
        assert done.outcome is Outcome.KEPT
    assert await engine.notes.read_note("b") == note
    assert await engine.get("Plain") == plain
    done = await engine.import_memory(memory_from(wrong[1], 10_000), overwrite=True)
    assert (done.outcome, done.rival) == (Outcome.REPLACED, note.id)
    assert (await engine.notes.read_note("plan")).id == "f" * 20


@pytest.mark.parametrize(
    "change",
    [
        {"name": None}, {"type": "context"}, {"expires_at": 2e9},
        {"metadata": {"seq": 1}}, {"metadata": {"aliases": ["x"]}},
        {"metadata": {"kind": "note", "seq": 0}}, {"metadata": {"kind": "note", "seq": True}},
        {"metadata": {"kind": "note", "seq": 1, "aliases": "x"}},
        {"metadata": {"kind": "note", "seq": 1, "aliases": ["context:task"]}},
        {"metadata": {"kind": "note", "seq": 1, "aliases": [" x"]}},
        {"metadata": {"kind": "note", "seq": 1, "aliases": ["a" * 20]}},
    ],
)  # fmt: skip
def test_half_a_note_is_not_imported(change: dict[str, Any]) -> None:
    note = Memory(
        "a" * 20, MemoryType.FACT, "x", 1.0, name="n", metadata={"kind": "note", "seq": 1}
    )
    assert memory_from(fields_of(note), 100) == note
    with pytest.raises(InvalidInput):
        memory_from(fields_of(note) | change, 100)


@given(st.text(max_size=8))
def test_folding_a_name_again_changes_nothing(name: str) -> None:
    once = folded_name(name)
    assert folded_name(once) == once


def test_which_names_are_equal() -> None:
    assert (
        folded_name("  Caf\u00c9   du Nord ") == folded_name("cafe\u0301 du nord") == "cafe du nord"
    )
    assert folded_name("STRASSE") == folded_name("stra\u00dfe")
    assert folded_name("\u304c") != folded_name("\u304b"), "other marks are letters"
