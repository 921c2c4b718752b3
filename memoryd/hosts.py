"""Host names that the HTTP door answers to: what may be configured, and what a request may carry.

A browser that was lured to another site's page sends that site's name as Host, though its DNS
points to us. So only names that the owner expects are served, and the token is needed besides.
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
    """ConfigError for an open HTTP door that others reach by no name, or a name that is none."""
    for name in doors.http_allowed_hosts:
        if not HOST.fullmatch(name):
            raise ConfigError(
                f"`doors.http_allowed_hosts` holds {name!r}, which is no host name.",
                code="config_wrong_type",
                hint="Use names such as memory.lan or 192.168.1.5, with a port where it differs.",
            )
    if doors.http_port and not is_loopback(doors.http_host) and not doors.http_allowed_hosts:
        raise ConfigError(
            f"`doors.http_host` {doors.http_host} lets other machines in, "
            "but `doors.http_allowed_hosts` names no host that they may ask for.",
            code="config_hosts_missing",
            hint="Set doors.http_allowed_hosts to the names they use, such as [memory.lan].",
        )


def hosts_served(doors: DoorSettings, port: int) -> set[str]:
    """What the Host of a request may be, in lower case."""
    own = {*LOOPBACK, *_address(doors.http_host)}
    served = _with_port(own, port) | (own if port == 80 else set())
    allowed = {name.lower() for name in doors.http_allowed_hosts}
    return {name.lower() for name in served} | allowed | _with_port(allowed, port)


def origins_served(doors: DoorSettings, port: int) -> set[str]:
    """What the Origin of a page may be: our own, or behind a proxy that adds TLS."""
    allowed = {name.lower() for name in doors.http_allowed_hosts}
    secure = {f"https://{name}" for name in allowed | _with_port(allowed, port)}
    return {f"http://{name}" for name in hosts_served(doors, port)} | secure


def _address(host: str) -> list[str]:
    """As a URL has it; none for 0.0.0.0 and ::, which are every address and nobody's name."""
    if host.strip("[]") in ("", "0.0.0.0", "::"):
        return []
    return [f"[{host}]" if ":" in host and not host.startswith("[") else host]


def _with_port(names: Iterable[str], port: int) -> set[str]:
    """Each with the port, but for those that name one themselves."""
    return {name if HAS_PORT.search(name) else f"{name}:{port}" for name in names}
