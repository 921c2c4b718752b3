"""Files of other programs, opened safely and read piece by piece.

A file that was found in a folder is opened only if it is a regular file of this user and no link:
whoever made the folder must not choose what else is read. A line or a text is limited in size.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

from memoryd import files
from memoryd.errors import InvalidInput
from memoryd.imports.rows import Skipped, broken

MAX_LINE = 64 << 20  # bytes of a line
MAX_TEXT_FILE = 16 << 20  # bytes of a file that is read as a whole
MAX_DEPTH = 12  # folders below each other
PEEK, PEEK_LINES = 1 << 20, 40  # bytes and lines at the beginning of a file that tell what it is


def opened(path: Path, *, named: bool = False) -> IO[bytes]:
    """The file, for reading. `named`: the user named it. Raises InvalidInput."""
    try:
        return os.fdopen(files.open_file(path, os.O_RDONLY, named=named), "rb")
    except OSError as exc:
        raise InvalidInput(
            f"{path} cannot be read: {exc.strerror or exc}.",
            code="file_unreadable",
            hint="Check the path and the mode of the file.",
        ) from exc


def whole_text(path: Path, *, named: bool = False) -> str | Skipped:
    """The text of a small file; what is wrong if it cannot be read. `named`: the user named it."""
    try:
        with opened(path, named=named) as file:
            data = file.read(MAX_TEXT_FILE + 1)
        if len(data) > MAX_TEXT_FILE:
            return broken(str(path), f"larger than {MAX_TEXT_FILE >> 20} MiB")
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return broken(str(path), "not UTF-8 text")
    except InvalidInput as exc:
        return broken(str(path), exc.message.rstrip("."))
    except OSError as exc:
        return broken(str(path), f"cannot be read: {exc.strerror or exc}")


def first_objects(path: Path, *, named: bool = False) -> list[dict[str, Any]]:
    """The JSON objects in the lines at the beginning of a file, for recognising it: cheap also for
    a large file that is one line. None if it cannot be opened, unless the user named it."""
    try:
        with opened(path, named=named) as file:
            start = file.read(PEEK)
    except InvalidInput:
        if named:
            raise
        return []
    whole = start if len(start) < PEEK else start[: start.rfind(b"\n") + 1]
    found = json_lines(io.BytesIO(whole), path.name)
    return [one[1] for one in islice(found, PEEK_LINES) if not isinstance(one, Skipped)]


def lines_of(path: Path, *, named: bool = False) -> Iterator[tuple[int, dict[str, Any]] | Skipped]:
    """The JSON objects of a file; see `json_lines`. One that was found in a folder and cannot be
    opened is reported; one that the user named raises InvalidInput."""
    try:
        file = opened(path, named=named)
    except InvalidInput as exc:
        if named:
            raise
        yield broken(str(path), exc.message.rstrip("."))
        return
    with file:
        yield from json_lines(file, path.name)


def json_lines(file: IO[bytes], name: str) -> Iterator[tuple[int, dict[str, Any]] | Skipped]:
    """Each JSON object of a file with one in each line, and its line number. A line that is none is
    reported. A last line without an end may still be written to: if it is not whole it is left out
    without being a fault."""
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_LINE)
            yield broken(f"{name}, line {number}", f"longer than {MAX_LINE >> 20} MiB")
            continue
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            if line.endswith(b"\n"):
                yield broken(f"{name}, line {number}", "not JSON")
            else:
                yield Skipped("last line, still being written", f"{name}, line {number}")
            continue
        if isinstance(value, dict):
            yield number, value
        else:
            yield broken(f"{name}, line {number}", "not a JSON object")


def found_files(folder: Path, *endings: str, depth: int = MAX_DEPTH) -> Iterator[Path]:
    """The files below a folder with one of these endings, in order; links are not followed, and
    hidden folders left out. `depth`: of folders below it."""
    for place, folders, names in os.walk(folder):
        level = len(Path(place).relative_to(folder).parts)
        folders[:] = sorted(n for n in folders if not n.startswith(".") and level < depth)
        for name in sorted(names):
            if name.lower().endswith(endings):
                yield Path(place, name)


def time_of(path: Path) -> float | None:
    """When a file was last changed; None if that cannot be known."""
    try:
        return round(path.stat().st_mtime, 6)
    except OSError:
        return None
