"""What tests of real processes share."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

import anyio


def free_port() -> int:
    """A loopback port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_running(pid: int) -> bool:
    """Whether the process lives; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for a condition; fail if it does not come."""
    with anyio.fail_after(seconds):
        while not holds():  # noqa: ASYNC110 (it is outside this process)
            await anyio.sleep(0.01)


def environment(**changes: str) -> dict[str, str]:
    """Ours, with changes, and without any memoryd setting. Without a project too: tests run in a
    git checkout."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MEMORYD_")}
    return kept | {"MEMORYD_PROJECT": ""} | changes
