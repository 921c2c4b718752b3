"""The client side of a hook: it fails open, starts quickly, and looks where the daemon is."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd import daemon_record, places
from memoryd.daemon_record import LISTENING, MANAGED, Record
from memoryd.hook import call
from memoryd.hook.command import hook_command
from tests.processes import environment

HEAVY = {"json", "re", "socket", "typing", "pathlib", "enum", "asyncio", "subprocess", "signal"}


class FakeDaemon:
    """Listens and answers each call with the same bytes; None: accepts and says nothing."""

    def __init__(self, folder: Path, answer: bytes | None) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)
        self.path = folder / "s"
        self.heard = b""
        self._answer = answer
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(self.path))
        self._socket.listen(8)
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def record(self, state: str = LISTENING) -> None:
        daemon_record.write(Record(os.getpid(), str(self.path), str(self.folder), state, "", "0"))

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # ends the accept of the thread too
        self._socket.close()
        for connection in self._open:
            connection.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._open.append(connection)
            self.heard += connection.recv(1 << 20)
            if self._answer is not None:
                with contextlib.suppress(OSError):  # the hook has left already
                    connection.sendall(self._answer)
                connection.close()


def answer(output: object) -> bytes:
    """What a daemon sends: the handshake's answer, a notification, and the call's."""
    result = {"content": [], "structuredContent": {"output": output}}
    lines = (
        {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-11-25"}},
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {}},
        {"jsonrpc": "2.0", "id": 2, "result": result},
    )
    return b"".join(json.dumps(one).encode() + b"\n" for one in lines)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Short, because paths of sockets are limited."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="memoryd-hook-") as made:
        yield Path(made) / "d"


def run(
    folder: Path, payload: bytes = b'{"session_id": "s"}', event: str = "prompt", **changes: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*hook_command(str(folder)), event, "--client", "claude-code"],
        input=payload,
        capture_output=True,
        env=environment(**{"MEMORYD_HOOK_BUDGETS": f"{event}=20"} | changes),
        timeout=60,
        check=False,
    )


def outcome(done: subprocess.CompletedProcess[bytes]) -> tuple[int, bytes, bytes]:
    return done.returncode, done.stdout, done.stderr


SILENT = (0, b"", b"")


def test_the_answer_of_the_daemon_is_printed(folder: Path) -> None:
    daemon = FakeDaemon(folder, answer('{"told": "gr\u00fc\u00df dich"}\n'))
    daemon.record()
    assert outcome(run(folder)) == (0, '{"told": "gr\u00fc\u00df dich"}\n'.encode(), b"")
    daemon.close()
    lines = [json.loads(line) for line in daemon.heard.splitlines()]
    assert [line["method"] for line in lines] == [
        "notifications/memoryd/expect",
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]
    given = lines[-1]["params"]["arguments"]
    assert given["event"] == "prompt"
    assert json.loads(given["payload"]) == {"session_id": "s"}


@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"",
        b"\n\n\n",
        b"not json\n",
        b"{\n",
        b"[]\n",
        b"\xff\xfe\n",
        b'{"id": 2}\n',
        b'{"id": 2, "result": null}\n',
        b'{"id": 2, "result": {"structuredContent": null}}\n',
        b'{"id": 2, "error": {"code": -1, "message": "no"}}\n',
        answer(17),
        answer(None),
        b"x" * 3_000_000,
        b"[" * 200_000 + b"\n",
    ],
)
def test_a_wrong_answer_is_no_output(folder: Path, bytes_sent: bytes) -> None:
    daemon = FakeDaemon(folder, bytes_sent)
    daemon.record()
    assert outcome(run(folder)) == SILENT
    daemon.close()


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x00\xff\xfe",
        b'{"a": "\xed\xa0\x80"}',
        b"{" * 1000,
        "\ud83d".encode(errors="replace"),
    ],
)
def test_any_input_is_handed_on(folder: Path, payload: bytes) -> None:
    """The daemon judges the input; the hook only passes it as a text."""
    daemon = FakeDaemon(folder, answer("ok"))
    daemon.record()
    assert outcome(run(folder, payload)) == (0, b"ok", b"")
    daemon.close()


def test_an_input_that_is_too_long_is_left_out(folder: Path) -> None:
    daemon = FakeDaemon(folder, answer("ok"))
    daemon.record()
    assert outcome(run(folder, b"x" * (call.MAX_INPUT + 1))) == SILENT
    assert daemon.heard == b""
    daemon.close()


def test_without_a_daemon_nothing_happens(folder: Path) -> None:
    assert outcome(run(folder)) == SILENT  # no directory
    assert not folder.exists()  # and none is made, so no daemon was started
    daemon = FakeDaemon(folder, answer("ok"))
    assert outcome(run(folder)) == SILENT  # no record
    daemon.record(MANAGED)  # the service manager would start one
    assert outcome(run(folder)) == SILENT
    daemon.record()
    daemon.close()
    assert outcome(run(folder)) == SILENT  # nobody listens any more
    daemon.path.unlink()
    assert outcome(run(folder)) == SILENT


@pytest.mark.parametrize("mode", [0o666, 0o620])
def test_a_record_that_others_can_write_is_not_trusted(folder: Path, mode: int) -> None:
    daemon = FakeDaemon(folder, answer("ok"))
    daemon.record()
    (folder / daemon_record.NAME).chmod(mode)
    assert outcome(run(folder)) == SILENT
    daemon.close()


def test_a_daemon_that_says_nothing_costs_the_budget_and_no_more(folder: Path) -> None:
    daemon = FakeDaemon(folder, None)
    daemon.record()
    started = time.monotonic()
    assert outcome(run(folder, MEMORYD_HOOK_BUDGETS="tool=9,prompt=0.2")) == SILENT
    assert time.monotonic() - started < 15  # without the budget it would wait for ever
    daemon.close()


def test_an_input_that_never_ends_costs_the_budget_and_no_more(folder: Path) -> None:
    command = [*hook_command(str(folder)), "prompt"]
    env = environment(MEMORYD_HOOK_BUDGETS="prompt=0.2")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as hook:
        assert hook.wait(60) == 0
        assert hook.stdout is not None
        assert hook.stdout.read() == b""


def test_a_reader_that_left_does_not_matter(folder: Path) -> None:
    daemon = FakeDaemon(folder, answer("ok"))
    daemon.record()
    read, write = os.pipe()
    os.close(read)
    command = [*hook_command(str(folder)), "prompt"]
    done = subprocess.run(
        command, input=b"{}", stdout=write, stderr=subprocess.PIPE, check=False, timeout=60,
        env=environment(MEMORYD_HOOK_BUDGETS="prompt=20"),
    )  # fmt: skip
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")
    daemon.close()


@pytest.mark.parametrize("off", ["off", "OFF", "0", "false"])
def test_the_switch_in_the_environment(folder: Path, off: str) -> None:
    daemon = FakeDaemon(folder, answer("ok"))
    daemon.record()
    assert outcome(run(folder, MEMORYD_HOOKS=off)) == SILENT
    assert daemon.heard == b""
    assert run(folder, MEMORYD_HOOKS="on").stdout == b"ok"
    daemon.close()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", 0.5),
        ("prompt=0.8", 0.8),
        ("tool=1, prompt=2", 2.0),
        ("prompt=soon", 0.5),
        ("=,,=", 0.5),
    ],
)
def test_budgets_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, value: str, expected: float
) -> None:
    monkeypatch.setenv(call.BUDGETS_VARIABLE, value)
    assert call.budget("prompt") == expected


def test_the_age_of_the_process_counts() -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("the system does not say how old a process is")
    code = (
        "import time; from memoryd.hook import call; t = time.monotonic(); a = call.process_age();"
        "time.sleep(0.3); b = call.process_age(); print(a, b - a, time.monotonic() - t)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    age, later, passed = map(float, done.stdout.split())
    assert 0 <= age < 60
    assert later == pytest.approx(passed, abs=0.05)


def test_a_hook_that_is_late_already_asks_nobody(folder: Path) -> None:
    daemon = FakeDaemon(folder, answer("ok"))
    daemon.record()
    assert call.main(["prompt", "--data-dir", str(folder)], age=10.0) == 0
    assert daemon.heard == b""
    daemon.close()


def test_the_command_imports_nothing_heavy(folder: Path) -> None:
    daemon = FakeDaemon(folder, answer("ok"))
    daemon.record()
    command = hook_command(str(folder))
    command.insert(1, "-Ximporttime")
    env = environment(MEMORYD_HOOK_BUDGETS="prompt=20")
    done = subprocess.run(
        [*command, "prompt"], input=b"{}", capture_output=True, check=True, env=env
    )
    daemon.close()
    assert done.stdout == b"ok"
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
    assert "memoryd.hook.call" in loaded
    assert not loaded & HEAVY
    assert {name for name in loaded if name.startswith("memoryd")} == {
        "memoryd",
        "memoryd.hook",
        "memoryd.hook.call",
    }


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"XDG_DATA_HOME": "/somewhere"},
        {"XDG_DATA_HOME": "relative"},
        {"XDG_CONFIG_HOME": "/elsewhere"},
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the slower way is taken")
def test_the_default_directory_is_that_of_the_daemon(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variables: dict[str, str]
) -> None:
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert call.default_folder({}) == str(places.data_dir())


def test_a_configuration_file_may_name_the_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    file = places.config_file()
    file.parent.mkdir(parents=True)
    file.write_text("memory:\n  path: /somewhere\n")
    assert call.default_folder({}) == ""
    daemon_record.note_config(file, folder)
    daemon = FakeDaemon(folder, None)
    daemon.record()
    assert call.find({}) == (str(folder), str(daemon.path))
    daemon.close()


def test_the_verb_of_the_command_is_the_hook(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    from memoryd.__main__ import main

    daemon = FakeDaemon(folder, answer("ok"))
    daemon.record()
    read, write = os.pipe()
    os.write(write, b"{}")
    os.close(write)
    monkeypatch.setattr(call, "STDIN", read)
    monkeypatch.setattr(call, "process_age", lambda: 0.0)
    monkeypatch.setenv("MEMORYD_HOOK_BUDGETS", "prompt=20")
    monkeypatch.setattr(sys, "argv", ["memoryd", "hook", "prompt", "--data-dir", str(folder)])
    assert main() == 0
    os.close(read)
    daemon.close()
    assert capfdbinary.readouterr().out == b"ok"


@pytest.mark.slow
def test_the_start_costs_at_most_one_and_a_half_bare_interpreters(folder: Path) -> None:
    """Nothing but the start: without a daemon there is nothing to ask. Interleaved, so that a busy
    machine slows down both."""
    bare = [sys.executable, "-c", "pass"]
    hook = [*hook_command(str(folder)), "prompt"]
    taken: dict[str, list[float]] = {"bare": [], "hook": []}
    for _ in range(21):
        for name, command in (("bare", bare), ("hook", hook)):
            started = time.monotonic()
            subprocess.run(command, input=b"{}", check=True, env=environment())
            taken[name].append(time.monotonic() - started)
    ratio = statistics.median(taken["hook"]) / statistics.median(taken["bare"])
    assert ratio <= 1.5
