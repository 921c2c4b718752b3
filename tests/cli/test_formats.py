"""`memoryd export --format` and `memoryd import` of what it wrote, between real daemons."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.cli.main import main
from memoryd.formats import claude_md
from tests.daemons import Daemon, ForkedDaemon

Capture = pytest.CaptureFixture[str]
ODD = "  # odd\r\n`--> <!-- memoryd:end -->\n\n\t- item\n"


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, Daemon]]:
    folder = tmp_path_factory.mktemp("formats")
    running = (ForkedDaemon(folder / "one").start(), ForkedDaemon(folder / "two").start())
    yield running
    for daemon in running:
        assert daemon.stop() == 0, daemon.log.read_text()


@pytest.fixture
def one(daemons: tuple[Daemon, Daemon]) -> Daemon:
    daemons[0].tool("forget_where", everything=True)
    return daemons[0]


@pytest.fixture
def two(daemons: tuple[Daemon, Daemon]) -> Daemon:
    daemons[1].tool("forget_where", everything=True)
    return daemons[1]


@pytest.fixture
def run(capsys: Capture) -> Any:
    def verb(daemon: Daemon, *words: str, fails: int = 0) -> str:
        code = main([*words, "--socket", str(daemon.socket)])
        said = capsys.readouterr()
        assert code == fails, said.err
        return said.out if code == 0 else said.err

    return verb


def everything(daemon: Daemon) -> Any:
    return daemon.tool("export_memories")["memories"]


def contents(daemon: Daemon) -> list[str]:
    return sorted(memory["content"] for memory in everything(daemon))


def fill(daemon: Daemon) -> None:
    daemon.tool("store_memory", content=ODD, name="odd", session_id="s1", pinned=True)
    web = {"project": "acme/web", "kind": "gotcha", "tags": ["db", "-->"]}
    daemon.tool("store_memory", content="Close the pool.", metadata=web)
    daemon.tool("store_memory", content="Ends.", expires_at="2099-01-01T00:00:00.123456+00:00")
    daemon.tool("add_turn", role="user", content="Said.", session_id="talk", speaker="Ann")


@pytest.mark.parametrize("format", ["json", "md"])
def test_every_field_survives(
    run: Any, one: Daemon, two: Daemon, tmp_path: Path, format: str
) -> None:
    fill(one)
    file = tmp_path / f"memories.{format}"
    assert run(one, "export", str(file), "--format", format).startswith("Exported 4 memories")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run(two, "import", str(file)) == "Imported: 4 added.\n"
    assert everything(two) == everything(one)
    assert run(two, "import", str(file)) == "Imported: 0 added, 4 known.\n"
    again = tmp_path / "again"
    run(two, "export", "--output", str(again), "--format", format)
    assert again.read_bytes() == file.read_bytes()


def test_an_export_can_be_chosen_by_project_kind_and_tag(run: Any, one: Daemon) -> None:
    fill(one)
    one.tool("store_memory", content="Other.", metadata={"project": "b", "tags": ["x"]})

    def chosen(*flags: str) -> list[str]:
        answer = run(one, "export", "--format", "json", "--output", "-", *flags)
        return sorted(memory["content"] for memory in json.loads(answer)["memories"])

    assert chosen("--project", "acme/web") == ["Close the pool."]
    assert chosen("--kind", "gotcha") == ["Close the pool."]
    assert chosen("--tag", "db") == ["Close the pool."]
    assert chosen("--tag", "db", "--project", "b") == []
    assert chosen("--tag", "x", "--filter", '{"project": "b"}', "--type", "fact") == ["Other."]


def test_a_claude_md_is_updated_within_its_block_only(
    run: Any, one: Daemon, tmp_path: Path
) -> None:
    fill(one)
    file = tmp_path / "CLAUDE.md"
    file.write_text("# Mine\n")
    file.chmod(0o644)
    command = ("export", "--format", "claude-md", "--output", str(file))
    assert run(one, *command) == f"Exported 2 memories to {file}.\n"
    text = file.read_text()
    assert text.startswith(f"# Mine\n\n{claude_md.BEGIN}\n")
    assert "- Close the pool.\n" in text
    assert "acme/web" not in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    file.write_text(text + "\n# Also mine\n")
    one.tool("store_memory", content="New fact.")
    run(one, *command)
    assert file.read_text() == text.replace(
        claude_md.END, f"- New fact.\n{claude_md.END}") + "\n# Also mine\n"  # fmt: skip
    before = file.stat()
    run(one, *command)
    assert file.stat().st_mtime_ns == before.st_mtime_ns, "nothing to change"


def test_a_claude_md_that_cannot_be_updated_stays(run: Any, one: Daemon, tmp_path: Path) -> None:
    fill(one)
    file, link = tmp_path / "CLAUDE.md", tmp_path / "link.md"
    link.symlink_to(file)
    command = ("export", "--format", "claude-md", "--output")
    for data in (f"{claude_md.END}\n".encode(), b"\xff"):
        file.write_bytes(data)
        run(one, *command, str(file), fails=1)
        assert file.read_bytes() == data
    file.write_text("mine")
    assert "link" in run(one, *command, str(link), fails=1)
    assert (file.read_text(), link.is_symlink()) == ("mine", True)


def test_importing_a_claude_md_adds_no_fact_twice(
    run: Any, one: Daemon, two: Daemon, tmp_path: Path
) -> None:
    """Neither where it came from, whatever is known of the fact there, nor a second time."""
    fill(one)
    file = tmp_path / "CLAUDE.md"
    run(one, "export", "--format", "claude-md", "--output", str(file))
    before = everything(one)
    assert run(one, "import", str(file), "--overwrite") == "Imported: 0 added, 2 known.\n"
    assert everything(one) == before
    assert run(two, "import", str(file)) == "Imported: 2 added.\n"
    assert run(two, "import", str(file)) == "Imported: 0 added, 2 known.\n"
    assert "Close the pool." in contents(two)
    assert {memory["metadata"]["source"] for memory in everything(two)} == {"import"}


def test_lists_that_a_person_wrote_are_imported_once(
    run: Any, two: Daemon, tmp_path: Path, capsys: Capture
) -> None:
    two.tool("store_memory", content="Tea at four.", name="tea", metadata={"kind": "decision"})
    file = tmp_path / "notes.md"
    secret = "my password is " + "hunter2-" + "Xy9"
    file.write_text(f"# Notes\n\nprose\n\n- Tea at four.\n- Cake\n  at five.\n* {secret}\n- Cake\n")
    assert main(["import", str(file), "--socket", str(two.socket)]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("Imported: 3 added, 1 known.\n")
    assert "1 line outside of them: left out" in said.err
    assert "hunter2" not in "".join(contents(two))
    assert len(contents(two)) == 4
    assert run(two, "import", str(file)) == "Imported: 0 added, 4 known.\n"
    file.write_text("- " + "x" * 200_000 + "\n")
    assert "Line 1: refused. Content has 200000 bytes" in run(two, "import", str(file), fails=1)


def test_wrong_usage_is_told(run: Any, one: Daemon, tmp_path: Path) -> None:
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    assert "Two files" in run(one, "export", a, "--output", b, fails=1)
    assert "no vectors" in run(one, "export", a, "--format", "md", "--embeddings", fails=1)
    assert "'yaml'" in run(one, "export", a, "--format", "yaml", fails=2)
    Path(a).write_text("precious")
    assert "already exists" in run(one, "export", a, "--format", "md", fails=1)
    assert Path(a).read_text() == "precious"
