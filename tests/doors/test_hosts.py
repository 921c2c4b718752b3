"""The HTTP door for other machines: by names that the owner allowed, never without the token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from memoryd.config import load
from memoryd.doors.tokens import read_token
from memoryd.errors import ConfigError
from memoryd.hosts import is_loopback
from tests.daemons import Daemon, ForkedDaemon
from tests.doors import clients
from tests.processes import free_port


@pytest.fixture(scope="module")
def lan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that every machine could reach."""
    settings = {
        "MEMORYD_DOORS_HTTP_HOST": "0.0.0.0",
        "MEMORYD_DOORS_HTTP_PORT": str(free_port()),
        "MEMORYD_DOORS_HTTP_ALLOWED_HOSTS": "Memory.lan, 192.168.7.9, proxy.example:8443",
    }
    running = ForkedDaemon(tmp_path_factory.mktemp("hosts") / "data", **settings).start()
    yield running
    assert running.stop() == 0, running.log.read_text()


def post(daemon: Daemon, host: str, origin: str = "", token: str = "") -> httpx.Response:
    port = daemon.settings["MEMORYD_DOORS_HTTP_PORT"]
    token = token or read_token(daemon.folder / "token")
    headers = {"Authorization": f"Bearer {token}", "Host": host.format(port=port)}
    headers |= {"Origin": origin.format(port=port)} if origin else {}
    return clients.post(daemon, **headers)


@pytest.mark.parametrize(
    "host",
    [
        "memory.lan:{port}",
        "MEMORY.LAN:{port}",
        "memory.lan",
        "192.168.7.9:{port}",
        "proxy.example:8443",
        "127.0.0.1:{port}",
        "localhost:{port}",
    ],
)
def test_an_allowed_host_is_served(lan: Daemon, host: str) -> None:
    assert post(lan, host).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:{port}",
        "0.0.0.0:{port}",
        "memory.lan:1",
        "memory.lan.evil.example:{port}",
        "proxy.example",
        "proxy.example:{port}",
        "192.168.7.90:{port}",
    ],
)
def test_any_other_host_is_refused(lan: Daemon, host: str) -> None:
    answer = post(lan, host)
    assert answer.status_code == 421
    assert answer.json()["error"]["code"] == "host_refused"
    assert "doors.http_allowed_hosts" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://memory.lan:{port}", 200),
        ("https://memory.lan", 200),
        ("https://proxy.example:8443", 200),
        ("http://localhost:{port}", 200),
        ("https://localhost:{port}", 403),
        ("https://evil.example", 403),
        ("http://memory.lan:1", 403),
        ("memory.lan:{port}", 403),
        ("null", 403),
    ],
)
def test_the_origin_must_be_one_of_them_too(lan: Daemon, origin: str, status: int) -> None:
    assert post(lan, "memory.lan:{port}", origin).status_code == status


def test_the_token_is_needed_whatever_the_host(lan: Daemon) -> None:
    assert post(lan, "memory.lan:{port}", token="wrong").status_code == 401


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.7.9", "memory.lan"])
def test_a_door_for_others_needs_names(tmp_path: Path, host: str) -> None:
    environ = {"MEMORYD_DOORS_HTTP_HOST": host, "MEMORYD_DOORS_HTTP_PORT": "8765"}
    with pytest.raises(ConfigError) as caught:
        load(environ=environ)
    assert caught.value.code == "config_hosts_missing"
    assert "doors.http_allowed_hosts" in caught.value.hint
    closed = {**environ, "MEMORYD_DOORS_HTTP_PORT": "0"}
    assert load(environ=closed).doors.http_host == host
    named = {**environ, "MEMORYD_DOORS_HTTP_ALLOWED_HOSTS": "[memory.lan, other.lan]"}
    assert load(environ=named).doors.http_allowed_hosts == ("memory.lan", "other.lan")


def test_the_daemon_does_not_start_without_them(tmp_path: Path) -> None:
    settings = {"MEMORYD_DOORS_HTTP_HOST": "0.0.0.0", "MEMORYD_DOORS_HTTP_PORT": str(free_port())}
    daemon = ForkedDaemon(tmp_path / "data", **settings)
    assert daemon.spawn().wait(60) == 1
    assert "doors.http_allowed_hosts" in daemon.log.read_text()


@pytest.mark.parametrize("name", ["http://memory.lan", "memory.lan/mcp", "*", "*.lan", "a b", "-"])
def test_what_is_no_host_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="http_allowed_hosts"):
        load(environ={}, flags={"doors.http_allowed_hosts": [name]})


@pytest.mark.parametrize("value", [5, [5], {"a": "b"}, True])
def test_hosts_are_a_list_of_texts(value: object) -> None:
    with pytest.raises(ConfigError, match="a list of texts"):
        load(environ={}, flags={"doors.http_allowed_hosts": value})


def test_loopback_is_known() -> None:
    for host in ("127.0.0.1", "127.8.8.8", "localhost", "LOCALHOST", "::1", "[::1]"):
        assert is_loopback(host), host
    for host in ("0.0.0.0", "::", "10.0.0.1", "localhost.evil.example", ""):
        assert not is_loopback(host), host
