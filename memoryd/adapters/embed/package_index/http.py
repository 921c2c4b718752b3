"""Read pages and files of a package index with the standard library: over HTTP with the user's
proxy, certificates and credentials, or from the disk.

Credentials are sent only to the host they are configured for, also after redirects, and are in no
message.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import netrc
import ssl
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import (
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
    url2pathname,
)

from memoryd.adapters.embed.package_index.pages import ACCEPT
from memoryd.adapters.embed.package_index.settings import IndexSettings

TIMEOUT = 20.0  # seconds for a connection, and for each read
MAX_PAGE = 64 << 20  # bytes
AGENT = "memoryd"

Host = tuple[str, str]  # scheme and host with port


class IndexReader:
    """Opens addresses with the proxy, certificates and credentials of the settings."""

    def __init__(self, settings: IndexSettings) -> None:
        self._insecure = set(settings.insecure_hosts)
        self._credentials: dict[Host, str] = {}
        for address in (*settings.indexes, *settings.pages):
            self._remember(address)
        proxies = {"http": settings.proxy, "https": settings.proxy} if settings.proxy else None
        self._checked = self._opener(ssl_context(settings.ca_file), proxies)
        self._unchecked = self._opener(ssl._create_unverified_context(), proxies)

    def page(self, address: str) -> tuple[bytes, str, str]:
        """Body, content type and final address of a page. Raises OSError, ValueError."""
        if (path := local_path(address)) is not None:
            path = path / "index.html" if path.is_dir() else path
            return path.read_bytes(), "text/html", path.as_uri()
        with self.open(address, ACCEPT) as answer:
            body = answer.read(MAX_PAGE + 1)
            if len(body) > MAX_PAGE:
                raise ValueError(f"the index's page is larger than {MAX_PAGE} bytes")
            return body, answer.headers.get("Content-Type") or "text/html", answer.geturl()

    @contextlib.contextmanager
    def open(self, address: str, accept: str = "*/*") -> Iterator[Any]:
        """A file to read from. Raises OSError, ValueError."""
        if (path := local_path(address)) is not None:
            with path.open("rb") as file:
                yield file
            return
        self._remember(address)
        request = Request(
            _without_userinfo(address), headers={"Accept": accept, "User-Agent": AGENT}
        )
        self.authorise(request)
        parts = urlsplit(address)
        host = parts.netloc.rpartition("@")[2]
        trusted = {host, parts.hostname} & self._insecure
        opener = self._unchecked if trusted else self._checked
        try:
            answer = opener.open(request, timeout=TIMEOUT)
        except HTTPError as exc:
            exc.close()
            raise OSError(f"HTTP {exc.code}") from None  # its own text contains the address
        with answer:
            yield answer

    def authorise(self, request: Request) -> None:
        """Add the credentials of the request's host, if there are any."""
        parts = urlsplit(request.full_url)
        credentials = self._credentials.get((parts.scheme, parts.netloc)) or _netrc(
            parts.hostname or ""
        )
        if credentials:
            encoded = base64.b64encode(credentials.encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {encoded}")

    def _remember(self, address: str) -> None:
        parts = urlsplit(address)
        userinfo, separator, host = parts.netloc.rpartition("@")
        if separator:
            user, _, password = userinfo.partition(":")
            self._credentials[parts.scheme, host] = f"{unquote(user)}:{unquote(password)}"

    def _opener(self, context: ssl.SSLContext, proxies: dict[str, str] | None) -> OpenerDirector:
        return build_opener(ProxyHandler(proxies), HTTPSHandler(context=context), _Redirects(self))


class _Redirects(HTTPRedirectHandler):
    """Follows redirects with the credentials of the new host; never from HTTPS to HTTP."""

    def __init__(self, reader: IndexReader) -> None:
        self._reader = reader

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise HTTPError(req.full_url, code, "redirect to plain HTTP", Message(), fp)
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None:
            self._reader.authorise(request)
        return request


def local_path(address: str) -> Path | None:
    """The path of a file: address or of a bare path; None for anything else."""
    parts = urlsplit(address)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    return None if parts.scheme in ("http", "https") else Path(address).expanduser()


def _without_userinfo(address: str) -> str:
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))


def _netrc(host: str) -> str:
    with contextlib.suppress(OSError, netrc.NetrcParseError):
        if found := netrc.netrc().authenticators(host):
            return f"{found[0]}:{found[2]}"
    return ""


def ssl_context(ca_file: str) -> ssl.SSLContext:
    """With the certificates of the configured file, else of the system (or SSL_CERT_FILE), else of
    certifi."""
    if ca_file:
        folder = Path(ca_file).is_dir()
        return ssl.create_default_context(
            cafile=None if folder else ca_file, capath=ca_file if folder else None
        )
    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509_ca"]:
        with contextlib.suppress(ImportError):
            context.load_verify_locations(importlib.import_module("certifi").where())
    return context
