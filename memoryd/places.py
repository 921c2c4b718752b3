"""Where files are on each platform, and other platform differences. Standard library only."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import sys
from pathlib import Path
from typing import Any

APP = "memoryd"
# Python on Windows has none: there the same lines go over loopback TCP, and the file at the
# socket's path holds the port and the token.
HAS_UNIX_SOCKETS = hasattr(socket, "AF_UNIX")
LOOPBACK = "127.0.0.1"
SOCKET = "memoryd.sock"
MAX_SOCKET_PATH = 100  # bytes; the limits of the systems are 104 and 108
SESSIONS = Path("/run/user")  # where systemd keeps the runtime directory of each user
SHORT_DIR = "memoryd-socket-"  # prefix of the name of a directory for a socket
UNIX_DATA = ".local/share"


def _home(variable: str, unix: str, mac: str, windows: str) -> Path:
    """A base directory: XDG on Unix (the variable wins), the native place elsewhere."""
    named = os.environ.get(variable)
    if named and Path(named).is_absolute():  # XDG says to ignore a relative path
        return Path(named) / APP
    if sys.platform == "darwin":
        return Path.home() / mac / APP
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData/Local")) / APP / windows
    return Path.home() / unix / APP


def data_dir() -> Path:
    """The default data directory."""
    return _home("XDG_DATA_HOME", UNIX_DATA, "Library/Application Support", "data")


def config_file() -> Path:
    """The default path of the user's configuration."""
    return _home("XDG_CONFIG_HOME", ".config", "Library/Preferences", "config") / "config.yaml"


def cache_dir() -> Path:
    """The directory for what can be created again: prepared models."""
    return _home("XDG_CACHE_HOME", ".cache", "Library/Caches", "cache")


def own_sockets(data: Path) -> list[Path]:
    """Where a daemon of this data directory listens if no socket is named, the best first."""
    shared = runtime_sockets() if data == data_dir() else []
    return [*shared, data / SOCKET]


def runtime_sockets() -> list[Path]:
    """Sockets that a daemon of the default data directory may listen on, the best first.

    The runtime directory of the login session is used even if its variable is not set, as MCP SDKs
    do not pass it on. But it belongs only to the data directory in the user's real home: with
    another HOME or XDG_DATA_HOME other memories are meant, and these must not be reached.
    """
    named = os.environ.get("XDG_RUNTIME_DIR")
    folders = [Path(named)] if named and Path(named).is_absolute() else []
    session = _session_dir()
    if session is not None and session not in folders:
        folders.append(session)
    if session in folders and not _is_standard(data_dir()):
        folders.remove(session)
    return [folder / APP / SOCKET for folder in folders]


def _session_dir() -> Path | None:
    """The runtime directory of this user's login session; None if there is none."""
    if not hasattr(os, "getuid"):
        return None
    folder = SESSIONS / str(os.getuid())
    try:
        return folder if folder.stat().st_uid == os.getuid() else None
    except OSError:
        return None


def _is_standard(folder: Path) -> bool:
    """Whether this is the data directory in the user's real home."""
    import pwd  # not on every platform

    try:
        home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # a user without an entry, as in some containers
        return False
    return folder == home / UNIX_DATA / APP


def short_socket(data: Path) -> Path:
    """A private socket with a short path, for a data directory whose own path is too long: the
    limit is about a hundred bytes. Without a runtime directory, a new directory is created."""
    import tempfile

    if found := short_runtime_socket(data):
        return found
    return Path(tempfile.mkdtemp(prefix=SHORT_DIR, dir="/tmp")) / _short_name(data)


def short_runtime_socket(data: Path) -> Path | None:
    """The same in the runtime directory; None if there is none. Creates nothing."""
    found = (place.with_name(_short_name(data)) for place in runtime_sockets())
    return next((path for path in found if fits_socket(path)), None)


def fits_socket(path: Path) -> bool:
    """Whether the path is short enough for a socket."""
    return not HAS_UNIX_SOCKETS or len(os.fsencode(path)) <= MAX_SOCKET_PATH


def _short_name(data: Path) -> str:
    import binascii

    return f"{binascii.crc32(os.fsencode(data)):08x}.sock"


def absolute(path: str | Path) -> Path:
    """The path with `~` expanded, independent of the working directory."""
    return Path(path).expanduser().absolute()


def loopback(path: Path) -> tuple[int, str] | None:
    """Port and token where there are no Unix sockets; None where there are. Raises
    FileNotFoundError, as connecting to a missing socket does."""
    if HAS_UNIX_SOCKETS:
        return None
    port, token = path.read_text().split()
    return int(port), token


def state_dir() -> Path:
    """The directory for logs."""
    return _home("XDG_STATE_HOME", ".local/state", "Library/Logs", "log")


def peer_uid(sock: Any) -> int | None:
    """The uid at the other end of a Unix socket; None where the system does not say."""
    if sock.family != getattr(socket, "AF_UNIX", None):
        return None
    if hasattr(socket, "SO_PEERCRED"):
        found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", found)[1])
    if sys.platform == "darwin":
        # struct xucred: version, uid, number of groups, groups; SOL_LOCAL 0, LOCAL_PEERCRED 1
        return int(struct.unpack_from("2I", sock.getsockopt(0, 1, 76))[1])
    return None


def is_listened_on(path: Path) -> bool:
    """Whether a process listens on a Unix socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:  # the accept queue is full
            return True
        except OSError:
            return False
        return True


def hung_up(sock: Any) -> bool:
    """Whether the other end closed the socket in both directions; true where the system does not
    say."""
    if sock is None or not hasattr(select, "poll"):
        return True
    (poll := select.poll()).register(sock.fileno(), select.POLLIN)
    return any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))


def make_private(folder: Path) -> None:
    """Create a directory and its missing parents, for this user only."""
    if folder.is_dir():
        return
    make_private(folder.parent)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not folder.is_dir():  # else another process created it first
            raise NotADirectoryError(f"not a directory: {folder}") from None


def try_lock(handle: int) -> bool:
    """Lock an open file until its descriptor is closed; false if another process has the lock.

    Not a pid file: the kernel frees a lock when the process dies.
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


def is_alive(pid: int) -> bool:
    """Whether there is such a process; true where that cannot be checked."""
    if pid <= 0:
        return False
    if sys.platform == "win32":  # signal 0 would end it
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def raise_file_limit() -> None:
    """Raise the limit of open files to the maximum: each client is one."""
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def forbid_core_dumps() -> None:
    """Disable core dumps, also for children: a crash must not write memories to a file."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def release_free_memory() -> None:
    """Give memory that was freed back to the system, where the C library can."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
