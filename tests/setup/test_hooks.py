"""The hooks of clients: ours come and go among those of others, which stay to the byte."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memoryd.hook.command import hook_command
from memoryd.hook_events import CLIENTS as HOOK_CLIENTS
from memoryd.setup.changes import ABSENT, ADD, REMOVE, REPLACE, SAME, Change
from memoryd.setup.clients import (
    BY_NAME,
    CLIENTS,
    PROJECT,
    USER,
    HookEdit,
    is_our_hook,
    is_written_hook,
)
from memoryd.setup.config_file import ClientConfigError
from memoryd.setup.hooks import adding, has_plugin, in_claude_settings, our_hooks, removing
from memoryd.setup.syntax import syntax

SCRIPT = "/opt/my tools/lib/memoryd/hook/run.py"
COMMAND = ("/opt/my tools/bin/python", "-I", "-S", SCRIPT, "--data-dir", "/srv/my memories")
MOVED = ("/new/bin/python", "-I", "-S", "/new/lib/memoryd/hook/run.py")
OTHER = {"type": "command", "command": "/usr/bin/other-tool --event", "timeout": 7}
WITH_HOOKS = [client for client in CLIENTS if client.hooks]
# The hooks of another program, as people have them in the file of each client.
USUAL = {
    "claude-code": '{\n  "model": "opus",\n  "hooks": {\n    "SessionStart": [\n      {\n'
    '        "matcher": "startup",\n        "hooks": [\n          {"type": "command", '
    '"command": "other"}\n        ]\n      }\n    ],\n    "Stop": []\n  },\n'
    '  "env": {"A": "b"}\n}\n',
    "codex": '{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"other"}]}]}}',
    "gemini": '{\n  // mine\n  "ui": {"theme": "x"},\n  "hooks": {\n    "disabled": [], // none\n'
    '    "BeforeAgent": [\n      {"hooks": [{"command": "other"}]}, // first\n'
    "      // more to come\n    ],\n  },\n}\n",
    "cursor": '{\r\n\t"version": 1,\r\n\t"hooks": {\r\n\t\t"stop": [\r\n\t\t\t{"command": "x"}'
    "\r\n\t\t]\r\n\t}\r\n}\r\n",
    "vscode": '{\n    "hooks": {}\n}',
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


def edit_of(name: str, folder: Path, command: tuple[str, ...] = COMMAND) -> HookEdit:
    """The hooks of the user; of VS Code, which has none there, those of a project."""
    client = BY_NAME[name]
    edit = client.hook_edit(command, USER, folder) or client.hook_edit(command, PROJECT, folder)
    assert edit is not None
    return edit


def write(edit: HookEdit, text: str) -> Path:
    edit.file.parent.mkdir(parents=True, exist_ok=True)
    edit.file.write_bytes(text.encode())
    return edit.file


def value(edit: HookEdit) -> Any:
    return syntax(edit.syntax).parse(edit.file.read_bytes().decode())


def commands(edit: HookEdit) -> list[str]:
    return [hook["command"] for hook in our_hooks(edit)]


def wanted(edit: HookEdit) -> list[str]:
    elements = [elements[0] for elements in edit.value.values()]
    return [(each["hooks"][0] if edit.grouped else each)["command"] for each in elements]


def test_every_client_of_the_table_of_events_has_a_file() -> None:
    assert {client.name for client in WITH_HOOKS} == set(HOOK_CLIENTS)


@pytest.mark.parametrize("name", HOOK_CLIENTS)
def test_hooks_come_once_and_go_to_the_byte(name: str, tmp_path: Path) -> None:
    edit = edit_of(name, tmp_path)
    before = USUAL[name].encode()
    file = write(edit, USUAL[name])
    change = adding(edit)
    assert change.action == ADD
    backup = change.make()
    assert backup is not None
    assert backup.read_bytes() == before
    assert sorted(commands(edit)) == sorted(wanted(edit))
    others = iter(file.read_bytes().decode())
    assert all(character in others for character in USUAL[name])  # all is there, in its order
    assert adding(edit).action == SAME
    gone = removing(edit)
    assert (gone.action, gone.is_ours) == (REMOVE, True)
    gone.make()
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == [file.name]
    assert removing(edit).action == ABSENT


@pytest.mark.parametrize("name", HOOK_CLIENTS)
def test_removing_keeps_what_changed_meanwhile(name: str, tmp_path: Path) -> None:
    """Also the empty arrays and objects that were there before."""
    edit = edit_of(name, tmp_path)
    file = write(edit, USUAL[name])
    adding(edit).make()
    file.write_bytes(file.read_bytes() + b"\n\n")
    removing(edit).make()
    assert file.read_bytes().decode() == USUAL[name] + "\n\n"


@pytest.mark.parametrize("name", HOOK_CLIENTS)
def test_a_file_that_we_made_goes_again(name: str, tmp_path: Path) -> None:
    edit = edit_of(name, tmp_path)
    assert adding(edit).make() is None
    expected = {**edit.head, "hooks": edit.value}
    assert value(edit) == expected
    moved = edit_of(name, tmp_path, MOVED)
    change = adding(moved)
    assert (change.action, change.is_ours) == (REPLACE, True)
    change.make()
    assert value(moved) == {**moved.head, "hooks": moved.value}
    removing(moved).make()
    assert not edit.file.exists()


def test_a_project_keeps_no_empty_folders(tmp_path: Path) -> None:
    edit = edit_of("vscode", tmp_path)
    adding(edit).make()
    assert edit.file == tmp_path / ".github" / "hooks" / "memoryd.json"
    removing(edit).make()
    assert os.listdir(tmp_path) == ["home"]


def test_an_installation_that_moved_changes_only_the_commands(tmp_path: Path) -> None:
    """In their place: a timeout, a matcher and an order that the user chose stay."""
    edit = edit_of("claude-code", tmp_path)
    file = write(edit, "{}")
    adding(edit).make()
    text = file.read_text().replace('"timeout": 5', '"timeout": 50')
    text = text.replace('"matcher": "Read|', '"matcher": "LS|Read|')
    file.write_text(text)
    assert adding(edit).action == SAME
    moved = edit_of("claude-code", tmp_path, MOVED)
    change = adding(moved)
    assert change.action == REPLACE
    change.make()
    expected = text
    for old, new in zip(wanted(edit), wanted(moved), strict=True):
        expected = expected.replace(json.dumps(old), json.dumps(new))
    assert file.read_text() == expected


def test_ours_goes_out_of_a_group_that_others_share(tmp_path: Path) -> None:
    edit = edit_of("claude-code", tmp_path)
    ours = edit.value["Stop"][0]["hooks"][0]
    group = {"matcher": "*", "hooks": [OTHER, ours, OTHER]}
    write(edit, json.dumps({"hooks": {"Stop": [group], "Notification": [{"hooks": [OTHER]}]}}))
    adding(edit).make()
    assert value(edit)["hooks"]["Stop"] == [group]
    removing(edit).make()
    rest = {"matcher": "*", "hooks": [OTHER, OTHER]}
    assert value(edit) == {"hooks": {"Stop": [rest], "Notification": [{"hooks": [OTHER]}]}}


def test_doubles_and_events_of_older_versions_go(tmp_path: Path) -> None:
    edit = edit_of("claude-code", tmp_path)
    old = {"type": "command", "command": f"'{COMMAND[0]}' -I -S '{SCRIPT}' prompt"}
    events = {
        "UserPromptSubmit": [{"hooks": [old, OTHER, old]}, {"hooks": [old, old]}],
        "PreToolUse": [{"matcher": "Bash", "hooks": [old]}, {"hooks": [OTHER]}],
        "Notification": [{"hooks": [old]}],
    }
    write(edit, json.dumps({"hooks": events}, indent=1))
    change = adding(edit)
    assert (change.action, change.is_ours) == (REPLACE, True)
    change.make()
    found = value(edit)["hooks"]
    [group] = found["UserPromptSubmit"]
    assert group["hooks"][1:] == [OTHER]
    assert found["PreToolUse"] == [{"hooks": [OTHER]}]
    assert "Notification" not in found
    assert sorted(commands(edit)) == sorted(wanted(edit))


def test_two_of_ours_alone_in_a_group_go_with_it(tmp_path: Path) -> None:
    edit = edit_of("codex", tmp_path)
    ours = edit.value["Stop"][0]["hooks"][0]
    kept = {"hooks": [OTHER]}
    write(edit, json.dumps({"hooks": {"Stop": [kept, {"hooks": [ours, ours]}, kept]}}))
    removing(edit).make()
    assert value(edit) == {"hooks": {"Stop": [kept, kept]}}


def test_hooks_by_hand_are_ours_but_the_user_is_asked(tmp_path: Path) -> None:
    edit = edit_of("claude-code", tmp_path)
    by_hand = {"type": "command", "command": "memoryd hook prompt"}
    write(edit, json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [by_hand]}]}}))
    for change in (adding(edit), removing(edit)):
        assert (change.action in (REPLACE, REMOVE), change.is_ours) == (True, False)


def test_a_command_with_arguments_is_replaced_as_a_whole(tmp_path: Path) -> None:
    edit = edit_of("claude-code", tmp_path)
    old = {"type": "command", "command": "memoryd", "args": ["hook", "stop"], "timeout": 9}
    write(edit, json.dumps({"hooks": {"Stop": [{"hooks": [old]}]}}))
    adding(edit).make()
    assert value(edit)["hooks"]["Stop"] == edit.value["Stop"]


def test_the_version_that_a_file_needs_is_added_and_goes(tmp_path: Path) -> None:
    edit = edit_of("cursor", tmp_path)
    write(edit, '{"hooks": {}}')
    adding(edit).make()
    assert value(edit)["version"] == 1
    file = write(edit, edit.file.read_text() + "\n")
    removing(edit).make()
    assert json.loads(file.read_text()) == {"hooks": {}}


@pytest.mark.parametrize(
    ("name", "text", "wrong"),
    [
        ("claude-code", '{"hooks": []}', "hooks is not an object"),
        ("claude-code", '{"hooks": null}', "hooks is not an object"),
        ("codex", '{"hooks": {"Stop": {}}}', "hooks.Stop is not an array"),
        ("cursor", '{"version": 1, "hooks": {"stop": 1, "preCompact": "x"}}', "preCompact is not"),
        ("gemini", '{"hooks": {"AfterTool": null}}', "hooks.AfterTool is not an array"),
        ("claude-code", '{\n"hooks": {"Stop": [], "Stop": []}}', "line 2: the key 'Stop' is there"),
        ("claude-code", '{"hooks": {"Stop": [}}', "a value is expected"),
        ("codex", '{"hooks": {}} // no', "nothing more is expected"),
    ],
)
def test_an_unexpected_shape_is_told_and_left_alone(
    name: str, text: str, wrong: str, tmp_path: Path
) -> None:
    edit = edit_of(name, tmp_path)
    file = write(edit, text)
    with pytest.raises(ClientConfigError) as caught:
        adding(edit)
    assert str(file) in caught.value.message
    assert wrong in caught.value.message
    assert caught.value.hint
    assert file.read_text() == text
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize(
    "text",
    [
        '{"hooks": {"enabled": true, "Stop": [1, null, "x", {"hooks": 5}, {"hooks": [1]}]}}',
        '{"hooks": {"Stop": [{"hooks": [{"type": "http", "url": "http://x"}]}]}, "x": [[]]}',
        '{"hooks": {"Stop": [[]]}}',
    ],
)
def test_what_others_wrote_is_not_judged(text: str, tmp_path: Path) -> None:
    edit = edit_of("claude-code", tmp_path)
    file = write(edit, text)
    adding(edit).make()
    assert sorted(commands(edit)) == sorted(wanted(edit))
    removing(edit).make()
    assert file.read_text() == text


@pytest.mark.parametrize(
    ("hook", "expected"),
    [
        ({"command": "memoryd hook prompt"}, True),
        ({"command": "'/a b/bin/memoryd' --data-dir /x hook prompt"}, True),
        ({"command": "MEMORYD_HOOKS=on memoryd hook prompt"}, True),
        ({"command": "python3 -P -m memoryd hook stop"}, True),
        ({"command": "sh -c 'memoryd hook prompt || true'"}, True),
        ({"command": "/x/python -I -S '/a b/memoryd/hook/run.py' tool"}, True),
        ({"command": "memoryd", "args": ["hook", "prompt"]}, True),
        ({"command": "memoryd search x"}, False),
        ({"command": "other hook memoryd"}, False),
        ({"command": "/x/hook/run.py"}, False),
        ({"command": "it's"}, False),
        ({"command": 5}, False),
        ({"type": "http", "url": "http://memoryd/hook"}, False),
        ("memoryd hook", False),
        (None, False),
    ],
)
def test_our_hooks_are_recognised(hook: object, expected: bool) -> None:
    assert is_our_hook(hook) is expected


@pytest.mark.parametrize("name", HOOK_CLIENTS)
def test_what_is_written_is_recognised(name: str, tmp_path: Path) -> None:
    for command in (COMMAND, (*hook_command("/a b", "/c d/s"),)):
        edit = edit_of(name, tmp_path, command)
        adding(edit).make()
        assert all(map(is_written_hook, our_hooks(edit)))
        assert len(our_hooks(edit)) == len(edit.value)
    assert not is_written_hook({"command": "memoryd hook prompt"})
    assert not is_written_hook({"command": "python -I -S"})


def test_a_second_file_is_not_written_if_the_first_would_be_enough(tmp_path: Path) -> None:
    """VS Code runs the hooks of Claude Code too."""
    assert in_claude_settings(tmp_path) is None
    edit = edit_of("claude-code", tmp_path)
    adding(edit).make()
    assert in_claude_settings(tmp_path) == edit.file
    removing(edit).make()
    local = replace(edit, file=tmp_path / ".claude" / "settings.local.json")
    adding(local).make()
    assert in_claude_settings(tmp_path) == local.file


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"enabledPlugins": {"memoryd@memoryd": true}}', True),
        ('{"enabledPlugins": {"memoryd@elsewhere": true, "x@y": true}}', True),
        ('{"enabledPlugins": {"memoryd@memoryd": false}}', False),
        ('{"enabledPlugins": {"other@memoryd": true}}', False),
        ('{"enabledPlugins": ["memoryd"]}', False),
        ("{", False),
    ],
)
def test_the_plugin_is_seen(text: str, expected: bool, tmp_path: Path) -> None:
    file = write(edit_of("claude-code", tmp_path), text)
    assert has_plugin(tmp_path) == (file if expected else None)


def test_variables_of_clients_move_their_hooks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "c"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "x"))
    assert edit_of("claude-code", tmp_path).file == tmp_path / "c" / "settings.json"
    assert edit_of("codex", tmp_path).file == tmp_path / "x" / "hooks.json"


def test_a_failed_change_is_refused_before_it_is_written(tmp_path: Path) -> None:
    """Another program has changed the file meanwhile."""
    edit = edit_of("claude-code", tmp_path)
    file = write(edit, "{}")
    change: Change = adding(edit)
    file.write_text('{"a": 1}')
    with pytest.raises(ClientConfigError, match="changed by another program"):
        change.make()
    assert file.read_text() == '{"a": 1}'
