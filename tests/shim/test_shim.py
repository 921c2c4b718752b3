"""The stdio shim, as a client meets it: real processes, a daemon that does as it is told."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from memoryd.errors import InvalidInput
from memoryd.shim import lines as shim_lines
from memoryd.shim.entry import parse_flags
from memoryd.shim.lines import Conversation, LineSplitter
from tests import processes

NOBODY = ["false"]  # starts no daemon
BOUND = 60  # seconds: whatever takes longer hangs
FAKE = str(Path(__file__).with_name("fake_daemon.py"))
INITIALIZE = {
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "tëst", "version": "1"},
    },
}
# What `memoryd mcp` runs, with another command to start a daemon and a way to look inside.
INSIDE = (
    "import json, sys\nfrom memoryd.shim.entry import main\n"
    "code = main(['mcp'], json.loads(sys.argv[1]))\n"
    "open(sys.argv[2], 'w').write(json.dumps(sorted(sys.modules)))\nsys.exit(code)"
)

DRAIN_TIMEOUT = "from memoryd.shim import relay\nrelay.DRAIN_TIMEOUT = {}\n"


class Client:
    """A process that speaks MCP on its stdin and stdout, and patience with a limit."""

    def __init__(
        self, folder: Path, *words: str, serve: list[str] | None = None, before: str = ""
    ) -> None:
        """`before`: what the process runs first."""
        start = ["-m", "memoryd", "mcp", *words]
        if serve is not None:
            start = ["-c", before + INSIDE, json.dumps(serve), str(folder / "modules.json")]
        stderr = (folder / "stderr").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, *start],
            env=processes.environment(
                MEMORYD_SOCKET=str(folder / "s"),
                MEMORYD_DATA_DIR=str(folder / "data"),
                MEMORYD_EMBEDDING_BACKEND="hash",
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            bufsize=0,
        )
        stderr.close()
        assert self.process.stdin
        assert self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self._rest = b""
        self._ids = 0

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self.stdin.write(view) :]

    def send(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Ask; the id to expect."""
        self._ids += 1
        message = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params or {}}
        self.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")
        return self._ids

    def line(self, seconds: float = BOUND) -> bytes:
        """The next whole line."""
        parts, end = [self._rest], time.monotonic() + seconds
        while b"\n" not in parts[-1]:
            left = max(0.0, end - time.monotonic())
            assert select.select([self.stdout], [], [], left)[0], "no answer in time"
            data = os.read(self.stdout.fileno(), 2**20)
            assert data, "the shim ended"
            parts.append(data)
        line, newline, self._rest = b"".join(parts).partition(b"\n")
        return line + newline

    def answer(self, key: int, seconds: float = BOUND) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.line(seconds))
        assert message["id"] == key
        return message

    def call(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = self.answer(self.send(method, params))["result"]
        return result

    def greet(self) -> None:
        self.call(INITIALIZE["method"], INITIALIZE["params"])  # type: ignore[arg-type]
        self.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')

    def leave(self) -> int:
        """Close stdin; the exit code. Nothing else may have been written to stdout."""
        self.stdin.close()
        code = self.process.wait(BOUND)
        assert self._rest + self.stdout.read() == b""
        self.stdout.close()
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.stdin, self.stdout):
            pipe.close()

    def resident(self) -> int:
        """Resident memory in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(status.split("VmRSS:")[1].split()[0])


class Daemon:
    """The fake daemon, started by the test."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, FAKE, "--socket", str(folder / "s")], stdout=subprocess.PIPE
        )
        assert self.process.stdout
        assert self.process.stdout.readline() == b"ready\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.kill()
        assert self.process.stdout
        self.process.stdout.close()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with closing(Daemon(tmp_path)) as running:
        yield running


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Callable[..., Client]]:
    """Makes clients, and ends them and the daemons that they started."""
    clients: list[Client] = []

    def start(*words: str, serve: list[str] | None = None, before: str = "") -> Client:
        clients.append(Client(tmp_path, *words, serve=serve, before=before))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[list[str]]:
    """The command with which a shim starts the fake daemon, which is ended after the test."""
    yield [sys.executable, FAKE, "--socket", str(tmp_path / "s")]
    if (pid := daemon_pid(tmp_path)) is not None:
        os.kill(pid, signal.SIGKILL)


