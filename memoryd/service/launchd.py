"""The daemon as a launchd agent, on macOS."""

from __future__ import annotations

import os
import plistlib
import re
import shutil
from pathlib import Path

from memoryd.service.manager import Command, Done, NoManager, Release, run, write, written

LABEL = "memoryd.daemon"


class Launchd:
    """One agent, kept alive by launchd."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._path = Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        self._domain = f"gui/{os.getuid()}"
        self._agent = f"{self._domain}/{LABEL}"

    def install(self, release: Release) -> Done:
        """Write the agent and start it; a running one is restarted."""
        if shutil.which("launchctl") is None:
            raise NoManager("There is no launchctl here; nothing was changed.")
        with written({self._path: self._text()}):
            release()
            run("launchctl", "bootout", self._agent, check=False)
            run("launchctl", "bootstrap", self._domain, str(self._path))
        return Done((f"Wrote {self._path}", "Started."))

    def write(self) -> Done:
        write(self._path, self._text())
        left = f"launchctl bootstrap {self._domain} {self._path}"
        return Done((f"Wrote {self._path}",), (left,))

    def uninstall(self) -> Done:
        """Stop the agent and remove it."""
        if not self._path.exists():
            return Done(("No agent was installed.",))
        run("launchctl", "bootout", self._agent, check=False)
        self._path.unlink()
        return Done((f"Removed {self._path}",))

    def status(self) -> dict[str, object]:
        return {"manager": "launchd", "installed": self._path.exists(), "loaded": self._is_loaded()}

    def keeps(self) -> bool:
        same = self._path.is_file() and self._path.read_text() == self._text()
        return same and self._is_loaded()

    def pid(self) -> int | None:
        found = re.search(r"^\s*pid = (\d+)$", self._print(), re.M)
        return int(found[1]) if found else None

    def start(self) -> None:
        run("launchctl", "kickstart", self._agent)

    def restart(self) -> None:
        run("launchctl", "kickstart", "-k", self._agent)

    def _is_loaded(self) -> bool:
        return bool(self._print())

    def _print(self) -> str:
        return run("launchctl", "print", self._agent, check=False)

    def _text(self) -> str:
        agent = {
            "Label": LABEL,
            "ProgramArguments": [*self._command.words, "--log-file", str(self._command.log)],
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "Umask": 0o077,
        }
        return plistlib.dumps(agent, sort_keys=False).decode()
