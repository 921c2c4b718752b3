"""One round trip to the daemon: the event on stdin goes out, what to inject comes back.

An agent waits for this process at every prompt and tool call, so it does little: no JSON is parsed
on the way in, modules in C are used in place of their Python wrappers, and all logic is in the
daemon. It never starts a daemon. Whatever goes wrong, it prints nothing and the exit code is 0: a
memory that cannot be reached must not stop an agent.

Each event has a budget, counted from the start of the process. A timer ends whatever the process
is waiting for then: its input, the daemon, or a reader of its output.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# Seconds by event; the last three only hand something over.
BUDGETS = {
    "session-start": 2.0,
    "prompt": 0.5,
    "tool": 0.15,
    "compact": 1.0,
    "stop": 1.0,
    "session-end": 1.0,
}
OTHER_BUDGET = 0.5  # of an event that is not listed
BUDGETS_VARIABLE = "MEMORYD_HOOK_BUDGETS"  # such as prompt=0.8,tool=0.3
SWITCH_VARIABLE = "MEMORYD_HOOKS"  # off: hooks do nothing
PROJECT_VARIABLE = "MEMORYD_PROJECT"
OFF = ("off", "0", "false", "no")
MAX_INPUT = 1_000_000  # bytes; an event with more is left out
MAX_ANSWER = 1_000_000
PROTOCOL_VERSION = "2025-11-25"
LISTENING = "listening"
STDIN, STDOUT = 0, 1
VALUES = ("--client", "--data-dir", "--socket", "--config", "--project")


class Late(BaseException):
    """The budget is used up."""


def main(arguments: list[str], age: float = 0.0) -> int:
    """Send the event on stdin, print the answer; the exit code, which is always 0. `age`: seconds
    that the process has run already, which count as well."""
    if os.environ.get(SWITCH_VARIABLE, "").strip().lower() in OFF:
        return 0
    timer = None
    try:
        event, flags = parse(arguments)
        deadline = time.monotonic() + budget(event) - age
        timer = start_timer(deadline)
        answer = ask(event, flags, read_input(), deadline)
        while answer:
            answer = answer[os.write(STDOUT, answer) :]
    except (Exception, Late, KeyboardInterrupt):
        pass
    finally:
        stop_timer(timer)
    return 0


def parse(arguments: list[str]) -> tuple[str, dict[str, str]]:
    """The event and the flags with a value. What is not known is left out: a hook never fails."""
    event, flags = "", {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name in VALUES:
            flags[name] = value if equals else next(words, "")
        elif not word.startswith("-") and word != "hook":
            event = event or word
    return event, flags


def budget(event: str) -> float:
    """The seconds for an event."""
    for part in os.environ.get(BUDGETS_VARIABLE, "").split(","):
        name, _, value = part.partition("=")
        if name.strip() == event:
            try:
                return float(value)
            except ValueError:
                break
    return BUDGETS.get(event, OTHER_BUDGET)


def process_age() -> float:
    """The seconds since this process was started; 0 where the system does not say."""
    try:
        with open("/proc/self/stat", "rb") as file:
            started = int(file.read().rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
    return max(0.0, age)


def start_timer(deadline: float) -> Any:
    """Raise Late at this time, wherever the process is then; what was set before, None without a
    timer. Raises Late if the time is over."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise Late
    try:
        import _signal  # type: ignore[import-not-found,unused-ignore]

        before = _signal.signal(_signal.SIGALRM, _late)
        _signal.setitimer(_signal.ITIMER_REAL, left)
    except (ImportError, AttributeError, ValueError):  # Windows, or not the main thread
        return None
    return (before,)


def stop_timer(timer: Any) -> None:
    if timer is not None:
        import _signal  # type: ignore[import-not-found,unused-ignore]

        _signal.setitimer(_signal.ITIMER_REAL, 0)
        _signal.signal(_signal.SIGALRM, timer[0])


def _late(*_: object) -> None:
    raise Late


def read_input() -> str:
    """What the client wrote to stdin. Raises ValueError if it is too long."""
    found = b""
    while piece := os.read(STDIN, 1 << 16):
        found += piece
        if len(found) > MAX_INPUT:
            raise ValueError("the input is too long")
    return found.decode("utf-8", "replace")


def ask(event: str, flags: dict[str, str], payload: str, deadline: float) -> bytes:
    """The output for the client; empty if there is none. Raises OSError and others."""
    given = {"event": event, "client": flags.get("--client", ""), "payload": payload}
    try:
        given["cwd"] = os.getcwd()
    except OSError:
        pass
    project = flags.get("--project", os.environ.get(PROJECT_VARIABLE))
    if project is not None:
        given["project" if project.strip() else "no_project"] = project.strip() or "yes"
    folder, path = find(flags)
    if not path:
        return b""
    import _socket

    connection = _socket.socket(getattr(_socket, "AF_UNIX", _socket.AF_INET))
    try:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        connect(connection, path)
        connection.sendall(lines(given, folder))
        for line in answers(connection):
            message = scan(line)
            if message.get("id") == 2:
                output = (message["result"].get("structuredContent") or {}).get("output")
                return output.encode() if isinstance(output, str) else b""
    finally:
        connection.close()
    return b""


