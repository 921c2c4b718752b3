"""The folder that becomes the bundle for Claude Desktop; run by scripts/bundle, which packs it."""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

from memoryd.doors.schemas import BY_TOOLSET

ROOT = Path(__file__).parent.parent
LAUNCHER = "launch.js"


def manifest() -> dict[str, Any]:
    """What Claude Desktop reads: version and description are those of the package, and the tools
    are those that a client gets that asks for no toolset."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {
        "manifest_version": "0.3",
        "name": project["name"],
        "version": project["version"],
        "description": project["description"],
        "author": {"name": project["name"]},
        "license": project["license"],
        "server": {
            "type": "node",
            "entry_point": LAUNCHER,
            "mcp_config": {
                "command": "node",
                "args": [f"${{__dirname}}/{LAUNCHER}"],
                "env": {"BUNDLE_COMMAND": "${user_config.command}"},
            },
        },
        "tools": [
            {"name": tool.name, "description": tool.description} for tool in BY_TOOLSET["core"]
        ],
        "compatibility": {"platforms": ["darwin", "linux"], "runtimes": {"node": ">=18"}},
        "user_config": {
            "command": {
                "type": "file",
                "title": "The command memoryd",
                "description": "Only if it is not found by itself: its full path, which "
                "`command -v memoryd` prints.",
                "required": False,
            }
        },
    }


def build(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps(manifest(), indent=2) + "\n")
    shutil.copy(ROOT / "bundle" / LAUNCHER, folder)
    shutil.copy(ROOT / "LICENSE", folder)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
