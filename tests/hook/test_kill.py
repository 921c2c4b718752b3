"""A daemon that is killed while it takes in a transcript."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemons import Daemon, ForkedDaemon, Lines
from tests.engine.push.test_transcript import line, text
from tests.hook.test_replay import SESSION, Client
from tests.processes import until

MESSAGES = 120


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    settings = {"MEMORYD_SESSIONS_AUTO_COMPACT": "false"}
    running = ForkedDaemon(tmp_path / "data", **settings).start()
    yield running
    assert running.stop() == 0, running.log.read_text()


def taken(daemon: Daemon) -> list[Any]:
    with Lines(daemon.connect()) as lines:
        lines.open(tools=["all"])
        found = lines.tool("read_session", session_id=SESSION, limit=1000)["structuredContent"]
    return [message["content"] for message in found["messages"]]


@pytest.mark.slow
async def test_a_killed_daemon_takes_the_rest_at_the_next_event(
    daemon: Daemon, tmp_path: Path
) -> None:
    client = Client(daemon, tmp_path)
    client.folder = tmp_path / "work"
    client.folder.mkdir()
    wanted = [f"Message number {number}" for number in range(MESSAGES)]
    with (tmp_path / "transcript.jsonl").open("wb") as file:
        for number, said in enumerate(wanted):
            role = ("user", "assistant")[number % 2]
            file.write(line(role, text(said), f"m{number}", sessionId=SESSION) + b"\n")
    for _ in range(3):  # killed in the middle, more than once
        before = len(taken(daemon))
        client.send("stop", "Stop", last_assistant_message=wanted[-1])
        await until(lambda before=before: len(taken(daemon)) > before)  # type: ignore[misc]
        daemon.stop(signal.SIGKILL)
        daemon.start()
        if len(taken(daemon)) == MESSAGES:
            break
    client.send("stop", "Stop", last_assistant_message=wanted[-1])
    await until(lambda: len(taken(daemon)) >= MESSAGES)
    client.send("session-end", "SessionEnd", reason="other")
    assert taken(daemon) == wanted
