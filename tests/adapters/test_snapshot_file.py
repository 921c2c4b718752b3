"""The snapshot file: complete or absent, damage is noticed, erased texts are overwritten."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from memoryd.adapters.snapshot_contents import TAIL
from memoryd.adapters.snapshot_file import LocalSnapshotFile
from memoryd.index_files import Snapshot

if TYPE_CHECKING:
    from memoryd.index_files import Piece


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index.snapshot"


TEXTS = ["1\ncanary one", "2\ngrüße 🎉", "3\nthird"]
ARRAYS = ("key", "vector", "empty")


def arrays() -> dict[str, NDArray[Any]]:
    return {
        "key": np.array([11, 22, 33], dtype=np.uint64),
        "vector": np.arange(12, dtype=np.float32).reshape(3, 4),
        "empty": np.zeros((0, 2), dtype=np.int32),
    }


def save(path: Path, texts: Sequence[str] = TEXTS) -> LocalSnapshotFile:
    file = LocalSnapshotFile(path)
    pieces: list[Piece] = [*arrays().items(), ("text", [text.encode() for text in texts])]
    made = file.save({"format": 1}, pieces, ARRAYS)
    assert_arrays(made)
    assert read(made) == list(texts)
    return file


def read(found: Snapshot) -> list[str]:
    return [text.decode() for text in found.texts.read_range(0, len(found.texts))]


def assert_arrays(found: Snapshot) -> None:
    for name, array in arrays().items():
        assert found.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays[name], array)


def test_what_was_saved_is_loaded(path: Path) -> None:
    save(path)
    found = LocalSnapshotFile(path).load()
    assert found is not None
    assert found.about == {"format": 1}
    assert read(found) == TEXTS
    assert list(found.heads) == ["1", "2", "3"]
    assert_arrays(found)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_what_was_read_ahead_is_loaded_unless_another_came_meanwhile(path: Path) -> None:
    save(path)
    file = LocalSnapshotFile(path)
    file.prefetch()
    found = file.load()
    assert found is not None
    assert found.texts.read(0).decode() == TEXTS[0]
    file.prefetch()
    assert file._prefetched is not None
    file._prefetched.result()
    save(path, ["1\na longer first text", "2\nb", "3\nc"])
    found = file.load()
    assert found is not None
    assert found.texts.read(0) == b"1\na longer first text"
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
    texts = "".join(TEXTS).encode()
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
            assert list(found.heads).count("") == 1
            number = list(found.heads).index("")
            with pytest.raises(OSError, match="damaged"):
                found.texts.read(number)


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
    assert list(found.heads) == ["", "2", "3"]
    assert [found.texts.read(number).decode() for number in (1, 2)] == TEXTS[1:]


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
        assert_arrays(found)
        for number, head in enumerate(found.heads):
            assert head in ("", str(number + 1))
            if head:
                assert found.texts.read(number).decode() == TEXTS[number]


@pytest.mark.parametrize("kept", [0, 5, 20, 100, 300])
def test_a_short_file_is_thrown_away(path: Path, kept: int) -> None:
    save(path)
    path.write_bytes(path.read_bytes()[:kept])
    found = LocalSnapshotFile(path).load()
    assert found is None or not any(found.heads)


def test_what_was_loaded_can_be_read_when_the_file_is_gone(path: Path) -> None:
    save(path)
    file = LocalSnapshotFile(path)
    found = file.load()
    assert found is not None
    file.clear()
    save(path, ["1\nother", "2\nother", "3\nother"])
    assert read(found) == TEXTS


def test_a_file_of_other_vectors_is_refused(path: Path) -> None:
    file = LocalSnapshotFile(path)
    vectors = file.vectors(4)
    rows, made = np.arange(3), np.arange(12, dtype=np.float32).reshape(3, 4)
    vectors.write(rows, made)
    owners = np.zeros(3, dtype=np.int32)
    pieces: list[Piece] = [
        *arrays().items(),
        ("owner", owners),
        ("text", [text.encode() for text in TEXTS]),
    ]
    file.save({"format": 1, "dimension": 4}, pieces)
    again = LocalSnapshotFile(path)
    assert again.load() is not None
    np.testing.assert_array_equal(again.vectors(4).read(rows[1:]), made[1:])
    path.with_suffix(".vectors").unlink()
    LocalSnapshotFile(path).vectors(4)  # another one
    assert LocalSnapshotFile(path).load() is None


def test_clearing_leaves_no_file(path: Path) -> None:
    file = save(path)
    path.with_suffix(".new").write_bytes(b"half")
    file.clear()
    file.erase(11)
    assert list(path.parent.iterdir()) == []
