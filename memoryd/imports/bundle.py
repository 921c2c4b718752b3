"""A data export that is a folder, a zip file or a single JSON file: its JSON files by name.

Nothing of a zip file is unpacked to the disk, so a name in it can reach no other place. One with
such names is refused all the same, and so is one that unpacks to far more than it has.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import IO

from memoryd.errors import InvalidInput
from memoryd.imports.text_files import found_files, opened, time_of

ZIP_MAGIC = b"PK\x03\x04"
MAX_MEMBERS = 200_000
MAX_RATIO = 200  # of the unpacked size of a file to the packed one; conversations have 3 to 15
RATIO_FROM = 1 << 20  # bytes: smaller files may have any ratio
MAX_BYTES = 32 << 30  # unpacked, of all files that are read
ENCRYPTED = 0x1  # flag of a file in a zip file
JSON = ".json"
DEPTH = 2  # folders below that of an export: some have a folder of their own inside


class Bundle:
    """The JSON files of an export, by their path inside it."""

    def __init__(self, path: Path) -> None:
        """Raises InvalidInput for a zip file that is damaged or unsafe."""
        self.path = path
        self._zip: dict[str, zipfile.ZipInfo] | None = None
        if path.is_dir():
            found = (
                str(p.relative_to(path).as_posix()) for p in found_files(path, JSON, depth=DEPTH)
            )
            self.names = sorted(found)
        elif is_zip(path):
            self._zip = _members(path)
            self.names = sorted(self._zip)
        else:
            self.names = [path.name]

    def named(self, pattern: str) -> list[str]:
        """The names that match, in the folder that holds the first of them: some exports are in a
        folder of their own."""
        return [name for name in self.names if PurePosixPath(name).match(pattern)]

    def time(self, name: str) -> float | None:
        """When a file was written."""
        if self._zip is None:
            return time_of(self.path / name if self.path.is_dir() else self.path)
        try:
            return datetime(*self._zip[name].date_time).timestamp()
        except (ValueError, OverflowError):
            return None

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """A file, for reading. Raises InvalidInput."""
        if self._zip is None:
            is_folder = self.path.is_dir()
            with opened(self.path / name if is_folder else self.path, named=not is_folder) as file:
                yield file
            return
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(self._zip[name]) as file:
                yield file
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, OSError) as exc:
            raise _refused(self.path, "is damaged") from exc


def is_zip(path: Path) -> bool:
    """Whether a file begins like a zip file."""
    with opened(path, named=True) as file:
        return file.read(len(ZIP_MAGIC)) == ZIP_MAGIC


def _members(path: Path) -> dict[str, zipfile.ZipInfo]:
    """The JSON files in a zip file, after a check of all names and sizes."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError) as exc:
        raise _refused(path, "is damaged") from exc
    if len(infos) > MAX_MEMBERS:
        raise _refused(path, f"has more than {MAX_MEMBERS} files")
    for info in infos:
        name = PurePosixPath(info.filename.replace("\\", "/"))
        if name.is_absolute() or ".." in name.parts or ":" in info.filename.split("/")[0]:
            raise _refused(path, "has a file whose name leads out of its folder")
    chosen = {i.filename: i for i in infos if i.filename.endswith(JSON) and not i.is_dir()}
    for info in chosen.values():
        packed = max(info.compress_size, 1)
        if info.file_size > RATIO_FROM and info.file_size / packed > MAX_RATIO:
            raise _refused(path, "unpacks to far more than a conversation can")
        if info.flag_bits & ENCRYPTED:
            raise _refused(path, "is encrypted")
    if sum(info.file_size for info in chosen.values()) > MAX_BYTES:
        raise _refused(path, f"unpacks to more than {MAX_BYTES >> 30} GiB")
    return chosen


def _refused(path: Path, what: str) -> InvalidInput:
    return InvalidInput(
        f"{path} {what}.",
        code="zip_refused",
        hint="Unpack it yourself, check the files, and import their folder. Nothing was changed.",
    )