def daemon_pid(folder: Path) -> int | None:
    """Asks whoever listens for its pid."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(BOUND)
        try:
            link.connect(str(folder / "s"))
        except OSError:
            return None
        link.sendall(b'{"id": 1, "method": "who"}\n')
        pid: int = json.loads(link.makefile().readline())["result"]["pid"]
        return pid


Connect = Callable[..., Client]


def test_only_the_standard_library_is_imported(
    tmp_path: Path, connect: Connect, fake: list[str]
) -> None:
    """Even where it had to start the daemon, the shim has imported nothing of weight."""
    client = connect(serve=fake)
    client.greet()
    assert client.leave() == 0
    modules = json.loads((tmp_path / "modules.json").read_text())
    ours = {name for name in modules if name.startswith("memoryd.")}
    light = "errors files places daemon_record launch launch.start launch.target toolsets"
    light += " labels launch.upgrade normalise project_folder"
    light += " shim shim.entry shim.lines shim.relay"
    assert ours <= {f"memoryd.{name}" for name in light.split()}
    foreign = {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names)
    assert {name for name in foreign if not name.startswith(("__editable__", "_distutils"))} == {
        "__main__",
        "memoryd",
    } - set(sys.stdlib_module_names)
    assert "dataclasses" not in modules


def test_bytes_pass_unchanged_both_ways(daemon: Daemon, connect: Connect) -> None:
    client = connect()
    odd = '{"id":  1 ,"method":"heard", "x": "\\u00e9 é \\ud83d\\ude00 😀 \\\\ \\" \\u2028"}\r\n'
    client.write(odd.encode())
    answer = client.line()
    assert json.loads(answer)["result"]["lines"] == [odd]
    assert answer.count(b"\n") == 1
    assert client.leave() == 0


@pytest.mark.parametrize("size", [5_000_000, 20_000_000])
def test_long_messages_pass_both_ways(daemon: Daemon, connect: Connect, size: int) -> None:
    """Below the limit of a line and far above it, in the same order as the others."""
    client = connect()
    assert client.call("hear", {"text": "é" * (size // 2)}) == {"length": size // 2}
    assert client.call("say", {"text": "xyz é", "times": size // 6}) == {
        "text": "xyz é" * (size // 6)
    }
    assert client.call("hear", {"text": "short"}) == {"length": 5}
    assert client.leave() == 0


def test_small_and_idle(daemon: Daemon, connect: Connect) -> None:
    """20 MB for one more client, also after it has passed 5 MB at a time; idle, it is not woken."""
    client = connect()
    client.greet()
    assert client.call("say", {"text": "x" * 100_000, "times": 50})
    for _ in range(200):
        client.call("hear", {"text": "hello"})
    assert client.resident() < 20 * 2**20
    until_still(lambda: switches(client))


def switches(client: Client) -> str:
    """How often a process was woken."""
    status = Path(f"/proc/{client.process.pid}/status").read_text()
    return status.split("\nvoluntary_ctxt_switches:")[1].split()[0]


def test_a_client_that_does_not_read_costs_no_memory(daemon: Daemon, connect: Connect) -> None:
    """100 MB wait in the daemon, not in the shim; nothing of them is lost or reordered."""
    client = connect()
    key = client.send("flood", {"count": 1000})
    assert select.select([client.stdout], [], [], BOUND)[0]
    most = 0
    until_still(lambda: total_io(client))
    most = client.resident()
    for number in range(1000):
        assert json.loads(client.line())["params"]["n"] == number
        most = max(most, client.resident()) if number % 100 == 0 else most
    assert client.answer(key)["result"] == {}
    assert most < 40 * 2**20


def test_a_daemon_that_does_not_read_stops_the_client(tmp_path: Path, connect: Connect) -> None:
    """The client's bytes are not piled up: its own writes block."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "s"))
        door.listen()
        client = connect(serve=NOBODY)
        with door.accept()[0]:
            os.set_blocking(client.stdin.fileno(), False)
            line = b'{"method": "x", "params": "' + b"x" * 50_000 + b'"}\n'
            written, quiet = 0, 0
            while quiet < 3 and written < 200_000_000:
                if select.select([], [client.stdin], [], 0.3)[1]:
                    written += client.stdin.write(line) or 0
                    quiet = 0
                else:
                    quiet += 1
            assert quiet == 3
            assert written < 4 * 2**20
            assert client.resident() < 25 * 2**20


