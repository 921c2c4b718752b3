"""Chroma's index files looked at without Chroma: were they written to the end?

Killed inside its flush, Chroma leaves old and new files side by side. Read together they make
its reader fail, crash, or run in circles with gigabytes: so their sizes are compared first.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from memoryd import files

HEADER = struct.Struct("<IQQQQ")  # version, offset, most elements, elements, bytes an element
WORD = struct.Struct("<I")
VERSION = 1


def is_torn(folder: Path) -> bool:
    """Whether the files of an index under `folder` do not belong together. False also where
    their format is not the one known here: then Chroma has to find out."""
    return any(is_torn_index(path.parent) for path in folder.glob("*/header.bin"))


def scrub(folder: Path) -> None:
    """Blank what no element uses in the files of an index that is closed. It comes from memory
    that was never cleared, and so can hold any text that the process has seen."""
    for path in folder.glob("*/header.bin"):
        version, _, _, count, size = HEADER.unpack_from(path.read_bytes())
        if version != VERSION:
            continue
        place = path.parent / "data_level0.bin"
        with os.fdopen(files.open_file(place, os.O_RDWR), "r+b") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(count * size)
            file.write(bytes(max(0, end - count * size)))


def is_torn_index(index: Path) -> bool:
    """The same for the directory of one index; a file that is missing tears it too."""
    try:
        head = (index / "header.bin").read_bytes()
        if len(head) < HEADER.size:
            return True
        version, _, most, count, size = HEADER.unpack_from(head)
        if version != VERSION:
            return False
        return (
            count > most
            or (index / "data_level0.bin").stat().st_size < count * size
            or not _holds(index / "link_lists.bin", count)
        )
    except FileNotFoundError:
        return True


def _holds(path: Path, count: int) -> bool:
    """Whether the file holds so many lists, each after its length in bytes. More may follow:
    the files are not cut when the index shrinks."""
    data, place = path.read_bytes(), 0
    for _ in range(count):
        if place + WORD.size > len(data):
            return False
        place += WORD.size + WORD.unpack_from(data, place)[0]
    return place <= len(data)