def find(flags: dict[str, str]) -> tuple[str, str]:
    """The data directory, "" if it is not known; and the socket of its daemon, "" without one."""
    folder = flags.get("--data-dir") or ""
    named = flags.get("--socket") or ("" if folder else os.environ.get("MEMORYD_SOCKET", ""))
    for variable in ("MEMORYD_MEMORY_PATH", "MEMORYD_DATA_DIR"):
        folder = folder or os.environ.get(variable, "")
    if named:
        return os.path.abspath(os.path.expanduser(folder)) if folder else "", named
    if not folder and not (folder := default_folder(flags)):
        from memoryd.launch.target import Target  # slower: reads notes about configuration files

        known = {"--config": flags["--config"]} if flags.get("--config") else {}
        found = Target(known).data_dir
        folder = "" if found is None else str(found)
    folder = os.path.abspath(os.path.expanduser(folder)) if folder else ""
    return folder, listening_at(folder) if folder else ""


def default_folder(flags: dict[str, str]) -> str:
    """The default data directory, see `places`; "" where a configuration file may name another."""
    if sys.platform in ("darwin", "win32") or flags.get("--config"):
        return ""
    if os.environ.get("MEMORYD_CONFIG"):
        return ""
    config, data = (
        os.path.join(home if os.path.isabs(home) else os.path.expanduser(usual), "memoryd")
        for home, usual in (
            (os.environ.get("XDG_CONFIG_HOME", ""), "~/.config"),
            (os.environ.get("XDG_DATA_HOME", ""), "~/.local/share"),
        )
    )
    return "" if os.path.exists(os.path.join(config, "config.yaml")) else data


def listening_at(folder: str) -> str:
    """The socket that the daemon of a data directory listens at; "" if none does. The record is
    trusted only if nobody else can write to it; see `daemon_record`."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(os.path.join(folder, "daemon.json"), flags)
    try:
        info = os.fstat(handle)
        if hasattr(os, "getuid") and (info.st_uid != os.getuid() or info.st_mode & 0o022):
            return ""
        record = scan(os.read(handle, 16_384))
    finally:
        os.close(handle)
    found = record.get("socket")
    return found if record.get("state") == LISTENING and isinstance(found, str) else ""


def connect(connection: Any, path: str) -> None:
    """Connect to the daemon. Raises OSError."""
    import _socket

    if not hasattr(_socket, "AF_UNIX"):  # see `places`
        with open(path) as file:
            port, token = file.read().split()
        connection.connect(("127.0.0.1", int(port)))
        connection.sendall(token.encode() + b"\n")
        return
    connection.connect(path)
    if hasattr(_socket, "SO_PEERCRED"):
        peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        if int.from_bytes(peer[4:8], sys.byteorder) != os.getuid():
            raise PermissionError("the socket belongs to another user")


def lines(given: dict[str, str], folder: str) -> bytes:
    """The handshake and the call, to be sent at once."""
    from _json import encode_basestring_ascii as quoted

    arguments = ",".join(f"{quoted(key)}:{quoted(value)}" for key, value in given.items())
    hello = (
        f'{{"protocolVersion":"{PROTOCOL_VERSION}","capabilities":{{}},'
        '"clientInfo":{"name":"memoryd-hook","version":"1"}}'
    )
    call = f'{{"name":"hook","arguments":{{{arguments}}}}}'
    sent = [
        f'{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{hello}}}',
        '{"jsonrpc":"2.0","method":"notifications/initialized"}',
        f'{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{call}}}',
    ]
    if folder:
        named = f'{{"data_dir":{quoted(folder)}}}'
        expect = '"method":"notifications/memoryd/expect"'
        sent.insert(0, f'{{"jsonrpc":"2.0",{expect},"params":{named}}}')
    return ("\n".join(sent) + "\n").encode()


def answers(connection: Any) -> Iterator[bytes]:
    """The lines that the daemon sends, until it ends or sends too much."""
    rest, total = b"", 0
    while total < MAX_ANSWER and (piece := connection.recv(1 << 16)):
        total += len(piece)
        *ended, rest = (rest + piece).split(b"\n")
        yield from ended


def scan(text: bytes) -> dict[str, Any]:
    """The object in a line of JSON. Raises ValueError. The scanner of `json`, without the regular
    expressions that `json` imports."""
    from _json import make_scanner

    scanner: Any = make_scanner
    found, _ = scanner(_Scanning())(text.decode().strip(), 0)
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


class _Scanning:
    """What the scanner needs to know; the defaults of `json`."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float
    memo: dict[str, str] = {}  # noqa: RUF012
