"""Which daemon a verb is meant for, from flags, variables and the configuration file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from memoryd import places
from memoryd.launch.target import (
    FLAGS,
    Target,
    config_in_use,
    may_set_path,
    named_data_dir,
    named_socket,
)

if TYPE_CHECKING:
    from memoryd.setting_view import Origins
    from memoryd.settings import Config


class Where(TypedDict):
    """Which daemon is meant, as arguments of `Client`."""

    socket: str | None
    data_dir: str | None
    config: str | None
    serves: Path | None


def where(options: argparse.Namespace) -> Where:
    """The arguments of `Client` for this command line. Reads the configuration file if it may name
    the data directory: a verb must never act on other memories. Raises ConfigError."""
    return {
        "socket": options.socket,
        "data_dir": options.data_dir,
        "config": options.config,
        "serves": _configured(options),
    }


def target(options: argparse.Namespace) -> Target:
    """The daemon that is meant."""
    return Target(given(options), _configured(options))


def settings(options: argparse.Namespace) -> Config:
    """Every setting, from this command line, the environment and the configuration file. Raises
    ConfigError."""
    from memoryd.config import load

    return load(config_file(options), flags=setting_flags(options))


def setting_origins(options: argparse.Namespace) -> Origins:
    """Where each setting was set: in the file, by a variable or by a flag."""
    from memoryd.config import file_in_use, sources
    from memoryd.setting_view import origins

    file = config_file(options)
    return origins(sources(file, flags=setting_flags(options)), file_in_use(file))


def config_file(options: argparse.Namespace) -> Path | None:
    """The configuration file that --config names; None if it was not given."""
    return Path(options.config) if options.config else None


def setting_flags(options: argparse.Namespace) -> dict[str, object]:
    """The settings that flags set."""
    return {"memory.path": options.data_dir}


def given(options: argparse.Namespace) -> dict[str, str]:
    """The flags that say which daemon is meant, as far as they were given."""
    values = (options.data_dir, options.socket, options.config)
    return {flag: value for flag, value in zip(FLAGS, values, strict=True) if value}


def _configured(options: argparse.Namespace) -> Path | None:
    """The data directory that the configuration file in use names; None if a flag or a variable
    names one, or the file does not set it."""
    flags = given(options)
    file = config_in_use(flags)
    if named_data_dir(flags) or file is None or not may_set_path(file):
        return None
    from memoryd.config import data_dir_in

    # A named socket without a named directory means any daemon that listens there.
    return data_dir_in(file) or (None if named_socket(flags) else places.data_dir())
