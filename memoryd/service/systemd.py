"""The daemon as a systemd user service: systemd listens, the first client starts the daemon."""

from __future__ import annotations

import os
from pathlib import Path

from memoryd import __version__, daemon_record, places
from memoryd.daemon_record import JOURNAL, MANAGED, Record
from memoryd.service.manager import (
    Command,
    Done,
    NoManager,
    Release,
    ServiceError,
    run,
    write,
    written,
)

SERVICE, SOCKET = "memoryd.service", "memoryd.socket"
QUERY_TIMEOUT = 2.0  # seconds for a query whose answer is not essential

# The texts of the units. `systemd/` holds the same, for a memoryd in ~/.local/bin.
DEFAULT_COMMAND = "%h/.local/bin/memoryd serve"
DEFAULT_SOCKET = "%t/memoryd/memoryd.sock"

# Options that need a mount namespace (PrivateTmp, ProtectSystem, ProtectHome) are left out: a user
# manager can only create one where the kernel allows user namespaces, and fails the start
# elsewhere. MemoryDenyWriteExecute would break native libraries that generate code at run time.
SERVICE_UNIT = """\
[Unit]
Description=memoryd, the memory that agents on this machine share
Requires=memoryd.socket
After=memoryd.socket

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
WatchdogSec=30
Restart=on-failure
RestartSec=1
# Another daemon serves the directory already: starting again will not change that.
RestartPreventExitStatus=3
TimeoutStopSec=15
KillMode=mixed
UMask=0077
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native

[Install]
WantedBy=default.target
Also=memoryd.socket
"""

SOCKET_UNIT = """\
[Unit]
Description=Where agents reach memoryd

[Socket]
ListenStream={socket}
SocketMode=0600
DirectoryMode=0700

[Install]
WantedBy=sockets.target
"""


class Systemd:
    """A service unit and a socket unit of this user."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._socket = _own_socket(command)
        home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        self._folder = Path(home) / "systemd" / "user"

    def install(self, release: Release) -> Done:
        """Write the units and let systemd listen. A running daemon is stopped only once systemd
        has read and enabled them."""
        if not self._answers():
            raise NoManager("No systemd user manager answers here; nothing was changed.")
        is_new = not (self._folder / SOCKET).exists()
        try:
            with written(self._files()):
                self._listen(release, is_new)
                self._record()
        except BaseException:
            run("systemctl", "--user", "daemon-reload", check=False)
            raise
        return Done((*self._wrote(), "Listening: the first client starts the daemon."))

    def _listen(self, release: Release, is_new: bool) -> None:
        try:
            self._tell("daemon-reload")
            self._tell("enable", SOCKET)
            release()
            self._tell("restart", SOCKET)
        except BaseException:
            if is_new:
                run("systemctl", "--user", "disable", "--now", SOCKET, check=False)
            raise

    def _record(self) -> None:
        """Record the socket for clients, also for those without XDG_RUNTIME_DIR."""
        folder = self._command.data_dir
        listen = self._socket or next(iter(places.runtime_sockets()), None)
        if listen is not None:
            places.make_private(folder)
            daemon_record.write(Record(0, str(listen), str(folder), MANAGED, JOURNAL, __version__))

    def write(self) -> Done:
        for path, text in self._files().items():
            write(path, text)
        left = ("daemon-reload", f"enable --now {SOCKET}")
        return Done(self._wrote(), tuple(f"systemctl --user {words}" for words in left))

    def uninstall(self) -> Done:
        """Stop both units and remove them."""
        answers = self._answers()
        if answers:
            run("systemctl", "--user", "disable", "--now", SERVICE, SOCKET, check=False)
        there = [path for path in self._files() if path.exists()]
        for path in there:
            path.unlink()
        if (known := daemon_record.read(self._command.data_dir)) and known.state == MANAGED:
            daemon_record.remove(self._command.data_dir)
        if answers:
            self._tell("daemon-reload")
        removed = tuple(f"Removed {path}" for path in there) or ("No unit was installed.",)
        return Done(removed, () if answers or not there else ("systemctl --user daemon-reload",))

    def status(self) -> dict[str, object]:
        """Whether the units are installed, and their state in systemd."""
        there = [path for path in self._files() if path.exists()]
        answers = self._answers()
        found: dict[str, object] = {
            "manager": "systemd" if answers else "systemd, which does not answer here",
            "installed": len(there) == len(self._files()),
            "files": ", ".join(map(str, there)) or "none",
        }
        for name in (SERVICE, SOCKET):
            active = run("systemctl", "--user", "is-active", name, check=False) if answers else ""
            found[name] = active or "unknown"
        return found

    def keeps(self) -> bool:
        # The socket identifies the daemon: one of another directory listens elsewhere.
        path, text = self._folder / SOCKET, self._files()[self._folder / SOCKET]
        return path.is_file() and path.read_text() == text and self._answers(QUERY_TIMEOUT)

    def pid(self) -> int | None:
        words = ("show", "--property=MainPID", "--value", SERVICE)
        found = run("systemctl", "--user", *words, check=False, timeout=QUERY_TIMEOUT)
        return int(found) or None if found.isdecimal() else None

    def start(self) -> None:
        """Start both units; the socket anew, as a daemon outside systemd deletes its file."""
        self._tell("restart", SOCKET)
        self._tell("start", SERVICE)

    def restart(self) -> None:
        self._tell("restart", SERVICE)

    def _files(self) -> dict[Path, str]:
        line = " ".join(_quoted(word) for word in self._command.words)
        listen = str(self._socket).replace("%", "%%") if self._socket else None
        texts = units(line, listen or DEFAULT_SOCKET)
        return {self._folder / name: text for name, text in texts.items()}

    def _wrote(self) -> tuple[str, ...]:
        return tuple(f"Wrote {path}" for path in self._files())

    def _tell(self, *words: str) -> None:
        run("systemctl", "--user", *words)

    def _answers(self, timeout: float = 10.0) -> bool:
        """Whether a systemd manager of this user answers."""
        words = ("systemctl", "--user", "show-environment")
        return bool(run(*words, check=False, timeout=timeout))


def _own_socket(command: Command) -> Path | None:
    """The socket where systemd is to listen; None for the default one. Raises ServiceError."""
    if command.socket or command.data_dir == places.data_dir():
        return command.socket
    own = command.data_dir / places.SOCKET
    found = own if places.fits_socket(own) else places.short_runtime_socket(command.data_dir)
    if found is None:
        raise ServiceError(
            f"The path of a socket in {command.data_dir} would be too long.",
            hint="Name a shorter one: --socket PATH",
        )
    return found


def _quoted(word: str) -> str:
    """A word of ExecStart: systemd expands % and $, and splits at spaces."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{word}"' if any(c in word for c in " \t\"'\\;") else word


def units(command: str = DEFAULT_COMMAND, socket: str = DEFAULT_SOCKET) -> dict[str, str]:
    """Each unit by its file name."""
    return {
        SERVICE: SERVICE_UNIT.format(command=command),
        SOCKET: SOCKET_UNIT.format(socket=socket),
    }
