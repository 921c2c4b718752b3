"""Every setting as it is shown to its owner: value, default, where it was set, and what it is for.
The descriptions are the comments of the default configuration file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from memoryd.config import Found
from memoryd.settings import SECTIONS, Config, keys

SECRET = {"store.headers"}  # may hold the key to a server
MASKED = "***"
DEFAULT = "default"
CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")  # user and password in an address


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `where`: the file, variable or flag that set it, or `default`."""

    key: str
    value: object
    default: object
    where: str
    description: str
    secret: bool

    @property
    def section(self) -> str:
        return self.key.partition(".")[0]

    @property
    def kind(self) -> str:
        """What set it: default, file, variable or flag."""
        first = self.where.split(" ")[0]
        return first if first in (DEFAULT, "variable", "flag") else "file"


@dataclass(frozen=True, slots=True)
class Origins:
    """By key, where each setting was set; and the configuration file, which may not exist."""

    where: Mapping[str, str]
    file: Path


def origins(found: tuple[Found, ...], file: Path) -> Origins:
    """`found` is what `config.sources` returned."""
    where = {key: where for source in found for key, (_, where) in source.items()}
    return Origins(where, file.absolute())


def explained(config: Config, where: Mapping[str, str]) -> Iterator[Setting]:
    """Every setting, in the order of the default file; secrets are masked."""
    usual, about = Config(), descriptions()
    for key in keys():
        section, _, name = key.partition(".")
        value, default = (getattr(getattr(one, section), name) for one in (config, usual))
        shown = plain(key, value), plain(key, default)
        secret = key in SECRET
        yield Setting(key, *shown, where.get(key, DEFAULT), about.get(key, ""), secret)


def plain(key: str, value: object) -> object:
    """A value as JSON has it, without secrets."""
    if key in SECRET and isinstance(value, dict):
        return dict.fromkeys(value, MASKED)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, str):
        return CREDENTIALS.sub(f"{MASKED}@", value)
    return str(value) if isinstance(value, Path) else value


def default_file() -> str:
    """The commented default configuration file."""
    return (files("memoryd") / "data" / "default.yaml").read_text(encoding="utf-8")


def descriptions() -> dict[str, str]:
    """By key, the comment above it in the default file."""
    found: dict[str, str] = {}
    section, comment = "", list[str]()
    for line in default_file().splitlines():
        if line and not line.startswith((" ", "#")):
            section, comment = line.rstrip(":"), []
        elif line.strip().startswith("#") and section:
            comment.append(line.strip("# "))
        elif line[:2] == "  " and line[2:3] not in ("", " ") and section:
            found[f"{section}.{line.split(':')[0].strip()}"] = " ".join(comment)
            comment = []
    return found


def section_descriptions() -> dict[str, str]:
    """By section, what its settings are about."""
    return {name: (section.__doc__ or "").strip() for name, section in SECTIONS.items()}
