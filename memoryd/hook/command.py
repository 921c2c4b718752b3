"""The command line that runs a hook, for the configuration of a client."""

from __future__ import annotations

import os
import sys


def hook_command(data_dir: str = "", socket: str = "") -> list[str]:
    """The quickest command line of `memoryd hook`; the event and `--client NAME` follow. Absolute
    paths: a client may have another PATH. With the data directory no configuration file has to be
    looked at."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run.py")
    flags = [
        *(["--data-dir", data_dir] if data_dir else []),
        *(["--socket", socket] if socket else []),
    ]
    # -I: nothing of the environment or the working directory; -S: no installed packages.
    return [sys.executable, "-I", "-S", script, *flags]
