"""A real daemon compacts long sessions by itself, with a language model of any temper, and a kill
in the middle loses nothing."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemons import Daemon, ForkedDaemon, Lines
from tests.model_server import ModelServer, Rudeness, hanging_up, model_server, replying, silent

SECONDS = 60.0  # after which a test has failed
KEY = "sk-very-private-key"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


@pytest.fixture
def daemon(tmp_path: Path, server: ModelServer) -> Iterator[Daemon]:
    (key := tmp_path / "key").write_text(KEY)
    key.chmod(0o600)
    settings = {
        "MEMORYD_LLM_URL": server.url,
        "MEMORYD_LLM_MODEL": "qwen",
        "MEMORYD_LLM_KEY_FILE": str(key),
        "MEMORYD_LLM_TIMEOUT": "0.5",
        "MEMORYD_SESSIONS_MEMORY_WINDOW": "10",
        "MEMORYD_SESSIONS_KEEP_COUNT": "4",
    }
    running = ForkedDaemon(tmp_path / "data", **settings)
    running.start()
    yield running
    running.stop()


def say(daemon: Daemon, count: int, start: int = 0) -> None:
    with Lines(daemon.connect()) as lines:
        lines.open()
        for number in range(start, start + count):
            role = "user" if number % 2 == 0 else "assistant"
            text = f"Message {number}: the roof garden needs water and plant {number}."
            lines.tool("add_turn", role=role, content=text, session_id="long")


def archives(daemon: Daemon) -> list[Any]:
    """The archives of the session, oldest first."""
    with Lines(daemon.connect()) as lines:
        lines.open(["all"])
        listed = lines.tool("read_notes", kind="archive")["structuredContent"]["notes"]
        found = [
            lines.tool("read_notes", name=one["name"])["structuredContent"]["notes"][0]
            for one in listed
        ]
    return sorted(found, key=lambda one: int(one["metadata"]["archived"]["upto"]))


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


TEMPERS: dict[str, tuple[Rudeness | None, str]] = {
    "answers well": (None, "llm"),
    "answers garbage": (replying({"choices": [{"message": {"content": "Hm?"}}]}), "extract"),
    "fails": (replying({}, 500), "extract"),
    "hangs": (silent, "extract"),
    "hangs up": (hanging_up, "extract"),
}


@pytest.mark.parametrize("temper", TEMPERS)
def test_a_long_session_is_archived_whatever_the_model_does(
    daemon: Daemon, server: ModelServer, temper: str
) -> None:
    server.rude, by = TEMPERS[temper]
    say(daemon, 11)
    until(lambda: len(archives(daemon)) == 1)
    (archive,) = archives(daemon)
    assert archive["metadata"]["summary_by"] == by
    assert archive["metadata"]["archived"]["upto"] == 6
    status = daemon.status()
    assert status["llm"] == f"qwen at {server.url}"
    assert bool(status["llm_trouble"]) == (temper in ("fails", "hangs", "hangs up"))
    assert KEY not in str(status)
    assert set(server.keys) == {f"Bearer {KEY}"}
    # It works again without a restart.
    server.rude = None
    server.released.set()
    say(daemon, 7, start=11)
    until(lambda: len(archives(daemon)) == 2)
    assert archives(daemon)[-1]["metadata"]["summary_by"] == "llm"
    assert daemon.status()["llm_trouble"] is None
    log = daemon.log.read_text()
    assert "roof garden" not in log
    assert KEY not in log


def test_a_killed_daemon_goes_on_where_it_was(daemon: Daemon, server: ModelServer) -> None:
    """Killed while the model writes, again and again: no message is archived twice or left out."""
    said = 0
    for _ in range(3):
        server.rude = silent
        asked = len(server.bodies)
        say(daemon, 9, start=said)
        said += 9
        if said > 10:
            until(lambda asked=asked: len(server.bodies) > asked)  # type: ignore[misc]
        daemon.stop(signal.SIGKILL)
        server.rude = None
        daemon.start()
    say(daemon, 3, start=said)
    said += 3
    until(lambda: archives(daemon) != [] and _left(daemon, said) <= 10)
    spans = [one["metadata"]["archived"] for one in archives(daemon)]
    ends = [span["upto"] for span in spans]
    assert ends == sorted(set(ends))
    assert sum(span["messages"] for span in spans) == ends[-1] + 1
    with Lines(daemon.connect()) as lines:
        lines.open(["all"])
        page = lines.tool("list_memories", memory_type="conversation", session_id="long", limit=100)
        assert page["structuredContent"]["total"] == said


def _left(daemon: Daemon, said: int) -> int:
    return said - 1 - int(archives(daemon)[-1]["metadata"]["archived"]["upto"])
