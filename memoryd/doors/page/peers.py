"""Whose browser it is: the user of a connection over loopback, where the system tells.

The link of `memoryd dashboard` is an argument of the program that opens the browser, so other users
of the machine can see it in the process list for a moment. They cannot log in with it.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path

TABLES = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}


def uid_of(host: str, port: int) -> int | None:
    """The user whose process has this end of a TCP connection of the machine; None if the system
    does not tell."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        wanted = f"{_in_table(family, host)}:{port:04X}"
        lines = TABLES[family].read_text().splitlines()[1:]
    except (OSError, ValueError):
        return None
    for line in lines:
        fields = line.split()
        if len(fields) > 7 and fields[1] == wanted:
            return int(fields[7])
    return None


def _in_table(family: int, host: str) -> str:
    """An address as the table has it: words of 32 bits in the byte order of the machine."""
    packed = socket.inet_pton(family, host)
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words)
