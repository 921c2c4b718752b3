"""Files of a person with a block: replaced atomically, with their mode, and never through links."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from memoryd.adapters.block_files import LocalBlockFiles


@pytest.fixture
def files(tmp_path: Path) -> LocalBlockFiles:
    return LocalBlockFiles(tmp_path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    return Path(os.path.realpath(tmp_path)) / "repo" / "AGENTS.md"


def test_mode_and_every_byte_are_kept(files: LocalBlockFiles, path: Path) -> None:
    data = b"\xef\xbb\xbfcaf\xe9 \xff\r\n"
    path.write_bytes(data)
    path.chmod(0o664)
    text = files.read(str(path))
    assert text is not None
    assert files.replace(str(path), text + "more", text) is None
    assert path.read_bytes() == data + b"more"
    assert stat.S_IMODE(path.stat().st_mode) == 0o664
    assert os.listdir(path.parent) == [path.name]


def test_a_new_file_is_private(files: LocalBlockFiles, path: Path) -> None:
    assert files.read(str(path)) is None
    assert files.replace(str(path), "new", None) is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_link_is_followed(files: LocalBlockFiles, path: Path, tmp_path: Path) -> None:
    """Neither at the end of the path nor on the way."""
    target = tmp_path / "target"
    target.write_text("theirs")
    path.symlink_to(target)
    with pytest.raises(OSError, match="link"):
        files.read(str(path))
    with pytest.raises(OSError, match="link"):
        files.replace(str(path), "x", "theirs")
    path.unlink()
    os.rename(path.parent, tmp_path / "moved")
    path.parent.symlink_to(tmp_path / "moved")
    with pytest.raises(OSError, match="link"):
        files.replace(str(path), "x", None)
    assert target.read_text() == "theirs"
    assert os.listdir(tmp_path / "moved") == []


def test_a_file_that_is_read_only_stays(
    files: LocalBlockFiles, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text("mine")
    monkeypatch.setattr(os, "access", lambda *args: False)  # root may write every file
    with pytest.raises(OSError, match="read-only"):
        files.replace(str(path), "x", "mine")
    assert path.read_text() == "mine"


def test_what_an_editor_saves_late_comes_back_unless_there_is_something_newer(
    files: LocalBlockFiles, path: Path
) -> None:
    path.write_text("one\n")
    with open(path, "a") as editor:
        files.replace(str(path), "ours\n", "one\n")
        editor.write("late\n")
    assert files.late(str(path)) == "one\nlate\n"
    with open(path, "a") as editor:
        files.replace(str(path), "again\n", "ours\n")
        editor.write("late\n")
    path.write_text("newer\n")
    assert files.late(str(path)) is None


def test_a_file_that_a_kill_left_is_removed(files: LocalBlockFiles, path: Path) -> None:
    path.write_text("mine")
    left = path.with_name(".AGENTS.md.memoryd.part")
    left.write_text("half")
    assert files.read(str(path)) == "mine"
    assert not left.exists()
