"""`memoryd mirror`, and `memoryd import` of what a person wrote for agents, with real daemons."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.cli.main import main
from tests.daemons import Daemon, ForkedDaemon

Capture = pytest.CaptureFixture[str]
LONG_AGO = (1_000_000_000, 1_000_000_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mirrored") / "mirror"


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Daemon]:
    made = ForkedDaemon(folder.parent / "data", MEMORYD_MIRROR_PATH=str(folder)).start()
    yield made
    assert made.stop() == 0, made.log.read_text()


@pytest.fixture
def daemon(running: Daemon) -> Daemon:
    running.tool("forget_where", everything=True)
    running.tool("mirror", run=True)
    return running


@pytest.fixture
def run(capsys: Capture) -> Any:
    def verb(daemon: Daemon, *words: str, fails: int = 0) -> str:
        code = main([*words, "--socket", str(daemon.socket)])
        said = capsys.readouterr()
        assert code == fails, said.err
        return said.out + said.err

    return verb


def memories(daemon: Daemon) -> dict[str, Any]:
    found = daemon.tool("export_memories")["memories"]
    return {memory["content"]: memory for memory in found}


def save(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, LONG_AGO)


def test_the_verb_shows_the_state_and_what_was_edited(
    daemon: Daemon, folder: Path, run: Any
) -> None:
    daemon.tool("store_memory", content="The dock is in the kitchen.")
    assert f"1 facts and 0 archives in {folder}" in run(daemon, "mirror", "--now")
    path = folder / "MEMORY.md"
    save(path, path.read_text() + "- Anna is vegan.\n")
    said = json.loads(run(daemon, "mirror", "--now", "--json"))
    [edit] = said["edits"]
    assert (edit["how"], edit["id"]) == ("added", memories(daemon)["Anna is vegan."]["id"])
    assert said["mirror"]["trouble"] is None
    shown = run(daemon, "mirror")
    assert f"Added: {edit['id']}, line {edit['line']}" in shown
    assert "2 facts" in run(daemon, "status")


def test_held_memories_are_shown_and_forgotten_when_confirmed(
    daemon: Daemon, folder: Path, run: Any
) -> None:
    for number in range(3):
        daemon.tool("store_memory", content=f"Fact {number}.")
    daemon.tool("mirror", run=True)
    save(folder / "MEMORY.md", "")
    said = run(daemon, "mirror", "--now")
    assert "3 memories held" in said
    assert "Fact 1." in said
    assert "memoryd mirror --confirm" in said
    assert len(memories(daemon)) == 3
    assert "3 memories missing from MEMORY.md" in run(daemon, "doctor", fails=1)
    run(daemon, "mirror", "--keep")
    assert "To forget them" not in run(daemon, "mirror", "--confirm")
    assert len(memories(daemon)) == 3
    save(folder / "MEMORY.md", "")
    run(daemon, "mirror", "--now")
    run(daemon, "mirror", "--confirm")
    assert memories(daemon) == {}


def test_trouble_is_told(daemon: Daemon, folder: Path, run: Any) -> None:
    path = folder / "MEMORY.md"
    path.unlink()
    path.mkdir()
    try:
        said = run(daemon, "mirror", "--now", fails=1)
        assert "cannot be read or written" in said
        assert "is not a file" in run(daemon, "mirror", fails=1)
        assert "is not a file" in run(daemon, "status")
        assert "is not a file" in run(daemon, "doctor", fails=1)
    finally:
        path.rmdir()
    run(daemon, "mirror", "--now")


def test_without_a_mirror_the_verb_says_how_to_get_one(tmp_path: Path, run: Any) -> None:
    daemon = ForkedDaemon(tmp_path / "plain").start()
    try:
        assert "Set mirror.path" in run(daemon, "mirror")
        assert "Set mirror.path" in run(daemon, "mirror", "--now", fails=1)
        assert json.loads(run(daemon, "mirror", "--json"))["mirror"] is None
    finally:
        daemon.stop()


AGENTS = """\
# AGENTS.md

Use tabs.

## Tests

- Run them all.
- Start them so:

```sh
make test
```
"""
HISTORY = """\
# History

## 2026-05-03T09:30:00+02:00

We moved.

- with the cat

## 2026-05-04T10:00:00+02:00

