"""Real git checkouts, made without the user's own settings."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SETTINGS = ("user.name=a", "user.email=a@b", "protocol.file.allow=always")


def git(folder: Path, *words: str) -> None:
    """Run git in a folder, which is made if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    given = [word for setting in SETTINGS for word in ("-c", setting)]
    env = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", *given, *words], cwd=folder, env=env, check=True, capture_output=True)


def checkout(folder: Path, remote: str = "") -> Path:
    """A checkout with one commit; with a remote if it is named."""
    git(folder, "init", "-q")
    if remote:
        git(folder, "remote", "add", "origin", remote)
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder
