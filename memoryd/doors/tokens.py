"""The tokens of the network doors: files that only their owner can read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from memoryd import files
from memoryd.doors.limits import Rate
from memoryd.doors.rights import Tokens
from memoryd.errors import MemorydError
from memoryd.permissions import file_faults, refuse


class BadToken(MemorydError):
    """A token file cannot be used."""

    code = "token_invalid"


def read_tokens(full: Path, read: Path, forgets: Rate) -> Tokens:
    """Both tokens; created if missing. Raises BadToken if they are equal."""
    found = read_token(full), read_token(read)
    if found[0] == found[1]:
        raise BadToken(
            f"The token that may write and the one that may only read are the same, in {full} and "
            f"{read}.",
            hint=f"Remove {read}: the next start creates a new one.",
        )
    return Tokens(*found, forgets)


def read_token(path: Path) -> str:
    """The token; created if missing. Raises BadToken, or UnsafeFiles if others can read it."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | files.NO_LINKS, 0o600)
    except FileExistsError:
        return _checked(path)
    except OSError as exc:
        raise BadToken(f"The token file {path} cannot be created: {exc.strerror}.") from exc
    token = secrets.token_urlsafe(32)
    with os.fdopen(handle, "w") as file:
        file.write(token + "\n")
    return token


def _checked(path: Path) -> str:
    try:
        files.refuse_other(path)
        refuse(file_faults(path, "token file"))
        token = files.read_text(path).strip()
    except files.NotAFile as exc:
        raise BadToken(
            f"The token file cannot be used: {exc.strerror}.",
            hint="Name the file itself in the configuration (doors.token_file, "
            "doors.read_token_file), or remove it: the next start creates one.",
        ) from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise BadToken(f"The token file {path} cannot be read.") from exc
    if len(token) < 16 or any(c.isspace() for c in token):
        raise BadToken(
            f"{path} holds no usable token.", hint="Remove it: the next start creates a new one."
        )
    return token
