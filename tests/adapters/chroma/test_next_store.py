"""The next store: filled beside the live one over any number of starts, swapped in whole or not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio.abc
import pytest

from memoryd.adapters.chroma.next_store import ChromaNextStore
from memoryd.adapters.chroma.store import ChromaStore, open_chroma
from memoryd.adapters.chroma.swap import NEXT
from memoryd.errors import StoreError
from memoryd.ports import Identity
from memoryd.settings import StoreSettings
from tests.adapters.chroma.test_contract import DIMENSION, IDENTITY, all_of, record
from tests.adapters.chroma.test_rewrite import killed_everywhere
from tests.adapters.chroma.worker_stores import NEXT_IDENTITY
from tests.one_task import in_one_task

pytestmark = pytest.mark.slow

SETTINGS = StoreSettings(sync_threshold=10)
OTHER = Identity("other-model", DIMENSION)


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[ChromaStore]:
    opened = open_chroma(SETTINGS, tmp_path, IDENTITY, any_model=True)
    async with in_one_task(opened) as store:
        for n in range(3):
            await store.put(record(f"m{n}"))
        yield store


@pytest.fixture
def next_store(live: ChromaStore, tmp_path: Path) -> ChromaNextStore:
    return ChromaNextStore(live, SETTINGS, tmp_path)


async def fill(next_store: ChromaNextStore, *ids: str) -> None:
    async with next_store.open(OTHER) as store:
        for id in ids:
            await store.put(record(id, 2, content=f"next {id}"))


async def replace(next_store: ChromaNextStore) -> None:
    async with next_store.alone():
        await next_store.replace(OTHER)


def test_killed_at_any_step_the_live_or_the_next_store_is_whole(tmp_path: Path) -> None:
    """A new process serves the one or the other; a next store that did not get live is kept."""
    models = []
    for result in killed_everywhere(tmp_path, "replace"):
        models.append(result["model"])
        is_old = result["model"] == IDENTITY.model
        assert NEXT_IDENTITY.model == result["model"] or is_old, result["point"]
        if is_old:
            assert NEXT in result["left"], result["point"]
        assert set(result["left"]) <= {"store", "store.made", NEXT}, result["point"]
    assert models == sorted(models, reverse=True)  # the old one, and from one point on the new one
    assert len(set(models)) == 2


async def test_it_is_filled_over_several_starts_and_gets_live(
    live: ChromaStore, next_store: ChromaNextStore, tmp_path: Path
) -> None:
    await fill(next_store, "m0", "m1")
    async with next_store.open(OTHER) as store:
        assert set(await all_of(store)) == {"m0", "m1"}
    await fill(next_store, "m2")
    assert (await all_of(live))["m0"].memory.content != "next m0"
    await replace(next_store)
    found = await all_of(live)
    assert {id: item.memory.content for id, item in found.items()} == {
        f"m{n}": f"next m{n}" for n in range(3)
    }
    assert await live.read_identity() == OTHER
    assert not (tmp_path / NEXT).exists()
    await live.put(record("later"))
    assert (await live.status())["restarts"] == 0


async def test_one_that_lacks_a_memory_does_not_get_live(
    live: ChromaStore, next_store: ChromaNextStore
) -> None:
    await fill(next_store, "m0", "m1")
    with pytest.raises(StoreError) as refused:
        await replace(next_store)
    assert refused.value.code == "copy_differs"
    assert set(await all_of(live)) == {"m0", "m1", "m2"}
    assert await live.read_identity() == IDENTITY


async def test_what_was_made_for_another_model_is_thrown_away(next_store: ChromaNextStore) -> None:
    await fill(next_store, "m0")
    async with next_store.open(Identity("third-model", DIMENSION)) as store:
        assert await all_of(store) == {}


@pytest.mark.parametrize("damage", [b"", b"noise" * 1000])
async def test_what_is_damaged_is_begun_again(
    next_store: ChromaNextStore, tmp_path: Path, damage: bytes
) -> None:
    await fill(next_store, "m0")
    (tmp_path / NEXT / "store" / "chroma.sqlite3").write_bytes(damage)
    async with next_store.open(OTHER) as store:
        assert await all_of(store) == {}


async def test_a_worker_killed_during_the_swap_is_not_noticed(
    live: ChromaStore, next_store: ChromaNextStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(next_store, "m0", "m1", "m2")
    send, killed = live._worker._send, anyio.Event()

    async def deadly(process: anyio.abc.Process, message: object) -> None:
        await send(process, message)
        replaces = isinstance(message, tuple) and message[1] == "replace_by_next"
        if replaces and not killed.is_set():
            killed.set()
            process.kill()

    monkeypatch.setattr(live._worker, "_send", deadly)
    await replace(next_store)
    assert await live.read_identity() == OTHER
    assert set(await all_of(live)) == {"m0", "m1", "m2"}


async def test_a_server_has_no_next_store_and_says_so(tmp_path: Path, chroma_server: int) -> None:
    settings = StoreSettings(mode="http", port=chroma_server, collection="test-next")
    async with open_chroma(settings, tmp_path, IDENTITY) as store:
        with pytest.raises(StoreError) as refused:
            async with ChromaNextStore(store, settings, tmp_path).open(OTHER):
                pass
        assert refused.value.code == "not_embedded"
