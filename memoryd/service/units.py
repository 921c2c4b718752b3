"""The texts of the systemd user units. `systemd/` holds the same, for a memoryd in ~/.local/bin."""

from __future__ import annotations

DEFAULT_COMMAND = "%h/.local/bin/memoryd serve"
DEFAULT_SOCKET = "%t/memoryd/memoryd.sock"

# What needs a mount namespace (PrivateTmp, ProtectSystem, ProtectHome) is left out: a user
# manager can only make one where the kernel lets users have namespaces, and fails the start
# elsewhere. MemoryDenyWriteExecute would break native libraries that make code as they run.
SERVICE = """\
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

SOCKET = """\
[Unit]
Description=Where agents reach memoryd

[Socket]
ListenStream={socket}
SocketMode=0600
DirectoryMode=0700

[Install]
WantedBy=sockets.target
"""


def units(command: str = DEFAULT_COMMAND, socket: str = DEFAULT_SOCKET) -> dict[str, str]:
    """Each unit by its file name."""
    return {
        "memoryd.service": SERVICE.format(command=command),
        "memoryd.socket": SOCKET.format(socket=socket),
    }
