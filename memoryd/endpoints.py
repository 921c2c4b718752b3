"""Addresses of model servers: which may be configured, and how a request finds its path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from memoryd.errors import ConfigError
from memoryd.settings import Config

VERSION = re.compile(r"/(v\d+|api)$")  # what an address may end with before the name of a call
PRINTABLE = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Address:
    """Where requests go. `path` has the query, if there is one."""

    secure: bool
    host: str
    port: int | None
    path: str

    @property
    def shown(self) -> str:
        """For messages: without the path, which may hold something private."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        return f"{'https' if self.secure else 'http'}://{host}{port}"


def check_endpoints(config: Config) -> None:
    """ConfigError for an address of a model server that is missing or cannot be used."""
    if config.embedding.backend == "http":
        parse_address(config.embedding.url, "embedding.url")
    if config.search.rerank_url:
        parse_address(config.search.rerank_url, "search.rerank_url")
    if config.llm.url:
        parse_address(config.llm.url, "llm.url")


def parse_address(text: str, setting: str, call: str = "") -> Address:
    """The address in a setting, with the path of `call` added. Raises ConfigError."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise _wrong(setting, "is not an address") from None
    if not PRINTABLE.fullmatch(text):
        raise _wrong(setting, "is empty" if not text else "has a space or a control character")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _wrong(setting, "is not an http or https address")
    if parts.username is not None:
        raise _wrong(setting, "has a user name or password, which messages could show")
    path = completed(parts.path, call) + (f"?{parts.query}" if parts.query else "")
    return Address(parts.scheme == "https", parts.hostname, port, path)


def completed(path: str, call: str) -> str:
    """`path` with the path of `call`, such as /v1/embeddings, of which it may have a part."""
    path, name = path.rstrip("/"), call[1:].partition("/")[2]
    if name and path.endswith(f"/{name}"):
        return path
    return f"{path}/{name}" if name and VERSION.search(path) else f"{path}{call}"


def _wrong(setting: str, what: str) -> ConfigError:
    return ConfigError(
        f"`{setting}` {what}.",
        code="config_address_invalid",
        hint="Use an address such as http://127.0.0.1:11434, and a key setting for the key.",
    )
