"""The systemd protocols: socket activation, notifications, watchdog."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

import anyio

FIRST_PASSED_FD = 3  # after stdin, stdout and stderr
START_EXTENSION = 90  # seconds by which a start is extended, repeatedly


def passed_socket() -> socket.socket | None:
    """The listening socket that the service manager passed; None if it passed none."""
    if os.environ.pop("LISTEN_PID", "") != str(os.getpid()):
        return None
    count = int(os.environ.pop("LISTEN_FDS", "0") or 0)
    os.environ.pop("LISTEN_FDNAMES", None)
    if count < 1:
        return None
    found = socket.socket(fileno=FIRST_PASSED_FD)
    if found.family != socket.AF_UNIX:
        found.close()
        return None  # a TCP socket is open to every user: network doors have settings and a token
    found.set_inheritable(False)
    return found


def notify(state: str) -> None:
    """Send a state to the service manager; does nothing if there is none."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    name = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        try:
            sender.connect(name)
            sender.sendall(state.encode())
        except OSError:
            return


async def feed_watchdog() -> None:
    """Notify the watchdog twice per period; systemd restarts a daemon whose event loop is stuck."""
    period = int(os.environ.get("WATCHDOG_USEC", "0") or 0) / 1e6
    mine = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    while period and mine:
        notify("WATCHDOG=1")
        await anyio.sleep(period / 2)


async def ask_for_time(is_starting: Callable[[], bool]) -> None:
    """Extend the start timeout while a daemon is starting: a large store takes long to open."""
    while is_starting():
        notify(f"EXTEND_TIMEOUT_USEC={START_EXTENSION * 1_000_000}")
        await anyio.sleep(START_EXTENSION / 3)
