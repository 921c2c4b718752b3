"""`memoryd demo`: a real daemon of its own, invented memories, nothing of the user's touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memoryd.cli.demo.content import Content
from memoryd.cli.main import main
from tests.processes import environment

NOW = datetime(2026, 3, 15, 16, 30, tzinfo=UTC)


class Demo:
    """The verb with a home of its own."""

    def __init__(self, home: Path) -> None:
        self.own = home / "memoryd"
        self.folder = home / "memoryd-demo"
        self._env = environment(
            MEMORYD_DATA_DIR=str(self.own), HOME=str(home), MEMORYD_EMBEDDING_BACKEND="hash"
        )

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "memoryd", *words],
            capture_output=True,
            text=True,
            timeout=300,
            env=self._env | variables,
        )

    def ask(self, *words: str) -> Any:
        """The answer of a verb on the demo."""
        place = ["--data-dir", str(self.folder), "--config", str(self.folder / "config.yaml")]
        ended = self.run(*place, *words, "--json")
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    made = Demo(tmp_path_factory.mktemp("home"))
    ended = made.run("demo")
    assert ended.returncode == 0, ended.stderr
    assert str(made.folder) in ended.stdout
    assert "memoryd demo --remove" in ended.stdout
    assert "config.yaml dashboard\n" in ended.stdout
    yield made
    assert made.run("demo", "--remove").returncode == 0
    assert not made.folder.exists()


def test_it_has_something_of_everything(demo: Demo) -> None:
    status = demo.ask("status")
    assert status["embedding_backend"] == "hash"  # the user's model, by the demo's own settings
    assert sum(status["memories"].values()) >= 300
    assert all(status["memories"].values())
    projects = {one["project"] for one in demo.ask("projects")["projects"]}
    assert projects == {"house/robot", "shop/web", "weather/pipeline", None}
    assert demo.ask("review")["total"] >= 5
    sessions = demo.ask("sessions")
    assert sessions["total"] >= 5
    assert any(one["archives"] for one in sessions["sessions"])
    assert any(one["closed_at"] for one in sessions["sessions"])
    assert all(note["aliases"] for note in demo.ask("notes", "list", "--kind", "note")["notes"])
    chain = demo.ask("chain", "where the dock is")["memories"]
    assert len(chain) == 3
    assert "laundry room" in chain[-1]["content"]
    log = demo.ask("chat-log", "Moving the dock")
    assert [message["order"] for message in log["messages"]] == list(range(10))


def test_what_is_superseded_is_not_found(demo: Demo) -> None:
    found = demo.ask("search", "charging dock", "--limit", "20", "--type", "fact")["results"]
    texts = [hit["content"] for hit in found]
    assert any("laundry room" in text for text in texts)
    assert not any("shoe rack" in text for text in texts)


def test_dates_are_spread_over_the_last_weeks(demo: Demo) -> None:
    facts = demo.ask("list", "--type", "fact", "--limit", "500")["memories"]
    days = {memory["created_at"][:10] for memory in facts}
    assert len(days) > 30
    now = datetime.now(UTC)
    ages = [now - datetime.fromisoformat(memory["created_at"]) for memory in facts]
    assert max(ages) < timedelta(days=50)
    assert min(ages) >= timedelta(0)


def test_it_never_mixes_with_other_memories(demo: Demo, tmp_path: Path) -> None:
    assert not demo.own.exists()
    again = demo.run("demo")
    assert again.returncode == 1
    assert "There is a demo in" in again.stderr
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "chroma.sqlite3").write_text("")
    for words in ([], ["--remove"]):
        refused = demo.run("demo", "--data-dir", str(tmp_path / "mine"), *words)
        assert refused.returncode == 1
    assert os.listdir(tmp_path / "mine") == ["chroma.sqlite3"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MEMORYD_STORE_MODE", "http"),
        ("MEMORYD_BACKUP_DIR", "/tmp/backups"),
        ("MEMORYD_MIRROR_PATH", "/tmp/mirror"),
    ],
)
def test_settings_that_lead_outward_are_refused(
    demo: Demo, tmp_path: Path, variable: str, value: str
) -> None:
    refused = demo.run("demo", "--data-dir", str(tmp_path / "new"), **{variable: value})
    assert refused.returncode == 1
    assert f"{variable} is set" in refused.stderr
    assert not (tmp_path / "new").exists()


def test_the_number_of_memories_has_bounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in ("5", "100001"):
        assert main(["demo", "--memories", number, "--data-dir", str(tmp_path / "d")]) == 1
        assert "A demo has from " in capsys.readouterr().err
    assert main(["demo", "--remove", "--data-dir", str(tmp_path / "d")]) == 1
    assert "There is no demo in" in capsys.readouterr().err


def test_the_content_is_always_the_same() -> None:
    """Texts and ids do not depend on the day; only times do."""
    one, other = Content(NOW), Content(NOW + timedelta(days=100))
    said = [session.lines for session in one.sessions()]
    assert said == [session.lines for session in other.sessions()]
    texts = [(memory["id"], memory["content"]) for memory in one.memories()]
    assert texts == [(memory["id"], memory["content"]) for memory in other.memories()]
    assert len({id for id, _ in texts}) == len({text for _, text in texts}) == len(texts)


def test_every_variation_is_different() -> None:
    made = list(Content(NOW).variations(5_000))
    assert len({memory["content"] for memory in made}) == len(made) == 5_000
    assert not any("{" in memory["content"] for memory in made)
    assert {memory["type"] for memory in made} == {"fact", "conversation"}


def test_no_time_lies_in_the_future_and_nothing_is_born_expired() -> None:
    content = Content(NOW)
    said = [one for session in content.sessions() for one in content.messages(session)]
    for memory in (*content.memories(), *said, *content.variations(500)):
        assert memory["created_at"] <= NOW.timestamp()
        assert memory["expires_at"] is None or memory["expires_at"] > NOW.timestamp()


@pytest.mark.slow
def test_more_memories_can_be_made(tmp_path: Path) -> None:
    demo = Demo(tmp_path)
    assert demo.run("demo", "--memories", "2000").returncode == 0
    assert 1_950 <= sum(demo.ask("status")["memories"].values()) <= 2_000
    assert demo.run("demo", "--remove").returncode == 0
