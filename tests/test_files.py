"""Every file that memoryd writes or trusts: a link in its place is never followed, and what is
no file, such as a pipe, keeps nobody waiting."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memoryd import config, daemon_record, files, logs
from memoryd.adapters import backup_file
from memoryd.adapters.backup_file import BackupWriter
from memoryd.adapters.chroma import swap
from memoryd.adapters.chroma.disk_errors import probe_disk
from memoryd.adapters.chroma.inspect_files import inspect
from memoryd.adapters.chroma.lock import take_lock
from memoryd.adapters.clock_file import ClockFile
from memoryd.adapters.snapshot_file import LocalSnapshotFile
from memoryd.cli.main import main
from memoryd.cli.store import _copy
from memoryd.doors.tokens import BadToken, read_token
from memoryd.errors import ConfigError, InvalidInput, MemorydError, StoreError, UnsafeFiles
from memoryd.launch.target import may_set_path
from memoryd.owner import own
from memoryd.ports import Identity, Seen
from memoryd.service.manager import write as write_unit
from memoryd.settings import LogSettings
from tests.homes import MEMORYD, Home
from tests.processes import environment

PRECIOUS = "not to be written to"
PLENTY = 60.0  # seconds for a process that must not wait for a pipe
NAMES = (  # of the data directory, in the order in which they are met
    *("daemon.lock", "daemon.start", "daemon.json", "daemon.log", "daemon.log.1", "lock", "token"),
    *("clock.json", "clock.json.part", "index.snapshot", "index.new", "probe"),
    *("store", "store.made", "store.new", "store.old", "store.next", "store.trash"),
    *("store/chroma.sqlite3", "store/opening"),
    *("store/clean", "store/rewritten.json", "store/rewritten.json.part", "backups"),
    "backups/memoryd-000001-20260101-000000-000.jsonl.gz",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    made = tmp_path / "victim"
    made.write_text(PRECIOUS)
    return made


def put_link(place: Path, victim: Path) -> None:
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    place.symlink_to(victim)


def put_pipe(place: Path, victim: Path) -> None:
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.mkfifo(place, 0o600)


# The whole: a data directory that somebody prepared


@pytest.mark.parametrize("put", [put_link, put_pipe])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_file_in_a_data_directory_is_refused(
    folder: Path, victim: Path, name: str, put: Callable[[Path, Path], None]
) -> None:
    """Before the directory is used, with the name of the place."""
    put(folder / name, victim)
    with pytest.raises(UnsafeFiles) as caught, own(folder):
        pass
    assert caught.value.message.startswith(f"{folder / name} is a ")
    assert caught.value.code in ("store_symlink", "store_special")
    assert victim.read_text() == PRECIOUS
    assert not (folder / "daemon.lock").is_file() or name == "daemon.lock"


@pytest.mark.parametrize("put", [put_link, put_pipe])
@pytest.mark.parametrize("name", ["daemon.lock", "daemon.start", "daemon.log", "token"])
@pytest.mark.slow
def test_who_starts_a_daemon_there_is_told_so(
    folder: Path, victim: Path, name: str, put: Callable[[Path, Path], None]
) -> None:
    put(folder / name, victim)
    begun = [*MEMORYD, "start", "--data-dir", str(folder)]
    env = environment(MEMORYD_EMBEDDING_BACKEND="hash", HOME=str(folder.parent))
    said = subprocess.run(begun, env=env, capture_output=True, text=True, timeout=PLENTY)
    assert said.returncode == 1
    assert f"{folder / name} is " in said.stderr
    assert victim.read_text() == PRECIOUS


@pytest.mark.parametrize("name", ["daemon.start", "daemon.log", "daemon.json", "config"])
def test_a_pipe_does_not_keep_the_shim_waiting(home: Home, name: str) -> None:
    """Whatever of ours it is in the place of, the client gets an answer."""
    data = home.path / "data"
    data.mkdir(mode=0o700)
    if name == "config":
        home.config.unlink()
        os.mkfifo(home.config)
        answers = home.ask("sdk")
        assert f"{home.config} is not a file" in answers[0]["error"]["message"]
        return
    os.mkfifo(data / name)
    answers = home.ask("sdk", "--data-dir", str(data))
    assert f"{data / name} is" in answers[0]["error"]["message"]


@pytest.mark.parametrize("put", [put_link, put_pipe])
@pytest.mark.slow
def test_a_log_that_is_no_file_is_refused_also_elsewhere(
    folder: Path, victim: Path, put: Callable[[Path, Path], None]
) -> None:
    place = folder.parent / "logs" / "memoryd.log"
    put(place, victim)
    flags = ["--data-dir", str(folder), "--log-file", str(place)]
    done = subprocess.run(
        [*MEMORYD, "serve", *flags],
        env=environment(MEMORYD_EMBEDDING_BACKEND="hash"),
        capture_output=True,
        text=True,
        timeout=PLENTY,
    )
    assert done.returncode == 1
    assert f"Error: The log {place} cannot be written: {place} is" in done.stderr
    assert "Traceback" not in done.stderr
    assert victim.read_text() == PRECIOUS


# The parts: each file, where nothing looked at the directory before


def save_snapshot(snapshot_file: LocalSnapshotFile) -> None:
    keys = np.array([1], dtype=np.uint64)
    snapshot_file.save({"what": "test"}, [("key", keys), ("text", [b"1\ntext"])])


def write_snapshot(folder: Path) -> None:
    save_snapshot(LocalSnapshotFile(folder / "index.snapshot"))


def write_vectors(folder: Path) -> None:
    LocalSnapshotFile(folder / "index.snapshot").vectors(4)


def write_log(folder: Path) -> None:
    logs.RotatingLog(folder / "daemon.log").close()


def rotate_log(folder: Path) -> None:
    log = logs.RotatingLog(folder / "rotated.log", maxBytes=1, backupCount=2)
    try:
        log.doRollover()
        log.doRollover()
    finally:
        log.close()


def write_backup(folder: Path) -> None:
    BackupWriter(folder, Identity("m", 3), "v", 0.0).finish()


def write_record(folder: Path) -> None:
    made = daemon_record.Record(1, "/s", str(folder), daemon_record.LISTENING, "", "0")
    daemon_record.write(made)


def copy_backup(folder: Path) -> None:
    source = folder / "source"
    source.write_text("backup")
    _copy(source, folder / "copies")


BACKUP = time.strftime("memoryd-000001-%Y%m%d-%H%M%S-000.jsonl.gz", time.localtime(0))
REFUSED, REPLACED = True, False
WRITERS: dict[str, tuple[Callable[[Path], Any], bool]] = {
    "daemon.log": (write_log, REFUSED),
    "rotated.log": (rotate_log, REFUSED),
    "rotated.log.1": (rotate_log, REPLACED),
    "rotated.log.2": (rotate_log, REPLACED),
    "daemon.json": (write_record, REPLACED),
    ".daemon.json.PID": (write_record, REPLACED),
    "clock.json": (lambda folder: ClockFile(folder).save(Seen(1, 1, 1)), REPLACED),
    "clock.json.part": (lambda folder: ClockFile(folder).save(Seen(1, 1, 1)), REPLACED),
    "token": (lambda folder: read_token(folder / "token"), REFUSED),
    "index.snapshot": (write_snapshot, REPLACED),
    "index.new": (write_snapshot, REPLACED),
    "index.vectors": (write_vectors, REPLACED),
    f"{BACKUP}.part": (write_backup, REPLACED),
    "copies/source": (copy_backup, REPLACED),
    "copies/source.part": (copy_backup, REPLACED),
    "lock": (lambda folder: take_lock(folder, 1, 0.0), REFUSED),
    "rewritten.json": (lambda folder: swap.write_mark(folder, "test"), REPLACED),
    "rewritten.json.part": (lambda folder: swap.write_mark(folder, "test"), REPLACED),
    "store.made": (swap.note_made, REFUSED),
    "store.new": (swap.begin, REPLACED),
    "clean": (lambda folder: files.touch(folder / "clean"), REFUSED),
    "probe": (probe_disk, REPLACED),
    "memoryd.service": (lambda folder: write_unit(folder / "memoryd.service", "x"), REPLACED),
    "memoryd.service.part": (lambda folder: write_unit(folder / "memoryd.service", "x"), REPLACED),
}


@pytest.mark.parametrize("kind", ["link", "dangling", "pipe"])
@pytest.mark.parametrize("name", WRITERS)
def test_what_is_written_goes_to_no_other_file(
    folder: Path, victim: Path, name: str, kind: str
) -> None:
    """A link or a pipe is refused or replaced by a file, and what a link leads to stays."""
    write, is_refused = WRITERS[name]
    name = name.replace("PID", str(os.getpid()))
    if kind == "dangling":
        victim.unlink()
    put = put_pipe if kind == "pipe" else put_link
    put(folder / name, victim)
    if is_refused:
        with pytest.raises((OSError, MemorydError)) as caught:
            write(folder)
        said = getattr(caught.value, "message", str(caught.value))
        assert f"{folder / name} is " in said
    else:
        write(folder)
        assert not (folder / name).is_symlink()
        assert not (folder / name).is_fifo()
    assert victim.exists() is (kind != "dangling")
    if kind != "dangling":
        assert victim.read_text() == PRECIOUS


READERS: dict[str, tuple[Callable[[Path], Any], Any]] = {
    "daemon.json": (daemon_record.read, None),
    "daemon.lock": (daemon_record.lock_holder, None),
    "lock": (daemon_record.worker_holder, None),
    "clock.json": (lambda folder: ClockFile(folder).load(), None),
    "index.snapshot": (lambda folder: LocalSnapshotFile(folder / "index.snapshot").load(), None),
    "rewritten.json": (swap.read_mark, {}),
    "config.yaml": (lambda folder: may_set_path(folder / "config.yaml"), True),
    BACKUP: (backup_file.newest_in, None),
}


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_not_read(folder: Path, name: str) -> None:
    """It would never end: nobody may wait for it."""
    read, nothing = READERS[name]
    os.mkfifo(folder / name, 0o600)
    assert read(folder) == nothing


@pytest.mark.parametrize("name", ["daemon.json", "daemon.lock", "lock", "clock.json"])
def test_a_link_is_not_trusted(folder: Path, victim: Path, name: str) -> None:
    seen = {"believed": 1, "latest": 1, "steady": 1, "worker": 1}
    told = daemon_record.Record(os.getpid(), "/s", str(folder), daemon_record.LISTENING, "", "0")
    victim.write_text(json.dumps(seen | told._asdict()))
    (folder / name).symlink_to(victim)
    read, nothing = READERS[name]
    assert read(folder) == nothing


def test_a_pipe_that_was_named_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a configuration, a backup or an export."""
    pipe = folder / "pipe"
    os.mkfifo(pipe, 0o600)
    with pytest.raises(ConfigError, match="pipe is not a file"):
        config.load(file=pipe)
    with pytest.raises(InvalidInput, match="pipe is not a file"):
        backup_file.verify(pipe)
    assert main(["import", str(pipe)]) == 1
    assert f"{pipe} is not a file" in capsys.readouterr().err


