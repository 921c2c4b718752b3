"""The snapshot file: complete or absent, damage is noticed, erased texts are overwritten."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from memoryd.adapters.snapshot_file import TAIL, LocalSnapshotFile
from memoryd.ports import Snapshot


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index.snapshot"


def snapshot() -> Snapshot:
    arrays: dict[str, NDArray[Any]] = {
        "key": np.array([11, 22, 33], dtype=np.uint64),
        "vector": np.arange(12, dtype=np.float32).reshape(3, 4),
        "empty": np.zeros((0, 2), dtype=np.int32),
    }
    return Snapshot({"format": 1}, arrays, ["canary one", "grüße 🎉", "third"])


def save(path: Path, made: Snapshot | None = None) -> LocalSnapshotFile:
    made = made or snapshot()
    file = LocalSnapshotFile(path)
    file.save(made.about, made.pieces())
    return file


def test_what_was_saved_is_loaded(path: Path) -> None:
    save(path)
    found = LocalSnapshotFile(path).load()
    assert found is not None
    assert found.about == {"format": 1}
    assert found.texts == ["canary one", "grüße 🎉", "third"]
    for name, array in snapshot().arrays.items():
        assert found.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays[name], array)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_what_was_read_ahead_is_loaded_unless_another_came_meanwhile(path: Path) -> None:
    save(path)
    file = LocalSnapshotFile(path)
    file.prefetch()
    found = file.load()
    assert found is not None
    assert found.texts[0] == "canary one"
    file.prefetch()
    assert file._prefetched is not None
    file._prefetched.result()
    other = snapshot()
    save(path, Snapshot(other.about, other.arrays, ["a longer first text", "b", "c"]))
    found = file.load()
    assert found is not None
    assert found.texts[0] == "a longer first text"
    file.erase(11)  # in the file that is there
    assert b"longer" not in path.read_bytes()


def test_a_damaged_file_that_was_read_ahead_is_removed(path: Path) -> None:
    path.write_bytes(b"noise")
    file = LocalSnapshotFile(path)
    file.prefetch()
    assert path.exists(), "reading ahead changes nothing"
    assert file.load() is None
    assert not path.exists()


@pytest.mark.parametrize("ahead", [True, False])
def test_one_flipped_bit_anywhere_never_fails_a_start(path: Path, ahead: bool) -> None:
    save(path)
    whole = path.read_bytes()
    texts = "".join(snapshot().texts).encode()
    begin = whole.index(texts)
    lengths = range((len(whole) - TAIL.size) * 8, len(whole) * 8)
    for bit in {*lengths, *range(0, len(whole) * 8, 5)}:
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        file = LocalSnapshotFile(path)
        if ahead:
            file.prefetch()
        found = file.load()
        if not begin <= bit // 8 < begin + len(texts):
            assert found is None, bit
            assert not path.exists()
        else:  # a text that was overwritten: read from the store again
            assert found is not None
            assert found.texts.count("") == 1


def test_nothing_saved_is_nothing_loaded(path: Path) -> None:
    assert LocalSnapshotFile(path).load() is None


@pytest.mark.parametrize("saved_here", [True, False])
def test_an_erased_text_is_gone_from_the_file_at_once(path: Path, saved_here: bool) -> None:
    file = save(path)
    if not saved_here:
        file = LocalSnapshotFile(path)
        file.load()
    file.erase(11)
    file.erase(11)
    file.erase(99)
    assert b"canary" not in path.read_bytes()
    found = LocalSnapshotFile(path).load()
    assert found is not None
    assert found.texts == ["", "grüße 🎉", "third"]


def test_damage_of_any_byte_loses_a_text_or_the_file_but_never_returns_wrong_data(
    path: Path,
) -> None:
    save(path)
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        found = LocalSnapshotFile(path).load()
        if found is None:
            assert not path.exists()
            continue
        for name, array in snapshot().arrays.items():
            np.testing.assert_array_equal(found.arrays[name], array)
        pairs = zip(found.texts, snapshot().texts, strict=True)
        assert all(text in ("", expected) for text, expected in pairs)


@pytest.mark.parametrize("kept", [0, 5, 20, 100, 300])
def test_a_short_file_is_thrown_away(path: Path, kept: int) -> None:
    save(path)
    path.write_bytes(path.read_bytes()[:kept])
    found = LocalSnapshotFile(path).load()
    assert found is None or all(not text for text in found.texts)


def test_clearing_leaves_no_file(path: Path) -> None:
    file = save(path)
    path.with_suffix(".new").write_bytes(b"half")
    file.clear()
    file.erase(11)
    assert list(path.parent.iterdir()) == []