We unpacked.
"""


@pytest.mark.parametrize("name", ["MEMORY.md", "AGENTS.md", "CLAUDE.md", ".cursorrules"])
def test_text_for_agents_is_imported_once(
    daemon: Daemon, tmp_path: Path, run: Any, name: str
) -> None:
    file = tmp_path / name
    file.write_text(AGENTS)
    assert "Imported: 3 added." in run(daemon, "import", str(file))
    found = memories(daemon)
    code = "Start them so:\n```sh\nmake test\n```"
    assert found.keys() == {"Use tabs.", "Run them all.", code}
    assert found["Use tabs."]["metadata"] == {"source": "import"}
    assert found[code]["metadata"] == {"source": "import", "tags": ["Tests"]}
    assert "Imported: 0 added, 3 known." in run(daemon, "import", str(file))
    file.write_text(AGENTS.replace("tabs", "spaces"))
    assert "Imported: 1 added, 2 known." in run(daemon, "import", str(file))


def test_a_history_is_imported_with_its_times(daemon: Daemon, tmp_path: Path, run: Any) -> None:
    file = tmp_path / "HISTORY-2026-05.md"
    file.write_text(HISTORY)
    assert "Imported: 2 added." in run(daemon, "import", str(file))
    found = memories(daemon)
    assert found["We moved.\n\n- with the cat"]["created_at"] == 1777793400.0
    assert "Imported: 0 added, 2 known." in run(daemon, "import", str(file))


def test_the_files_of_a_mirror_are_known_where_they_come_from(
    daemon: Daemon, folder: Path, run: Any
) -> None:
    daemon.tool("store_memory", content="The dock is in the kitchen.")
    run(daemon, "notes", "add", "may", "# We moved\n\nWith the cat.", "--kind", "archive")
    run(daemon, "mirror", "--now")
    assert "Imported: 0 added, 1 known." in run(daemon, "import", str(folder / "MEMORY.md"))
    assert "Imported: 0 added, 1 known." in run(daemon, "import", str(folder / "HISTORY.md"))
    assert len(memories(daemon)) == 2


def test_a_secret_in_imported_text_is_masked(daemon: Daemon, tmp_path: Path, run: Any) -> None:
    file = tmp_path / "AGENTS.md"
    key = "sk-ant-api03-" + "a1B2" * 20
    file.write_text(f"The key is {key}.\n")
    run(daemon, "import", str(file))
    assert not any(key in text for text in memories(daemon))


def test_a_block_is_added_shown_and_taken_out(daemon: Daemon, run: Any, tmp_path: Path) -> None:
    """A link that the person names means the file that it leads to; trouble is in every view."""
    daemon.tool("store_memory", content="The dock is in the kitchen.")
    path, link = tmp_path / "AGENTS.md", tmp_path / "CLAUDE.md"
    path.write_text("Mine.\n")
    link.symlink_to("AGENTS.md")
    said = run(daemon, "mirror", "--block", str(link))
    assert f"Block in {os.path.realpath(path)}: 1 fact" in said
    assert "- The dock is in the kitchen." in path.read_text()
    assert "AGENTS.md: 1 fact" in run(daemon, "status")
    assert json.loads(run(daemon, "mirror", "--json"))["blocks"][0]["trouble"] is None
    whole = path.read_text()
    path.write_text(whole.replace("memoryd:end", "memoryd-end"))
    assert "do not enclose exactly one block" in run(daemon, "mirror", "--now", fails=1)
    assert "do not enclose exactly one block" in run(daemon, "status")
    path.write_text(whole)
    run(daemon, "mirror", "--now")
    run(daemon, "mirror", "--no-block", str(link))
    assert path.read_text() == "Mine.\n"
    assert link.is_symlink()
    assert "block_unknown" in run(daemon, "mirror", "--no-block", str(path), "--json", fails=1)


def test_a_block_is_refused_where_it_would_be_run(daemon: Daemon, run: Any, tmp_path: Path) -> None:
    path = tmp_path / "start.sh"
    path.write_text("echo mine\n")
    assert "not a file of instructions" in run(daemon, "mirror", "--block", str(path), fails=1)
    assert "--project needs --block" in run(daemon, "mirror", "--project", "x", fails=2)
    assert path.read_text() == "echo mine\n"
