"""Two stores as one, on a real Chroma server: moves that are interrupted at every step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from pathlib import Path

import pytest

from memoryd.adapters.chroma.private_and_shared import PrivateAndShared, open_private_and_shared
from memoryd.adapters.chroma.store import ChromaStore, open_chroma
from memoryd.audience import Viewer
from memoryd.errors import StoreConflict, StoreError, StoreOffline
from memoryd.ports import Record
from memoryd.settings import StoreSettings
from tests.adapters.chroma.test_contract import IDENTITY, record

pytestmark = pytest.mark.usefixtures("forked_worker")
Both = Callable[[], AbstractAsyncContextManager[PrivateAndShared]]


class Interrupted(Exception):
    """What a kill is here."""


@pytest.fixture
def both(chroma_server: int, request: pytest.FixtureRequest, tmp_path: Path) -> Both:
    """Opens the two stores, again and again."""
    name = f"test-{blake2b(request.node.nodeid.encode(), digest_size=8).hexdigest()}"
    settings = StoreSettings(mode="http", port=chroma_server, collection=name, owner="anna")

    @asynccontextmanager
    async def opened() -> AsyncIterator[PrivateAndShared]:
        here = replace(settings, mode="embedded")
        shared = partial(open_chroma, settings, tmp_path, IDENTITY)
        async with (
            open_chroma(here, tmp_path, IDENTITY) as local,
            open_private_and_shared(local, shared, Viewer("anna")) as store,
        ):
            yield store

    return opened


def version(number: int, audience: str, replaces: int | None = 0, **more: str) -> Record:
    metadata = {"owner": "anna", "audience": audience, **more}
    made = record("a", 2, content=f"version {number}", metadata=metadata)
    return replace(made, revision=number, replaces=replaces)


async def places(store: PrivateAndShared) -> tuple[str | None, str | None]:
    """The text in the local store, and on the server."""
    found = (await store.private.get(["a"]), await store._server.store.get(["a"]))
    mine, theirs = (next((r.memory.content for r in records), None) for records in found)
    return mine, theirs


async def shown(store: PrivateAndShared) -> str:
    """What a start shows."""
    found = {r.memory.id: r.memory.content async for page in store.scan() for r in page}
    return found["a"]


def interrupt(store: ChromaStore, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def killed(*args: object, **options: object) -> None:
        raise Interrupted

    monkeypatch.setattr(store, call, killed)


async def test_a_memory_moves_with_its_audience(both: Both) -> None:
    async with both() as store:
        await store.put(version(1, "private"), new=True)
        assert await places(store) == ("version 1", None)
        await store.put(version(2, "team", replaces=1))
        assert await places(store) == (None, "version 2")
        await store.put(version(3, "private", replaces=2))
        assert await places(store) == ("version 3", None)
        assert await store.delete(["a"]) == {"a"}
        assert (await store.changes(0)).noted == {"a"}  # it had been shared


async def test_a_private_memory_leaves_no_trace_on_the_server(both: Both) -> None:
    async with both() as store:
        await store.put(version(1, "private"), new=True)
        await store.put_all([version(2, "private", replaces=1)])
        assert await store.delete(["a"]) == {"a"}
        assert await store.delete(["a"]) == set()
        await store.put(version(3, "private"), new=True)
        assert await store.delete(["a"]) == {"a"}
        news = await store.changes(0)
        assert (news.revisions, news.noted) == ({}, frozenset())
        assert await store._server.store.count() == 0


async def test_sharing_that_was_interrupted_is_finished(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with both() as store:
        await store.put(version(1, "private"), new=True)
        interrupt(store.private, "delete", monkeypatch)
        with pytest.raises(Interrupted):
            await store.put(version(2, "team", replaces=1))
        assert await places(store) == ("version 1", "version 2")
        monkeypatch.undo()
        await store._server.store.put(version(3, "team", replaces=2))  # by another daemon
    async with both() as store:
        assert await shown(store) == "version 3"
        assert await places(store) == (None, "version 3")


@pytest.mark.parametrize("changed", [False, True])
async def test_making_private_that_was_interrupted_is_finished_unless_others_changed_it(
    both: Both, monkeypatch: pytest.MonkeyPatch, changed: bool
) -> None:
    async with both() as store:
        await store.put(version(1, "team"), new=True)
        interrupt(store._server.store, "delete", monkeypatch)
        with pytest.raises(Interrupted):
            await store.put(version(2, "private", replaces=1))
        assert await places(store) == ("version 2", "version 1")
        monkeypatch.undo()
        if changed:
            await store._server.store.put(version(3, "team", replaces=1))
    async with both() as store:
        expected = "version 3" if changed else "version 2"
        assert await shown(store) == expected
        assert await places(store) == ((None, expected) if changed else (expected, None))


async def test_a_move_that_failed_is_settled_before_the_next_change(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also without a restart: what is forgotten then is forgotten in both places."""
    async with both() as store:
        await store.put(version(1, "team"), new=True)
        interrupt(store._server.store, "delete", monkeypatch)
        with pytest.raises(Interrupted):
            await store.put(version(2, "private", replaces=1))
        monkeypatch.undo()
        assert await store.delete(["a"]) == {"a"}
        assert await places(store) == (None, None)


