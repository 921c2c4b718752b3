"""Where a daemon is looked for, how long, and what is believed on the way."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from memoryd import daemon_record, places
from memoryd.client import Client, WrongDaemon, connection
from memoryd.daemon_record import LISTENING, MANAGED, Record
from memoryd.errors import DaemonUnavailable, DaemonUnreachable, StoreBusy
from memoryd.launch import start as launch
from memoryd.launch.start import Finder
from memoryd.launch.target import Target, may_set_path
from memoryd.owner import own
from tests.daemons import ForkedDaemon

NOBODY = 65_534


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, without any of the variables that move things."""
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(places, "SESSIONS", tmp_path / "sessions")
    return tmp_path


@pytest.fixture
def data(home: Path) -> Path:
    return home / "data"


@contextlib.contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen()
        yield door


def known(data: Path, place: Path, state: str = LISTENING, pid: int = 1) -> Record:
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = Record(pid, str(place), str(data), state, "", "1")
    daemon_record.write(made)
    return made


def finder(data: Path, serve: list[str] | None = None, start: bool = True) -> Finder:
    made = Finder(Target({"--data-dir": str(data)}), serve or ["false"], start=start)
    made.begin(0.0)
    return made


# Where


def test_flags_come_before_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORYD_SOCKET", "/env.sock")
    assert list(Target({}).sockets()) == [Path("/env.sock")]
    assert list(Target({"--data-dir": "/flag"}).sockets()) == [Path("/flag/memoryd.sock")]
    assert list(Target({"--data-dir": "/flag", "--socket": "/s"}).sockets()) == [Path("/s")]
    monkeypatch.setenv("MEMORYD_DATA_DIR", "/short")
    assert Target({}).data_dir == Path("/short")
    monkeypatch.setenv("MEMORYD_MEMORY_PATH", "/full")
    assert Target({}).data_dir == Path("/full")
    assert Target({"--data-dir": "/flag"}).data_dir == Path("/flag")


