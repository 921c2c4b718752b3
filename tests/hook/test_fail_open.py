"""A thousand hooks while the daemon is stopped, hangs or restarts: none fails, none is late."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from memoryd.hook import call
from memoryd.hook.call import BUDGETS
from memoryd.hook.command import hook_command
from tests.daemons import Daemon, ForkedDaemon
from tests.processes import environment

IN_PROCESS, PROCESSES = 280, 54  # calls in each of three states: 1,002 in all
AT_ONCE = 3  # processes
SHORT = 0.03  # seconds; the budget of calls in this process, which wait one after the other
SLACK = 6  # starts of a bare interpreter that a hook may be late by: the machine is busy
STARTS = 20  # of a bare interpreter that are measured
NAMES = {
    "session-start": "SessionStart",
    "prompt": "UserPromptSubmit",
    "tool": "PostToolUse",
    "compact": "PreCompact",
    "stop": "Stop",
    "session-end": "SessionEnd",
}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    running = ForkedDaemon(tmp_path / "data").start()
    yield running
    running.stop(signal.SIGKILL)


def payload(event: str) -> bytes:
    fields = {"session_id": "s1", "hook_event_name": NAMES[event], "prompt": "Where is my tea?"}
    return json.dumps(fields).encode()


def events() -> Iterator[str]:
    while True:
        yield from BUDGETS


def timed(command: list[str], given: bytes = b"") -> tuple[float, int, bytes]:
    """Seconds, exit code and errors of a process."""
    started = time.monotonic()
    done = subprocess.run(command, input=given, capture_output=True, env=environment(), check=False)
    return time.monotonic() - started, done.returncode, done.stderr


def many(commands: list[tuple[list[str], bytes]]) -> list[tuple[float, int, bytes]]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda one: timed(*one), commands))


def run_processes(daemon: Daemon) -> None:
    """Real hooks with their real budgets, beside starts of a bare interpreter."""
    bare = [sys.executable, "-c", "pass"]
    before = many([(bare, b"")] * (STARTS // 2))
    chosen = [event for event, _ in zip(events(), range(PROCESSES), strict=False)]
    command = hook_command(str(daemon.folder))
    found = many([([*command, event], payload(event)) for event in chosen])
    starts = [seconds for seconds, *_ in before + many([(bare, b"")] * (STARTS // 2))]
    slack = SLACK * max(statistics.median(starts), max(starts) / 3)
    for event, (seconds, code, errors) in zip(chosen, found, strict=True):
        assert (code, errors) == (0, b"")
        assert seconds < BUDGETS[event] + slack, f"{event}: {seconds:.2f} s, slack {slack:.2f} s"


def run_in_process(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook's own function, over and over, with short budgets."""
    budgets = ",".join(f"{event}={SHORT}" for event in BUDGETS)
    monkeypatch.setenv(call.BUDGETS_VARIABLE, budgets)
    silent = os.open(os.devnull, os.O_WRONLY)
    monkeypatch.setattr(call, "STDOUT", silent)
    taken = []
    for event, _ in zip(events(), range(IN_PROCESS), strict=False):
        read, write = os.pipe()
        os.write(write, payload(event))
        os.close(write)
        monkeypatch.setattr(call, "STDIN", read)
        started = time.monotonic()
        assert call.main([event, "--data-dir", str(daemon.folder)]) == 0
        taken.append(time.monotonic() - started)
        os.close(read)
    os.close(silent)
    late = sorted(taken)[-1 - IN_PROCESS // 100]  # a busy machine may hold up one in a hundred
    assert late < SHORT + 0.5, f"{late:.3f} s"


@contextmanager
def stopped(daemon: Daemon) -> Iterator[None]:
    daemon.stop(signal.SIGKILL)  # leaves its record and its socket behind
    yield


@contextmanager
def hanging(daemon: Daemon) -> Iterator[None]:
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        daemon.process.send_signal(signal.SIGCONT)


@contextmanager
def restarting(daemon: Daemon) -> Iterator[None]:
    """Stop and start it again and again."""
    ended = threading.Event()
    starts = []

    def restart() -> None:
        while not ended.is_set():
            daemon.stop()
            daemon.start()
            starts.append(1)

    thread = threading.Thread(target=restart)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert starts


@pytest.mark.slow
@pytest.mark.parametrize("state", [stopped, hanging, restarting])
def test_a_thousand_hooks_fail_open(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, state: Callable[[Daemon], object]
) -> None:
    with state(daemon):  # type: ignore[attr-defined]
        run_in_process(daemon, monkeypatch)
        run_processes(daemon)
