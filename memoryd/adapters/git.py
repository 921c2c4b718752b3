"""What git knows about the files of a folder, asked of the `git` command.

Two commits are compared, never the working tree: that would run the filters that a repository
configures. Nothing is written, fetched or locked, and no hook runs.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

TIMEOUT = 10.0  # seconds for one question
OPTIONS = (
    "--no-optional-locks",
    "--literal-pathspecs",
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "protocol.allow=never"),  # a partial clone would fetch what is missing
)
QUIET = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}


class Git:
    """See `memoryd.ports.FileHistory`."""

    def changed(self, folder: Path, commit: str, files: Sequence[str]) -> set[str] | None:
        compare = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--relative")
        since = f"{commit}^{{commit}}"
        command = ["git", *OPTIONS, *compare, "--end-of-options", since, "HEAD", "--", *files]
        # Not the repository that the daemon's own environment names.
        environ = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=environ | QUIET,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired, ValueError):
            return None  # there is no git, or it is too slow
        if done.returncode != 0:
            return None  # no repository, or it does not know the commit
        return {os.fsdecode(name) for name in done.stdout.split(b"\0") if name}
