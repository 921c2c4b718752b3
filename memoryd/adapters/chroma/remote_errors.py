"""Errors of a Chroma server, or of the proxy before it, as errors of memoryd.

Chroma's client turns a status that it does not know into a bare exception with the text of the
answer, and a failed connection into a ValueError. What happened is in the exceptions that these
were raised from.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator

from memoryd.adapters.chroma.disk_errors import to_memoryd_error
from memoryd.errors import MemorydError, StoreOffline, StoreUnauthorized, StoreUnavailable
from memoryd.settings import StoreSettings

REFUSED = (401, 403)
AWAY = (429, 502, 503, 504)  # what a proxy answers while the server behind it does not


def to_remote_error(exc: Exception, settings: StoreSettings) -> MemorydError:
    """Any exception of a call to a Chroma server as an error of memoryd."""
    return _connection_error(exc, settings) or to_memoryd_error(exc)


def to_open_error(exc: Exception, settings: StoreSettings) -> MemorydError:
    """The same for an exception of the opening."""
    return _connection_error(exc, settings) or StoreUnavailable(
        f"The Chroma server at {_place(settings)} cannot be used ({type(exc).__name__}).",
        hint="Check that it runs and that store.host, port, tenant and database are right.",
    )


def _connection_error(exc: Exception, settings: StoreSettings) -> MemorydError | None:
    """The error if the server could not be asked; None if it has answered."""
    for cause in _causes(exc):
        if isinstance(cause, ssl.SSLError):
            return StoreOffline(
                f"No secure connection to the Chroma server at {_place(settings)} "
                f"({type(cause).__name__}).",
                code="store_certificate",
                hint="Set store.ca_file to the certificate of the authority that signed the "
                "server's, and check that store.host is a name in it.",
            )
    for cause in _causes(exc):
        status = getattr(getattr(cause, "response", None), "status_code", None)
        if status in REFUSED:
            return StoreUnauthorized(
                f"The server at {_place(settings)} refuses the access (HTTP {status})."
            )
        if status in AWAY:
            return _away(settings, f"HTTP {status}")
        if status is None and type(cause).__module__.startswith(("httpx", "httpcore")):
            return _away(settings, type(cause).__name__)
    return None


def _away(settings: StoreSettings, reason: str) -> StoreOffline:
    return StoreOffline(f"The Chroma server at {_place(settings)} cannot be reached ({reason}).")


def _causes(exc: BaseException | None) -> Iterator[BaseException]:
    """The exception and those that it was raised from or after."""
    while exc is not None:
        yield exc
        exc = exc.__cause__ or exc.__context__


def _place(settings: StoreSettings) -> str:
    return f"{settings.host}:{settings.port}"
