"""The context window of a session, through the daemon."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.daemons import INITIALIZE, Daemon, ForkedDaemon, Lines
from tests.processes import environment


def roles(window: Any) -> list[str]:
    return [message["content"] for message in window["structuredContent"]["messages"]]


def test_without_a_session_id_the_connection_is_the_session(daemon: Daemon) -> None:
    with Lines(daemon.connect()) as one, Lines(daemon.connect()) as two:
        one.open()
        two.open()
        first = one.tool("add_turn", role="user", content="hello from one")["structuredContent"]
        two.tool("add_turn", role="user", content="hello from two")
        assert roles(one.tool("get_context")) == ["hello from one"]
        assert roles(two.tool("get_context")) == ["hello from two"]
        named = two.tool("get_context", session_id=first["session_id"])
        assert roles(named) == ["hello from one"]


def test_clearing_starts_a_new_session_and_keeps_the_memories(daemon: Daemon) -> None:
    with Lines(daemon.connect()) as client:
        client.open()
        turn = client.tool("add_turn", role="user", content="zebra crossing")["structuredContent"]
        cleared = client.tool("clear_context")["structuredContent"]
        assert cleared["cleared"] == 1
        assert cleared["session_id"] != turn["session_id"]
        window = client.tool("get_context")
        assert roles(window) == []
        assert window["structuredContent"]["session_id"] == cleared["session_id"]
        page = client.tool("search_memories", query="zebra crossing")["structuredContent"]
        assert page["results"][0]["id"] == turn["id"]


def test_a_window_holds_the_last_turns_and_survives_a_restart(tmp_path: Path) -> None:
    daemon = ForkedDaemon(tmp_path / "data", MEMORYD_MEMORY_CONTEXT_WINDOW_SIZE="2").start()
    try:
        for n in range(7):
            role = "user" if n % 2 == 0 else "assistant"
            speaker = "Ann" if n == 6 else None
            daemon.tool("add_turn", role=role, content=f"m{n}", session_id="s", speaker=speaker)
        window = daemon.tool("get_context", session_id="s", window_only=True)
        assert [m["content"] for m in window["messages"]] == ["m3", "m4", "m5", "m6"]
        assert window["messages"][-1]["speaker"] == "Ann"
        short = daemon.tool("get_context", session_id="s", window_only=True, max_turns=1)
        assert [m["content"] for m in short["messages"]] == ["m5", "m6"]
        assert daemon.stop() == 0
        daemon.start()
        assert daemon.tool("get_context", session_id="s", window_only=True) == window
        daemon.tool("forget_memory", memory_id=window["messages"][-1]["id"])
        again = daemon.tool("get_context", session_id="s", window_only=True)
        assert [m["content"] for m in again["messages"]] == ["m3", "m4", "m5"]
        daemon.tool("clear_context", session_id="s")
        daemon.stop()
        daemon.start()
        assert daemon.tool("get_context", session_id="s", window_only=True)["messages"] == []
        after = daemon.tool("add_turn", role="user", content="m7", session_id="s")
        assert after["order"] > window["messages"][-2]["order"]
        found = daemon.tool("search_memories", query="m4", session_id="s", limit=50, min_score=0)
        assert {r["content"] for r in found["results"]} == {f"m{n}" for n in (0, 1, 2, 3, 4, 5, 7)}
    finally:
        daemon.stop()


def test_windows_beyond_the_bound_leave_ram_and_come_back(tmp_path: Path) -> None:
    daemon = ForkedDaemon(tmp_path / "data", MEMORYD_MEMORY_MAX_SESSIONS="3").start()
    try:
        for n in range(6):
            daemon.tool("add_turn", role="user", content=f"hello {n}", session_id=f"s{n}")
        assert daemon.status()["sessions"] == 3
        window = daemon.tool("get_context", session_id="s0")
        assert [m["content"] for m in window["messages"]] == ["hello 0"]
    finally:
        daemon.stop()


@pytest.mark.parametrize("tool", ["add_turn", "get_context", "clear_context"])
def test_a_bad_session_id_is_refused(daemon: Daemon, tool: str) -> None:
    turn = {"role": "user", "content": "x"} if tool == "add_turn" else {}
    answer = daemon.call("tools/call", name=tool, arguments={**turn, "session_id": "a\nb"})
    assert answer["_meta"]["memoryd/error"]["code"] == "session_id_invalid"


def test_a_client_of_the_shim_keeps_its_window_over_a_restart(tmp_path: Path) -> None:
    """Without any session_id: the connection is the session, and the client saw only one."""
    daemon = ForkedDaemon(tmp_path / "data").start()
    flags = ["--data-dir", str(daemon.folder), "--socket", str(daemon.socket)]
    shim = subprocess.Popen(
        [sys.executable, "-m", "memoryd", *flags, "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(**daemon.settings),
    )
    assert shim.stdin is not None
    assert shim.stdout is not None

    def call(id: int, method: str, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        shim.stdin.write(json.dumps(message).encode() + b"\n")  # type: ignore[union-attr]
        shim.stdin.flush()  # type: ignore[union-attr]
        return json.loads(shim.stdout.readline())["result"]  # type: ignore[union-attr]

    try:
        call(1, "initialize", **INITIALIZE)
        turn = {"role": "user", "content": "before the restart"}
        call(2, "tools/call", name="add_turn", arguments=turn)
        daemon.stop(signal.SIGKILL)
        daemon.start()
        window = call(3, "tools/call", name="get_context", arguments={})
        assert roles(window) == ["before the restart"]
    finally:
        shim.communicate()
        daemon.stop()
