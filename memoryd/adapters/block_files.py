"""Files of a person with a block that memoryd keeps. See `memoryd.ports.BlockFiles`.

A file keeps its mode and group. Links are not followed, in no part of the path: the path that a
person named had none, so a link came later, with a checkout for example, and would lead elsewhere.
"""

from __future__ import annotations

import os
from pathlib import Path

from memoryd import files
from memoryd.adapters.shared_file import SharedFile, content

RECORD = "blocks.json"  # in the data directory
KEEP_BYTES = "surrogateescape"


class LocalBlockFiles:
    """See `memoryd.ports.BlockFiles`."""

    def __init__(self, data_dir: Path) -> None:
        self._record = data_dir / RECORD
        self._shared: dict[str, SharedFile] = {}

    def stamp(self, path: str) -> object:
        return self._file(path).stamp()

    def is_settled(self, path: str) -> bool:
        return self._file(path).is_settled()

    def read(self, path: str) -> str | None:
        _refuse_links(path)
        _part(path).unlink(missing_ok=True)  # left by a kill while the file was written
        try:
            handle = files.open_file(Path(path), os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return _text(content(handle))
        finally:
            os.close(handle)

    def replace(self, path: str, text: str, expected: str | None) -> str | None:
        _refuse_links(path)
        try:
            like = os.lstat(path)
        except FileNotFoundError:
            like = None
        if like is not None and not os.access(path, os.W_OK):
            raise files.NotAFile(Path(path), "is read-only")
        known = None if expected is None else _bytes(expected)
        found = self._file(path).replace(_bytes(text), known, like)
        return None if found is None else _text(found)

    def late(self, path: str) -> str | None:
        shared = self._file(path)
        found = shared.late() if shared.is_own() else None
        return None if found is None else _text(found)

    def release(self) -> None:
        for shared in self._shared.values():
            shared.release()

    def remove(self, path: str) -> None:
        _refuse_links(path)
        Path(path).unlink(missing_ok=True)

    def load_record(self) -> str | None:
        try:
            return files.read_text(self._record)
        except FileNotFoundError:
            return None

    def save_record(self, text: str) -> None:
        with files.replacing(self._record) as file:
            file.write(text.encode())

    def _file(self, path: str) -> SharedFile:
        return self._shared.setdefault(path, SharedFile(Path(path), _part(path)))


def _part(path: str) -> Path:
    """The name of a new version until it is complete; no file of a person has it."""
    file = Path(path)
    return file.with_name(f".{file.name}.memoryd.part")


def _refuse_links(path: str) -> None:
    real = os.path.realpath(path)
    if real != path:
        raise files.NotAFile(Path(path), f"leads through a link, to {real}")


def _text(data: bytes) -> str:
    return data.decode("utf-8", KEEP_BYTES)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", KEEP_BYTES)
