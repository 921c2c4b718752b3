"""What systemd and a daemon tell each other: sockets passed in, state passed out."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

import anyio

FIRST_PASSED = 3  # descriptors before it are the standard ones
START_EXTENSION = 90  # seconds that a start may go on for, asked for again and again


def passed_socket() -> socket.socket | None:
    """The listening socket that the service manager holds for us, if it started us for one."""
    if os.environ.pop("LISTEN_PID", "") != str(os.getpid()):
        return None
    count = int(os.environ.pop("LISTEN_FDS", "0") or 0)
    os.environ.pop("LISTEN_FDNAMES", None)
    if count < 1:
        return None
    found = socket.socket(fileno=FIRST_PASSED)
    if found.family != socket.AF_UNIX:
        found.close()
        return None  # anybody could use it: the network doors have settings and a token
    found.set_inheritable(False)
    return found


def notify(state: str) -> None:
    """Tell the service manager, if there is one; it is no error if it does not listen."""
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
    """Show twice in each period that the event loop turns; a stuck daemon is restarted."""
    period = int(os.environ.get("WATCHDOG_USEC", "0") or 0) / 1e6
    mine = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    while period and mine:
        notify("WATCHDOG=1")
        await anyio.sleep(period / 2)


async def ask_for_time(is_starting: Callable[[], bool]) -> None:
    """Have a slow start waited for: a daemon that opens a large store is not to be killed."""
    while is_starting():
        notify(f"EXTEND_TIMEOUT_USEC={START_EXTENSION * 1_000_000}")
        await anyio.sleep(START_EXTENSION / 3)
