"""The table of contents of a snapshot file, and the name of the index that was saved last. Imports
little: the store worker is told that name before the daemon is imported."""

from __future__ import annotations

import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any

from memoryd import files
from memoryd.index_files import WHOLE

MAGIC = b"memoryd index 3\n"
TAIL = struct.Struct("!QI")  # the end of the file: length and checksum of the table of contents


def recent_path(snapshot: Path) -> Path:
    """The file of what was written after a snapshot."""
    return snapshot.with_name(f"{snapshot.stem}-recent.snapshot")


def saved_name(snapshot: Path) -> str:
    """The name of the index whose snapshot this is, if all of it was saved; empty if not."""
    try:
        file = files.Handle(files.open_file(recent_path(snapshot), os.O_RDONLY))
        return str(contents_of(file)["about"][WHOLE]["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def contents_of(file: files.Handle) -> dict[str, Any]:
    """The table of contents; ValueError if this is not such a file."""
    handle = file.fileno()
    end = os.fstat(handle).st_size - TAIL.size
    if os.pread(handle, len(MAGIC), 0) != MAGIC or end < 0:
        raise ValueError("not a snapshot")
    length, check = TAIL.unpack(os.pread(handle, TAIL.size, end))
    if length > end:  # before that much memory is allocated
        raise ValueError("the table of contents is longer than the file")
    data = os.pread(handle, length, end - length)
    if zlib.crc32(data) != check:
        raise ValueError("the checksum of the table of contents is wrong")
    found: dict[str, Any] = json.loads(data)
    return found
