"""The command of this installation, for programs that start it without our environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from memoryd.launch.target import Target, named_data_dir
from memoryd.places import absolute


def command_words(verb: str, target: Target) -> tuple[str, ...]:
    """A command for this target, independent of environment and working directory: with absolute
    paths, and with flags in place of the variables that are set here."""
    return (*_executable(), verb, *target_flags(target))


def target_flags(target: Target) -> tuple[str, ...]:
    """The flags that name this target in any environment and working directory."""
    named = named_data_dir(target.given)
    given = {
        "--config": target.given.get("--config") or os.environ.get("MEMORYD_CONFIG"),
        "--data-dir": named and str(named),
        "--socket": target.socket and str(target.socket),
    }
    paths = {flag: str(absolute(path)) for flag, path in given.items() if path}
    return tuple(word for pair in paths.items() for word in pair)


def _executable() -> tuple[str, ...]:
    """The `memoryd` command of this installation; else the interpreter with the module."""
    beside = Path(sys.executable).parent / "memoryd"
    if os.access(beside, os.X_OK):
        return (str(beside),)
    return (sys.executable, "-P", "-m", "memoryd")
