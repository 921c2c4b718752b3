"""`memoryd setup CLIENT`: what it says, asks and writes."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memoryd.cli.main import main
from memoryd.setup.clients import BY_NAME, CLIENTS, USER
from tests.processes import environment

Capture = pytest.CaptureFixture[str]
MEMORYD = str(Path(sys.executable).with_name("memoryd"))
OTHER = '{"mcpServers": {"memoryd": {"command": "/old/memoryd", "args": ["mcp"]}}}'


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty home, and no program of a client."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A model that is ready."""
    found = SimpleNamespace(identity="m", dimension=4, folder=tmp_path, source="an index")
    monkeypatch.setattr("memoryd.wiring.engine.prepare_model", lambda *_, **__: found)
    monkeypatch.setattr("memoryd.wiring.engine.try_model", lambda config: None)


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Somebody at a terminal who types this."""
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    monkeypatch.setattr("memoryd.cli.setup._at_terminal", lambda: True)


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", [client.name for client in CLIENTS])
def test_a_client_is_set_up_once_and_removed(name: str, home: Path, capsys: Capture) -> None:
    assert main(["setup", name, "--print"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Would add memoryd to ")
    assert MEMORYD in said
    assert os.listdir(home) == []
    assert main(["setup", name]) == 0
    said, note = capsys.readouterr()
    assert said.startswith("Added memoryd to ")
    assert "was not found on this machine" in note
    has_hooks = BY_NAME[name].hook_edit((), USER, Path()) is not None
    assert ("Added the hooks of memoryd to " in said) == has_hooks
    written = files(home)
    assert main(["setup", name]) == 0
    assert capsys.readouterr().out.count("Nothing was changed.") == 1 + has_hooks
    assert files(home) == written
    assert main(["setup", name, "--remove"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Removed the entry 'memoryd' of ")
    assert ("Removed the hooks of memoryd from " in said) == has_hooks
    assert files(home) == {}
    assert main(["setup", name, "--remove"]) == 0
    assert "does not have memoryd" in capsys.readouterr().out


def test_the_flags_that_name_the_daemon_are_written(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As absolute paths; variables of this shell too, which the client does not have."""
    (tmp_path / "c.yaml").write_text("")
    assert main(["setup", "cursor", "--data-dir", "memories", "--config", "c.yaml"]) == 0
    entry = json.loads((home / ".cursor" / "mcp.json").read_text())["mcpServers"]["memoryd"]
    assert entry["command"] == MEMORYD
    config, data = str(tmp_path / "c.yaml"), str(tmp_path / "memories")
    assert entry["args"] == ["mcp", "--config", config, "--data-dir", data]
    monkeypatch.setenv("MEMORYD_DATA_DIR", "elsewhere")
    assert main(["setup", "gemini"]) == 0
    entry = json.loads((home / ".gemini" / "settings.json").read_text())["mcpServers"]["memoryd"]
    assert entry["args"] == ["mcp", "--data-dir", str(tmp_path / "elsewhere")]


