"""Chroma's index files: torn ones are told from whole ones, and unused room holds no text."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoryd.adapters.chroma.hnsw_files import HEADER, is_torn, scrub
from memoryd.adapters.chroma.store import open_chroma
from memoryd.settings import StoreSettings
from tests.adapters.chroma.test_contract import IDENTITY, all_of, record

pytestmark = pytest.mark.usefixtures("forked_worker")


@pytest.fixture(params=[3, 12, 130])
async def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A store of so many rows that was flushed often, some of them deleted."""
    async with open_chroma(StoreSettings(sync_threshold=3), tmp_path, IDENTITY) as store:
        for n in range(request.param):
            await store.put(record(f"m{n}"))
        await store.delete(["m0", "m2"])
    return tmp_path


@pytest.mark.slow
async def test_a_whole_index_is_not_torn_and_survives_the_scrub(folder: Path) -> None:
    assert list((folder / "store").glob("*/header.bin"))
    assert not is_torn(folder / "store")
    scrub(folder / "store")
    assert not is_torn(folder / "store")
    async with open_chroma(StoreSettings(), folder, IDENTITY) as store:
        found = await all_of(store)
        assert "m1" in found
        assert all(item.passages for item in found.values())
        assert (await store.status())["set_aside"] == []


@pytest.mark.slow
async def test_an_old_header_with_new_files_is_detected(folder: Path) -> None:
    path = next((folder / "store").glob("*/header.bin"))
    data = bytearray(path.read_bytes())
    version, offset, most, count, size = HEADER.unpack_from(data)
    HEADER.pack_into(data, 0, version, offset, most + 500, count + 500, size)
    path.write_bytes(data)
    assert is_torn(folder / "store")


def test_unused_room_is_blanked(tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    (index / "header.bin").write_bytes(HEADER.pack(1, 0, 10, 2, 8) + bytes(64))
    (index / "data_level0.bin").write_bytes(b"a" * 16 + b"secret" + b"x" * 58)
    scrub(tmp_path)
    assert (index / "data_level0.bin").read_bytes() == b"a" * 16 + bytes(64)
