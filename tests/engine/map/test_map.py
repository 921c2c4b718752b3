"""The map: made when asked for, renewed after writes, never waited for."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace

import anyio
import numpy as np
import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.map.map import Computing
from memoryd.engine.map.points import MAGIC, Drawn
from memoryd.engine.run import run_engine
from memoryd.errors import InvalidInput
from memoryd.settings import Config
from tests.engine.conftest import Clock, Start
from tests.ramstore import RamStore

THEMES = ("soup onions oven kitchen", "docker build cache server", "violin concert stage music")


def texts(count: int, first: int = 0) -> Iterator[str]:
    for n in range(first, first + count):
        yield f"{THEMES[n % 3]} number {n}"


async def fill(engine: Engine, count: int, first: int = 0) -> None:
    for n, text in enumerate(texts(count, first)):
        await engine.store(text, metadata={"kind": ("decision", "gotcha")[n % 2]})


async def made(engine: Engine, *, renew: bool = False) -> Drawn:
    """The map of all that is there now."""
    engine.map.ask(renew=renew)
    with anyio.fail_after(60):
        while True:
            await engine.map.finished()
            found = engine.map.ask()  # one that was begun before may lack the latest memories
            if isinstance(found, Drawn) and not engine.map.updating:
                return found


@dataclass(frozen=True)
class Columns:
    created: list[int]
    x: list[int]
    y: list[int]
    kind: list[int]
    project: list[int]
    type: list[int]
    label: list[int]

    @classmethod
    def of(cls, blob: bytes) -> Columns:
        """The bytes as the documentation describes them."""
        magic, count = struct.unpack_from("<4sI", blob)
        assert magic == MAGIC
        assert len(blob) == 8 + 14 * count
        columns, at = [], 8
        for code in "IHHHHBB":
            columns.append(list(struct.unpack_from(f"<{count}{code}", blob, at)))
            at += count * struct.calcsize(code)
        return cls(*columns)

    def places(self, ids: object) -> dict[str, tuple[int, int]]:
        return dict(zip(list(ids), zip(self.x, self.y, strict=True), strict=True))  # type: ignore[call-overload]


async def test_no_call_waits_for_the_first_map(engine: Engine) -> None:
    await fill(engine, 30)
    assert isinstance(engine.map.ask(), Computing)  # at once, without a pause for others
    assert (await made(engine)).count == 30


async def test_the_bytes_have_every_memory_once(engine: Engine, clock: Clock) -> None:
    await fill(engine, 30)
    await engine.store("somewhere else", "context", metadata={"project": "kite"})
    drawn = await made(engine)
    columns = Columns.of(drawn.blob)
    assert drawn.count == len(columns.x) == len(set(drawn.ids)) == 31
    kinds = [drawn.kinds[code] for code in columns.kind]
    assert (kinds.count("decision"), kinds.count("gotcha"), kinds.count("")) == (15, 15, 1)
    assert [drawn.projects[code] for code in columns.project].count("kite") == 1
    assert set(columns.created) == {int(clock.now)}
    assert sorted(set(columns.type)) == [1, 2]  # fact, context
    assert all(code < len(drawn.labels) or code == 255 for code in columns.label)
    assert sum(label.count for label in drawn.labels) <= 31


async def test_a_new_memory_moves_no_other(engine: Engine) -> None:
    await fill(engine, 60)
    before = await made(engine)
    await fill(engine, 10, first=60)
    after = await made(engine)
    assert after.revision != before.revision
    assert after.count == 70
    old, new = (Columns.of(one.blob).places(one.ids) for one in (before, after))
    assert {id: new[id] for id in old} == old


async def test_many_new_memories_are_laid_out_anew(engine: Engine) -> None:
    await fill(engine, 30)
    before = await made(engine)
    await fill(engine, 60, first=30)
    after = await made(engine)
    assert after.count == 90
    old, new = (Columns.of(one.blob).places(one.ids) for one in (before, after))
    assert {id: new[id] for id in old} != old


async def test_a_changed_memory_moves_to_its_new_place(engine: Engine) -> None:
    await fill(engine, 60)
    before = await made(engine)
    changed, other = before.ids[0], before.ids[1]
    await engine.update_memory(changed, content=f"{THEMES[1]} number 1")
    after = await made(engine)
    old, new = (Columns.of(one.blob).places(one.ids) for one in (before, after))
    assert new[changed] != old[changed]
    assert new[other] == old[other]


async def test_what_is_forgotten_or_expired_is_gone(engine: Engine, clock: Clock) -> None:
    await fill(engine, 20)
    brief = (await engine.store("soon over", expires_at=clock.now + 60)).memory.id
    before = await made(engine)
    gone = before.ids[0]
    await engine.forget(gone)
    clock.now += 61
    places = [before.ids.index(id) for id in (gone, brief, before.ids[1])]
    found = engine.map.memories(before.revision, places)
    assert [memory and memory.id for memory in found] == [None, None, before.ids[1]]
    after = await made(engine)
    assert after.count == 19
    assert {gone, brief} & set(after.ids) == set()


async def test_expiry_alone_makes_a_new_map(engine: Engine, clock: Clock) -> None:
    await fill(engine, 5)
    await engine.store("soon over", expires_at=clock.now + 60)
    assert (await made(engine)).count == 6
    clock.now += 61
    assert (await made(engine)).count == 5


async def test_memories_without_a_vector_are_counted(start: Start, engine: Engine) -> None:
    await fill(engine, 12)
    async with start(None) as without:
        await without.store("this one has no vector")
        drawn = await made(without)
        assert (drawn.count, drawn.left_out) == (12, 1)


async def test_an_empty_memory_has_an_empty_map(engine: Engine) -> None:
    drawn = await made(engine)
    assert (drawn.count, drawn.labels, drawn.blob) == (0, (), MAGIC + bytes(4))
    await fill(engine, 1)
    assert (await made(engine)).count == 1


async def test_old_revisions_end(engine: Engine) -> None:
    await fill(engine, 5)
    first = await made(engine)
    for _ in range(3):
        await made(engine, renew=True)
    with pytest.raises(InvalidInput) as error:
        engine.map.memories(first.revision, [0])
    assert error.value.code == "map_changed"


@pytest.mark.parametrize("indexes", [None, "1", [-1], [5], [True], [0.0], list(range(5)) * 1001])
async def test_wrong_indexes_are_refused(engine: Engine, indexes: object) -> None:
    await fill(engine, 5)
    drawn = await made(engine)
    with pytest.raises(InvalidInput) as error:
        engine.map.memories(drawn.revision, indexes)
    assert error.value.code == "indexes_invalid"


async def test_the_same_memories_give_the_same_map_after_a_restart(start: Start) -> None:
    """Though their slots in the index differ."""
    async with start() as first:
        await fill(first, 60)
        extra = (await first.store("in between")).memory.id
        await fill(first, 20, first=60)
        await first.forget(extra)
        before = await made(first)
    async with start() as second:
        after = await made(second)
    old, new = (Columns.of(one.blob).places(one.ids) for one in (before, after))
    assert old.keys() == new.keys()
    assert np.allclose([old[id] for id in old], [new[id] for id in old], atol=2)
    assert [label.text for label in before.labels] == [label.text for label in after.labels]


async def test_vectors_that_are_only_in_the_store_are_read_from_it(
    config: Config, store: RamStore, clock: Clock, start: Start
) -> None:
    async with start() as usual:
        await fill(usual, 40)
        expected = await made(usual)
    config = replace(config, store=replace(config.store, mode="http"))
    async with run_engine(config, store, HashEncoder(), 384, clock) as large:
        drawn = await made(large)
    assert sorted(drawn.ids) == sorted(expected.ids)
    assert len(set(Columns.of(drawn.blob).x)) > 10


async def test_a_failure_is_told_once_and_tried_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(engine, 5)
    with monkeypatch.context() as patched:
        patched.setattr("memoryd.engine.map.map.lay_out", lambda *given: 1 / 0)
        engine.map.ask()
        with anyio.fail_after(10):
            await engine.map.finished()
        with pytest.raises(Exception, match="could not be made"):
            engine.map.ask()
    assert (await made(engine)).count == 5
