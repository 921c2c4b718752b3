"""Who may use the page: one-time tickets, and the browsers that have shown one.

A ticket is made for `memoryd dashboard`, which the local socket serves only to the owner. It is
good for one browser and a short time. The browser gets two secrets for it: a cookie that no script
can read, and a token that a script must send in a header with every request. The cookie alone is
not enough, because a browser sends the cookies of a host to every port of it, whoever listens
there; the token alone is not, because a script that should not run in the page must not be able to
take the login with it.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

TICKET_SECONDS = 120.0  # from `memoryd dashboard` to the browser
IDLE_SECONDS = 12 * 3600.0  # without a request until a browser has to log in again
MAX_TICKETS, MAX_BROWSERS = 16, 32  # the oldest give way


@dataclass(frozen=True, slots=True)
class Login:
    """The secrets of a browser."""

    cookie: str
    token: str


class Logins:
    """Keeps hashes only, so that finding one by its hash tells nothing by the time it takes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tickets: dict[bytes, float] = {}  # when each ends
        self._browsers: dict[bytes, tuple[bytes, float]] = {}  # token and end, by cookie

    def new_ticket(self) -> str:
        """A secret that logs one browser in."""
        ticket = secrets.token_urlsafe(32)
        _make_room(self._tickets, MAX_TICKETS)
        self._tickets[_hash(ticket)] = self._clock() + TICKET_SECONDS
        return ticket

    def redeem(self, ticket: str) -> Login | None:
        """The login for a ticket, which is used up by it; None if it is not valid any more."""
        end = self._tickets.pop(_hash(ticket), 0.0)
        if self._clock() >= end:
            return None
        login = Login(secrets.token_urlsafe(32), secrets.token_urlsafe(32))
        _make_room(self._browsers, MAX_BROWSERS)
        self._browsers[_hash(login.cookie)] = (_hash(login.token), self._clock() + IDLE_SECONDS)
        return login

    def knows(self, cookie: str, token: str) -> bool:
        """Whether both secrets belong to one browser; it stays logged in while it is used."""
        key, now = _hash(cookie), self._clock()
        expected, end = self._browsers.get(key, (b"", 0.0))
        if expected != _hash(token):
            return False
        if now >= end:
            del self._browsers[key]
            return False
        self._browsers[key] = (expected, now + IDLE_SECONDS)
        return True

    def log_out(self, cookie: str) -> None:
        self._browsers.pop(_hash(cookie), None)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _make_room(kept: dict[bytes, float] | dict[bytes, tuple[bytes, float]], most: int) -> None:
    while len(kept) >= most:
        del kept[next(iter(kept))]
