"""Relations between memories: both sides in one commit, never an id that nobody has."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.chains import Chains
from memoryd.engine.engine import Engine
from memoryd.engine.memories import Memories
from memoryd.engine.run import run_engine
from memoryd.errors import InvalidInput, NotFound
from memoryd.fields import RELATIONS, SUPERSEDED_BY, SUPERSEDES, ids_of, related_ids
from memoryd.settings import Config, EmbeddingSettings
from tests.engine.conftest import Clock, Start
from tests.ramstore import RamStore

UNKNOWN = "0123456789abcdef0123"


async def stored(engine: Engine, content: str, **metadata: object) -> str:
    return (await engine.store(content, metadata=metadata)).memory.id


async def found(engine: Engine, query: str, **options: object) -> set[str]:
    page = await engine.search(query, min_score=0.0, **options)  # type: ignore[arg-type]
    return {hit.memory.id for hit in page.hits}


async def ids_under(engine: Engine, id: str, key: str) -> list[str]:
    memory = await engine.get(id)
    assert memory is not None
    return ids_of(memory, key)


async def test_a_superseded_memory_is_found_only_when_asked_for(engine: Engine) -> None:
    old = await stored(engine, "the dock is red")
    new = await stored(engine, "the dock is blue", supersedes=[old])
    assert await ids_under(engine, old, SUPERSEDED_BY) == [new]
    assert await found(engine, "dock") == {new}
    assert await found(engine, "", memory_type="fact") == {new}
    assert await found(engine, "dock", include_superseded=True) == {old, new}
    assert await found(engine, "dock", metadata={"superseded_by": new}) == {old}
    assert (await engine.list_memories()).total == 2


async def test_it_is_found_again_when_the_newer_one_is_forgotten_or_expires(
    engine: Engine, clock: Clock
) -> None:
    old = await stored(engine, "the dock is red")
    new = await stored(engine, "the dock is blue", supersedes=[old])
    await engine.forget(new)
    assert await found(engine, "dock") == {old}
    assert (await engine.get(old)).metadata == {}  # type: ignore[union-attr]
    made = await engine.store("the dock is dark", "context", metadata={"supersedes": [old]})
    assert await found(engine, "dock") == {made.memory.id}
    clock.now += 86_400  # before any sweep
    assert await found(engine, "dock") == {old}


async def test_supersession_survives_a_restart(start: Start, store: RamStore) -> None:
    async with start() as engine:
        old = await stored(engine, "the dock is red")
        new = await stored(engine, "the dock is blue", supersedes=[old])
    async with start() as engine:
        assert await found(engine, "dock") == {new}


async def test_what_is_stored_again_is_found(engine: Engine) -> None:
    """An identical fact that is superseded does not swallow it, nor does a name."""
    old = (await engine.store("the dock is red", name="dock")).memory.id
    blue = await stored(engine, "the dock is blue", supersedes=[old])
    red = await stored(engine, "the dock is red", supersedes=[blue])
    assert red != old
    assert await found(engine, "dock") == {red}
    again = await engine.store("the dock is green", name="dock")
    assert again.memory.id == old
    assert old in await found(engine, "dock")
    assert await ids_under(engine, blue, SUPERSEDES) == []


async def test_both_sides_change_together_in_one_commit(engine: Engine, store: RamStore) -> None:
    writes: list[int] = []
    put_all = store.put_all

    async def counted(records: list[object]) -> None:
        writes.append(len(records))
        await put_all(records)  # type: ignore[arg-type]

    store.put_all = counted  # type: ignore[method-assign, assignment]
    one, two = await stored(engine, "one"), await stored(engine, "two")
    new = await stored(engine, "three", supersedes=[one, two])
    assert writes == [3]
    await engine.update_memory(new, metadata={"supersedes": [two]})
    assert await ids_under(engine, one, SUPERSEDED_BY) == []
    assert await ids_under(engine, two, SUPERSEDED_BY) == [new]
    await engine.update_memory(new, metadata={"supersedes": None})
    assert await ids_under(engine, two, SUPERSEDED_BY) == []


async def test_wrong_relations_are_refused_and_nothing_is_stored(engine: Engine) -> None:
    old = await stored(engine, "old")
    new = await stored(engine, "new", supersedes=[old])
    with pytest.raises(InvalidInput) as caught:
        await stored(engine, "x", derived_from=[UNKNOWN])
    assert caught.value.code == "relation_unknown"
    for memory, named, code in ((old, old, "relation_to_itself"), (old, new, "relation_circle")):
        with pytest.raises(InvalidInput) as caught:
            await engine.update_memory(memory, metadata={"supersedes": [named]})
        assert caught.value.code == code
    assert engine.count == 2


@pytest.mark.parametrize("key", ["superseded_by", "uses", "needs_review", "user_verified"])
async def test_callers_cannot_write_the_keys_of_memoryd(engine: Engine, key: str) -> None:
    old = await stored(engine, "old")
    for call in (
        engine.store("x", metadata={key: 1}),
        engine.update_memory(old, metadata={key: 1}),
    ):
        with pytest.raises(InvalidInput) as caught:
            await call
        assert caught.value.code == "metadata_reserved"


async def test_the_chain_is_walked_both_ways(engine: Engine) -> None:
    ids = [await stored(engine, "version 0")]
    for n in range(1, 4):
        ids.append(await stored(engine, f"version {n}", supersedes=[ids[-1]]))
    for id in ids:
        assert [memory.id for memory in (await engine.chain(id)).memories] == ids
    with pytest.raises(NotFound):
        await engine.chain(UNKNOWN)


async def test_forgetting_leaves_no_dangling_relation(engine: Engine, clock: Clock) -> None:
    gone = [await stored(engine, f"base {n}", batch=n % 2) for n in range(4)]
    brief = (await engine.store("brief", "context")).memory.id
    keep = [await stored(engine, f"kept {key}", **{key: [*gone, brief]}) for key in RELATIONS]
    await engine.forget(gone[0])
    await engine.forget_where(engine.selection(metadata={"batch": {"$exists": True}}))
    clock.now += 86_400
    assert await engine.cleanup_expired() == 1
    for id, key in zip(keep, RELATIONS, strict=True):
        assert await ids_under(engine, id, key) == []


async def test_an_import_brings_relations_in_any_order(start: Start, store: RamStore) -> None:
    async with start() as engine:
        old = await stored(engine, "old")
        new = await stored(engine, "new", supersedes=[old], derived_from=[old])
        memories = [record.memory for record in (await engine.export_page()).records]
    for order in (memories, memories[::-1]):
        store.records.clear()
        async with start() as engine:
            for memory in order:
                await engine.import_memory(memory)
            assert {m.id: m.metadata for m in (await engine.list_memories()).memories} == {
                m.id: m.metadata for m in memories
            }
            assert await found(engine, "old new") == {new}
            done = [str((await engine.import_memory(memory)).outcome) for memory in order]
            assert done == ["known", "known"]


async def test_what_an_import_never_brings_is_removed_later(engine: Engine) -> None:
    kept = await stored(engine, "kept")
    memory = await engine.get(kept)
    assert memory is not None
    await engine.forget(kept)
    related = replace(memory, metadata={"derived_from": [UNKNOWN]})
    await engine.import_memory(related)
    # Not by the engine's own upkeep: whether its first round comes before or after is open.
    chains = Chains(engine._parts, Memories(engine._parts))
    await chains.mend_relations()
    assert await ids_under(engine, kept, "derived_from") == [UNKNOWN]  # it may still come
    await chains.mend_relations()
    assert await ids_under(engine, kept, "derived_from") == []


STEP = st.tuples(
    st.sampled_from(["store", "store", "update", "name", "forget", "forget some", "wait"]),
    st.integers(0, 7),
    st.lists(st.tuples(st.sampled_from(RELATIONS), st.integers(0, 7)), max_size=4),
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(STEP, max_size=25))
def test_relations_stay_consistent_whatever_is_done(
    steps: list[tuple[str, int, list[tuple[str, int]]]], config: Config
) -> None:
    anyio.run(_do_all, steps, replace(config, embedding=EmbeddingSettings(backend="none")))


async def _do_all(steps: list[tuple[str, int, list[tuple[str, int]]]], config: Config) -> None:
    clock, store = Clock(), RamStore()
    async with run_engine(config, store, HashEncoder(), 384, clock) as engine:
        for number, (what, at, edges) in enumerate(steps):
            alive = [m.id for m in (await engine.list_memories(order="oldest")).memories]
            metadata: dict[str, list[str]] = {}
            for key, place in edges if alive else ():
                metadata.setdefault(key, []).append(alive[place % len(alive)])
            try:
                await _do(
                    engine,
                    clock,
                    what,
                    f"text {number}",
                    alive[at % len(alive)] if alive else "",
                    metadata,
                )
            except (InvalidInput, NotFound):
                pass
            _check_consistent(store)
            for id in alive:
                if await engine.get(id):
                    chain = {m.id for m in (await engine.chain(id)).memories}
                    for other in chain:
                        assert id in {m.id for m in (await engine.chain(other)).memories}


async def _do(
    engine: Engine, clock: Clock, what: str, text: str, id: str, metadata: dict[str, list[str]]
) -> None:
    if what == "store":
        kind = "context" if len(text) % 2 else "fact"
        await engine.store(text, kind, metadata=metadata)
    elif what == "update":
        await engine.update_memory(id, metadata=metadata, replace_metadata=True)
    elif what == "name":
        await engine.store(text, "context", name="the name", metadata=metadata)
    elif what == "forget":
        await engine.forget(id)
    elif what == "forget some":
        await engine.forget_where(engine.selection(metadata={"supersedes": {"$exists": True}}))
    else:
        clock.now += 86_400
        await engine.cleanup_expired()


def _check_consistent(store: RamStore) -> None:
    memories = {id: record.memory for id, record in store.records.items()}
    for memory in memories.values():
        assert related_ids(memory) <= set(memories)
        for id in ids_of(memory, SUPERSEDES):
            assert memory.id in ids_of(memories[id], SUPERSEDED_BY)
        for id in ids_of(memory, SUPERSEDED_BY):
            assert memory.id in ids_of(memories[id], SUPERSEDES)
