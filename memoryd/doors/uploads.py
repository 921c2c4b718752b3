"""Files that are uploaded to be imported: in one call, or in pieces before it. They are kept in a
private folder of the data directory, and removed after the call, after a while, or at the next
start of the daemon."""

from __future__ import annotations

import base64
import binascii
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from memoryd import files
from memoryd.engine import checks
from memoryd.errors import InvalidInput

Arguments = dict[str, Any]
FOLDER = "uploads"  # in the data directory
MAX_BYTES = 50_000_000  # of an upload
MAX_NAME = 200  # bytes of a file name
KEPT_SECONDS = 900.0  # an upload that nobody has asked about any more
MAX_UPLOADS = 8
AGAIN = "Upload the file again."


class Uploads:
    """Files that arrive in pieces; what an older daemon left is removed."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / FOLDER
        self._used: dict[str, float] = {}  # by id, when it was last written or read
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, id: str | None, data: bytes) -> tuple[str, int]:
        """Append a piece; the id of the upload and its size so far. Raises InvalidInput."""
        self._remove_old()
        if id is None:
            if len(self._used) >= MAX_UPLOADS:
                message = f"There are {MAX_UPLOADS} uploads already."
                raise InvalidInput(message, code="uploads_full", hint="Try again in a while.")
            id = secrets.token_hex(8)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            files.touch(self._folder / id)
        path = self.path(id)
        size = path.stat().st_size + len(data)
        if size > MAX_BYTES:
            self.remove(id)
            raise _too_large()
        with path.open("ab") as file:
            file.write(data)
        return id, size

    def path(self, id: str) -> Path:
        """The file of an upload. Raises InvalidInput."""
        if id not in self._used and not (self._folder / id).is_file():
            raise InvalidInput("There is no such upload.", code="upload_unknown", hint=AGAIN)
        self._used[id] = time.monotonic()
        return self._folder / id

    def remove(self, id: str) -> None:
        self._used.pop(id, None)
        (self._folder / id).unlink(missing_ok=True)

    @contextmanager
    def named(self, name: str, data: bytes | None, id: str | None) -> Iterator[Path]:
        """A file of this name with the content, removed at the end."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        folder = self._folder / f"{secrets.token_hex(8)}.d"
        folder.mkdir(mode=0o700)
        try:
            path = folder / name
            files.touch(path)
            if id is not None:
                shutil.copyfile(self.path(id), path)
            else:
                path.write_bytes(data or b"")
            yield path
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _remove_old(self) -> None:
        now = time.monotonic()
        for id in [id for id, at in self._used.items() if now - at > KEPT_SECONDS]:
            self.remove(id)


def file_name(value: object) -> str:
    """The name of a file, without folders. Raises InvalidInput."""
    name = checks.label(value, "name")
    last = PurePosixPath((name or "").replace("\\", "/")).name
    if not last or last in (".", "..") or len(last.encode()) > MAX_NAME:
        hint = "Give the name of the file, such as CLAUDE.md."
        raise InvalidInput("The file needs a name.", code="name_invalid", hint=hint)
    return last


def content_of(given: Arguments) -> bytes | None:
    """The content of a call; None if it was uploaded before. Raises InvalidInput."""
    ways = [key for key in ("text", "content_base64", "upload_id") if key in given]
    if len(ways) != 1:
        hint = "Give exactly one of text, content_base64 and upload_id."
        message = "No content was given." if not ways else "Content was given twice."
        raise InvalidInput(message, code="content_missing", hint=hint)
    if ways == ["upload_id"]:
        return None
    if ways == ["content_base64"]:
        return decoded(given["content_base64"])
    if not isinstance(given["text"], str):
        raise InvalidInput("text must be text.", code="content_invalid")
    return given["text"].encode(errors="surrogatepass")


def decoded(value: object) -> bytes:
    try:
        if not isinstance(value, str):
            raise ValueError
        return base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error) as exc:
        message = "content_base64 is not base64."
        raise InvalidInput(message, code="content_invalid", hint=AGAIN) from exc


def upload_id_of(given: Arguments) -> str | None:
    id = given.get("upload_id")
    if id is None:
        return None
    if not isinstance(id, str) or not id.isalnum() or len(id) > 32:
        raise InvalidInput("There is no such upload.", code="upload_unknown", hint=AGAIN)
    return id


def _too_large() -> InvalidInput:
    return InvalidInput(
        f"The file is larger than {MAX_BYTES // 1_000_000} MB.",
        code="upload_too_large",
        hint="Run on this machine: memoryd import PATH",
    )
