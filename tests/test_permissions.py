"""Files are their owner's alone: made so, and refused where they are not."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd import permissions
from memoryd.cli.main import main
from memoryd.doors.tokens import read_token
from memoryd.errors import UnsafeFiles
from tests.daemons import Daemon
from tests.processes import environment, free_port

NOBODY = 65_534
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


@pytest.fixture
def loose_umask() -> Iterator[None]:
    """As a container's root has it: whatever is made without care can be read by all."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def refused(daemon: Daemon) -> str:
    """What a daemon says that must not start."""
    process = daemon.spawn()
    assert process.wait(60) == 1
    return daemon.log.read_text()


@pytest.mark.usefixtures("loose_umask")
@pytest.mark.slow
def test_a_first_start_makes_everything_private(tmp_path: Path) -> None:
    """Also where the umask is loose: directories 0700, files and socket 0600."""
    daemon = Daemon(tmp_path / "data", MEMORYD_DOORS_TCP_PORT=str(free_port()))
    daemon.socket = daemon.socket.parent / "run" / "memoryd" / "s"
    daemon.start()
    try:
        daemon.tool("store_memory", content="Private.")
        found = [daemon.folder, *daemon.folder.rglob("*"), daemon.socket.parent, daemon.socket]
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in found}
        assert {path.name for path in modes} >= {"daemon.lock", "lock", "token", "chroma.sqlite3"}
        for path, mode in modes.items():
            assert mode & 0o077 == 0, f"{path} has {mode:o}"
        assert list(permissions.inner_faults(daemon.folder)) == []
    finally:
        assert daemon.stop() == 0


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701, 0o777])
def test_a_loose_data_directory_is_refused_with_the_command(tmp_path: Path, mode: int) -> None:
    daemon = Daemon(tmp_path / "data")
    daemon.folder.mkdir()
    daemon.folder.chmod(mode)
    said = refused(daemon)
    assert f"Error: Other users can reach the data directory {daemon.folder} (mode {mode:o}" in said
    assert f"Try: chmod 700 {daemon.folder}\n" in said
    assert list(daemon.folder.iterdir()) == []
    assert stat.S_IMODE(daemon.folder.stat().st_mode) == mode


def test_a_verb_tells_why_its_daemon_did_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o755)
    assert main(["store", "x", "--data-dir", str(folder)]) == 1
    said = capsys.readouterr().err
    assert "Other users can reach the data directory" in said
    assert said.endswith(f"Try: chmod 700 {folder}\n")


def test_a_loose_socket_directory_is_refused(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "data")
    daemon.socket.parent.chmod(0o755)
    said = refused(daemon)
    assert f"Other users can reach the socket directory {daemon.socket.parent}" in said
    assert f"chmod 700 {daemon.socket.parent}\n" in said
    assert not daemon.socket.exists()


def test_nobody_is_told_to_narrow_a_shared_directory(tmp_path: Path) -> None:
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    (fault,) = permissions.directory_faults(shared, "socket directory")
    assert "chmod" not in fault.hint
    assert fault.mode is None
    home = [f for f in permissions.directory_faults(Path("/"), "x") if f.mode is not None]
    assert home == []


def test_a_loose_token_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    read_token(token)
    token.chmod(0o640)
    with pytest.raises(UnsafeFiles) as caught:
        read_token(token)
    assert (caught.value.code, caught.value.hint) == ("mode_loose", f"Run: chmod 600 {token}")


@as_root
def test_files_of_another_user_are_refused(tmp_path: Path) -> None:
    folder, token = tmp_path / "data", tmp_path / "token"
    folder.mkdir(mode=0o700)
    read_token(token)
    for path in (folder, token):
        os.chown(path, NOBODY, NOBODY)
    with pytest.raises(UnsafeFiles) as caught:
        read_token(token)
    assert caught.value.code == "owner_wrong"
    assert f"{folder} belongs to another user (number {NOBODY})" in refused(Daemon(folder))


@as_root
def test_a_link_to_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, NOBODY, NOBODY)
    daemon = Daemon(tmp_path / "data")
    daemon.folder.symlink_to(theirs)
    assert "is a link to a directory of another user" in refused(daemon)
    assert list(theirs.iterdir()) == []


@pytest.mark.slow
def test_a_link_to_a_directory_of_ones_own_is_fine(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir(mode=0o700)
    daemon = Daemon(tmp_path / "data")
    daemon.folder.symlink_to(tmp_path / "disk")
    daemon.start()
    assert daemon.stop() == 0


@pytest.mark.parametrize("name", ["daemon.lock", "lock", "token", "store", "store/chroma.sqlite3"])
def test_a_link_in_the_place_of_a_store_file_is_refused(tmp_path: Path, name: str) -> None:
    precious = tmp_path / "precious"
    precious.write_text("not to be written to")
    daemon = Daemon(tmp_path / "data")
    place = daemon.folder / name
    place.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    daemon.folder.chmod(0o700)
    place.symlink_to(precious)
    assert f"{place} is a link" in refused(daemon)
    assert precious.read_text() == "not to be written to"


def test_a_path_with_spaces_is_quoted(tmp_path: Path) -> None:
    folder = tmp_path / "my data"
    folder.mkdir()
    folder.chmod(0o755)
    (fault,) = permissions.data_faults(folder)
    command = fault.hint.removeprefix("Run: ")
    subprocess.run(command, shell=True, check=True)
    assert list(permissions.data_faults(folder)) == []


def test_the_shim_tells_its_client_why_there_is_no_daemon(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o755)
    command = [sys.executable, "-m", "memoryd", "mcp", "--data-dir", str(folder)]
    hello = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment()) as shim:
        assert shim.stdin is not None
        assert shim.stdout is not None
        shim.stdin.write(hello)
        shim.stdin.flush()
        said = shim.stdout.readline()
        shim.stdin.close()
    assert b"Other users can reach the data directory" in said
    assert f"chmod 700 {folder}".encode() in said
