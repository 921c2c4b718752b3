"""Check Chroma's index files without Chroma: were they written completely?

A kill during its flush leaves old and new files side by side. Chroma's reader then fails, crashes
or loops while it takes gigabytes: so the sizes of the files are compared first.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from memoryd import files

HEADER = struct.Struct("<IQQQQ")  # version, offset, most elements, elements, bytes an element
WORD = struct.Struct("<I")
VERSION = 1
DATA = "data_level0.bin"  # the vectors and their neighbours


def is_torn(folder: Path) -> bool:
    """Whether the files of an index under `folder` do not belong together. Also False for an
    unknown format: then Chroma has to find out."""
    return any(is_torn_index(path.parent) for path in folder.glob("*/header.bin"))


def index_bytes(folder: Path) -> int:
    """The size of the largest index under `folder`."""
    sizes = [path.stat().st_size for path in folder.glob(f"*/{DATA}")]
    return max(sizes, default=0)


def scrub(folder: Path) -> None:
    """Blank the unused space in the files of a closed index. It comes from memory that was never
    cleared, so it can hold any text that the process has seen."""
    for path in folder.glob("*/header.bin"):
        version, _, _, count, size = HEADER.unpack_from(path.read_bytes())
        if version != VERSION:
            continue
        place = path.parent / DATA
        with os.fdopen(files.open_file(place, os.O_RDWR), "r+b") as file:
            end = file.seek(0, os.SEEK_END)
            file.truncate(min(end, count * size))
            file.truncate(end)  # reads as zeros, and takes no time, however much it is


def is_torn_index(index: Path) -> bool:
    """The same for the directory of one index; True also if a file is missing."""
    try:
        head = (index / "header.bin").read_bytes()
        if len(head) < HEADER.size:
            return True
        version, _, most, count, size = HEADER.unpack_from(head)
        if version != VERSION:
            return False
        return (
            count > most
            or (index / DATA).stat().st_size < count * size
            or not _holds(index / "link_lists.bin", count)
        )
    except FileNotFoundError:
        return True


def _holds(path: Path, count: int) -> bool:
    """Whether the file holds `count` lists, each after its length in bytes. More bytes may follow:
    the files are not truncated when the index shrinks."""
    data, place = path.read_bytes(), 0
    for _ in range(count):
        if place + WORD.size > len(data):
            return False
        place += WORD.size + WORD.unpack_from(data, place)[0]
    return place <= len(data)
