"""The MCP clients that memoryd can be added to: one table of what each reads, and where.

`docs/clients.md` says how each row was verified. A client has its hooks in the file of its servers,
in one of their own, or has none.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from memoryd.hook_events import hooks_block

NAME = "memoryd"  # the key of our entry; `memory` is what the reference server calls itself
USER, PROJECT = "user", "project"  # scopes: all projects of the user, or the one of this folder
GOOSE_TIMEOUT = 300  # seconds for a call, what Goose itself writes

HOOK_SCRIPT = (NAME, "hook", "run.py")  # how the path of the script ends in any installation
Entry = Callable[[Sequence[str]], dict[str, Any]]  # of the words of a command


@dataclass(frozen=True, slots=True)
class Edit:
    """One key of one file, and the value that belongs there. `folder`: of the project."""

    file: Path
    syntax: str
    path: tuple[str, ...]
    value: dict[str, Any]
    scope: str
    folder: Path

    @property
    def name(self) -> str:
        return self.path[-1]


@dataclass(frozen=True, slots=True)
class HookEdit:
    """The hooks of one file: `value` has, for each event, an array with one element. `grouped`: the
    element is a group of hooks; else it is the hook itself. `head`: other keys that the file has
    to have."""

    file: Path
    syntax: str
    value: dict[str, list[dict[str, Any]]]
    scope: str
    folder: Path
    grouped: bool
    head: dict[str, Any]
    name: str = "hooks"  # also the key of the file


@dataclass(frozen=True, slots=True)
class HookFiles:
    """Where a client has its hooks: the file of the user, that of a project, "" if it has none."""

    syntax: str
    user: str
    project: str = ""
    afterwards: str = ""


@dataclass(frozen=True, slots=True)
class Client:
    """`files`: of the user, by platform, "" for any other; the first that exists is used, else the
    first. `project_files`: the same below the folder of a project. `variable`: the environment
    variable that moves the folder of the user's file. `signs`: programs, and files or folders
    that show that the client is installed."""

    name: str
    title: str
    syntax: str
    key: str
    entry: Entry
    files: Mapping[str, tuple[str, ...]]
    project_files: tuple[str, ...] = ()
    variable: str = ""
    programs: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    afterwards: str = "Restart it to use memoryd."
    hooks: HookFiles | None = None

    def file(self, scope: str, folder: Path) -> Path:
        """The file to edit for a scope; `folder` is that of the project."""
        if scope == PROJECT:
            choices = [folder / name for name in self.project_files]
        else:
            choices = [_user_path(name, self.variable) for name in _of_platform(self.files)]
        return next((path for path in choices if path.exists()), choices[0])

    def edits(self, command: Sequence[str], scope: str, folder: Path) -> list[Edit]:
        """What to change so that this client starts that command. The first is its server."""
        path = (self.key, NAME)
        file = self.file(scope, folder)
        return [Edit(file, self.syntax, path, self.entry(command), scope, folder)]

    def hook_edit(self, command: Sequence[str], scope: str, folder: Path) -> HookEdit | None:
        """What to change so that this client runs that command at its events; None if it has no
        hooks in this scope. `command`: without the event."""
        name = self.hooks and (self.hooks.project if scope == PROJECT else self.hooks.user)
        if self.hooks is None or not name:
            return None
        file = folder / name if scope == PROJECT else _user_path(name, self.variable)
        head = hooks_block(self.name, [*command])
        value = head.pop("hooks")
        grouped = all("hooks" in element for elements in value.values() for element in elements)
        return HookEdit(file, self.hooks.syntax, value, scope, folder, grouped, head)

    def is_installed(self) -> bool:
        """Whether one of its programs or folders is there."""
        if any(shutil.which(program) for program in self.programs):
            return True
        moved = [self.file(USER, Path())] if os.environ.get(self.variable or "-") else []
        own = [self.file(USER, Path()).parent] if not self.signs else []
        return any(path.exists() for path in (*map(_user_path, self.signs), *moved, *own))


def _of_platform(files: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    return files.get(sys.platform) or files[""]


def _user_path(name: str, variable: str = "") -> Path:
    """A path below the home, or below the folders that the platform has for configurations."""
    if variable and (folder := os.environ.get(variable)):
        return Path(folder) / Path(name).name
    first, _, rest = name.partition("/")
    roots = {
        "CONFIG": os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config",
        "APPDATA": os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming",
    }
    return Path(roots[first], rest) if first in roots else Path.home() / name


def _plain(words: Sequence[str]) -> dict[str, Any]:
    return {"command": words[0], "args": list(words[1:])}


def _typed(words: Sequence[str]) -> dict[str, Any]:
    return {"type": "stdio", **_plain(words)}


def _opencode(words: Sequence[str]) -> dict[str, Any]:
    return {"type": "local", "command": list(words), "enabled": True}


def _goose(words: Sequence[str]) -> dict[str, Any]:
    return {
        "enabled": True,
        "type": "stdio",
        "name": NAME,
        "description": "The memory that agents on this machine share",
        "cmd": words[0],
        "args": list(words[1:]),
        "envs": {},
        "timeout": GOOSE_TIMEOUT,
    }


SUPPORT = "Library/Application Support"  # where applications of macOS keep their files
CODEX_TRUST = "Codex runs new hooks only when you have approved them: start codex and see /hooks."
CLIENTS = (
    Client(
        name="claude-code",
        title="Claude Code",
        syntax="json",
        key="mcpServers",
        entry=_typed,
        files={"": (".claude.json",)},
        project_files=(".mcp.json",),
        variable="CLAUDE_CONFIG_DIR",
        programs=("claude",),
        signs=(".claude.json", ".claude"),
        afterwards="Check it: claude mcp list",
        hooks=HookFiles("json", ".claude/settings.json", ".claude/settings.json"),
    ),
    Client(
        name="claude-desktop",
        title="Claude Desktop",
        syntax="json",
        key="mcpServers",
        entry=_plain,
        files={
            "darwin": (f"{SUPPORT}/Claude/claude_desktop_config.json",),
            "win32": ("APPDATA/Claude/claude_desktop_config.json",),
            "": ("CONFIG/Claude/claude_desktop_config.json",),
        },
    ),
    Client(
        name="cursor",
        title="Cursor",
        syntax="jsonc",
        key="mcpServers",
        entry=_plain,
        files={"": (".cursor/mcp.json",)},
        project_files=(".cursor/mcp.json",),
        programs=("cursor", "cursor-agent"),
        hooks=HookFiles("jsonc", ".cursor/hooks.json", ".cursor/hooks.json"),
    ),
    Client(
        name="vscode",
        title="VS Code",
        syntax="jsonc",
        key="servers",
        entry=_typed,
        files={
            "darwin": (f"{SUPPORT}/Code/User/mcp.json",),
            "win32": ("APPDATA/Code/User/mcp.json",),
            "": ("CONFIG/Code/User/mcp.json",),
        },
        project_files=(".vscode/mcp.json",),
        programs=("code",),
        hooks=HookFiles("jsonc", "", ".github/hooks/memoryd.json"),
    ),
    Client(
        name="codex",
        title="Codex",
        syntax="toml",
        key="mcp_servers",
        entry=_plain,
        files={"": (".codex/config.toml",)},
        variable="CODEX_HOME",
        programs=("codex",),
        afterwards="Check it: codex mcp list",
        hooks=HookFiles("json", ".codex/hooks.json", afterwards=CODEX_TRUST),
    ),
    Client(
        name="gemini",
        title="Gemini CLI",
        syntax="jsonc",
        key="mcpServers",
        entry=_plain,
        files={"": (".gemini/settings.json",)},
        project_files=(".gemini/settings.json",),
        programs=("gemini",),
        afterwards="Check it in a folder that Gemini trusts: gemini mcp list",
        hooks=HookFiles("jsonc", ".gemini/settings.json", ".gemini/settings.json"),
    ),
    Client(
        name="windsurf",
        title="Windsurf",
        syntax="jsonc",
        key="mcpServers",
        entry=_plain,
        files={"": (".codeium/windsurf/mcp_config.json",)},
        programs=("windsurf",),
    ),
    Client(
        name="zed",
        title="Zed",
        syntax="jsonc",
        key="context_servers",
        entry=_plain,
        files={"win32": ("APPDATA/Zed/settings.json",), "": ("CONFIG/zed/settings.json",)},
        programs=("zed", "zeditor"),
        afterwards="Zed reads its settings at once.",
    ),
    Client(
        name="opencode",
        title="opencode",
        syntax="jsonc",
        key="mcp",
        entry=_opencode,
        files={"": ("CONFIG/opencode/opencode.json", "CONFIG/opencode/opencode.jsonc")},
        project_files=("opencode.json", "opencode.jsonc"),
        programs=("opencode",),
        afterwards="Check it: opencode mcp list",
    ),
    Client(
        name="goose",
        title="Goose",
        syntax="yaml",
        key="extensions",
        entry=_goose,
        files={
            "win32": ("APPDATA/Block/goose/config/config.yaml",),
            "": ("CONFIG/goose/config.yaml",),
        },
        programs=("goose",),
    ),
)
BY_NAME = {client.name: client for client in CLIENTS}


def command_of(entry: object) -> list[str]:
    """The words of the command that an entry of any client starts; empty if it starts none."""
    if not isinstance(entry, dict):
        return []
    first = entry.get("command", entry.get("cmd"))
    if isinstance(first, dict):  # as older versions of Zed wrote it
        return command_of({"command": first.get("path"), "args": first.get("args")})
    more = entry.get("args")
    words = [*first] if isinstance(first, list) else [first]
    words += more if isinstance(more, list) else []
    return [word for word in words if isinstance(word, str)] if isinstance(words[0], str) else []


def is_ours(entry: object) -> bool:
    """Whether an entry starts `memoryd mcp`, wherever it is installed."""
    words = command_of(entry)
    if "mcp" not in words[1:]:
        return False
    return Path(words[0]).stem == NAME or ("-m" in words and NAME in words[words.index("-m") :])


def hook_words(hook: object) -> list[str]:
    """The words of the command that a hook of any client runs; empty if it runs none."""
    command = hook.get("command") if isinstance(hook, dict) else None
    if not isinstance(hook, dict) or not isinstance(command, str):
        return []
    if isinstance(more := hook.get("args"), list):  # then no shell splits the command
        return [command, *(word for word in more if isinstance(word, str))]
    try:
        return shlex.split(command)
    except ValueError:  # a quote that does not end
        return command.split()


def is_our_hook(hook: object) -> bool:
    """Whether a hook runs `memoryd hook` or its script, wherever it is installed."""
    # Pieces: the command may be a text for a shell, as in sh -c 'memoryd hook prompt'.
    pieces = [piece for word in hook_words(hook) for piece in word.split()]
    for at, piece in enumerate(pieces):
        path = PurePath(piece)
        if path.parts[-3:] == HOOK_SCRIPT or (path.stem == NAME and "hook" in pieces[at + 1 :]):
            return True
    return False


def is_written_hook(hook: object) -> bool:
    """Whether a hook is one that `memoryd setup` wrote: nobody has to be asked before it goes."""
    words = hook_words(hook)
    return words[1:3] == ["-I", "-S"] and PurePath(*words[3:4]).parts[-3:] == HOOK_SCRIPT
