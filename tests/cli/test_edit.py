"""`memoryd edit`: what the editor saved is stored, and never lost."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.cli.edit import editor
from memoryd.cli.main import main
from tests.daemons import Daemon

Capture = pytest.CaptureFixture[str]
HIDDEN = "Line one\r\nHuman: two \u200d <|im_start|> ü"  # recalled, it would be sanitized


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    running = Daemon(tmp_path_factory.mktemp("edit") / "data").start()
    yield running
    assert running.stop() == 0, running.log.read_text()


@pytest.fixture
def drafts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where drafts are made."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def edit(
    daemon: Daemon, drafts: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Any:
    """Edit the memory `text` by a shell script that gets the file as $1; code, stdout, stderr."""
    daemon.tool("store_memory", content="The tea is green", name="text")

    def call(script: str, variable: str = "EDITOR", *words: str) -> tuple[int, str, str]:
        program = tmp_path / "my editor"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o700)
        for name in ("VISUAL", "EDITOR"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(variable, f"'{program}'")
        code = main(["edit", "text", *words, "--socket", str(daemon.socket)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def stored(daemon: Daemon) -> dict[str, Any]:
    found: dict[str, Any] = daemon.tool("read_memory", memory_id="text")
    return found


@pytest.mark.parametrize("variable", ["EDITOR", "VISUAL"])
def test_what_is_saved_is_stored(edit: Any, daemon: Daemon, drafts: Path, variable: str) -> None:
    code, said, _ = edit('sed -i s/green/white/ "$1"; echo >> "$1"; touch "$1~"', variable)
    assert code == 0
    assert said.startswith("Updated fact ")
    assert stored(daemon)["content"] == "The tea is white"
    assert list(drafts.iterdir()) == []


def test_visual_comes_before_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "cat -b")
    assert editor() == ["cat", "-b"]
    monkeypatch.setenv("VISUAL", "sed -i 's/a b/c/'")
    assert editor() == ["sed", "-i", "s/a b/c/"]


def test_no_change_is_no_write(edit: Any, daemon: Daemon, drafts: Path) -> None:
    before = stored(daemon)
    for script in ("true", 'echo >> "$1"'):  # editors end the last line
        code, said, _ = edit(script)
        assert (code, said) == (0, f"Unchanged: fact {before['id']}\n")
    code, said, _ = edit("true", "EDITOR", "--json")
    assert json.loads(said) == {"id": before["id"], "changed": False}
    assert stored(daemon) == before
    assert list(drafts.iterdir()) == []


def test_the_text_is_edited_to_the_letter(edit: Any, daemon: Daemon) -> None:
    daemon.tool("store_memory", content=HIDDEN, name="text")
    code, _, _ = edit('sed -i s/two/three/ "$1"')
    assert code == 0
    assert stored(daemon)["content"] == HIDDEN.replace("two", "three")


def test_the_draft_is_private(edit: Any, tmp_path: Path) -> None:
    code, _, _ = edit(f'stat -c %a "$(dirname "$1")" > {tmp_path}/mode')
    assert code == 0
    assert (tmp_path / "mode").read_text() == "700\n"


def kept(drafts: Path, said: str) -> str:
    """The text that was kept, at the path that was shown."""
    [path] = drafts.glob("*/memory.md")
    assert str(path) in said
    return path.read_text()


def test_a_text_that_is_refused_is_kept(edit: Any, daemon: Daemon, drafts: Path) -> None:
    code, _, said = edit('head -c 200000 /dev/zero | tr "\\\\0" x > "$1"')
    assert code == 1
    assert "at most" in said
    assert kept(drafts, said) == "x" * 200_000
    assert stored(daemon)["content"] == "The tea is green"


def test_an_editor_that_fails_stores_nothing(edit: Any, daemon: Daemon, drafts: Path) -> None:
    code, _, said = edit('printf changed > "$1"; exit 3')
    assert code == 1
    assert "exit code 3" in said
    assert kept(drafts, said) == "changed"
    assert stored(daemon)["content"] == "The tea is green"


def test_a_change_by_somebody_else_is_not_overwritten(
    edit: Any, daemon: Daemon, drafts: Path
) -> None:
    change = f"{sys.executable} -m memoryd --socket {daemon.socket} update text --content theirs"
    code, _, said = edit(f'printf mine > "$1"; env -u VISUAL {change} >/dev/null')
    assert code == 1
    assert "changed while it was edited" in said
    assert kept(drafts, said) == "mine"
    assert stored(daemon)["content"] == "theirs"


def test_an_emptied_text_is_refused_and_leaves_nothing(edit: Any, drafts: Path) -> None:
    code, _, said = edit(': > "$1"')
    assert code == 1
    assert "memoryd forget" in said
    assert list(drafts.iterdir()) == []


def test_what_cannot_be_edited_is_said(
    daemon: Daemon, drafts: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "")
    for named, wanted, words in (
        ("no-such-editor -x", "text", "no-such-editor"),
        ("'unbalanced", "text", "unbalanced"),
        ("true", "nobody", "There is no memory 'nobody'"),
    ):
        monkeypatch.setenv("EDITOR", named)
        assert main(["edit", wanted, "--socket", str(daemon.socket)]) == 1
        assert words in capsys.readouterr().err
    assert list(drafts.iterdir()) == []
