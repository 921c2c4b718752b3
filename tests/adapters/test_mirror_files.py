"""The folder of the mirror: files are whole, private, and never overwrite what others wrote."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from memoryd.adapters import shared_file
from memoryd.adapters.mirror_files import LocalMirrorFiles

NAME = "MEMORY.md"


@pytest.fixture
def made(tmp_path: Path) -> LocalMirrorFiles:
    return LocalMirrorFiles(tmp_path / "folder", tmp_path)


@pytest.fixture(params=["exchange", "replace"])
def files(
    request: pytest.FixtureRequest, made: LocalMirrorFiles, monkeypatch: pytest.MonkeyPatch
) -> LocalMirrorFiles:
    """With and without a system that can exchange names."""
    if request.param == "replace":
        monkeypatch.setattr(shared_file, "_exchange", lambda one, other: False)
    return made


def test_a_file_is_written_read_and_private(files: LocalMirrorFiles) -> None:
    assert files.read(NAME) is None
    assert files.replace("one\n", None) is None
    assert files.read(NAME) == "one\n"
    assert files.replace("two\n", "one\n") is None
    assert files.read(NAME) == "two\n"
    path = Path(files.folder) / NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(files.folder) == [NAME]


def test_what_others_wrote_comes_back(files: LocalMirrorFiles) -> None:
    files.replace("one\n", None)
    (Path(files.folder) / NAME).write_text("theirs\n")
    assert files.replace("two\n", "one\n") == "theirs\n"
    assert files.read(NAME) == "two\n"


def test_what_is_written_into_a_replaced_file_comes_back_once(files: LocalMirrorFiles) -> None:
    files.replace("one\n", None)
    with open(Path(files.folder) / NAME, "a") as editor:
        files.replace("two\n", "one\n")
        assert files.late() is None
        editor.write("theirs\n")
    assert files.late() == "one\ntheirs\n"
    assert files.late() is None
    files.release()
    assert files.late() is None


def test_a_file_that_others_write_is_not_settled_at_once(files: LocalMirrorFiles) -> None:
    """One that we wrote is."""
    assert files.is_settled()
    files.replace("one\n", None)
    assert files.is_settled()
    before = files.stamp()
    path = Path(files.folder) / NAME
    path.write_text("theirs\n")
    assert files.stamp() != before
    assert not files.is_settled()
    os.utime(path, (time.time() - 60,) * 2)
    assert files.is_settled()


def test_a_file_that_an_editor_made_readable_for_others_is_made_private(
    files: LocalMirrorFiles,
) -> None:
    files.replace("one\n", None)
    path = Path(files.folder) / NAME
    path.chmod(0o644)
    assert files.read(NAME) == "one\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_leftovers_of_a_kill_are_removed_and_files_of_others_are_not(
    files: LocalMirrorFiles,
) -> None:
    files.write("HISTORY-2026-05.md", "x")
    files.write("HISTORY.md", "x")
    folder = Path(files.folder)
    for name in ("MEMORY.md.part", "HISTORY.md.part", "README.md", "mine.part"):
        (folder / name).write_text("x")
    assert files.names() == ["HISTORY-2026-05.md", "HISTORY.md"]
    assert sorted(os.listdir(folder)) == [
        "HISTORY-2026-05.md",
        "HISTORY.md",
        "README.md",
        "mine.part",
    ]


def test_a_link_and_a_text_in_another_encoding_are_refused(
    files: LocalMirrorFiles, tmp_path: Path
) -> None:
    files.replace("one\n", None)
    path = Path(files.folder) / NAME
    path.write_bytes(b"caf\xe9\n")
    with pytest.raises(ValueError, match="utf-8"):
        files.read(NAME)
    path.unlink()
    path.symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="link"):
        files.replace("two\n", None)
    assert not (tmp_path / "target").exists()


def test_the_record_is_private_and_damage_is_no_record(
    files: LocalMirrorFiles, tmp_path: Path
) -> None:
    assert files.load_record() is None
    files.save_record("{}")
    path = tmp_path / "mirror.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert files.load_record() == "{}"
    path.write_bytes(b"\xff")
    assert files.load_record() is None


def test_no_edit_is_lost_in_a_race(made: LocalMirrorFiles) -> None:
    """An editor that replaces the file while we do: each of its texts comes back to us, or is
    what we read."""
    path, count = Path(made.folder) / NAME, 100
    made.replace("start", None)
    made.write("HISTORY.md", "x")
    if not shared_file._exchange(path, path.with_name("HISTORY.md")):
        pytest.skip("the system cannot exchange names")

    def edit() -> None:
        for number in range(count):
            new = path.with_name("editor")
            new.write_text(f"edit {number}")
            os.replace(new, path)
            while path.exists() and path.read_text() == f"edit {number}":
                pass

    editor = threading.Thread(target=edit)
    editor.start()
    seen: set[str | None] = set()
    while editor.is_alive():
        text = made.read(NAME)
        seen.add(text)
        seen.add(made.replace(f"ours {len(seen)}", text))
    editor.join()
    seen.add(made.read(NAME))
    assert {f"edit {number}" for number in range(count)} <= seen


@pytest.mark.slow
def test_a_kill_while_writing_leaves_an_old_or_a_new_file(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from memoryd.adapters.mirror_files import LocalMirrorFiles\n"
        "files = LocalMirrorFiles(Path(sys.argv[1]), Path(sys.argv[1]))\n"
        "number = 0\n"
        "while True:\n"
        "    number += 1\n"
        "    files.replace(f'{number}\\n' * 1000, None)\n"
        "    number == 20 and print('ready', flush=True)\n"
    )
    for _ in range(5):
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        lines = (tmp_path / NAME).read_text().splitlines()
        assert len(lines) == 1000
        assert len(set(lines)) == 1