def total_io(client: Client) -> str:
    """What a process has read and written so far."""
    return Path(f"/proc/{client.process.pid}/io").read_text()


def until_still(look: Callable[[], str], seconds: float = BOUND) -> None:
    """Until two looks, a little apart, see the same."""
    end, last = time.monotonic() + seconds, ""
    while (seen := look()) != last:
        assert time.monotonic() < end
        last = seen
        select.select([], [], [], 0.3)


def test_a_restart_is_not_noticed(tmp_path: Path, daemon: Daemon, connect: Connect) -> None:
    """The handshake is repeated with a private id, and its answer is not the client's."""
    client = connect()
    client.greet()
    first = client.call("heard")
    daemon.kill()
    with closing(Daemon(tmp_path)):
        second = client.call("heard")
        assert second["pid"] != first["pid"]
        hello, ready, asked = map(json.loads, second["lines"])
        assert hello == {"jsonrpc": "2.0", "id": "memoryd-shim-1"} | INITIALIZE
        assert ready == {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert asked["method"] == "heard"
        assert client.leave() == 0


def test_without_a_handshake_none_is_made_up(
    tmp_path: Path, daemon: Daemon, connect: Connect
) -> None:
    """The 2026-07-28 era has none: every request carries what it needs."""
    client = connect()
    client.call("server/discover", {"_meta": {"version": "2026-07-28"}})
    daemon.kill()
    with closing(Daemon(tmp_path)):
        assert len(client.call("heard")["lines"]) == 1


def test_a_dead_daemon_is_started_again(connect: Connect, fake: list[str]) -> None:
    """Killed while nobody talks to it: the next call finds a new one."""
    client = connect(serve=fake)
    client.greet()
    before = client.call("heard")["pid"]
    os.kill(before, signal.SIGKILL)
    until_true(lambda: not Path(f"/proc/{before}").exists())  # not even a zombie
    after = client.call("heard")
    assert after["pid"] != before
    assert len(after["lines"]) == 3


def test_calls_in_flight_get_an_error(connect: Connect, fake: list[str]) -> None:
    """Each of them, once; then the next call works."""
    client = connect(serve=fake)
    client.greet()
    lost = [client.send("silence"), client.send("silence"), client.send("die")]
    for key in lost:
        error = client.answer(key)["error"]
        assert error["code"] == -32001
        assert error["data"] == {"code": "daemon_restarted"}
        assert "may or may not" in error["message"]
    assert len(client.call("heard")["lines"]) == 3
    assert client.leave() == 0


@pytest.mark.parametrize("size", [10, 2_000_000])
def test_a_torn_line_is_discarded(connect: Connect, fake: list[str], size: int) -> None:
    client = connect(serve=fake)
    assert client.answer(client.send("tear", {"size": size}))["error"]["code"] == -32001
    assert client.call("hear", {"text": "x"}) == {"length": 1}
    assert client.leave() == 0


def test_a_torn_line_that_was_too_long_to_keep_is_ended(connect: Connect, fake: list[str]) -> None:
    """It cannot be taken back, but it does not swallow the next one."""
    client = connect(serve=fake)
    key = client.send("tear", {"size": 10_000_000})
    with pytest.raises(ValueError, match=r"delimiter|digits"):
        json.loads(client.line())
    assert client.answer(key)["error"]["code"] == -32001
    assert client.call("hear", {"text": "x"}) == {"length": 1}


def after_session(lines: BinaryIO) -> bytes:
    """The first line of the client's own: before it the shim names directory, session and project,
    on every connection."""
    assert b"notifications/memoryd/expect" in lines.readline()
    assert b"notifications/memoryd/session" in lines.readline()
    assert b"notifications/memoryd/project" in lines.readline()
    return lines.readline()


def test_a_handshake_in_flight_is_asked_again(tmp_path: Path, connect: Connect) -> None:
    """A client whose `initialize` fails gives up, so this one call survives its daemon."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "s"))
        door.listen()
        client = connect(serve=NOBODY)
        key = client.send("initialize")
        for _ in range(2):
            with door.accept()[0] as link, link.makefile("rb") as lines:
                assert json.loads(after_session(lines))["id"] == key
        with door.accept()[0] as link, link.makefile("rb") as lines:
            assert json.loads(after_session(lines))["id"] == key
            link.sendall(b'{"id": %d, "result": {}}\n' % key)
            assert client.answer(key)["result"] == {}


def test_a_daemon_that_hangs_up_on_everybody_is_said_to(tmp_path: Path, connect: Connect) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "s"))
        door.listen()
        client = connect(serve=NOBODY)
        key = client.send("initialize")
        for _ in range(3):
            door.accept()[0].close()
        error = client.answer(key)["error"]
        assert error["data"]["code"] == "daemon_unavailable"
        assert "closes every connection" in error["message"]


def test_no_place_for_the_data_is_said_with_the_log(tmp_path: Path, connect: Connect) -> None:
    (tmp_path / "data").write_text("not a directory")
    client = connect()
    for method in ("initialize", "tools/list"):
        error = client.answer(client.send(method))["error"]
        log = str(tmp_path / "data" / "daemon.log")
        assert error["code"] == -32000
        assert error["data"] == {"code": "daemon_unavailable", "log": log}
        assert "not a directory" in error["message"]
        assert log in error["message"]
    assert client.leave() == 0
    assert (tmp_path / "stderr").read_text().count("\n") == 1


def test_a_daemon_that_fails_to_start_is_quoted_and_tried_again(
    tmp_path: Path, connect: Connect, fake: list[str]
) -> None:
    """The client learns why; once it is mended, a later call works without a new client."""
    client = connect(serve=[*fake, "--exit", "1"])
    error = client.answer(client.send("initialize"))["error"]
    assert "could not start: told to fail" in error["message"]
    assert str(tmp_path / "data" / "daemon.start") in error["message"]
    with closing(Daemon(tmp_path)):
        end = time.monotonic() + BOUND
        while "error" in client.answer(client.send("initialize")):
            assert time.monotonic() < end
            select.select([], [], [], 0.1)
        assert len(client.call("heard")["lines"]) == 2


def test_a_second_daemon_is_no_failure(tmp_path: Path, connect: Connect, fake: list[str]) -> None:
    """Exit code 3 means that another is at work, so the shim goes on looking for it."""
    client = connect(serve=[*fake, "--exit", "3"])
    key = client.send("hear", {"text": "x"})
    start = tmp_path / "data" / "daemon.start"
    until_true(start.exists)
    with closing(Daemon(tmp_path)):
        assert client.answer(key)["result"] == {"length": 1}


def until_true(holds: Callable[[], bool], seconds: float = BOUND) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        select.select([], [], [], 0.01)


def test_what_the_shim_makes_is_private(tmp_path: Path, connect: Connect, fake: list[str]) -> None:
    connect(serve=fake).greet()
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "data" / "daemon.start").stat().st_mode & 0o777 == 0o600


def test_twenty_at_once_start_one_daemon(tmp_path: Path, connect: Connect, fake: list[str]) -> None:
    """And none is harmed when another is killed."""
    clients = [connect(serve=fake) for _ in range(20)]
    for client in clients:
        client.send("initialize")
    pids = {client.answer(1)["result"]["pid"] for client in clients}
    assert len(pids) == 1
    clients[0].process.kill()
    clients[0].process.wait()
    for client in clients[1:]:
        assert client.call("heard")["pid"] in pids
    for client in clients[1:]:
        client.stdin.close()
    assert [client.process.wait(BOUND) for client in clients[1:]] == [0] * 19
    assert processes.is_running(pids.pop())  # the daemon outlives them all


def test_the_end_of_stdin_waits_for_answers(daemon: Daemon, connect: Connect) -> None:
    """Even for that to a last line without its newline."""
    client = connect()
    client.write(b'{"id": 1, "method": "hear", "params": {"text": "x"}}')
    client.stdin.close()
    assert client.answer(1)["result"] == {"length": 1}
    assert client.process.wait(BOUND) == 0


def test_the_end_of_stdin_does_not_wait_for_ever(daemon: Daemon, connect: Connect) -> None:
    client = connect(serve=NOBODY, before=DRAIN_TIMEOUT.format(0.5))
    client.send("silence")
    assert client.leave() == 0


def test_a_cancelled_call_is_not_waited_for(daemon: Daemon, connect: Connect) -> None:
    client = connect(serve=NOBODY, before=DRAIN_TIMEOUT.format(3600))
    key = client.send("silence")
    client.write(b'{"method": "notifications/cancelled", "params": {"requestId": %d}}\n' % key)
    client.stdin.close()
    assert client.process.wait(BOUND) == 0


def test_a_client_that_stops_listening_ends_it(
    tmp_path: Path, daemon: Daemon, connect: Connect
) -> None:
    client = connect()
    client.greet()
    client.stdout.close()
    client.send("heard")
    assert client.process.wait(BOUND) == 0
    assert (tmp_path / "stderr").read_text() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once(
    tmp_path: Path, daemon: Daemon, connect: Connect, number: signal.Signals
) -> None:
    client = connect()
    client.greet()
    client.send("silence")
    client.process.send_signal(number)
    assert client.process.wait(BOUND) == -number
    assert (tmp_path / "stderr").read_text() == ""


def test_unknown_arguments_are_refused(tmp_path: Path, connect: Connect) -> None:
    client = connect("--bogus")
    assert client.process.wait(BOUND) == 2
    assert (tmp_path / "stderr").read_text().splitlines() == [
        "Error: memoryd mcp has no option '--bogus'.",
        "Try: Use --data-dir, --socket, --config, --tools, --project.",
    ]


def test_flags_may_stand_anywhere() -> None:
    given = {"--data-dir": "D", "--socket": "S"}
    assert parse_flags(["--data-dir", "D", "mcp", "--socket=S"]) == given
    words = ["--tools", "manage", "--data-dir", "D", "mcp", "--socket=S"]
    assert parse_flags(words) == given | {"--tools": "manage"}
    assert parse_flags(["mcp", "--tools=manage,core"]) == {"--tools": "manage,core"}
    assert parse_flags(["mcp", "--project", "acme/app"]) == {"--project": "acme/app"}
    for nothing in (["mcp", "--project="], ["mcp", "--project", ""]):
        assert parse_flags(nothing) == {"--project": ""}
    ends = ("--config", "--config=", "serve", "--tools", "--project")
    for wrong in (["mcp", end] for end in ends):
        with pytest.raises(InvalidInput):
            parse_flags(wrong)


def test_relative_flags_reach_the_daemon_absolute(tmp_path: Path, fake: list[str]) -> None:
    """The daemon lives in another directory."""
    code = f"from memoryd.shim.entry import main\nmain(['mcp', '--socket', 's'], {fake[:2]!r})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=processes.environment(MEMORYD_DATA_DIR="data"),
        input=b'{"id": 1, "method": "hear", "params": {"text": "x"}}\n',
        capture_output=True,
        timeout=BOUND,
    )
    assert json.loads(done.stdout)["result"] == {"length": 1}


def status(client: Client) -> dict[str, Any]:
    """What the real daemon says of itself."""
    result = client.call("resources/read", {"uri": "memory://status"})
    said: dict[str, Any] = json.loads(result["contents"][0]["text"])
    return said


def end_daemon(pid: int) -> None:
    """As `memoryd stop` does, and wait for it."""
    os.kill(pid, signal.SIGTERM)
    until_true(lambda: not processes.is_running(pid))


@pytest.mark.slow
def test_twenty_at_once_on_an_empty_directory(tmp_path: Path, connect: Connect) -> None:
    """One real daemon, which outlives them, and twenty clients that can work with it."""
    clients = [connect() for _ in range(20)]
    for client in clients:
        client.send("initialize", INITIALIZE["params"])  # type: ignore[arg-type]
    for client in clients:
        assert client.answer(1)["result"]["serverInfo"]["name"] == "memoryd"
        client.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    pids = {status(client)["pid"] for client in clients}
    assert len(pids) == 1
    pid = pids.pop()
    try:
        keys = [store(client, f"client {n} was here") for n, client in enumerate(clients)]
        kept = [client.answer(key, 60) for client, key in zip(clients, keys, strict=True)]
        assert len({one["result"]["structuredContent"]["id"] for one in kept}) == 20
        names = {tool["name"] for tool in clients[0].call("tools/list")["tools"]}
        assert {"search_memories", "store_memory", "forget_memory"} <= names
        assert [client.leave() for client in clients] == [0] * 20
        assert processes.is_running(pid)
    finally:
        end_daemon(pid)


def store(client: Client, content: str) -> int:
    arguments = {"content": content}
    return client.send("tools/call", {"name": "store_memory", "arguments": arguments})


@pytest.mark.slow
def test_a_real_restart_causes_no_error(tmp_path: Path, connect: Connect) -> None:
    """Stopped in order or killed: the next call is served by a new daemon with the old memories."""
    client = connect()
    client.greet()
    kept = client.answer(store(client, "before"), 60)["result"]["structuredContent"]["id"]
    pid = status(client)["pid"]
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            os.kill(pid, number)
            until_true(lambda gone=pid: not Path(f"/proc/{gone}").exists())  # type: ignore[misc]
            again = client.answer(store(client, "before"), 60)["result"]["structuredContent"]
            assert (again["id"], again["duplicate"]) == (kept, True)
            assert status(client)["pid"] != pid
            pid = status(client)["pid"]
    finally:
        end_daemon(pid)
    assert client.leave() == 0


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_lines_are_cut_the_same_however_they_arrive(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shim_lines, "LINE_LIMIT", 20)
    stream = b"one\n\ntwo\r\n" + b"x" * 50 + b"\nthree\nrest"
    lines = LineSplitter()
    pieces = [p for n in range(0, len(stream), step) for p in lines.feed(stream[n : n + step])]
    pieces += lines.end()
    assert b"".join(data for data, _ in pieces) == stream + b"\n"
    whole = [data for data, is_whole in pieces if is_whole]
    assert [data for data in whole if len(data) < 20] == [
        b"one\n",
        b"\n",
        b"two\r\n",
        b"three\n",
        b"rest\n",
    ]


def test_ids_that_python_mixes_up_are_kept_apart() -> None:
    talk = Conversation()
    for key in ("1", "1.0", '"1"', "true"):
        talk.asked(b'{"id": %s, "method": "x"}' % key.encode())
    assert talk.answered(b'{"id": 1, "result": {}}')
    assert talk.lost(for_good=False) == ["1.0", '"1"', "true"]


@pytest.mark.parametrize("line", [b"", b"nonsense", b"[1]", b"\xff\n", b"[" * 100_000, b"null"])
def test_what_is_no_message_is_passed_on(line: bytes) -> None:
    talk = Conversation()
    talk.asked(line)
    assert talk.answered(line)
    assert talk.open == {}
