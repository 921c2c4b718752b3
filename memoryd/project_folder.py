"""The project of a directory: the git checkout that it is in. Standard library only, for the shim.

The identity of a project is the path of its remote, such as `owner/name`, so two clones are one
project. Without a remote it is the folder; the worktrees of a repository share that of its main
checkout. The files of git are read here, because starting git would cost an agent's client more
time than all the rest of the shim.

A directory outside of a checkout has no project, and neither has the home directory, where desktop
programs start their servers and some people keep a repository of their settings.
"""

from __future__ import annotations

import binascii
import os
import re
from pathlib import Path

from memoryd import files
from memoryd.labels import has_hidden, normal_name

VARIABLE = "MEMORYD_PROJECT"
MAX_NAME = 200  # characters of a project's name, as of other labels
MAX_BYTES = 2**20  # that are read of a file of git
KEPT = 180  # characters at the end of a path that is too long for a name
SECTION = re.compile(r'\s*\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
URL = re.compile(r"\s*url\s*=\s*(.*)", re.IGNORECASE)
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
SHORT_SSH = re.compile(r"(?:[^/@:]+@)?[^/@:]+:(?!//)(.+)")  # git@host:owner/name
PREFERRED_REMOTE = "origin"


def own_project(flag: str | None = None) -> tuple[str, bool]:
    """The project of this process, "" for none; and whether it was given, by the flag or the
    variable. An empty value says that there is none. Else it is that of the working directory."""
    given = os.environ.get(VARIABLE) if flag is None else flag
    if given is not None:
        return given.strip(), True
    try:
        return project_at(Path.cwd()) or "", False
    except OSError:  # the working directory was deleted
        return "", False


def project_at(folder: Path) -> str | None:
    """The project that a directory belongs to; None if it is in none."""
    try:
        start, home = Path(os.path.realpath(folder)), _home()
        for place in (start, *start.parents):
            if place in (home, place.parent):
                return None
            if git := _git_dir(place):
                return _identity(place, git)
    except (OSError, ValueError):
        return None  # not readable: as if there were no checkout
    return None


def folder_project(folder: Path) -> str | None:
    """The project of a directory that another program worked in. One that is gone by now is named
    by its path, like a checkout without a remote."""
    if folder.is_dir() or not folder.is_absolute():
        return project_at(folder) if folder.is_dir() else None
    return None if folder == _home() else _as_name(_short(folder))


def _home() -> Path:
    return Path(os.path.realpath(os.path.expanduser("~")))


def _git_dir(place: Path) -> Path | None:
    """The git directory of a checkout whose top is `place`. In worktrees and submodules `.git` is a
    file that names it."""
    found = place / ".git"
    if found.is_file():
        key, _, named = _read(found).strip().partition(":")
        if key != "gitdir":
            return None
        found = Path(os.path.normpath(place / named.strip()))
    return found if (found / "HEAD").is_file() else None


def _identity(place: Path, git: Path) -> str | None:
    shared = git / "commondir"  # only a worktree has it
    common = Path(os.path.normpath(git / _read(shared).strip())) if shared.is_file() else git
    config = common / "config"
    remotes = _remotes(_read(config)) if config.is_file() else {}
    url = remotes.get(PREFERRED_REMOTE) or next(iter(remotes.values()), "")
    if name := repository(url, place):
        return _as_name(name)
    top = common.parent if common != git and common.name == ".git" else place
    return _as_name(_short(top))


def _short(folder: Path) -> str:
    """A path with ~ for the home directory."""
    home = _home()
    return f"~/{folder.relative_to(home)}" if folder.is_relative_to(home) else str(folder)


def _remotes(text: str) -> dict[str, str]:
    """The first URL of each remote in a configuration of git."""
    found: dict[str, str] = {}
    remote = None
    for line in text.splitlines():
        if section := SECTION.match(line):
            remote = section[2] if section[1].lower() == "remote" else None
        elif remote is not None and (value := URL.match(line)):
            quoted = QUOTED.match(value[1])
            url = quoted[1] if quoted else re.split("[#;]", value[1], maxsplit=1)[0]
            found.setdefault(remote, url.strip())
    return found


def repository(url: str, place: Path) -> str | None:
    """The path of a remote without host, user, password and `.git`; of one that is a directory, its
    last two folders. None if it has none. `place`: where a relative path begins."""
    scheme, is_url, rest = url.partition("://")
    if is_url and scheme != "file":
        # From the last @ on: what is before it can be a password.
        path = re.split("[?#]", rest.rpartition("@")[2])[0].partition("/")[2]
        parts = path.split("/")
    elif not is_url and (short := SHORT_SSH.fullmatch(url)):
        parts = short[1].split("/")
    elif url:
        path = rest if is_url else os.path.normpath(place / url)
        parts = path.removesuffix("/.git").split("/")[-2:]
    else:
        return None
    name = "/".join(part for part in parts if part)
    return name.removesuffix(".git").rstrip("/") or None


def _as_name(text: str) -> str | None:
    """The text as the name of a project; None if it cannot be one."""
    name = normal_name(text)
    if len(name) > MAX_NAME:  # shortened, and still different from others
        name = f"{name[-KEPT:]}-{binascii.crc32(name.encode()):08x}"
    return None if not name or has_hidden(name) else name


def _read(file: Path) -> str:
    """The beginning of a file, which anybody may have put there."""
    with os.fdopen(files.open_file(file, os.O_RDONLY, named=True), "rb") as opened:
        return opened.read(MAX_BYTES).decode()
