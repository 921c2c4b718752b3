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
    """The token's file cannot be used as it is."""

    code = "token_invalid"


def read_tokens(full: Path, read: Path, forgets: Rate) -> Tokens:
    """Both tokens; made if there are none. BadToken if they are the same one."""
    found = read_token(full), read_token(read)
    if found[0] == found[1]:
        raise BadToken(
            f"The token that may write and the one that may only read are the same, in {full} and "
            f"{read}.",
            hint=f"Remove {read}: a new one is made at the next start.",
        )
    return Tokens(*found, forgets)


def read_token(path: Path) -> str:
    """The token; made if there is none. UnsafeFiles for a file that others can read."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | files.NO_LINKS, 0o600)
    except FileExistsError:
        return _checked(path)
    except OSError as exc:
        raise BadToken(f"The token file {path} cannot be made: {exc.strerror}.") from exc
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
            "doors.read_token_file), or remove it: one is made then.",
        ) from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise BadToken(f"The token file {path} cannot be read.") from exc
    if len(token) < 16 or any(c.isspace() for c in token):
        raise BadToken(
            f"{path} holds no usable token.", hint="Remove it: a new one is made at the next start."
        )
    return token
