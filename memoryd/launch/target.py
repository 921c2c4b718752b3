"""Which daemon is meant: flags and environment as a data directory and the sockets to try.

Flags win over variables. A configuration file may name the data directory, but nothing here
reads YAML: a file without the word `path` names none, and for any other file the daemon that read
it last has recorded the directory (see `daemon_record`). Without such a record the directory is
unknown: a daemon has to be started, which says where it, or the one that already runs, listens.
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

# The flags that say which daemon is meant, and their variables; all are paths.
FLAGS = {
    "--data-dir": "MEMORYD_DATA_DIR",
    "--socket": "MEMORYD_SOCKET",
    "--config": "MEMORYD_CONFIG",
}
DATA_VARIABLES = ("MEMORYD_MEMORY_PATH", "MEMORYD_DATA_DIR")  # the full name wins
PATH_VARIABLES = (*FLAGS.values(), "MEMORYD_MEMORY_PATH")


class Target:
    """The daemon to connect to.

    `socket`: the one that was named, if any; then no other is tried. `given`: the flags for a
    daemon that has to be started, `variables`: its further environment. `serves`: the data
    directory, if the caller knows it.
    """

    def __init__(
        self,
        given: Mapping[str, str],
        serves: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.given = {flag: str(absolute(path)) for flag, path in given.items() if path}
        self.variables = dict(variables or {})
        self.socket = named_socket(self.given)
        self._named_data_dir = serves or named_data_dir(self.given)

    @property
    def data_dir(self) -> Path | None:
        """The data directory; None if it is unknown until a daemon has read the configuration.
        Not cached: a daemon that starts meanwhile records it."""
        if self._named_data_dir is not None:
            return self._named_data_dir
        file = config_in_use(self.given)
        if file is None or not may_set_path(file):
            return places.data_dir()
        return daemon_record.noted_config(file)

    @property
    def expected(self) -> Path | None:
        """The directory that the daemon must serve; None if only a socket was named."""
        return self._named_data_dir if self.socket else self.data_dir

    def sockets(self) -> Iterator[Path]:
        """The sockets where it may listen, the likeliest first."""
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
        """The socket to name in messages: where it last listened, or would listen."""
        return next(self.sockets(), places.data_dir() / places.SOCKET)

    @property
    def log(self) -> Path:
        """The log of a daemon that is started for this target."""
        if folder := named_data_dir(self.given):
            return folder / "daemon.log"
        if self.socket is not None:
            return self.socket.with_suffix(".log")
        named = self.given.get("--config") or os.environ.get("MEMORYD_CONFIG")
        key = f"-{binascii.crc32(os.fsencode(absolute(named))):08x}" if named else ""
        return places.state_dir() / f"daemon{key}.log"

    @property
    def startup_file(self) -> Path:
        """The file for its output during the start. It is locked until the daemon listens."""
        folder = self.data_dir
        return folder / "daemon.start" if folder else self.log.with_suffix(".start")


def named_socket(given: Mapping[str, str]) -> Path | None:
    """The socket that was named; None if none was. --data-dir wins over MEMORYD_SOCKET."""
    named = given.get("--socket")
    if not named and not given.get("--data-dir"):
        named = os.environ.get("MEMORYD_SOCKET")
    return absolute(named) if named else None


def named_data_dir(given: Mapping[str, str]) -> Path | None:
    """The data directory that a flag or a variable names; None if none does."""
    values = (given.get("--data-dir"), *(os.environ.get(name) for name in DATA_VARIABLES))
    return next((absolute(value) for value in values if value), None)


def config_in_use(given: Mapping[str, str]) -> Path | None:
    """The configuration file that a daemon would read; None if there is none."""
    named = given.get("--config") or os.environ.get("MEMORYD_CONFIG")
    if named:
        return absolute(named)
    return places.config_file() if os.path.exists(places.config_file()) else None


def may_set_path(file: Path) -> bool:
    """Whether a configuration file may set `memory.path`. May be true for a file that does not
    (the word may mean something else), and is true for one that cannot be read: the daemon that
    reads it reports the error."""
    try:
        text = files.read_text(file, named=True)
    except (OSError, ValueError):
        return True
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    # A backslash could hide the word: YAML has escapes.
    return any("path" in line or "\\" in line for line in lines)
