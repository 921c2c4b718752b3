"""A write is atomic, also when memory runs out in the middle."""

from __future__ import annotations

import pytest

from memoryd.engine.engine import Engine
from memoryd.engine.index.index import Index
from memoryd.engine.index.vectors import VectorTable


async def test_no_room_in_the_index_is_known_before_the_commit(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: VectorTable, count: int) -> None:
        raise MemoryError

    monkeypatch.setattr(VectorTable, "reserve", full)
    with pytest.raises(MemoryError):
        await engine.store("nobody keeps this")
    assert await engine.audit() == {"index": 0, "store": 0}
    monkeypatch.undo()
    await engine.store("somebody keeps this")
    assert await engine.audit() == {"index": 1, "store": 1}


async def test_an_index_that_may_be_torn_does_not_serve(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def torn(self: Index, *args: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Index, "put", torn)
    with pytest.raises(SystemExit):
        await engine.store("half of this is there")