async def test_two_memories_with_one_id_are_both_kept(both: Both) -> None:
    """Another user imported an export: neither replaces the other."""
    async with both() as store:
        await store.put(version(1, "private"), new=True)
        await store._server.store.put(version(7, "team"))
    for _ in range(2):
        async with both() as store:
            assert await shown(store) == "version 1"
            assert await places(store) == ("version 1", "version 7")


async def test_what_another_daemon_changed_meanwhile_is_not_made_private(both: Both) -> None:
    async with both() as store:
        await store.put(version(1, "team"), new=True)
        await store._server.store.put(version(2, "team", replaces=1))
        with pytest.raises(StoreConflict):
            await store.put(version(3, "private", replaces=1))
        assert await places(store) == (None, "version 2")


async def test_what_the_user_does_not_see_is_not_read(both: Both) -> None:
    async with both() as store:
        server = store._server.store
        await store.put(version(1, "project", project="acme/app"), new=True)
        hidden = version(2, "project", project="acme/app", owner="ben")
        hidden = replace(hidden, memory=replace(hidden.memory, id="b", expires_at=5.0))
        await server.put(hidden, new=True)
        foreign = replace(hidden.memory, id="c", metadata={"audience": "private", "owner": "anna"})
        with pytest.raises(StoreError, match="not written to a Chroma server"):
            await server.put(replace(hidden, memory=foreign), new=True)
        assert [r.memory.id for r in await store.get(["a", "b", "c"])] == ["a"]
        assert {r.memory.id async for page in store.scan() for r in page} == {"a"}
        assert await store.expired(9.0, 10) == []
        assert not (await store.changes(0)).revisions.keys() & {"b"}
        assert "b" not in (await store.listing(0) or {})
        assert "b" not in dict(await store.nearest(hidden.passages[0].vector, 10))
        clock = (await store.changes(0)).clock
        await store.put(version(3, "project", replaces=1, project="acme/app"))
        assert (await store.changes(0)).clock > clock


async def test_without_the_server_only_private_memories_are_read_and_written(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with both() as store:
        monkeypatch.setattr(store._server, "_store", None)
        await store.put(version(1, "private"), new=True)
        assert await shown(store) == "version 1"
        assert await store.expired(9.0, 10) == []
        for call in (
            partial(store.put, version(2, "team", replaces=1)),
            partial(store.get, ["b"]),
            partial(store.changes, 0),
        ):
            with pytest.raises(StoreOffline):
                await call()
        assert [r.memory.content for r in await store.get(["a"])] == ["version 1"]
        status = await store.status()
        assert (status["server"], "error" in status) == (None, True)
        monkeypatch.undo()


async def test_more_changes_than_an_answer_may_hold_are_read_in_pages(both: Both) -> None:
    async with both() as store:
        new = [
            replace(
                version(number, "team"),
                memory=replace(version(number, "team").memory, id=f"m{number}"),
                passages=version(number, "team").passages[:1],
            )
            for number in range(1, 2201)
        ]
        await store.put_all(new, new=True)
        await store.delete([f"m{number}" for number in range(1, 1101)])
        found = await store.changes(0)
        assert len(found.revisions) == 1100
        assert len(found.noted) == 1100
        assert not found.has_more
        assert found.clock == await store.clock()
        assert (await store.changes(found.clock)).revisions == {}


async def test_what_is_there_is_told_as_of_a_clock(both: Both) -> None:
    """So that what is written afterwards is news. Without the server there is no clock."""
    async with both() as store:
        await store.put(version(1, "team"), new=True)
        known = await store.revisions()
        assert known is not None
        assert (dict(known.by_id), known.is_whole) == ({"a": 1}, True)
        assert store.listed_clock is not None
        await store.put(version(2, "team", replaces=1))
        assert (await store.changes(store.listed_clock)).revisions == {"a": 2}
    async with both() as store:
        store._server._store = None
        known = await store.revisions()
        assert known is not None
        assert (dict(known.by_id), known.is_whole, store.listed_clock) == ({}, False, None)
