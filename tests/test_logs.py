"""What a daemon logs: the stages of its start, the events of its store worker, by level."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from structlog.testing import capture_logs

from memoryd.cli.options import LOG_LEVELS
from memoryd.errors import StoreBusy
from memoryd.logs import stage
from memoryd.settings import LogSettings
from tests.daemons import Daemon

DAEMON_STAGES = ["config", "lock", "import", "listen", "model", "store", "load", "sweep"]
WORKER_STAGES = ["lock", "files", "import", "open", "check"]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path / "data")
    yield made
    if made.process is not None:
        made.stop()


def events(daemon: Daemon, name: str | None = None) -> list[dict[str, Any]]:
    """The events in the log, those of one name if it is given."""
    lines = [json.loads(line) for line in daemon.log.read_text().splitlines()]
    return [event for event in lines if name in (None, event["event"])]


@pytest.mark.slow
def test_a_start_is_logged_stage_by_stage(daemon: Daemon) -> None:
    """Each stage with its duration: those of the daemon, and those of its worker."""
    daemon.start()
    worker = daemon.status()["store"]["pid"]
    assert daemon.stop() == 0
    seen = events(daemon, "stage")
    assert sorted(e["stage"] for e in seen if "worker" not in e) == sorted(DAEMON_STAGES)
    assert [e["stage"] for e in seen if e.get("worker") == worker] == WORKER_STAGES
    took = {("worker" in event, event["stage"]): event["ms"] for event in seen}
    (ready,) = events(daemon, "ready")
    assert max(took[False, "import"], took[False, "store"], took[True, "open"]) <= ready["ms"]
    # ChromaDB takes a while to import: one that costs nothing was not measured.
    assert took[True, "import"] > took[True, "lock"]
    (ended,) = events(daemon, "worker_ended")
    assert (ended["worker"], ended["level"], ended["by"]) == (worker, "info", "exit code 0")
    (closed,) = events(daemon, "store_closed")
    assert (closed["worker"], closed["clean"]) == (worker, True)


@pytest.mark.slow
def test_the_steps_of_a_search_are_in_its_event_and_in_the_status(daemon: Daemon) -> None:
    daemon.start()
    daemon.tool("store_memory", content="the heating is on")
    assert "timings" not in daemon.tool("search_memories", query="heating")
    told = daemon.tool("search_memories", query="heating", explain=True)["timings"]
    figures = daemon.status()["calls"]["search_memories"]
    daemon.stop()
    steps = {"embed", "gather", "fuse", "boost", "rerank", "pack"}
    assert set(told) == set(figures["steps_p50_ms"]) == steps
    searches = [event for event in events(daemon, "call") if event["tool"] == "search_memories"]
    assert len(searches) == 2
    for event in searches:
        assert {key for key in event if key.endswith("_ms")} == {f"{step}_ms" for step in steps}
        assert sum(event[f"{step}_ms"] for step in steps) <= event["ms"] + 1


@pytest.mark.slow
def test_a_worker_that_was_killed_and_its_successor_are_logged(daemon: Daemon) -> None:
    daemon.start()
    killed = daemon.status()["store"]["pid"]
    os.kill(killed, signal.SIGKILL)
    daemon.tool("store_memory", content="goes to the next worker")
    daemon.stop()
    ended = {
        event["worker"]: (event["level"], event["by"]) for event in events(daemon, "worker_ended")
    }
    assert ended[killed] == ("warning", "SIGKILL")
    (successor,) = ended.keys() - {killed}
    checked = [e for e in events(daemon, "stage") if e.get("worker") == successor]
    after_a_kill = [WORKER_STAGES[0], "quick_check", *WORKER_STAGES[1:]]
    assert [event["stage"] for event in checked] == after_a_kill


@pytest.mark.slow
def test_a_repair_and_a_purge_of_the_worker_are_logged(daemon: Daemon) -> None:
    daemon.settings["MEMORYD_STORE_SYNC_THRESHOLD"] = "5"
    daemon.start()
    for n in range(12):
        daemon.tool("store_memory", content=f"number {n}")
    daemon.tool("purge")
    daemon.stop(signal.SIGKILL)
    for file in (daemon.folder / "store").glob("*/header.bin"):
        file.unlink()
    daemon.start()
    daemon.stop()
    (job,) = events(daemon, "job")
    assert (job["job"], job["rows"]) == ("Rewrite", 12)
    (repair,) = events(daemon, "repair")
    assert repair["level"] == "warning"
    assert "repair" in [event["stage"] for event in events(daemon, "stage")]


@pytest.mark.parametrize(
    ("level", "shown", "hidden"),
    [("debug", "connection_opened", "nothing"), ("warning", "worker_ended", "listening")],
)
@pytest.mark.slow
def test_the_level_is_configured(daemon: Daemon, level: str, shown: str, hidden: str) -> None:
    daemon.settings["MEMORYD_LOG_LEVEL"] = level
    daemon.start()
    os.kill(daemon.status()["store"]["pid"], signal.SIGKILL)
    daemon.tool("store_memory", content="x")
    daemon.stop()
    names = {event["event"] for event in events(daemon)}
    assert shown in names
    assert hidden not in names
    assert {event["level"] for event in events(daemon)} <= set(
        LOG_LEVELS[LOG_LEVELS.index(level) :]
    )


def test_the_verb_knows_the_levels_of_the_setting() -> None:
    assert get_args(get_type_hints(LogSettings)["level"]) == LOG_LEVELS


def test_a_stage_that_fails_says_with_what() -> None:
    with capture_logs() as seen:
        with pytest.raises(StoreBusy), stage("store"):
            raise StoreBusy("It is busy with a secret.")
        with pytest.raises(ValueError, match="secret"), stage("model"):
            raise ValueError("secret")
        with stage("load") as facts:
            facts["memories"] = 3
    assert [(e["stage"], e.get("error"), e.get("memories")) for e in seen] == [
        ("store", "store_busy", None),
        ("model", "ValueError", None),
        ("load", None, 3),
    ]
    assert "secret" not in str(seen)