def test_logs_are_kept_apart(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Daemons that can live side by side never write to one file."""
    flags: list[dict[str, str]] = [{}, {"--data-dir": "/d"}, {"--socket": "/s.sock"}]
    flags += [{"--config": "/a.yaml"}, {"--config": "/b.yaml"}]
    assert len({Target(given).log for given in flags}) == len(flags)
    assert Target({"--socket": "/a/s.sock"}).log == Path("/a/s.log")


@pytest.fixture
def session(home: Path) -> Path:
    """The runtime directory of a login session."""
    folder = home / "sessions" / str(os.getuid())
    folder.mkdir(parents=True)
    return folder


def at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = SimpleNamespace(pw_dir=str(home))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: entry)


def test_the_session_is_looked_at_without_its_variable(
    home: Path, session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home(home, monkeypatch)
    shared, own_place = session / "memoryd/memoryd.sock", home / ".local/share/memoryd/memoryd.sock"
    assert list(Target({}).sockets()) == [shared, own_place]
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "run"))
    assert list(Target({}).sockets()) == [home / "run/memoryd/memoryd.sock", shared, own_place]
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(session))
    assert list(Target({}).sockets()) == [shared, own_place]
    assert shared not in Target({"--data-dir": str(home / "other")}).sockets()


@pytest.mark.parametrize("moved", ["HOME", "XDG_DATA_HOME"])
@pytest.mark.parametrize("told", [True, False], ids=["with its variable", "without"])
def test_a_moved_data_directory_never_uses_the_daemon_of_the_session(
    home: Path, session: Path, monkeypatch: pytest.MonkeyPatch, moved: str, told: bool
) -> None:
    at_home(home, monkeypatch)
    monkeypatch.setenv(moved, str(home / "sandbox"))
    if told:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(session))
    assert len(list(Target({}).sockets())) == 1
    assert not any(path.is_relative_to(session) for path in Target({}).sockets())


def test_the_session_of_another_user_is_not_ours(
    home: Path, session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home(home, monkeypatch)
    monkeypatch.setattr(os, "getuid", lambda: int(session.name))
    real = Path.stat

    def foreign(path: Path, **options: bool) -> os.stat_result:
        found = list(real(path, **options))
        if path == session:
            found[stat.ST_UID] = NOBODY
        return os.stat_result(found)

    monkeypatch.setattr(Path, "stat", foreign)
    assert not any(path.is_relative_to(session) for path in Target({}).sockets())


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("", False),
        ("embedding:\n  backend: hash\n", False),
        ("memory:\n  # path: /elsewhere\n  timezone: UTC\n", False),
        ("memory:\n  path: /elsewhere\n", True),
        ("{memory: {path: /elsewhere}}", True),
        ('memory: {"p\\u0061th": /elsewhere}', True),
        ("embedding: {models_dir: /paths}", True),  # cautious
    ],
)
def test_a_configuration_that_cannot_move_the_memories_is_recognised(
    home: Path, text: str, may: bool
) -> None:
    file = home / "c.yaml"
    file.write_text(text)
    assert may_set_path(file) is may
    expected = None if may else places.data_dir()
    assert Target({"--config": str(file)}).data_dir == expected


def test_what_a_configuration_names_is_noted_until_it_changes(home: Path) -> None:
    file = home / "c.yaml"
    file.write_text("memory: {path: /first}")
    daemon_record.note_config(file, Path("/first"))
    assert Target({"--config": str(file)}).data_dir == Path("/first")
    file.write_text("memory: {path: /second}")
    assert Target({"--config": str(file)}).data_dir is None


# What is believed


def test_a_record_is_followed_first(data: Path) -> None:
    known(data, data.parent / "elsewhere")
    with listening(data.parent / "elsewhere") as door, listening(data / "memoryd.sock"):
        link = finder(data).attempt(0.0)
        assert link is not None
        link.close()
        door.accept()[0].close()


def test_a_record_that_others_could_have_written_is_not(data: Path) -> None:
    known(data, data.parent / "evil")
    file = data / daemon_record.NAME
    assert daemon_record.read(data) is not None
    for mode in (0o620, 0o602):
        file.chmod(mode)
        assert daemon_record.read(data) is None
    file.chmod(0o600)
    file.rename(data / "real")
    file.symlink_to(data / "real")
    assert daemon_record.read(data) is None
    file.unlink()
    os.mkfifo(file)
    assert daemon_record.read(data) is None  # and it does not wait for a writer


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_record_of_another_user_is_not_followed(data: Path) -> None:
    known(data, data.parent / "evil")
    os.chown(data / daemon_record.NAME, NOBODY, NOBODY)
    assert daemon_record.read(data) is None


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "null", "[" * 9000, '{"pid": "1"}', '{"socket": 5}', "\udcff"],
)
def test_nonsense_in_a_record_is_no_record(data: Path, text: str) -> None:
    data.mkdir(mode=0o700)
    (data / daemon_record.NAME).write_bytes(text.encode(errors="surrogateescape"))
    (data / daemon_record.NAME).chmod(0o600)
    assert daemon_record.read(data) is None


def test_a_relative_socket_is_no_record(data: Path) -> None:
    known(data, Path("relative.sock"))
    assert daemon_record.read(data) is None


def test_a_record_is_private(data: Path) -> None:
    before = os.umask(0)
    try:
        known(data, data / "s")
    finally:
        os.umask(before)
    assert (data / daemon_record.NAME).stat().st_mode & 0o777 == 0o600


def test_a_stale_record_is_passed_over(data: Path) -> None:
    known(data, data.parent / "gone")
    with listening(data / "memoryd.sock"):
        link = finder(data).attempt(0.0)
        assert link is not None
        link.close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_socket_of_another_user_is_not_talked_to() -> None:
    """Even where it was named: he would read what is stored."""
    place = Path(tempfile.mkdtemp(prefix="memoryd-test-")) / "s"
    place.parent.chmod(0o777)
    ready, told = os.pipe()
    if (child := os.fork()) == 0:
        os.setuid(NOBODY)
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(str(place))
            door.listen()
            os.write(told, b"x")
            time.sleep(60)
        os._exit(0)
    try:
        os.read(ready, 1)
        looking = Finder(Target({"--socket": str(place)}), ["false"])
        looking.begin(0.0)
        with pytest.raises(DaemonUnavailable, match="belongs to another user"):
            looking.attempt(0.0)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_a_socket_of_the_service_manager_is_connected_to(data: Path) -> None:
    """Before the first activation there is no daemon; its socket is recorded all the same."""
    known(data, data.parent / "managed", MANAGED, pid=0)
    with listening(data.parent / "managed"):
        link = finder(data, start=False).attempt(0.0)
        assert link is not None
        link.close()


# How long. The clock is an argument, so nothing here waits.


@pytest.mark.parametrize(
    ("state", "patience", "words"),
    [
        ("", launch.STOP_TIMEOUT, "does not listen for clients"),
        ("starting", launch.LISTEN_TIMEOUT, "has been starting"),
        ("listening", launch.SOCKET_TIMEOUT, "nothing answers at its socket"),
    ],
)
def test_an_owner_that_does_not_listen_is_named_after_the_timeout(
    data: Path, state: str, patience: float, words: str
) -> None:
    with own(data) as owner:
        if state:
            owner.starting(None)
        if state == "listening":
            owner.listening(str(data / "elsewhere"), managed=False)
        looking, now = finder(data), 0.0
        while now < patience - 0.2:
            assert looking.attempt(now) is None
            now = looking.next_try
        with pytest.raises(DaemonUnreachable) as caught:
            looking.attempt(patience + 0.01)
    assert words in caught.value.message
    assert f"Process {os.getpid()}" in caught.value.message
    assert caught.value.hint == f"If it should not run, end it: kill {os.getpid()}"
    assert not (data / "daemon.start").exists()  # nothing was started


def test_an_owner_at_another_socket_than_the_named_one_is_refused(data: Path) -> None:
    with own(data) as owner:
        owner.listening(str(data / "there"), managed=False)
        given = {"--data-dir": str(data), "--socket": str(data / "here")}
        looking = Finder(Target(given), ["false"])
        looking.begin(0.0)
        assert looking.attempt(0.0) is None
        with pytest.raises(DaemonUnreachable, match=f"at {data / 'there'}, not at {data / 'here'}"):
            looking.attempt(launch.SOCKET_TIMEOUT + 0.01)


def test_a_daemon_that_comes_up_is_waited_for(data: Path) -> None:
    looking = finder(data, start=False)
    with own(data) as owner:
        owner.starting(None)
        assert looking.attempt(0.0) is None
        assert looking.attempt(launch.LISTEN_TIMEOUT - 1) is None
        with listening(data / "elsewhere"):
            owner.listening(str(data / "elsewhere"), managed=False)
            link = looking.attempt(launch.LISTEN_TIMEOUT - 0.5)
            assert link is not None
            link.close()


def test_without_a_daemon_and_without_leave_to_start_one_it_says_so(data: Path) -> None:
    with pytest.raises(DaemonUnavailable, match="No memoryd answers at"):
        finder(data, start=False).attempt(0.0)
    assert not data.exists()


def test_a_daemon_that_is_refused_again_and_again_is_started_a_few_times(data: Path) -> None:
    """No loop: then its own reason is told."""
    count = data.parent / "count"
    words = "Error: Another memoryd (process 7) already serves it."
    serve = ["sh", "-c", f"echo x >> {count}; echo '{words}'; exit 3", "--"]
    looking = finder(data, serve)
    with pytest.raises(DaemonUnavailable, match=r"process 7\) already serves it") as caught:
        attempts(looking)
    assert count.read_text().count("x") == launch.MAX_STARTS
    assert looking.next_try < 5
    assert caught.value.code == "daemon_unavailable"


def attempts(looking: Finder) -> None:
    """Until one raises; each daemon has ended before it is looked at."""
    while looking.attempt(looking.next_try) is None:
        if looking._child:
            looking._child.wait()


def test_testing_a_lock_does_not_take_it(data: Path) -> None:
    """The moment in which a lock is looked at costs a daemon that starts nothing."""
    with own(data):
        assert daemon_record.lock_holder(data) == os.getpid()
        with pytest.raises(StoreBusy), own(data):
            pass
    assert daemon_record.lock_holder(data) is None
    # A process that is no more is not looked at.
    (data / daemon_record.LOCK).write_text("999999999")
    handle = os.open(data / daemon_record.LOCK, os.O_RDWR)
    try:
        assert places.try_lock(handle)
        assert daemon_record.lock_holder(data) is None
    finally:
        os.close(handle)


# The library


async def test_a_client_refuses_the_daemon_of_other_memories(tmp_path: Path) -> None:
    daemon = ForkedDaemon(tmp_path / "served").start()
    try:
        async with Client(daemon.socket, data_dir=daemon.folder) as memory:
            assert (await memory.status())["data_dir"] == str(daemon.folder)
        other = tmp_path / "b"
        for wrong in (Client(daemon.socket, data_dir=other), Client(daemon.socket, serves=other)):
            with pytest.raises(WrongDaemon) as caught:
                async with wrong:
                    pass
            assert caught.value.code == "daemon_of_other_data"
            assert f"serves {daemon.folder}, not {other}" in caught.value.message
            assert caught.value.hint
    finally:
        daemon.stop()


async def test_a_daemon_that_hangs_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts, but does not answer."""
    monkeypatch.setattr(connection, "LISTENER_HANDSHAKE_TIMEOUT", 0.1)
    known(data, data / "s", pid=4242)
    with listening(data / "s"), pytest.raises(DaemonUnreachable, match="Process 4242") as caught:
        async with Client(data_dir=data, start=True):
            pass
    assert str(data / "s") in caught.value.message
    assert caught.value.hint == "If it hangs, end it: kill -KILL 4242"


def test_a_client_is_as_light_as_before() -> None:
    """What finds the daemon imports nothing that costs time."""
    code = "import sys, memoryd.launch.start; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    costly = {"subprocess", "dataclasses", "asyncio", "hashlib", "tempfile", "yaml", "logging"}
    assert costly.isdisjoint(found.stdout.split())
