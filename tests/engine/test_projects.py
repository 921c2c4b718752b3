"""Projects: what is put into one, found from one, pushed into one, and moved between them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.engine.engine import Engine
from memoryd.engine.index.index import Index
from memoryd.engine.project_rules import pushable
from memoryd.engine.projects import BATCH
from memoryd.errors import InvalidInput, NotFound, StoreError
from memoryd.fields import DEPRECATED_AT, PROJECT, project_of
from memoryd.model import DAY, Memory, MemoryType, is_expired
from memoryd.ports import Record
from tests.engine.conftest import Clock, Start
from tests.ramstore import RamStore

A, B = "acme/app", "acme/site"


async def project(engine: Engine, id: str) -> str | None:
    memory = await engine.get(id)
    assert memory is not None
    return project_of(memory)


@pytest.mark.parametrize("memory_type", list(MemoryType))
async def test_what_is_stored_goes_into_the_own_project(engine: Engine, memory_type: str) -> None:
    mine = await engine.store("the port is 8080", memory_type, own_project=A)
    assert mine.memory.metadata == {PROJECT: A}
    shared = await engine.store("the port is 9090", memory_type)
    assert shared.memory.metadata == {}


async def test_shared_null_and_preferences_go_into_none(engine: Engine) -> None:
    """A preference is about the user, not about what they work on."""
    for options in (
        {"shared": True},
        {"metadata": {PROJECT: None}},
        {"metadata": {"kind": "preference"}},
    ):
        stored = await engine.store(f"tabs {options}", own_project=A, **options)
        assert PROJECT not in stored.memory.metadata, options


async def test_a_named_project_wins(engine: Engine) -> None:
    stored = await engine.store("tabs", metadata={PROJECT: B, "kind": "preference"}, own_project=A)
    assert project_of(stored.memory) == B


async def test_shared_and_a_project_exclude_each_other(engine: Engine) -> None:
    with pytest.raises(InvalidInput) as caught:
        await engine.store("x", metadata={PROJECT: A}, shared=True)
    assert caught.value.code == "project_invalid"


@pytest.mark.parametrize("bad", ["a\u200bb", "a\nb", "x" * 201, 7, ["a"]])
async def test_a_name_that_cannot_be_one_is_refused(engine: Engine, bad: Any) -> None:
    for call in (
        engine.store("x", own_project=bad),
        engine.store("x", metadata={PROJECT: bad}),
        engine.search("x", own_project=bad),
        engine.search("x", project=bad),
        engine.list_memories(project=bad),
        engine.add_turn("user", "x", "s", own_project=bad),
        engine.context_window("s", own_project=bad),
        engine.projects.rename(bad, "b"),
        engine.projects.merge("a", bad),
        engine.projects.move([], bad),
    ):
        with pytest.raises(InvalidInput):
            await call
    assert engine.count == 0


async def test_names_are_normalised_as_other_labels(engine: Engine) -> None:
    stored = await engine.store("x", metadata={PROJECT: "  \uff41cme/app "})
    assert project_of(stored.memory) == A
    changed = await engine.update_memory(stored.memory.id, metadata={PROJECT: " acme/site "})
    assert project_of(changed.memory) == B
    assert [h.memory.id for h in (await engine.search("x", project=" acme/site")).hits]


async def test_the_same_fact_in_two_projects_is_two_memories(engine: Engine) -> None:
    one = await engine.store("the port is 8080", own_project=A)
    two = await engine.store("the port is 8080", own_project=B)
    shared = await engine.store("the port is 8080")
    assert len({one.memory.id, two.memory.id, shared.memory.id}) == 3
    again = await engine.store("the port is 8080", own_project=B)
    assert (again.duplicate, again.memory.id) == (True, two.memory.id)
    assert (await engine.store("the port is 8080", shared=True)).memory.id == shared.memory.id


async def test_the_same_fact_of_another_project_is_imported(engine: Engine) -> None:
    await engine.store("the port is 8080", own_project=A)
    theirs = Memory("i-1", MemoryType.FACT, "the port is 8080", 1.0, None, {PROJECT: B})
    assert (await engine.import_memory(theirs)).outcome == "added"


async def test_a_name_is_one_memory_on_the_whole_machine(engine: Engine) -> None:
    """Whoever stores under it takes it along: its new text is about their project."""
    first = await engine.store("build with make", name="build", own_project=A)
    second = await engine.store("build with ninja", name="build", own_project=B)
    assert second.memory.id == first.memory.id
    assert project_of(second.memory) == B
    kept = await engine.store("build with just", name="build")
    assert project_of(kept.memory) == B
    shared = await engine.store("build with just", name="build", shared=True)
    assert PROJECT not in shared.memory.metadata


async def test_a_preference_stays_shared_under_its_name(engine: Engine) -> None:
    await engine.store("tabs", name="indent", metadata={"kind": "preference"}, own_project=A)
    again = await engine.store("spaces", name="indent", own_project=A)
    assert PROJECT not in again.memory.metadata


# Searching.


async def test_a_search_finds_all_projects_and_names_them(engine: Engine) -> None:
    for own in (A, B, None):
        await engine.store(f"the port of {own} is 8080", own_project=own)
    for own in (A, B, None):
        page = await engine.search("port 8080", own_project=own, min_score=0.0)
        assert {project_of(hit.memory) for hit in page.hits} == {A, B, None}


async def test_the_own_project_comes_first_among_equals(engine: Engine) -> None:
    for own in (A, B, None):
        await engine.store("the port is 8080", own_project=own)
    for own in (A, B):
        page = await engine.search("port 8080", own_project=own, explain=True)
        assert project_of(page.hits[0].memory) == own
        assert [bool(hit.why and hit.why.project) for hit in page.hits] == [True, False, False]


async def test_a_better_match_of_another_project_stays_first(engine: Engine) -> None:
    await engine.store("the port of the proxy is 8080", own_project=B)
    await engine.store("the proxy was replaced in May", own_project=A)
    page = await engine.search("port of the proxy", own_project=A, min_score=0.0)
    assert [project_of(hit.memory) for hit in page.hits] == [B, A]


async def test_the_boost_is_bounded(engine: Engine) -> None:
    texts = ("port 8080", "the port", "8080 is open", "a door", "the port of the proxy is 8080")
    for n, text in enumerate(texts):
        await engine.store(f"{text} {n}", own_project=A if n % 2 else B)
    plain = await engine.search("port 8080", min_score=0.0, limit=10)
    boosted = await engine.search("port 8080", min_score=0.0, limit=10, own_project=A)
    before = {hit.memory.id: hit.score for hit in plain.hits}
    for hit in boosted.hits:
        assert -1e-9 <= hit.score - before[hit.memory.id] <= 0.02 + 1e-9


async def test_without_a_project_a_search_is_as_before(engine: Engine) -> None:
    """The projects of the memories have no effect on it."""
    texts = [f"note {n} about port {n % 7}" for n in range(40)]
    for text in texts:
        await engine.store(text)
    before = [(h.memory.content, h.score, h.why) for h in await hits(engine)]
    found = (await engine.list_memories(limit=100)).memories
    for n, memory in enumerate(found):
        await engine.projects.move([memory.id], (A, B, None)[n % 3])
    assert [(h.memory.content, h.score, h.why) for h in await hits(engine)] == before


async def hits(engine: Engine) -> Any:
    return (await engine.search("port 3", explain=True, limit=40, min_score=0.0)).hits


async def test_a_project_narrows_a_search_and_a_list(engine: Engine) -> None:
    for own in (A, B, None):
        await engine.store(f"the port of {own} is 8080", metadata={"n": 1}, own_project=own)
    narrow: Any = {"project": A, "metadata": {"n": 1}}
    for page in (
        (await engine.search("port", **narrow)).hits,
        (await engine.search(project=A)).hits,
        (await engine.search("port", metadata={PROJECT: A})).hits,
    ):
        assert [project_of(hit.memory) for hit in page] == [A]
    listed = await engine.list_memories(**narrow)
    assert [project_of(memory) for memory in listed.memories] == [A]


async def test_a_cursor_belongs_to_its_project(engine: Engine) -> None:
    for n in range(4):
        await engine.store(f"note {n}", own_project=A)
    page = await engine.list_memories(project=A, limit=2)
    assert page.cursor
    rest = await engine.list_memories(project=A, limit=2, cursor=page.cursor)
    assert len({m.id for m in page.memories + rest.memories}) == 4
    with pytest.raises(InvalidInput):
        await engine.list_memories(project=B, limit=2, cursor=page.cursor)


async def test_a_cut_result_still_names_its_project(engine: Engine) -> None:
    metadata = {"note": "x" * 2000}
    await engine.store("port " * 200, metadata=metadata, own_project=A)
    page = await engine.search("port", max_tokens=60, min_score=0.0)
    assert page.hits[0].cut
    assert page.hits[0].memory.metadata == {PROJECT: A}


# Pushing.


async def test_a_window_shows_the_own_project_and_shared_messages_only(engine: Engine) -> None:
    for own in (A, B, None):
        await engine.add_turn("user", f"we are in {own}", "s", own_project=own)
    for own, other in ((A, B), (B, A), (None, None)):
        window = await engine.context_window("s", own_project=own)
        seen = [memory.content for memory in window.messages]
        assert seen == [f"we are in {name}" for name in (A, B, None) if name in (own, None)]
        assert window.hidden == (1 if other else 2)
    assert await engine.clear_window("s") == 3


NAMES = st.sampled_from([None, A, B, "", "ACME/APP", " acme/app", 7])


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(NAMES, st.booleans(), st.booleans(), st.booleans(), st.booleans()), max_size=12
    ),
    st.sampled_from([None, A, B]),
)
def test_nothing_leaks_into_the_pushes_of_another_project(
    drawn: list[tuple[Any, bool, bool, bool, bool]], own: str | None
) -> None:
    """Whatever the memories are: of the own project or of none, alive, not superseded and not
    deprecated; and every such memory may be pushed."""
    now, index = 1000.0, Index(4)
    memories = []
    for number, (name, expires, pinned, deprecated, superseded) in enumerate(drawn):
        metadata: dict[str, Any] = {} if name is None else {PROJECT: name}
        metadata |= {DEPRECATED_AT: 5.0} if deprecated else {}
        ends = now if expires else None
        memory = Memory(f"m{number}", MemoryType.FACT, "x", 1.0, ends, metadata, pinned=pinned)
        memories.append(memory)
        index.put(Record(memory))
        if superseded:
            newer = Memory(
                f"n{number}", MemoryType.FACT, "y", 2.0, None, {"supersedes": [memory.id]}
            )
            index.put(Record(newer))
    pushed = pushable(memories, own, index, now)
    for memory, (name, _, _, deprecated, superseded) in zip(memories, drawn, strict=True):
        is_mine = name is None or (own is not None and name == own)
        may = is_mine and not is_expired(memory, now) and not deprecated and not superseded
        assert (memory in pushed) == may


async def test_a_memory_is_pushed_again_when_what_superseded_it_is_gone(
    engine: Engine, clock: Clock
) -> None:
    old = (await engine.add_turn("user", "tea", "s")).memory
    end = clock.now + DAY
    await engine.store("coffee", metadata={"supersedes": [old.id]}, expires_at=end)
    assert (await engine.context_window("s")).messages == ()
    clock.now = end
    assert len((await engine.context_window("s")).messages) == 1


# Changes of whole projects.


async def test_projects_are_listed_with_counts(engine: Engine, clock: Clock) -> None:
    assert await engine.projects.list() == ()
    for n in range(3):
        clock.now += 1
        await engine.store(f"fact {n}", own_project=A)
    await engine.store("said", "conversation", own_project=A)
    await engine.store("of nobody")
    await engine.store("gone", own_project=B, expires_at=clock.now + 1)
    clock.now += 2
    first, second = await engine.projects.list()
    assert (first.name, first.memories, first.newest) == (A, 4, clock.now - 2)
    assert dict(first.types) == {"fact": 3, "conversation": 1}
    assert (second.name, second.memories) == (None, 1)


async def test_rename_moves_every_memory_and_changes_nothing_else(engine: Engine) -> None:
    stored = [
        (await engine.store(f"fact {n}", own_project=A, metadata={"n": n})).memory
        for n in range(2 * BATCH + 3)
    ]
    done = await engine.projects.rename(A, B)
    assert (done.moved, done.left) == (len(stored), 0)
    for before in stored:
        after = await engine.get(before.id)
        assert after is not None
        assert after.metadata == {"n": before.metadata["n"], PROJECT: B}
        assert (after.content, after.updated_at) == (before.content, None)
    assert [facts.name for facts in await engine.projects.list()] == [B]
    assert (await engine.search("fact 7", limit=1)).hits[0].memory.content == "fact 7"


async def test_rename_refuses_a_name_in_use_and_merge_one_that_is_not(engine: Engine) -> None:
    await engine.store("a", own_project=A)
    await engine.store("b", own_project=B)
    with pytest.raises(InvalidInput) as caught:
        await engine.projects.rename(A, B)
    assert caught.value.code == "project_exists"
    for call in (
        engine.projects.rename("nobody", "x"),
        engine.projects.merge("nobody", B),
        engine.projects.merge(A, "nobody"),
    ):
        with pytest.raises(NotFound):
            await call
    with pytest.raises(InvalidInput):
        await engine.projects.merge(A, A)
    assert (await engine.projects.merge(A, B)).moved == 1
    assert [(facts.name, facts.memories) for facts in await engine.projects.list()] == [(B, 2)]


async def test_merging_keeps_both_of_two_equal_facts(engine: Engine) -> None:
    """Nothing is lost; a search shows them as one."""
    await engine.store("the port is 8080", own_project=A)
    await engine.store("the port is 8080", own_project=B)
    await engine.projects.merge(A, B)
    assert engine.count == 2
    [hit] = (await engine.search("port 8080")).hits
    assert len(hit.folded) == 1


async def test_move_by_id_and_name(engine: Engine) -> None:
    one = (await engine.store("one", own_project=A)).memory
    await engine.store("two", name="second", own_project=A)
    done = await engine.projects.move([one.id, "second", "nobody"], B)
    assert (done.moved, done.missing) == (2, ("nobody",))
    assert await project(engine, one.id) == B
    assert (await engine.projects.move([one.id], None)).moved == 1
    assert await project(engine, one.id) is None
    assert (await engine.projects.move([one.id], None)).moved == 0  # it is there already
    second = await engine.get("second")
    assert second is not None
    assert (await engine.projects.move(["second", second.id], A)).moved == 1


async def test_expired_memories_move_along(engine: Engine, clock: Clock) -> None:
    """A clock that leapt ahead may be set back, and then they are alive."""
    stored = await engine.store("a", own_project=A, expires_at=clock.now + 10)
    await engine.store("b", own_project=A)
    clock.now += 20
    assert (await engine.projects.rename(A, B)).moved == 2
    clock.now -= 20
    assert await project(engine, stored.memory.id) == B


async def test_a_rename_that_was_interrupted_is_finished_by_a_merge(
    start: Start, store: RamStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each memory is in the one or in the other project, in store and index alike."""
    async with start() as engine:
        ids = [(await engine.store(f"fact {n}", own_project=A)).memory.id for n in range(3 * BATCH)]
        put_all, calls = store.put_all, 0

        async def fails(records: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise StoreError("killed")
            await put_all(records)

        monkeypatch.setattr(store, "put_all", fails)
        with pytest.raises(StoreError):
            await engine.projects.rename(A, B)
        monkeypatch.undo()
    async with start() as engine:
        counts = {facts.name: facts.memories for facts in await engine.projects.list()}
        assert counts == {A: 2 * BATCH, B: BATCH}
        with pytest.raises(InvalidInput, match="has memories already"):
            await engine.projects.rename(A, B)
        assert (await engine.projects.merge(A, B)).moved == 2 * BATCH
        assert {await project(engine, id) for id in ids} == {B}
        assert engine.count == len(ids)


async def test_an_imported_name_that_is_not_normal_can_be_renamed(engine: Engine) -> None:
    odd = Memory("i-1", MemoryType.FACT, "x", 1.0, None, {PROJECT: " old name "})
    await engine.import_memory(odd)
    assert (await engine.projects.rename("old name", "new name")).moved == 1
    assert await project(engine, "i-1") == "new name"


async def test_a_memory_that_was_moved_away_meanwhile_stays_there(engine: Engine) -> None:
    stored = (await engine.store("a", own_project=A)).memory
    ids = [stored.id]
    await engine.projects.move(ids, "elsewhere")
    with pytest.raises(NotFound):
        await engine.projects.rename(A, B)
    assert await project(engine, stored.id) == "elsewhere"


def test_the_boost_cannot_be_set_above_its_bound() -> None:
    from memoryd.config import load
    from memoryd.errors import ConfigError

    assert load(environ={}).search.project_weight <= 0.05
    with pytest.raises(ConfigError):
        load(environ={"MEMORYD_SEARCH_PROJECT_WEIGHT": "0.5"})
    assert math.isclose(
        load(environ={"MEMORYD_SEARCH_PROJECT_WEIGHT": "0"}).search.project_weight, 0.0
    )


@pytest.mark.parametrize("wrong", ["a", [[]], [1], [None], ["a"] * 1001, {"a": 1}])
async def test_what_to_move_is_a_list_of_texts(engine: Engine, wrong: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        await engine.projects.move(wrong, "acme/web")
    assert caught.value.code == "memory_ids_invalid"
