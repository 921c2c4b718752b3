"""The folder of the mirror. See `memoryd.ports.MirrorFiles`."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from memoryd import files
from memoryd.adapters.shared_file import SharedFile, content
from memoryd.permissions import OTHERS

EDITED = "MEMORY.md"  # the file that people edit
NAMES = re.compile(r"MEMORY\.md|HISTORY(?:-\d{4,5}-\d\d)?\.md")
PART = ".part"  # ending of a file that is being written
RECORD = "mirror.json"  # in the data directory


class LocalMirrorFiles:
    """See `memoryd.ports.MirrorFiles`."""

    def __init__(self, folder: Path, data_dir: Path) -> None:
        self._folder = folder
        self._record = data_dir / RECORD
        self._edited = SharedFile(folder / EDITED, folder / (EDITED + PART))

    @property
    def folder(self) -> str:
        return str(self._folder)

    def stamp(self) -> object:
        return self._edited.stamp()

    def is_settled(self) -> bool:
        return self._edited.is_settled()

    def read(self, name: str) -> str | None:
        try:
            handle = files.open_file(self._folder / name, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            if hasattr(os, "fchmod") and os.fstat(handle).st_mode & OTHERS:
                os.fchmod(handle, 0o600)  # an editor wrote it anew
            return content(handle).decode()
        finally:
            os.close(handle)

    def write(self, name: str, text: str) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with files.replacing(self._folder / name, self._folder / (name + PART)) as file:
            file.write(text.encode())

    def replace(self, text: str, expected: str | None) -> str | None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = None if expected is None else expected.encode()
        return _last_text(self._edited.replace(text.encode(), known))

    def late(self) -> str | None:
        return _last_text(self._edited.late())

    def release(self) -> None:
        self._edited.release()

    def names(self) -> list[str]:
        try:
            found = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        for name in found:  # left by a kill while a file was written
            if name.endswith(PART) and NAMES.fullmatch(name.removesuffix(PART)):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._folder / name)
        return sorted(name for name in found if NAMES.fullmatch(name))

    def remove(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)

    def load_record(self) -> str | None:
        try:
            return files.read_text(self._record)
        except (FileNotFoundError, UnicodeDecodeError):
            return None

    def save_record(self, text: str) -> None:
        with files.replacing(self._record) as file:
            file.write(text.encode())


def _last_text(data: bytes | None) -> str | None:
    """The text of a file that was replaced. What is no UTF-8 in it is replaced, because this is the
    last time that it can be read."""
    return None if data is None else data.decode(errors="replace")
