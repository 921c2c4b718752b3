"""Which store is opened, and for whom."""

from __future__ import annotations

import getpass
import os
from dataclasses import replace
from pathlib import Path

import pytest

from memoryd.adapters.chroma.store import open_chroma
from memoryd.adapters.embed.hash import HashEncoder
from memoryd.errors import StoreMismatch
from memoryd.ports import Identity
from memoryd.settings import Config, EmbeddingSettings, MemorySettings, StoreSettings
from memoryd.wiring.engine import restore_backup
from memoryd.wiring.local_store import with_owner
from memoryd.wiring.store import open_store
from tests.adapters.chroma.test_contract import IDENTITY, record
from tests.processes import free_port

pytestmark = pytest.mark.usefixtures("forked_worker")


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """On a Chroma server that does not run."""
    return Config(
        memory=MemorySettings(path=tmp_path / "data"),
        embedding=EmbeddingSettings(backend="hash"),
        store=StoreSettings(mode="http", port=free_port()),
    )


def test_the_owner_is_the_login_name_unless_one_is_set(config: Config) -> None:
    assert with_owner(config).store.owner == getpass.getuser()
    named = replace(config, store=replace(config.store, owner="robot 7"))
    assert with_owner(named).store.owner == "robot 7"


def test_a_user_without_a_login_name_has_a_number(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that runs as a user that its system does not know."""

    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(getpass, "getuser", unknown)
    assert with_owner(config).store.owner == f"user {os.getuid()}"


async def test_private_memories_are_backed_up_and_restored(config: Config, tmp_path: Path) -> None:
    """On this machine; the server is not needed for it."""
    encoder = HashEncoder()
    identity = Identity(encoder.model, encoder.dimension)
    private = replace(record("a", 0, metadata={"audience": "private"}), revision=1, replaces=0)
    async with open_store(config, identity, None) as opened:
        await opened.store.put(private, new=True)
        made = await opened.store.backup(tmp_path / "backups", 2)
        assert made is not None
        await opened.store.delete(["a"])
    assert await restore_backup(config, Path(made.path), replace=True) == 1
    async with open_store(config, identity, None) as opened:
        found = [r.memory async for page in opened.store.scan() for r in page]
    assert found == [private.memory]


async def test_private_memories_of_another_model_are_refused(config: Config) -> None:
    embedded = StoreSettings()
    async with open_chroma(embedded, config.memory.path, IDENTITY) as store:
        await store.put(record("a"), new=True)
    with pytest.raises(StoreMismatch):
        async with open_store(config, Identity("other", 16), None):
            pass


async def test_what_was_stored_before_the_server_stays_private(config: Config) -> None:
    """Whatever it says: nothing is shared without being asked for."""
    async with open_chroma(StoreSettings(), config.memory.path, IDENTITY) as store:
        await store.put(record("a", metadata={"audience": "team"}), new=True)
    async with open_store(config, IDENTITY, None) as opened:
        found = [r.memory async for page in opened.store.scan() for r in page]
        assert [memory.metadata for memory in found] == [{"audience": "private"}]
        assert [r.memory.id for r in await opened.store.get(["a"])] == ["a"]