def test_a_configuration_may_be_a_link_and_nothing(folder: Path) -> None:
    """Many keep theirs in a repository; /dev/null is how to have none."""
    (folder / "real.yaml").write_text("backup:\n  keep: 3\n")
    (folder / "link.yaml").symlink_to(folder / "real.yaml")
    assert config.load(file=folder / "link.yaml").backup.keep == 3
    assert config.load(file=Path(os.devnull)) == config.load()


def test_a_linked_token_is_refused_wherever_it_is(folder: Path) -> None:
    """Also one that is safe by itself, and with what to do."""
    read_token(folder / "real")
    (folder / "token").symlink_to(folder / "real")
    with pytest.raises(BadToken) as caught:
        read_token(folder / "token")
    assert f"{folder / 'token'} is a link" in caught.value.message
    assert "doors.token_file" in caught.value.hint


@pytest.mark.slow
def test_an_export_replaces_a_link_and_refuses_a_pipe(
    home: Home, tmp_path: Path, victim: Path
) -> None:
    """And an unfinished one that is a link; without --overwrite nothing is replaced."""
    home.run("sdk", "store", "The dock is in the kitchen.")
    target, pipe = tmp_path / "export.jsonl", tmp_path / "pipe"
    (tmp_path / "export.jsonl.part").symlink_to(victim)
    target.symlink_to(victim)
    os.mkfifo(pipe)
    assert "already exists" in home.run("sdk", "export", str(target), fails=1).stderr
    home.run("sdk", "export", str(target), "--overwrite")
    assert not target.is_symlink()
    assert victim.read_text() == PRECIOUS
    refused = home.run("sdk", "export", str(pipe), "--overwrite", fails=1).stderr
    assert f"{pipe} is not a file" in refused
    assert pipe.is_fifo()


