"""The MCP clients that memoryd can be added to: one table of what each reads, and where.

`docs/clients.md` says how each row was verified. A client may need more than one change (later its
hooks too), so a client gives a list of edits.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAME = "memoryd"  # the key of our entry; `memory` is what the reference server calls itself
USER, PROJECT = "user", "project"  # scopes: all projects of the user, or the one of this folder
GOOSE_TIMEOUT = 300  # seconds for a call, what Goose itself writes

Entry = Callable[[Sequence[str]], dict[str, Any]]  # of the words of a command


@dataclass(frozen=True, slots=True)
class Edit:
    """One key of one file, and the value that belongs there."""

    file: Path
    syntax: str
    path: tuple[str, ...]
    value: dict[str, Any]
    scope: str


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
        return [Edit(file, self.syntax, path, self.entry(command), scope)]

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
