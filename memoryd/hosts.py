"""Host names that the HTTP door answers to: which may be configured, and which a request may have.

DNS rebinding: a malicious page lets its own host name resolve to this machine, and the browser then
sends that name as Host. So only the names that the owner expects are served, and a token is needed
besides.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from memoryd.errors import ConfigError
from memoryd.settings import DoorSettings

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?::\d{1,5})?")
HAS_PORT = re.compile(r":\d+$")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_hosts(doors: DoorSettings) -> None:
    """ConfigError for a host name that is not valid, or if other machines can reach the HTTP door
    and no host name is allowed."""
    for name in doors.http_allowed_hosts:
        if not HOST.fullmatch(name):
            raise ConfigError(
                f"`doors.http_allowed_hosts` contains {name!r}, which is not a host name.",
                code="config_wrong_type",
                hint="Use names such as memory.lan or 192.168.1.5, with a port where it differs.",
            )
    if doors.http_port and not is_loopback(doors.http_host) and not doors.http_allowed_hosts:
        raise ConfigError(
            f"Other machines can reach `doors.http_host` {doors.http_host}, "
            "but `doors.http_allowed_hosts` is empty.",
            code="config_hosts_missing",
            hint="Set doors.http_allowed_hosts to the names they use, such as [memory.lan].",
        )


def hosts_served(doors: DoorSettings, port: int) -> set[str]:
    """The allowed values of a request's Host, in lower case."""
    own = {*LOOPBACK, *_address(doors.http_host)}
    served = _with_port(own, port) | (own if port == 80 else set())
    allowed = {name.lower() for name in doors.http_allowed_hosts}
    return {name.lower() for name in served} | allowed | _with_port(allowed, port)


def origins_served(doors: DoorSettings, port: int) -> set[str]:
    """The allowed values of a request's Origin: our own, and https behind a TLS proxy."""
    allowed = {name.lower() for name in doors.http_allowed_hosts}
    secure = {f"https://{name}" for name in allowed | _with_port(allowed, port)}
    return {f"http://{name}" for name in hosts_served(doors, port)} | secure


def _address(host: str) -> list[str]:
    """The address as it is in a URL; none for 0.0.0.0 and ::, which no client uses as a name."""
    if host.strip("[]") in ("", "0.0.0.0", "::"):
        return []
    return [f"[{host}]" if ":" in host and not host.startswith("[") else host]


def _with_port(names: Iterable[str], port: int) -> set[str]:
    """Each name with the port, unless it has one."""
    return {name if HAS_PORT.search(name) else f"{name}:{port}" for name in names}
