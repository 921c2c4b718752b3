"""JSON over HTTP to a model server, with the standard library: a request, an answer, both bounded.

`http.client` is enough: it follows no redirect, uses no proxy and takes no credentials from
elsewhere, which a larger library has to be told. Its timeouts are for each read, so a server that
sends a byte now and then would hold a caller for ever, and the lookup of a name has none. So each
request runs on a thread of its own, and the caller waits until its time is over or it is cancelled.
The request itself goes on for a while: a server that loads a model for it would stop loading
otherwise, and never be ready in time.

What a server answers is in no message: it may quote a text or the key.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from functools import cached_property, partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any

from anyio.from_thread import check_cancelled

from memoryd import files
from memoryd.adapters.embed.package_index.http import ssl_context
from memoryd.endpoints import Address
from memoryd.errors import ModelUnavailable, TextRefused, UnsafeFiles
from memoryd.permissions import file_faults, refuse

MAX_ANSWER = 32 << 20  # bytes: 64 vectors of 4,096 numbers have about 5 MB
LINGER = 60.0  # seconds that a request may go on after its caller has gone
POLL = 0.1  # seconds between two looks whether the caller was cancelled
PAUSE = 0.2  # seconds before the first retry; doubled for each further one
MAX_IDLE = 4  # connections that are kept open
REFUSALS = (400, 413, 422)  # of what was sent: a text that is too long, for example
REASONS: tuple[tuple[type[BaseException], str], ...] = (
    (ConnectionRefusedError, "refuses connections"),
    (socket.gaierror, "has a name that cannot be looked up"),
    (ssl.SSLCertVerificationError, "has a certificate that cannot be verified"),
    (TimeoutError, "cannot be reached"),
    (ConnectionError, "broke the connection"),
)

Answer = tuple[int, bytes]  # status and body


class _Passing(ModelUnavailable):
    """A failure that the next attempt may not meet."""


class Endpoint:
    """One kind of request to one server. Thread-safe."""

    def __init__(
        self,
        what: str,
        address: Address,
        key: Callable[[], str],
        *,
        retries: int = 0,
        slowest: float = 0.0,
    ) -> None:
        """`what`: the server in messages. `key` returns the key for it, "" for none. `slowest`: the
        seconds after which an answer may still begin, if that is more than `LINGER`."""
        self._address = address
        self._name = f"The {what} {address.shown}"
        self._key = key
        self._retries = retries
        self._timeout = max(LINGER, slowest)
        self._idle: list[HTTPConnection] = []
        weakref.finalize(self, _close, self._idle)

    def unavailable(self, trouble: str, hint: str | None = None) -> ModelUnavailable:
        """The error for what this server did."""
        return ModelUnavailable(f"{self._name} {trouble}.", hint=hint)

    def post(self, body: Mapping[str, Any], seconds: float) -> Any:
        """What the server answers, parsed. Waits for `seconds` at most, retries included. Raises
        ModelUnavailable, and TextRefused if the server does not accept the content of `body`."""
        deadline = time.monotonic() + seconds
        data = json.dumps(body).encode()
        left, pause = self._retries, PAUSE
        while True:
            try:
                return self._parsed(*self._attempt(data, deadline))
            except _Passing:
                if not left or time.monotonic() + pause >= deadline:
                    raise
            _wait_for(Future(), time.monotonic() + pause)
            left, pause = left - 1, 2 * pause

    def _attempt(self, data: bytes, deadline: float) -> Answer:
        headers = {"Content-Type": "application/json", "User-Agent": "memoryd"}
        if key := self._key():
            headers["Authorization"] = f"Bearer {key}"
        answer: Future[Answer] = Future()
        work = partial(_fulfil, answer, partial(self._exchange, data, headers))
        threading.Thread(target=work, name="model-server", daemon=True).start()
        if not _wait_for(answer, deadline):
            raise self.unavailable("did not answer in time")
        try:
            return answer.result()
        except (OSError, HTTPException) as exc:
            raise self._failure(exc) from exc

    def _failure(self, exc: Exception) -> _Passing:
        other = f"failed ({type(exc).__name__})"
        reason = next((text for kind, text in REASONS if isinstance(exc, kind)), other)
        return _Passing(f"{self._name} {reason}.")

    def _exchange(self, data: bytes, headers: dict[str, str]) -> Answer:
        """One request on an open connection, or on a new one if there is none or it was closed."""
        while self._idle:
            try:
                return self._send(self._idle.pop(), data, headers)
            except (ConnectionError, IndexError):  # IndexError: another thread took it
                continue
        return self._send(self._connection(), data, headers)

    def _send(self, connection: HTTPConnection, data: bytes, headers: dict[str, str]) -> Answer:
        keep = False
        try:
            connection.request("POST", self._address.path, data, headers)
            with connection.getresponse() as response:
                content = response.read(MAX_ANSWER + 1)
                whole = response.isclosed() and not response.will_close
                keep = whole and len(self._idle) < MAX_IDLE
                return response.status, content
        finally:
            self._idle.append(connection) if keep else connection.close()

    def _connection(self) -> HTTPConnection:
        host, port = self._address.host, self._address.port
        if self._address.secure:
            return HTTPSConnection(host, port, timeout=self._timeout, context=self._tls)
        return HTTPConnection(host, port, timeout=self._timeout)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl_context("")

    def _parsed(self, status: int, content: bytes) -> Any:
        if status in REFUSALS:
            raise TextRefused(f"{self._name} refuses what was sent (HTTP {status}).")
        if status == 429 or status >= 500:
            raise _Passing(f"{self._name} fails (HTTP {status}).")
        if status in (401, 403):
            raise self.unavailable(f"refuses the key (HTTP {status})")
        if status == 404:
            raise self.unavailable("does not know the model or the path (HTTP 404)")
        if status != 200:
            raise self.unavailable(f"gave no answer (HTTP {status})")
        if len(content) > MAX_ANSWER:
            raise self.unavailable(f"sent more than {MAX_ANSWER >> 20} MB")
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise self.unavailable("did not answer with JSON") from None


def _fulfil(answer: Future[Answer], exchange: Callable[[], Answer]) -> None:
    try:
        answer.set_result(exchange())
    except BaseException as exc:
        answer.set_exception(exc)


def _wait_for(answer: Future[Answer], deadline: float) -> bool:
    """Wait for the answer until `deadline`; whether it came. Ends early if the task that runs this
    thread was cancelled."""
    while not answer.done() and (left := deadline - time.monotonic()) > 0:
        wait([answer], min(POLL, left))
        with contextlib.suppress(RuntimeError):  # this is not a thread of a task
            check_cancelled()
    return answer.done()


def _close(connections: list[HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


def key_reader(variable: str, file: str) -> Callable[[], str]:
    """What reads the key, for each request anew: a key that was replaced is used at once."""
    return partial(_read_key, variable, file)


def _read_key(variable: str, file: str) -> str:
    """The key in the environment variable, else in the file; "" if neither is named. Raises
    ModelUnavailable."""
    key = os.environ.get(variable, "").strip() if variable else ""
    if not key and file:
        key = _from_file(Path(file).expanduser())
    if not key and (variable or file):
        raise ModelUnavailable(
            f"There is no key: {f'the variable {variable} is not set' if variable else ''}"
            f"{' and ' if variable and file else ''}{f'{file} is empty' if file else ''}.",
            hint="A daemon that a client starts may not get the variable: use a key file.",
        )
    if not key.isascii() or not key.isprintable():  # http.client would quote it in its error
        raise ModelUnavailable("The key has a character that cannot be sent.")
    return key


def _from_file(path: Path) -> str:
    try:
        files.refuse_other(path)
        refuse(file_faults(path, "key file"))
        return files.read_text(path).strip()
    except UnsafeFiles as exc:
        raise ModelUnavailable(exc.message, hint=exc.hint) from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise ModelUnavailable(f"The key file {path} cannot be read.") from exc