def test_what_is_written_starts_without_any_environment(home: Path, tmp_path: Path) -> None:
    """With nothing on the PATH, and in any folder."""
    assert main(["setup", "cursor", "--data-dir", str(tmp_path / "d")]) == 0
    entry = json.loads((home / ".cursor" / "mcp.json").read_text())["mcpServers"]["memoryd"]
    done = subprocess.run(
        [entry["command"], *entry["args"], "--help"],
        env={"HOME": str(home)},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_project_gets_its_own_file(home: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["setup", "claude-code", "--project"]) == 0
    settings = tmp_path / ".claude" / "settings.json"
    assert f"do not share {tmp_path / '.mcp.json'} and {settings} " in capsys.readouterr().err
    assert (tmp_path / ".mcp.json").exists()
    assert settings.exists()
    assert os.listdir(home) == []
    assert main(["setup", "claude-code", "--project", "--remove"]) == 0
    assert os.listdir(tmp_path) == ["home"]
    assert main(["setup", "windsurf", "--project"]) == 2
    assert "for all projects only" in capsys.readouterr().err
    assert main(["setup", "cursor", "--project", "--user"]) == 2


def test_an_entry_that_differs_is_shown_and_kept(home: Path, capsys: Capture) -> None:
    file = home / ".claude.json"
    file.write_text(OTHER)
    assert main(["setup", "claude-code"]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("Would replace the entry 'memoryd' of Claude Code")
    assert "-" + OTHER in said.out
    assert "Try: Add --force" in said.err
    assert file.read_text() == OTHER
    assert main(["setup", "claude-code", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "client_entry_differs"
    assert main(["setup", "claude-code", "--force"]) == 0
    assert MEMORYD in file.read_text()
    assert (home / ".claude.json.memoryd-backup").read_text() == OTHER


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("\n", 1), ("no\n", 1), ("", 1)])
def test_at_a_terminal_it_asks_before_it_replaces(
    home: Path, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    file = home / ".claude.json"
    file.write_text(OTHER)
    answer(monkeypatch, typed)
    assert main(["setup", "claude-code"]) == code
    assert (file.read_text() == OTHER) == bool(code)


def test_an_entry_that_a_user_made_is_removed_only_by_force(home: Path, capsys: Capture) -> None:
    file = home / ".claude.json"
    file.write_text('{"mcpServers": {"memory": {"command": "memoryd", "args": ["mcp"]}}}')
    assert main(["setup", "claude-code", "--remove"]) == 1
    assert "'memory'" in capsys.readouterr().err
    assert main(["setup", "claude-code", "--remove", "--force"]) == 0
    assert not file.exists() or json.loads(file.read_text()) == {}


def test_a_broken_file_is_an_error_with_its_line(home: Path, capsys: Capture) -> None:
    file = home / ".claude.json"
    file.write_text('{\n  "mcpServers": {\n')
    for words in ([], ["--remove"], ["--print"], ["--force"]):
        assert main(["setup", "claude-code", *words]) == 1
        said = capsys.readouterr().err
        assert f"Error: {file}, line 3: " in said
        assert "Try: Correct it in an editor" in said
    assert os.listdir(home) == [".claude.json"]


def test_json_says_what_was_done(home: Path, capsys: Capture) -> None:
    (home / ".cursor").mkdir()
    file = home / ".cursor" / "mcp.json"
    file.write_text("{}")
    assert main(["setup", "cursor", "--json", "--print"]) == 0
    found = json.loads(capsys.readouterr().out)["changes"]
    assert [(each["action"], each["backup"]) for each in found] == [("added", None)] * 2
    assert MEMORYD in found[0]["diff"]
    assert "run.py" in found[1]["diff"]
    assert main(["setup", "cursor", "--json"]) == 0
    backup = f"{file}.memoryd-backup"
    change = {"file": str(file), "name": "memoryd", "action": "added", "backup": backup}
    hooks = {"file": str(home / ".cursor" / "hooks.json"), "name": "hooks", "action": "added"}
    changes = [change, {**hooks, "backup": None}]
    expected: dict[str, Any] = {"client": "cursor", "scope": "user", "changes": changes}
    assert json.loads(capsys.readouterr().out) == expected
    assert main(["setup", "cursor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changes"][0]["action"] == "unchanged"


@pytest.mark.parametrize("flag", [*"--print --remove --force --project --user --no-hooks".split()])
def test_flags_of_a_client_need_one(flag: str, capsys: Capture) -> None:
    assert main(["setup", flag]) == 2
    assert f"{flag} needs a client." in capsys.readouterr().err


def test_an_unknown_client_is_refused(capsys: Capture) -> None:
    assert main(["setup", "cusror"]) == 2
    assert "Did you mean cursor?" in capsys.readouterr().err


@pytest.mark.usefixtures("prepared")
def test_without_a_terminal_the_clients_are_only_listed(home: Path, capsys: Capture) -> None:
    (home / ".cursor").mkdir()
    (home / ".codex").mkdir()
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text("{")
    (home / ".claude.json").write_text(OTHER)
    assert main(["setup", "codex"]) == 0
    capsys.readouterr()
    assert main(["setup"]) == 0
    said = capsys.readouterr().out
    assert "Clients on this machine:" in said
    assert "to add memoryd: memoryd setup cursor\n" in said
    assert "has memoryd\n" in said
    assert "has another entry; to replace it: memoryd setup claude-code --force\n" in said
    assert f"{home / '.gemini' / 'settings.json'}, line 1: " in said
    assert os.listdir(home / ".cursor") == []
    assert main(["setup", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["clients"]
    assert {each["name"]: each["can_be_added"] for each in found} == {
        "claude-code": False,
        "cursor": True,
        "codex": False,
        "gemini": False,
    }


@pytest.mark.usefixtures("prepared")
def test_at_a_terminal_each_client_is_offered(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for name in (".cursor", ".codex", ".gemini"):
        (home / name).mkdir()
    answer(monkeypatch, "\nno\nyes\n")  # Enter means yes
    assert main(["setup"]) == 0
    assert "Add memoryd to Cursor (" in capsys.readouterr().out
    assert (home / ".cursor" / "mcp.json").exists()
    assert not (home / ".codex" / "config.toml").exists()
    assert (home / ".gemini" / "settings.json").exists()


@pytest.mark.usefixtures("prepared")
def test_faults_are_shown(home: Path, capsys: Capture) -> None:
    file = home / ".claude.json"
    file.write_text(OTHER)
    assert main(["setup"]) == 0
    said = capsys.readouterr().out
    assert "client_entry_broken: " in said
    assert "More: memoryd doctor\n" in said
    assert "nothing is wrong" not in said


def test_entry_and_hooks_of_one_file_are_written_together(home: Path, capsys: Capture) -> None:
    """Gemini CLI has both in its settings: one backup, from before both, which comes back."""
    file = home / ".gemini" / "settings.json"
    file.parent.mkdir()
    before = '{\n  "a": 1, // one\n  "mcpServers": {},\n  "hooks": {"AfterTool": []}\n}\n'
    file.write_text(before)
    assert main(["setup", "gemini"]) == 0
    assert capsys.readouterr().out.count("as it was before: ") == 1
    assert Path(f"{file}.memoryd-backup").read_text() == before
    assert main(["setup", "gemini"]) == 0
    assert capsys.readouterr().out.count("Nothing was changed.") == 2
    assert main(["setup", "gemini", "--remove"]) == 0
    assert files(home) == {file: before.encode()}


def test_a_fault_in_one_file_changes_neither(home: Path, capsys: Capture) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"hooks": []}')
    assert main(["setup", "claude-code"]) == 1
    said = capsys.readouterr()
    assert f"Error: {settings}: hooks is not an object." in said.err
    assert "--no-hooks" in said.err
    assert files(home) == {settings: b'{"hooks": []}'}
    settings.write_text("{}")
    settings.chmod(0o400)
    assert main(["setup", "claude-code"]) == 1
    assert "is read-only" in capsys.readouterr().err
    assert files(home) == {settings: b"{}"}
    assert main(["setup", "claude-code", "--no-hooks"]) == 0
    assert settings.read_text() == "{}"
    assert (home / ".claude.json").exists()


def test_the_hooks_speak_to_the_same_daemon(home: Path, tmp_path: Path) -> None:
    """By absolute paths, which may have blanks; nothing of the environment is needed."""
    (tmp_path / "c.yaml").write_text("")
    flags = ["--data-dir", "my memories", "--config", "c.yaml"]
    assert main(["setup", "codex", *flags]) == 0
    hooks = json.loads((home / ".codex" / "hooks.json").read_text())["hooks"]
    words = shlex.split(hooks["Stop"][0]["hooks"][0]["command"])
    config, data = str(tmp_path / "c.yaml"), str(tmp_path / "my memories")
    assert words[0] == sys.executable
    assert Path(words[3]).is_file()
    assert words[4:] == ["--config", config, "--data-dir", data, "stop", "--client", "codex"]
    done = subprocess.run(
        words, env={}, cwd="/", input=b"{}", capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_hooks_of_another_installation_are_replaced_those_by_hand_only_by_force(
    home: Path, capsys: Capture
) -> None:
    file = home / ".codex" / "hooks.json"
    file.parent.mkdir()
    moved = "/old/python -I -S /old/memoryd/hook/run.py stop --client codex"
    for command, code in ((moved, 0), ("memoryd hook stop", 1)):
        hook = {"type": "command", "command": command}
        file.write_text(json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}}))
        assert main(["setup", "codex"]) == code
        assert (command in file.read_text()) == bool(code)
    assert "Codex has other hooks of memoryd in " in capsys.readouterr().err
    assert main(["setup", "codex", "--remove"]) == 1
    assert main(["setup", "codex", "--remove", "--force"]) == 0
    assert not file.exists()


def test_the_plugin_has_the_hooks_already(home: Path, capsys: Capture) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    enabled = '{"enabledPlugins": {"memoryd@memoryd": true}}'
    settings.write_text(enabled)
    for words in (["--print"], []):
        assert main(["setup", "claude-code", *words]) == 0
        said = capsys.readouterr()
        assert f"The plugin of memoryd is enabled in {settings}." in said.err
        assert "hooks of memoryd" not in said.out
    assert settings.read_text() == enabled


def test_vscode_gets_hooks_in_a_project_unless_it_runs_those_of_claude_code(
    home: Path, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / ".github" / "hooks" / "memoryd.json"
    assert main(["setup", "vscode"]) == 0
    assert "VS Code has hooks for a project only: " in capsys.readouterr().err
    assert main(["setup", "vscode", "--project"]) == 0
    assert file.exists()
    assert main(["setup", "vscode", "--project", "--remove"]) == 0
    assert not file.exists()
    assert main(["setup", "claude-code"]) == 0
    capsys.readouterr()
    assert main(["setup", "vscode", "--project"]) == 0
    settings = home / ".claude" / "settings.json"
    assert f"VS Code also runs the hooks of memoryd in {settings}" in capsys.readouterr().err
    assert not file.exists()


@pytest.mark.usefixtures("prepared")
def test_a_client_without_our_hooks_is_offered_them(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    assert main(["setup", "codex", "--no-hooks"]) == 0
    file = home / ".codex" / "hooks.json"
    assert not file.exists()
    capsys.readouterr()
    answer(monkeypatch, "yes\n")
    assert main(["setup"]) == 0
    said = capsys.readouterr().out
    assert "has memoryd; to add its hooks: memoryd setup codex\n" in said
    assert f"Add the hooks of memoryd to Codex ({file})?" in said
    assert "approved" in said
    assert file.exists()


def test_setup_of_a_client_starts_no_daemon_and_loads_no_model(home: Path) -> None:
    """It is quick, and works before anything else does."""
    code = (
        "import sys\nfrom memoryd.cli.main import main\ncode = main(['setup', 'cursor'])\n"
        "heavy = {'chromadb', 'onnxruntime', 'numpy', 'yaml', 'mcp'} & set(sys.modules)\n"
        "assert not heavy, heavy\nsys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(HOME=str(home)),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert os.listdir(home) == [".cursor"]
