"""The package indexes that the user has configured for pip or uv. Standard library only.

Only what is configured: the default index is known to the tools, not to this code.
"""

from __future__ import annotations

import configparser
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

PIP_SECTIONS = ("global", "install", "download")  # the later wins, as pip has it
TRUE = {"1", "true", "yes", "on", "y", "t"}


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Addresses may contain credentials: use `without_credentials` in messages."""

    indexes: tuple[str, ...] = ()  # roots of the simple API
    pages: tuple[str, ...] = ()  # folders, files or pages that link to wheels
    ca_file: str = ""
    proxy: str = ""
    insecure_hosts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.indexes or self.pages)


def without_credentials(address: str) -> str:
    """An address without credentials and query, for a message."""
    parts = urlsplit(address)
    if not parts.netloc:
        return address
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def read_settings(environ: Mapping[str, str] | None = None) -> IndexSettings:
    """The settings in the variables and files of pip and uv; pip's come first."""
    environ = os.environ if environ is None else environ
    pip, uv = _pip(environ), _uv(environ)
    ca_file = pip.ca_file or environ.get("REQUESTS_CA_BUNDLE") or environ.get("CURL_CA_BUNDLE")
    return IndexSettings(
        tuple(dict.fromkeys(pip.indexes + uv.indexes)),
        tuple(dict.fromkeys(pip.pages + uv.pages)),
        ca_file or "",
        pip.proxy,
        pip.insecure_hosts + uv.insecure_hosts,
    )


def _pip(environ: Mapping[str, str]) -> IndexSettings:
    values: dict[str, str] = {}
    for file in _pip_files(environ):
        values |= _read_ini(file)
    for name, value in environ.items():
        if name.startswith("PIP_") and value:
            values[name.removeprefix("PIP_").lower().replace("_", "-")] = value
    indexes = [values.get("index-url", ""), *values.get("extra-index-url", "").split()]
    if values.get("no-index", "").lower() in TRUE:
        indexes = []
    return IndexSettings(
        tuple(filter(None, indexes)),
        tuple(values.get("find-links", "").split()),
        values.get("cert", ""),
        values.get("proxy", ""),
        tuple(values.get("trusted-host", "").split()),
    )


def _pip_files(environ: Mapping[str, str]) -> Iterator[Path]:
    """pip's files; a later one overrides those before it."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return
    home, mac = Path(environ.get("HOME") or Path.home()), sys.platform == "darwin"
    for folder in reversed((environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")):
        yield Path(folder) / "pip" / "pip.conf"
    if mac:
        yield Path("/Library/Application Support/pip/pip.conf")
    yield Path("/etc/pip.conf")
    if not (named and Path(named).exists()):
        yield home / ".pip" / "pip.conf"
        if mac:
            yield home / "Library/Application Support/pip/pip.conf"
        yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"
    yield Path(sys.prefix) / "pip.conf"
    if named:
        yield Path(named)


def _read_ini(file: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, configparser.Error):
        return {}  # pip itself reports what is wrong with its files
    found: dict[str, str] = {}
    for section in PIP_SECTIONS:
        if parser.has_section(section):
            items = parser.items(section)
            found |= {key.removeprefix("--").replace("_", "-"): value for key, value in items}
    return found


def _uv(environ: Mapping[str, str]) -> IndexSettings:
    values: dict[str, Any] = {}
    for file in _uv_files(environ):
        values |= _read_toml(file)
    named = [
        *_parse_named(environ.get("UV_INDEX", "").split()),
        *_index_tables(values.get("index")),
    ]
    plain = [
        *_parse_named([environ.get("UV_DEFAULT_INDEX") or ""]),
        ("", environ.get("UV_INDEX_URL") or str(values.get("index-url") or "")),
    ]
    extra = environ.get("UV_EXTRA_INDEX_URL", "").split() or values.get("extra-index-url") or []
    every = [*named, *plain, *_parse_named([str(url) for url in extra])]
    pages = re.split(r"[\s,]+", environ.get("UV_FIND_LINKS", "")) + [
        str(page) for page in values.get("find-links") or []
    ]
    insecure = re.split(r"[\s,]+", environ.get("UV_INSECURE_HOST", ""))
    return IndexSettings(
        tuple(_with_credentials(name, url, environ) for name, url in every if url),
        tuple(filter(None, pages)),
        insecure_hosts=tuple(filter(None, insecure)),
    )


def _uv_files(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("UV_NO_CONFIG"):
        return
    if named := environ.get("UV_CONFIG_FILE"):
        yield Path(named)
        return
    home = Path(environ.get("HOME") or Path.home())
    yield Path("/etc/uv/uv.toml")
    for folder in reversed((environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")):
        yield Path(folder) / "uv" / "uv.toml"
    yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "uv" / "uv.toml"


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # uv itself reports what is wrong with its file
    return found | (found.get("pip") or {})


def _parse_named(words: list[str]) -> list[tuple[str, str]]:
    """Pairs of name and address from uv's `name=address` or a bare address."""
    pairs = []
    for word in words:
        name, separator, url = word.partition("=")
        is_named = separator and re.fullmatch(r"[\w.-]+", name)
        pairs.append((name, url) if is_named else ("", word))
    return pairs


def _index_tables(entries: Any) -> list[tuple[str, str]]:
    """Name and address of each `[[index]]` table of a uv.toml."""
    tables = [entry for entry in entries or [] if isinstance(entry, dict)]
    return [(str(table.get("name") or ""), str(table.get("url") or "")) for table in tables]


def _with_credentials(name: str, url: str, environ: Mapping[str, str]) -> str:
    """The address with the credentials that uv's variables have for a named index."""
    key = re.sub(r"[^A-Z0-9]", "_", name.upper())
    user, password = (environ.get(f"UV_INDEX_{key}_{part}") for part in ("USERNAME", "PASSWORD"))
    parts = urlsplit(url)
    if not name or not (user or password) or "@" in parts.netloc:
        return url
    netloc = f"{quote(user or '', safe='')}:{quote(password or '', safe='')}@{parts.netloc}"
    return urlunsplit(parts._replace(netloc=netloc))
