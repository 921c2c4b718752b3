"""`memoryd doctor` finds each fault that is planted, says it, and repairs what it can."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memoryd import places
from memoryd.adapters.clock_file import ClockFile
from memoryd.cli import doctor as findings
from memoryd.cli.main import main
from memoryd.diagnosis import Patient, check_queue
from memoryd.errors import ModelMissing
from memoryd.ports import Seen
from memoryd.settings import Config, LlmSettings
from tests.daemons import Daemon, ForkedDaemon
from tests.model_server import model_server

Capture = pytest.CaptureFixture[str]
Examine = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a daemon that worked and was stopped."""
    daemon = ForkedDaemon(tmp_path_factory.mktemp("doctor") / "data").start()
    for n in range(250):  # enough for an index to be written
        daemon.tool("store_memory", content=f"Fact {n}.")
    assert daemon.stop() == 0
    return daemon.folder


@pytest.fixture
def data(used: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to plant a fault in."""
    monkeypatch.setenv("MEMORYD_EMBEDDING_BACKEND", "hash")
    monkeypatch.setenv("HOME", str(tmp_path))
    return Path(shutil.copytree(used, tmp_path / "data"))


@pytest.fixture
def examine(capsys: Capture) -> Examine:
    def verb(folder: Path, *words: str) -> dict[str, Any]:
        code = main(["doctor", "--data-dir", str(folder), "--json", *words])
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert (code == 0) is found["healthy"]
        assert all(fault["message"] and fault["try"] for fault in found["faults"])
        return found

    return verb


def codes(found: dict[str, Any]) -> list[str]:
    return [fault["code"] for fault in found["faults"]]


def test_a_healthy_machine_has_no_faults(data: Path, capsys: Capture) -> None:
    assert main(["doctor", "--data-dir", str(data)]) == 0
    assert capsys.readouterr().out == "No faults found.\n"


def test_neither_has_one_before_the_first_start(data: Path, examine: Examine) -> None:
    assert examine(data.parent / "new")["healthy"]
    assert not (data.parent / "new").exists()


def test_a_clock_that_leapt_is_told_and_can_be_confirmed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORYD_EMBEDDING_BACKEND", "hash")
    daemon = ForkedDaemon(tmp_path / "data").start()
    try:
        daemon.tool("store_memory", content="kept")
        daemon.stop()
        now = time.time()
        assert now - json.loads((daemon.folder / "clock.json").read_text())["believed"] < 60
        ClockFile(daemon.folder).save(Seen(now - 40 * 86_400, now - 40 * 86_400, 0.0))
        daemon.start()
        daemon.store_brief("brief")
        where = ["--data-dir", str(daemon.folder), "--socket", str(daemon.socket)]
        while daemon.status()["memories"]["fact"] == 2:  # until it has expired
            assert time.time() < now + 60
        assert main(["sweep", *where]) == 1
        assert "memoryd sweep --now" in capsys.readouterr().err
        assert main(["status", *where]) == 0
        assert "nothing expired is deleted for 6" in capsys.readouterr().out
        assert main(["doctor", *where]) == 1
        assert "clock_doubted" in capsys.readouterr().out
        assert main(["sweep", "--now", *where]) == 0
        assert "Deleted 1 memory" in capsys.readouterr().out
        assert daemon.status()["clock_doubt"] is None
        main(["doctor", *where])
        assert "clock_doubted" not in capsys.readouterr().out
    finally:
        daemon.stop()


@pytest.mark.parametrize("name", ["", "store", "store/chroma.sqlite3", "daemon.lock", "token"])
def test_loose_permissions_are_found_and_narrowed(
    data: Path, examine: Examine, name: str, capsys: Capture
) -> None:
    path = data / name
    if name == "token":
        path.write_text("x" * 40)
    path.chmod(0o755 if path.is_dir() else 0o644)
    found = examine(data)
    assert codes(found) == ["mode_loose"]
    assert found["faults"][0]["try"].startswith("chmod ")
    assert main(["doctor", "--data-dir", str(data)]) == 1
    counts = re.search(r"memoryd doctor --fix repairs (\d+) of (\d+)\.\n$", capsys.readouterr().out)
    assert counts is not None
    assert counts[1] == counts[2]
    fixed = examine(data, "--fix")
    assert fixed["healthy"]
    # A database that others can read has a journal that they can.
    assert {fault["code"] for fault in fixed["fixed"]} == {"mode_loose"}
    assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_a_loose_socket_directory_is_found(data: Path, examine: Examine, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(0o755)
    found = examine(data, "--socket", str(folder / "s"))
    assert codes(found) == ["mode_loose"]
    assert "socket directory" in found["faults"][0]["message"]
    assert examine(data, "--socket", str(folder / "s"), "--fix")["healthy"]


def test_a_link_in_the_store_is_found_and_left_alone(data: Path, examine: Examine) -> None:
    (data / "store" / "elsewhere").symlink_to("/etc/hostname")
    found = examine(data, "--fix")
    assert codes(found) == ["store_symlink"]
    assert (data / "store" / "elsewhere").is_symlink()


def test_a_stale_socket_is_found_and_removed(data: Path, examine: Examine) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        before = os.umask(0o077)
        listener.bind(str(data / "memoryd.sock"))
        os.umask(before)
    assert codes(examine(data)) == ["socket_stale"]
    assert examine(data, "--fix")["healthy"]
    assert not (data / "memoryd.sock").exists()


def test_what_is_in_the_way_of_the_socket_is_found_and_left(data: Path, examine: Examine) -> None:
    path = data / "memoryd.sock"
    path.write_text("precious")
    path.chmod(0o600)
    assert codes(examine(data, "--fix")) == ["socket_in_the_way"]
    assert path.read_text() == "precious"


@pytest.fixture
def running(data: Path) -> Iterator[Daemon]:
    daemon = ForkedDaemon(data).start()
    yield daemon
    daemon.stop()


def test_a_second_daemon_is_found(running: Daemon, examine: Examine, tmp_path: Path) -> None:
    assert examine(running.folder, "--socket", str(running.socket))["healthy"]
    assert examine(running.folder)["healthy"]  # it is recorded where it listens
    found = examine(running.folder, "--socket", str(running.socket.with_name("other")))
    assert codes(found) == ["daemon_elsewhere"]
    assert str(running.process.pid if running.process else None) in found["faults"][0]["message"]
    other = tmp_path / "other"
    found = examine(other, "--socket", str(running.socket))
    assert codes(found) == ["daemon_of_other_data"]


def test_a_killed_daemon_leaves_a_stale_socket(running: Daemon, examine: Examine) -> None:
    running.stop(signal.SIGKILL)
    there = ("--socket", str(running.socket))
    assert set(codes(examine(running.folder, *there))) <= {"socket_stale", "worker_orphan"}
    assert "socket_stale" in [f["code"] for f in examine(running.folder, *there, "--fix")["fixed"]]


def test_a_worker_without_its_daemon_is_found(data: Path, examine: Examine) -> None:
    handle = os.open(data / "lock", os.O_RDWR)
    assert places.try_lock(handle)
    assert codes(examine(data)) == ["worker_orphan"]
    os.close(handle)
    assert examine(data)["healthy"]


def test_a_damaged_database_is_found(data: Path, examine: Examine) -> None:
    path = data / "store" / "chroma.sqlite3"
    for log in path.parent.glob("*-wal"):
        log.unlink()  # it would hide the damage
    with path.open("r+b") as file:
        file.write(b"not a database")
    assert "store_corrupt" in codes(examine(data))


def test_a_damaged_index_is_found(data: Path, examine: Examine) -> None:
    (header,) = (data / "store").glob("*/header.bin")
    header.write_bytes(b"")
    assert codes(examine(data)) == ["index_corrupt"]
    header.unlink()
    (fault,) = examine(data)["faults"]
    assert (fault["code"], "Start the daemon" in fault["try"]) == ("index_corrupt", True)


def test_an_index_that_was_cut_short_is_found(data: Path, examine: Examine) -> None:
    (vectors,) = (data / "store").glob("*/data_level0.bin")
    whole = vectors.read_bytes()
    vectors.write_bytes(whole[:100])
    assert codes(examine(data)) == ["index_corrupt"]
    vectors.write_bytes(whole)
    assert examine(data)["healthy"]
    for notes in (data / "store").glob("*/index_metadata.pickle"):
        notes.write_bytes(notes.read_bytes()[:-10])
        assert codes(examine(data)) == ["index_corrupt"]


def test_an_index_that_is_missing_is_found(tmp_path: Path, examine: Examine) -> None:
    daemon = ForkedDaemon(tmp_path / "data", MEMORYD_STORE_SYNC_THRESHOLD="3").start()
    for n in range(9):
        daemon.tool("store_memory", content=f"the door number {n} is locked")
    assert daemon.stop() == 0
    assert examine(daemon.folder)["healthy"]
    for header in (daemon.folder / "store").glob("*/header.bin"):
        shutil.rmtree(header.parent)
    assert codes(examine(daemon.folder)) == ["index_corrupt"]


def test_a_store_that_was_set_aside_is_told() -> None:
    status: Any = {"store": {"set_aside": ["backups/store.broken-1"]}, "pid": 1, "data_dir": "/x"}
    (found,) = findings.check_store(Patient(Config(), Path("/x/s"), status))
    assert found.code == "store_set_aside"
    assert "rm -r" in found.hint


def test_a_store_of_a_newer_version_is_found(data: Path, examine: Examine) -> None:
    with sqlite3.connect(data / "store" / "chroma.sqlite3") as connection:
        connection.execute(
            "UPDATE collection_metadata SET int_value = 99 WHERE key = 'memoryd:schema'"
        )
    connection.close()
    assert codes(examine(data)) == ["store_newer"]


def test_a_store_that_the_daemon_complains_of_is_told() -> None:
    trouble = {"code": "store_unavailable", "message": "It is gone.", "hint": "Look."}
    status: Any = {"store": {"error": trouble}, "pid": 1, "data_dir": "/x"}
    config: Any = SimpleNamespace(memory=SimpleNamespace(path=Path("/x")))
    (found,) = findings.check_store(Patient(config, Path("/s"), status))
    assert (found.code, found.hint) == ("store_unavailable", "Look.")


def test_rejected_writes_and_a_full_queue_are_told() -> None:
    path = "/x/offline.rejected"
    shared = {"queued": 9, "queue_limit": 9, "rejected": 2, "rejected_file": path}
    status: Any = {"shared_store": shared}
    found = list(check_queue(Patient(Config(), Path("/s"), status)))
    assert [one.code for one in found] == ["offline_rejected", "offline_queue_full"]
    assert f"rm {path}" in found[0].hint
    quiet: Any = {"shared_store": {"queued": 0, "queue_limit": 9}}
    for ok in (None, {}, {"shared_store": None}, quiet):
        assert not list(check_queue(Patient(Config(), Path("/s"), ok)))


@pytest.mark.parametrize(("free", "code"), [(1_000_000, "disk_full"), (200_000_000, "disk_low")])
def test_a_full_disk_is_found(
    data: Path, examine: Examine, monkeypatch: pytest.MonkeyPatch, free: int, code: str
) -> None:
    usage = SimpleNamespace(total=10**12, used=10**12 - free, free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert codes(examine(data)) == [code]


def test_a_read_only_directory_is_found(
    data: Path, examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.getuid() == 0:  # whom no mode stops

        def refuse(**options: object) -> None:
            raise OSError(30, "Read-only file system")

        monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    else:
        data.chmod(0o500)
    assert "data_unwritable" in codes(examine(data))
    data.chmod(0o700)


def test_a_model_server_that_does_not_answer_is_found(
    data: Path, examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORYD_EMBEDDING_BACKEND", "http")
    with model_server() as server:
        monkeypatch.setenv("MEMORYD_EMBEDDING_URL", server.url)
        assert codes(examine(data)) == []
        server.stop()
        assert codes(examine(data)) == ["model_unavailable"]


def test_a_missing_model_is_found_and_set_up(
    data: Path, examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = []

    def prepare(config: Any) -> None:
        if config.embedding.download:
            there.append(True)
        if not there:
            raise ModelMissing("No source has it.")

    monkeypatch.setenv("MEMORYD_EMBEDDING_BACKEND", "onnx")
    monkeypatch.setattr("memoryd.wiring.engine.prepare_model", prepare)
    found = examine(data)
    assert codes(found) == ["model_missing"]
    assert found["faults"][0]["try"] == "memoryd setup"
    assert examine(data, "--fix")["healthy"]


def test_a_bad_configuration_is_found(
    data: Path, examine: Examine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("memory:\n  pth: x\n")
    monkeypatch.setattr("memoryd.wiring.engine.prepare_model", lambda config: None)
    found = examine(data, "--config", str(file))
    assert codes(found) == ["config_unknown_key"]
    assert "`memory.path`" in found["faults"][0]["message"]


@pytest.mark.parametrize("name", ["XDG_DATA_HOME", "XDG_CONFIG_HOME"])
def test_a_variable_that_clients_do_not_pass_on_is_told(
    data: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """MCP SDKs start servers without it: they would use other memories."""
    usual = {"XDG_DATA_HOME": ".local/share", "XDG_CONFIG_HOME": ".config"}
    for variable, place in usual.items():
        monkeypatch.setenv(variable, str(tmp_path / place))
    config = tmp_path / "XDG_CONFIG_HOME" / "memoryd" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("embedding: {backend: hash}")
    assert main(["doctor"]) == 0
    monkeypatch.setenv(name, str(tmp_path / name))
    capsys.readouterr()
    assert main(["doctor", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert codes(found) == ["variable_not_passed"]
    assert name in found["faults"][0]["message"]


def test_a_broken_client_entry_is_found(data: Path, examine: Examine, tmp_path: Path) -> None:
    file = tmp_path / ".claude.json"
    entry = {"command": "/nowhere/memoryd", "args": ["mcp"]}
    file.write_text(json.dumps({"mcpServers": {"memory": entry, "other": {"command": "x"}}}))
    found = examine(data)
    assert codes(found) == ["client_entry_broken"]
    assert "'memory'" in found["faults"][0]["message"]
    assert found["faults"][0]["try"] == "memoryd setup claude-code --force"
    file.write_text('{"memoryd": ')
    assert codes(examine(data)) == ["client_config_invalid"]
    file.write_text("{")  # broken, but no memoryd is in it
    assert examine(data)["healthy"]


def test_broken_hooks_of_a_client_are_found(data: Path, examine: Examine, tmp_path: Path) -> None:
    """An installation was moved or removed: hooks fail in silence, so nobody else would tell."""
    file = tmp_path / ".codex" / "hooks.json"
    file.parent.mkdir()
    command = f"{sys.executable} -I -S /nowhere/memoryd/hook/run.py stop --client codex"
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}
    file.write_text(json.dumps({"hooks": hooks}))
    found = examine(data)
    assert codes(found) == ["client_hooks_broken"]
    assert "/nowhere/memoryd/hook/run.py" in found["faults"][0]["message"]
    assert found["faults"][0]["try"] == "memoryd setup codex"
    file.write_text('{"hooks": {"Stop": memoryd')
    assert codes(examine(data)) == ["client_config_invalid"]


def test_a_repair_that_fails_is_no_repair(
    data: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.chmod(0o755)

    def refuse(self: Path, mode: int) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(Path, "chmod", refuse)
    assert main(["doctor", "--fix", "--data-dir", str(data)]) == 1
    said = capsys.readouterr()
    assert said.err == "Note: mode_loose could not be repaired: no\n"
    assert said.out.startswith("mode_loose: Other users can reach")


def test_the_language_model_is_named_and_its_trouble_told(
    data: Path, examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORYD_LLM_URL", "https://models.example/v1?private=1")
    monkeypatch.setenv("MEMORYD_LLM_MODEL", "qwen")
    found = examine(data)
    assert found["healthy"]
    assert found["notes"] == ["Language model: qwen at https://models.example."]
    monkeypatch.setenv("MEMORYD_LLM_KEY_ENV", "NO_SUCH_KEY")
    assert codes(examine(data)) == ["model_unavailable"]
    status: Any = {"llm_trouble": "The language model did not answer in time."}
    monkeypatch.setenv("NO_SUCH_KEY", "sk-private")
    config = Config(llm=LlmSettings(url="http://one", key_env="NO_SUCH_KEY"))
    patient = Patient(config, data / "s", status)
    (fault,) = findings.check_language(patient)
    assert (fault.code, fault.message) == ("llm_failed", status["llm_trouble"])
