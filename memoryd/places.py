"""Where files live on each platform, and what else differs between them. Standard library."""

from __future__ import annotations

import os
import socket
import struct
import sys
from pathlib import Path
from typing import Any

APP = "memoryd"
# Windows' Python has none: there the same lines go over loopback TCP, and the file at the
# socket's path says the port and the token.
HAS_UNIX_SOCKETS = hasattr(socket, "AF_UNIX")
LOOPBACK = "127.0.0.1"


def _home(variable: str, unix: str, mac: str, windows: str) -> Path:
    """A base directory: XDG on Unix (the variable wins), the native place elsewhere."""
    named = os.environ.get(variable)
    if named and Path(named).is_absolute():  # XDG: a relative path is to be ignored
        return Path(named) / APP
    if sys.platform == "darwin":
        return Path.home() / mac / APP
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData/Local")) / APP / windows
    return Path.home() / unix / APP


def data_dir() -> Path:
    """Default home of the store."""
    return _home("XDG_DATA_HOME", ".local/share", "Library/Application Support", "data")


def config_file() -> Path:
    """Default place of the user's configuration."""
    return _home("XDG_CONFIG_HOME", ".config", "Library/Preferences", "config") / "config.yaml"


def cache_dir() -> Path:
    """Home of what can be made again: prepared models."""
    return _home("XDG_CACHE_HOME", ".cache", "Library/Caches", "cache")


def socket_path(socket: str | None = None, data: str | None = None) -> Path:
    """Where the daemon listens, from the flags or else the environment.

    Deliberately not from the configuration file: the shim has to agree, and reads no YAML. A
    data directory of its own brings a socket of its own, so daemons can live side by side.
    """
    environ = os.environ
    for flag, place in (
        (socket, data),
        (environ.get("MEMORYD_SOCKET"), environ.get("MEMORYD_DATA_DIR")),
    ):
        if flag:
            return Path(flag).expanduser().absolute()
        if place:
            return Path(place).expanduser().absolute() / "memoryd.sock"
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return (Path(runtime) / APP if runtime else data_dir()) / "memoryd.sock"


def loopback(path: Path) -> tuple[int, str] | None:
    """Port and token where there are no Unix sockets; None where there are. Raises
    FileNotFoundError, like a connection to a socket that is not there."""
    if HAS_UNIX_SOCKETS:
        return None
    port, token = path.read_text().split()
    return int(port), token


def log_path(data: str | None = None, socket: str | None = None) -> Path:
    """Where a daemon that was started in the background writes its log: one for each that can
    live beside the others."""
    if place := data or os.environ.get("MEMORYD_DATA_DIR"):
        return Path(place).expanduser().absolute() / "daemon.log"
    if named := socket or os.environ.get("MEMORYD_SOCKET"):
        return Path(named).expanduser().absolute().with_suffix(".log")
    return _home("XDG_STATE_HOME", ".local/state", "Library/Logs", "log") / "daemon.log"


def peer_uid(sock: Any) -> int | None:
    """The user at the other end of a Unix socket; None where the system does not tell."""
    if sock.family != getattr(socket, "AF_UNIX", None):
        return None
    if hasattr(socket, "SO_PEERCRED"):
        found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", found)[1])
    if sys.platform == "darwin":
        # struct xucred: version, uid, number of groups, groups; SOL_LOCAL 0, LOCAL_PEERCRED 1
        return int(struct.unpack_from("2I", sock.getsockopt(0, 1, 76))[1])
    return None


def try_lock(handle: int) -> bool:
    """Lock an open file for the life of its descriptor; false if another process has it.

    The kernel frees it when the process dies, which no file that merely says who it was does.
    """
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def raise_file_limit() -> None:
    """As many descriptors as we may have: each client is one."""
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
