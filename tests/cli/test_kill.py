"""A daemon or a store worker that hangs is named, and `memoryd stop --kill` ends it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.cli.main import main
from tests.daemons import Daemon
from tests.processes import is_running

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path / "data")
    made.socket = tmp_path / "data" / "memoryd.sock"
    yield made
    if made.process is not None:
        made.stop(signal.SIGKILL)


@pytest.fixture
def there(daemon: Daemon) -> list[str]:
    return ["--data-dir", str(daemon.folder)]


def test_a_hung_daemon_is_named_and_killed(
    daemon: Daemon, there: list[str], capsys: Capture
) -> None:
    daemon.start()
    assert daemon.process is not None
    daemon.tool("store_memory", content="kept", name="kept")
    pid, worker = daemon.process.pid, daemon.status()["store"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    assert main(["stop", *there]) == 1
    said = capsys.readouterr().err
    assert f"Process {pid} " in said
    assert f"Try: memoryd stop --kill --data-dir {daemon.folder}\n" in said
    assert is_running(pid)
    assert main(["stop", "--kill", *there]) == 0
    assert f"Killed the daemon (process {pid}).\n" in capsys.readouterr().out
    assert daemon.process.wait(60) == -signal.SIGKILL
    assert not is_running(worker)
    daemon.start()
    assert daemon.tool("forget_memory", memory_id="kept")["success"]


def test_a_hung_worker_of_a_dead_daemon_is_named_and_killed(
    daemon: Daemon, there: list[str], capsys: Capture
) -> None:
    daemon.start()
    worker = daemon.status()["store"]["pid"]
    os.kill(worker, signal.SIGSTOP)
    try:
        daemon.stop(signal.SIGKILL)
        assert main(["stop", *there]) == 1
        said = capsys.readouterr().err
        assert f"its store worker (process {worker}) hangs" in said
        assert "Try: memoryd stop --kill" in said
        assert main(["stop", "--kill", "--json", *there]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found == {"stopped": True, "pid": None, "worker": worker}
        assert not is_running(worker)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGCONT)


def test_there_may_be_nothing_to_kill(there: list[str], capsys: Capture) -> None:
    assert main(["stop", "--kill", *there]) == 0
    assert capsys.readouterr().out == f"No memoryd uses {there[1]}.\n"


def test_a_process_that_only_stands_in_the_lock_file_is_not_killed(
    daemon: Daemon, there: list[str], capsys: Capture
) -> None:
    daemon.start()
    (daemon.folder / "daemon.lock").write_text("1")
    assert main(["stop", "--kill", *there]) == 1
    assert "it is not known which" in capsys.readouterr().err
    assert daemon.process is not None
    assert daemon.process.poll() is None


def test_a_socket_alone_does_not_say_what_to_kill(daemon: Daemon, capsys: Capture) -> None:
    """It would be the daemon of the default directory."""
    assert main(["stop", "--kill", "--socket", str(daemon.socket)]) == 1
    assert "--kill needs the data directory" in capsys.readouterr().err
