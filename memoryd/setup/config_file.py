"""The file of a client's configuration: read, backed up and replaced without losing anything.

Links are followed: people keep such files in a folder of their own and link to it. Encoding mark,
line ends, mode and owner stay as they are.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memoryd import files
from memoryd.errors import MemorydError

MARK = b"\xef\xbb\xbf"  # what some editors write at the beginning of a UTF-8 file
BACKUP = ".memoryd-backup"  # added to the name of the file
PRIVATE, SHARED = 0o600, 0o644  # modes of new files; that of a project is for everyone
WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class ClientConfigError(MemorydError):
    """The configuration of a client cannot be read, understood or written; nothing was changed."""

    code = "client_config_invalid"
    hint = "Correct it in an editor."


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """`path` as the client knows it; `real` without links; `data` None if there is no file."""

    path: Path
    real: Path
    data: bytes | None
    text: str

    @property
    def backup(self) -> Path:
        return self.real.with_name(self.real.name + BACKUP)

    def write(self, text: str, mode: int = PRIVATE) -> Path | None:
        """Replace the text; the backup, None if there was no file. Raises ClientConfigError."""
        with _told(self.path):
            self.refuse_read_only()
            self.real.parent.mkdir(parents=True, exist_ok=True)
            if self.data is not None:
                with files.replacing(self.backup, _part(self.backup)) as file:
                    file.write(self.data)
            mark = MARK if self.data and self.data.startswith(MARK) else b""
            with files.replacing(self.real, _part(self.real)) as file:
                file.write(mark + text.encode())
                self._keep_mode(file.fileno(), mode)
                # As late as can be: the client may have written meanwhile.
                self._refuse_if_changed()
        return self.backup if self.data is not None else None

    def restore(self) -> None:
        """Put the backup back in the place of the file. Raises ClientConfigError."""
        with _told(self.path):
            self.refuse_read_only()
            with files.replacing(self.real, _part(self.real)) as file:
                file.write(self.backup.read_bytes())
                self._keep_mode(file.fileno(), PRIVATE)
                self._refuse_if_changed()
            self.backup.unlink()

    def remove(self) -> None:
        """Delete the file. Raises ClientConfigError."""
        with _told(self.path):
            self.refuse_read_only()
            self._refuse_if_changed()
            self.real.unlink()

    def _keep_mode(self, handle: int, mode: int) -> None:
        if os.chmod not in os.supports_fd:  # Windows has no such modes
            return
        if self.data is None:
            os.chmod(handle, mode)
            return
        before = self.real.stat()
        with contextlib.suppress(OSError, AttributeError):  # only root may give files away
            os.chown(handle, before.st_uid, before.st_gid)
        os.chmod(handle, stat.S_IMODE(before.st_mode))

    def refuse_read_only(self) -> None:
        """ClientConfigError if the file is not to be written."""
        # By its mode: a new file could take its place all the same, but somebody wants it kept.
        if self.data is not None and not self.real.stat().st_mode & WRITABLE:
            hint = f"Make it writable: chmod u+w {self.real}"
            raise ClientConfigError(
                f"{self.path} is read-only.", code="client_config_read_only", hint=hint
            )

    def _refuse_if_changed(self) -> None:
        if _data(self.real) != self.data:
            raise ClientConfigError(
                f"{self.path} was changed by another program just now.",
                code="client_config_changed",
                hint="Run the command again.",
            )


def read(path: Path) -> ConfigFile:
    """A file, or what is to become one. Raises ClientConfigError."""
    with _told(path):
        real = Path(os.path.realpath(path))
        data = _data(real)
        try:
            text = (data or b"").removeprefix(MARK).decode()
        except UnicodeDecodeError as exc:
            line = (data or b"")[: exc.start].count(b"\n") + 1
            raise ClientConfigError(
                f"{path}, line {line}: this is not UTF-8.", hint="Save it as UTF-8 in an editor."
            ) from None
        return ConfigFile(path, real, data, text)


def read_backup(file: ConfigFile) -> ConfigFile | None:
    """The backup of a file as one of its own; None if there is none that can be read."""
    try:
        found = read(file.backup)
    except ClientConfigError:
        return None
    return found if found.data is not None else None


def _data(path: Path) -> bytes | None:
    try:
        handle = files.open_file(path, os.O_RDONLY, named=True)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as file:
        return file.read()


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Failures of the file system as errors that name the file."""
    try:
        yield
    except OSError as exc:
        raise ClientConfigError(
            f"{path} cannot be read or written: {exc.strerror or exc}.",
            code="client_config_unwritable",
            hint="Check its folder and its mode.",
        ) from exc