def test_the_logs_verb_does_not_wait_for_a_pipe(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(folder / "daemon.log", 0o600)
    assert main(["logs", "--data-dir", str(folder)]) == 1
    assert f"{folder / 'daemon.log'} is not a file" in capsys.readouterr().err


def test_the_doctor_names_a_pipe_and_makes_no_lock_through_a_link(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "store").mkdir(mode=0o700)
    (folder / "store" / "chroma.sqlite3").write_text("")
    (folder / "lock").symlink_to(folder.parent / "victim")
    os.mkfifo(folder / "daemon.log", 0o600)
    assert inspect(folder, folder / "backups") == []
    assert not (folder.parent / "victim").exists()
    main(["doctor", "--json", "--data-dir", str(folder)])
    found = {fault["code"]: fault for fault in json.loads(capsys.readouterr().out)["faults"]}
    assert {"store_symlink", "store_special"} <= set(found)
    assert found["store_special"]["try"].startswith("rm ")


def test_a_log_that_turns_into_a_link_while_it_is_used_is_not_written_through(
    folder: Path, victim: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a rotation the log is opened anew; the daemon goes on, and stderr says why."""
    log = logs.RotatingLog(folder / "daemon.log", maxBytes=1, backupCount=1)

    def rotate(source: str, target: str) -> None:
        os.rename(source, target)
        Path(source).symlink_to(victim)

    log.rotator = rotate
    log.handle(logging.makeLogRecord({"msg": "first"}))
    log.handle(logging.makeLogRecord({"msg": "second"}))
    log.close()
    assert victim.read_text() == PRECIOUS
    assert "is a link, not a file" in capsys.readouterr().err


def test_an_unusable_log_is_an_error_of_ours(folder: Path) -> None:
    (folder / "daemon.log").mkdir()
    with pytest.raises(UnsafeFiles) as caught:
        logs.log_to_file(folder / "daemon.log", LogSettings())
    assert caught.value.code == "log_unwritable"


def test_the_lock_says_what_lies_in_its_place(folder: Path) -> None:
    (folder / "lock").symlink_to(folder / "nowhere")
    with pytest.raises(StoreError, match="lock is a link, not a file"):
        take_lock(folder, 1, 0.0)
