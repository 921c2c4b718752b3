"""Which daemon is meant: flags and environment as a data directory and the sockets to try.

Flags come before variables. A configuration file may name the data directory, but nothing here
reads YAML: a file without the word `path` names none, and what any other names was noted by the
daemon that read it last (see `record`). Where even that is missing the directory is not known;
a daemon has to be started, and says where it or the one before it listens.
"""

from __future__ import annotations

import binascii
import os
from pathlib import Path
from typing import TYPE_CHECKING

from memoryd import daemon_record, files, places
from memoryd.places import absolute

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# What a process of ours is told, by flag and by variable; all are paths.
FLAGS = {
    "--data-dir": "MEMORYD_DATA_DIR",
    "--socket": "MEMORYD_SOCKET",
    "--config": "MEMORYD_CONFIG",
}
DATA_VARIABLES = ("MEMORYD_MEMORY_PATH", "MEMORYD_DATA_DIR")  # the full name wins
PATH_VARIABLES = (*FLAGS.values(), "MEMORYD_MEMORY_PATH")


class Target:
    """The daemon that somebody looks for.

    `data_dir` is None where only a daemon can tell. `socket` was named: no other is tried.
    `given` are the flags for a daemon that has to be started.
    """

    def __init__(self, given: Mapping[str, str], serves: Path | None = None) -> None:
        self.given = {flag: str(absolute(path)) for flag, path in given.items() if path}
        self.socket = named_socket(self.given)
        self._told = serves or told_data_dir(self.given)

    @property
    def data_dir(self) -> Path | None:
        """Asked anew each time: a daemon that starts notes what its configuration names."""
        if self._told is not None:
            return self._told
        file = config_in_use(self.given)
        if file is None or not names_path(file):
            return places.data_dir()
        return daemon_record.noted_config(file)

    @property
    def expected(self) -> Path | None:
        """The directory that the daemon must serve. Who names only a socket takes what is there."""
        return self._told if self.socket else self.data_dir

    def sockets(self) -> Iterator[Path]:
        """Where it may listen, the likeliest first."""
        if self.socket is not None:
            yield self.socket
            return
        folder = self.data_dir
        if folder is None:
            return
        if (known := daemon_record.read(folder)) and known.socket:
            yield Path(known.socket)
        yield from places.own_sockets(folder)

    @property
    def place(self) -> Path:
        """The socket to name in a message: the one it was last seen at, or would be."""
        return next(self.sockets(), places.data_dir() / places.SOCKET)

    @property
    def log(self) -> Path:
        """Where a daemon that is started for this target logs."""
        if folder := told_data_dir(self.given):
            return folder / "daemon.log"
        if self.socket is not None:
            return self.socket.with_suffix(".log")
        named = self.given.get("--config") or os.environ.get("MEMORYD_CONFIG")
        key = f"-{binascii.crc32(os.fsencode(absolute(named))):08x}" if named else ""
        return places.state_dir() / f"daemon{key}.log"

    @property
    def words(self) -> Path:
        """Where its first words go. It is locked while a daemon is on its way."""
        folder = self.data_dir
        return folder / "daemon.start" if folder else self.log.with_suffix(".start")


def named_socket(given: Mapping[str, str]) -> Path | None:
    """The socket that was named. A flag for the directory beats a variable for the socket."""
    named = given.get("--socket")
    if not named and not given.get("--data-dir"):
        named = os.environ.get("MEMORYD_SOCKET")
    return absolute(named) if named else None


def told_data_dir(given: Mapping[str, str]) -> Path | None:
    """The data directory that was named by a flag or a variable."""
    values = (given.get("--data-dir"), *(os.environ.get(name) for name in DATA_VARIABLES))
    return next((absolute(value) for value in values if value), None)


def config_in_use(given: Mapping[str, str]) -> Path | None:
    """The configuration file that a daemon would read, if there is one."""
    named = given.get("--config") or os.environ.get("MEMORYD_CONFIG")
    if named:
        return absolute(named)
    return places.config_file() if os.path.exists(places.config_file()) else None


def names_path(file: Path) -> bool:
    """Whether a configuration file may set `memory.path`. Wrong only in one direction: the word
    may mean something else, and a file that cannot be read is for a daemon to complain of."""
    try:
        text = files.read_text(file, named=True)
    except (OSError, ValueError):
        return True
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    # A backslash could hide the word: YAML has escapes.
    return any("path" in line or "\\" in line for line in lines)
