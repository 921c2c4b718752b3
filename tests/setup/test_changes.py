"""The files of clients: added to and restored to the byte, and never lost."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from memoryd.setup import config_file
from memoryd.setup.changes import ABSENT, ADD, REMOVE, REPLACE, SAME, adding, entries, removing
from memoryd.setup.clients import BY_NAME, CLIENTS, PROJECT, USER, Client, Edit, is_ours
from memoryd.setup.config_file import ClientConfigError
from memoryd.setup.syntax import syntax

COMMAND = ("/opt/memoryd/bin/memoryd", "mcp", "--data-dir", "/srv/my memories")
# A configuration of each client as a user may have it, with another server in it.
USUAL = {
    "claude-code": '{\n  "numStartups": 3,\n  "mcpServers": {\n    "x": {"command": "y"}\n  }\n}\n',
    "claude-desktop": '{"mcpServers":{"x":{"command":"y"}},"globalShortcut":""}',
    "cursor": '{\n\t"mcpServers": {\n\t\t"x": {\n\t\t\t"url": "http://x"\n\t\t}\n\t}\n}\n',
    "vscode": '{\n    // servers of mine\n    "servers": {\n        "x": {"command": "y"},\n'
    '    },\n    "inputs": [],\n}\n',
    "codex": 'model = "o" # the best\n\n[mcp_servers.x]\ncommand = "y"\n\n[projects."/a b"]\n'
    'trust_level = "trusted"\n',
    "gemini": '{\n  "ui": {"theme": "Dracula"}, // dark\n'
    '  "mcpServers": {"x": {"command": "y"}}\n}',
    "windsurf": '{\r\n  "mcpServers": {\r\n    "x": {"command": "y"}\r\n  }\r\n}\r\n',
    "zed": '// Zed settings\n//\n{\n  "theme": "One Dark", /* dark */\n  "vim_mode": true,\n}\n',
    "opencode": '{\n  "$schema": "https://opencode.ai/config.json",\n  "mcp": {}, // none\n}\n',
    "goose": "GOOSE_MODEL: m # mine\nextensions:\n  developer:\n    enabled: true\n"
    "    type: builtin\n# the end\n",
}


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty home without any client."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


def edit_of(client: Client, scope: str = USER, folder: Path = Path()) -> Edit:
    [edit] = client.edits(COMMAND, scope, folder)
    return edit


def write(edit: Edit, text: str | bytes) -> Path:
    edit.file.parent.mkdir(parents=True, exist_ok=True)
    edit.file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return edit.file


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_each_client_gets_its_entry_and_gives_it_back(client: Client) -> None:
    edit = edit_of(client)
    before = USUAL[client.name].encode()
    file = write(edit, before)
    other = entries(edit)
    change = adding(edit)
    assert change.action == ADD
    backup = change.make()
    assert backup is not None
    assert backup.read_bytes() == before
    assert entries(edit) == {**other, "memoryd": edit.value}
    assert adding(edit).action == SAME
    gone = removing(edit)
    assert (gone.action, gone.is_ours) == (REMOVE, True)
    gone.make()
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == [file.name]
    assert removing(edit).action == ABSENT


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_removing_keeps_what_changed_meanwhile(client: Client) -> None:
    """The client has rewritten its file since: only our entry goes."""
    edit = edit_of(client)
    file = write(edit, USUAL[client.name])
    adding(edit).make()
    more = {"json": "\n", "jsonc": "\n", "toml": "# new\n", "yaml": "# new\n"}[edit.syntax]
    with file.open("a") as text:
        text.write(more)
    removing(edit).make()
    assert file.read_bytes().decode() == USUAL[client.name] + more


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_file_that_we_made_goes_again(client: Client) -> None:
    edit = edit_of(client)
    assert adding(edit).make() is None
    if os.name == "posix":
        assert stat.S_IMODE(edit.file.stat().st_mode) == 0o600
    assert entries(edit) == {"memoryd": edit.value}
    removing(edit).make()
    assert not edit.file.exists()


def test_a_value_that_is_not_equal_to_itself_is_no_obstacle() -> None:
    edit = edit_of(BY_NAME["goose"])
    write(edit, "temperature: .nan\nextensions: {}\n")
    adding(edit).make()
    assert list(entries(edit)) == ["memoryd"]


def test_the_whole_cycle_with_a_second_entry(home: Path) -> None:
    """An entry that was replaced leaves no empty parent when it goes."""
    client = BY_NAME["cursor"]
    adding(edit_of(client)).make()
    [moved] = client.edits(("/new/memoryd", "mcp"), USER, Path())
    change = adding(moved)
    assert (change.action, change.is_ours) == (REPLACE, True)
    change.make()
    assert entries(moved)["memoryd"]["command"] == "/new/memoryd"
    removing(moved).make()
    assert not moved.file.exists()


def test_a_project_has_files_of_its_own(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for client in CLIENTS:
        if client.project_files:
            edit = edit_of(client, PROJECT, project)
            adding(edit).make()
            assert edit.file.is_relative_to(project)
    found = {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()}
    usual = {".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json", ".gemini/settings.json"}
    assert found == {*usual, "opencode.json"}
    assert stat.S_IMODE((project / ".mcp.json").stat().st_mode) == 0o644
    for client in CLIENTS:
        if client.project_files:
            removing(edit_of(client, PROJECT, project)).make()
    assert os.listdir(project) == []


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    edit = edit_of(BY_NAME["zed"])
    real = tmp_path / "dotfiles" / "zed.json"
    real.parent.mkdir()
    real.write_text(USUAL["zed"])
    edit.file.parent.mkdir(parents=True)
    edit.file.symlink_to(real)
    adding(edit).make()
    assert edit.file.is_symlink()
    assert "memoryd" in real.read_text()
    removing(edit).make()
    assert edit.file.is_symlink()
    assert real.read_text() == USUAL["zed"]


def test_mode_mark_and_line_ends_stay(home: Path) -> None:
    edit = edit_of(BY_NAME["vscode"])
    before = b'\xef\xbb\xbf{\r\n  "servers": {}\r\n}'
    file = write(edit, before)
    file.chmod(0o640)
    backup = adding(edit).make()
    data = file.read_bytes()
    assert data.startswith(b'\xef\xbb\xbf{\r\n  "servers": {\r\n    "memoryd": {\r\n')
    assert data.count(b"\n") == data.count(b"\r\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert backup is not None
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    removing(edit).make()
    assert file.read_bytes() == before
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("claude-code", b'{\n  "a": 1,\n}', 3),
        ("claude-desktop", b"// a comment\n{}", 1),
        ("vscode", b'{\n  "servers": {\n', 3),
        ("codex", b"a = 1\n[b\n", 2),
        ("goose", b"a: 1\nb: [\n", 3),
        ("gemini", b'{"a": "\xff"}', 1),
        ("zed", b"[]", 1),
        ("cursor", b'{\n"mcpServers": []}', 2),
    ],
)
def test_a_file_that_cannot_be_read_is_left_alone(name: str, text: bytes, line: int) -> None:
    edit = edit_of(BY_NAME[name])
    file = write(edit, text)
    with pytest.raises(ClientConfigError) as caught:
        adding(edit)
    assert f"{file}, line {line}: " in caught.value.message
    assert caught.value.hint
    assert file.read_bytes() == text
    assert os.listdir(file.parent) == [file.name]


def test_a_file_that_is_read_only_is_left_alone() -> None:
    edit = edit_of(BY_NAME["cursor"])
    file = write(edit, "{}")
    file.chmod(0o444)
    with pytest.raises(ClientConfigError) as caught:
        adding(edit).make()
    assert caught.value.code == "client_config_read_only"
    assert file.read_text() == "{}"
    assert os.listdir(file.parent) == [file.name]


def test_a_folder_in_the_place_of_a_file_is_told() -> None:
    edit = edit_of(BY_NAME["cursor"])
    edit.file.mkdir(parents=True)
    with pytest.raises(ClientConfigError, match="is not a file"):
        adding(edit)


def test_a_file_in_the_place_of_a_folder_is_told(home: Path) -> None:
    (home / ".cursor").write_text("")
    with pytest.raises(ClientConfigError, match="cannot be read or written"):
        adding(edit_of(BY_NAME["cursor"])).make()


def test_what_another_program_wrote_meanwhile_is_not_lost() -> None:
    """Claude Code writes its file all the time."""
    edit = edit_of(BY_NAME["claude-code"])
    file = write(edit, "{}")
    change = adding(edit)
    file.write_text('{"numStartups": 4}')
    with pytest.raises(ClientConfigError) as caught:
        change.make()
    assert caught.value.code == "client_config_changed"
    assert file.read_text() == '{"numStartups": 4}'
    assert [name for name in os.listdir(file.parent) if name.startswith(".claude.json.")] in (
        [],
        [".claude.json.memoryd-backup"],
    )


def test_a_failure_while_writing_leaves_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    edit = edit_of(BY_NAME["cursor"])
    file = write(edit, "{}")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ClientConfigError, match="No space left"):
        adding(edit).make()
    assert file.read_text() == "{}"
    assert os.listdir(file.parent) == [file.name]


def test_an_entry_that_a_user_made_keeps_its_name_and_its_own_keys() -> None:
    edit = edit_of(BY_NAME["cursor"])
    mine = {"command": COMMAND[0], "args": list(COMMAND[1:]), "env": {"A": "b"}}
    write(edit, json.dumps({"mcpServers": {"memory": mine}}))
    change = adding(edit)
    assert (change.action, change.name) == (SAME, "memory")
    gone = removing(edit)
    assert (gone.action, gone.name, gone.is_ours) == (REMOVE, "memory", False)


def test_another_entry_of_our_name_is_not_ours() -> None:
    edit = edit_of(BY_NAME["cursor"])
    write(edit, '{"mcpServers": {"memoryd": {"url": "http://127.0.0.1:8765/mcp"}}}')
    change = adding(edit)
    assert (change.action, change.is_ours) == (REPLACE, False)
    assert '-{"mcpServers": {"memoryd": {"url"' in change.diff()
    assert not removing(edit).is_ours


def test_the_diff_shows_no_other_lines() -> None:
    """They may hold the secrets of other servers."""
    edit = edit_of(BY_NAME["cursor"])
    key = '{\n  "mcpServers": {\n    "x": {\n      "env": {"KEY": "s3cret"}\n    }\n  }\n}\n'
    write(edit, key)
    shown = adding(edit).diff()
    assert '+    "memoryd": {' in shown.splitlines()
    assert "s3cret" not in shown


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"command": "memoryd", "args": ["mcp"]}, True),
        ({"command": "/x/bin/memoryd", "args": ["--data-dir", "/y", "mcp"]}, True),
        ({"command": ["/x/memoryd", "mcp"], "type": "local"}, True),
        ({"cmd": "memoryd.exe", "args": ["mcp"]}, True),
        ({"command": "/usr/bin/python3", "args": ["-P", "-m", "memoryd", "mcp"]}, True),
        ({"command": {"path": "memoryd", "args": ["mcp"]}}, True),
        ({"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]}, False),
        ({"command": "memoryd", "args": ["serve"]}, False),
        ({"url": "http://x"}, False),
        ({"command": 5, "args": "mcp"}, False),
        ("memoryd mcp", False),
        (None, False),
    ],
)
def test_our_entries_are_recognised(entry: object, expected: bool) -> None:
    assert is_ours(entry) is expected


def test_every_entry_is_recognised_as_ours() -> None:
    assert all(is_ours(edit_of(client).value) for client in CLIENTS)


@pytest.mark.parametrize(
    ("platform", "name", "path"),
    [
        ("linux", "claude-desktop", ".config/Claude/claude_desktop_config.json"),
        (
            "darwin",
            "claude-desktop",
            "Library/Application Support/Claude/claude_desktop_config.json",
        ),
        ("win32", "claude-desktop", "AppData/Roaming/Claude/claude_desktop_config.json"),
        ("linux", "vscode", ".config/Code/User/mcp.json"),
        ("darwin", "vscode", "Library/Application Support/Code/User/mcp.json"),
        ("darwin", "zed", ".config/zed/settings.json"),
        ("win32", "goose", "AppData/Roaming/Block/goose/config/config.yaml"),
        ("darwin", "codex", ".codex/config.toml"),
    ],
)
def test_each_platform_has_its_places(
    monkeypatch: pytest.MonkeyPatch, home: Path, platform: str, name: str, path: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.delenv("APPDATA", raising=False)
    assert BY_NAME[name].file(USER, Path()) == home / path


def test_variables_of_clients_move_their_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "c"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "x"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "g"))
    assert BY_NAME["claude-code"].file(USER, Path()) == tmp_path / "c" / ".claude.json"
    assert BY_NAME["codex"].file(USER, Path()) == tmp_path / "x" / "config.toml"
    assert BY_NAME["goose"].file(USER, Path()) == tmp_path / "g" / "goose" / "config.yaml"


def test_a_file_of_another_name_is_used_if_it_is_there(home: Path) -> None:
    client = BY_NAME["opencode"]
    assert client.file(USER, Path()).name == "opencode.json"
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.jsonc").write_text("{}")
    assert client.file(USER, Path()).name == "opencode.jsonc"


def test_clients_are_found_by_folder_or_program(
    monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [client.name for client in CLIENTS if client.is_installed()] == []
    (home / ".cursor").mkdir()
    (home / ".claude").mkdir()
    (tmp_path / "goose").touch(0o755)
    found = [client.name for client in CLIENTS if client.is_installed()]
    assert found == ["claude-code", "cursor", "goose"]


def test_every_syntax_exists() -> None:
    for client in CLIENTS:
        assert syntax(client.syntax).parse(USUAL[client.name])


def test_a_backup_that_is_no_file_is_none(home: Path) -> None:
    edit = edit_of(BY_NAME["cursor"])
    file = config_file.read(write(edit, "{}"))
    assert config_file.read_backup(file) is None
    file.backup.mkdir()
    assert config_file.read_backup(file) is None
