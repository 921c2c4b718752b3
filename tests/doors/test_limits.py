"""What one connection may use: more gets an error with a stable code, never silence."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from memoryd.client import SyncClient
from memoryd.doors.rate import Rate
from memoryd.doors.tokens import read_token
from memoryd.errors import MemorydError
from tests.daemons import Daemon, Lines
from tests.processes import free_port

MOST = 3


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with tight limits."""
    settings = {
        "MEMORYD_DOORS_TCP_PORT": str(free_port()),
        "MEMORYD_DOORS_HTTP_PORT": str(free_port()),
        "MEMORYD_DOORS_MAX_CONNECTIONS": str(MOST),
        "MEMORYD_DOORS_MAX_CALLS_PER_SECOND": "20",
    }
    running = Daemon(tmp_path_factory.mktemp("limits") / "data", **settings).start()
    yield running
    assert running.stop() == 0, running.log.read_text()


def test_a_bucket_fills_by_the_second() -> None:
    now = 0.0
    rate = Rate(10, lambda: now)
    assert [rate.allows() for _ in range(12)] == [True] * 10 + [False] * 2
    now += 0.25
    assert [rate.allows() for _ in range(3)] == [True, True, False]
    now += 3600
    assert sum(rate.allows() for _ in range(100)) == 10
    assert all(Rate(0, lambda: now).allows() for _ in range(10_000))


def test_calls_over_the_rate_get_an_error_and_the_connection_lives(narrow: Daemon) -> None:
    with Lines(narrow.connect()) as lines:
        lines.open()
        wanted = {lines.request("ping") for _ in range(200)}
        answers = [lines.read() for _ in wanted]
        assert {answer["id"] for answer in answers} == wanted
        refused = [answer["error"] for answer in answers if "error" in answer]
        assert len(answers) - len(refused) >= 10
        assert len(refused) >= 100
        assert {error["code"] for error in refused} == {-32029}
        assert refused[0]["data"]["memoryd/error"]["code"] == "rate_limited"
        assert "doors.max_calls_per_second" in refused[0]["message"]
        assert lines.sock.fileno() >= 0
    with Lines(narrow.connect()) as other:
        other.open()
        assert other.call("ping") == {}


def _fill(narrow: Daemon, tcp: bool) -> list[Lines]:
    """All connections that a door has; those of a test before may only just be closing."""
    token = read_token(narrow.folder / "token").encode()
    held: list[Lines] = []
    deadline = time.monotonic() + 60
    while len(held) < MOST and time.monotonic() < deadline:
        if tcp:
            port = int(narrow.settings["MEMORYD_DOORS_TCP_PORT"])
            link = socket.create_connection(("127.0.0.1", port), timeout=60)
            link.sendall(token + b"\n")
        else:
            link = narrow.connect()
        lines = Lines(link)
        try:
            lines.open()
        except OSError:
            lines.__exit__()
        else:
            held.append(lines)
    return held


@pytest.mark.parametrize("tcp", [False, True], ids=["unix", "tcp"])
def test_one_connection_too_many_is_told_so(narrow: Daemon, tcp: bool) -> None:
    held = _fill(narrow, tcp)
    try:
        if tcp:
            port = int(narrow.settings["MEMORYD_DOORS_TCP_PORT"])
            link = socket.create_connection(("127.0.0.1", port), timeout=60)
        else:
            link = narrow.connect()
        with Lines(link) as last:
            last.request("ping")
            answer = last.read()
            assert (answer["id"], answer["error"]["code"]) == (None, -32030)
            assert answer["error"]["data"]["memoryd/error"]["code"] == "too_many_connections"
            assert last.read() is None
        if not tcp:
            with pytest.raises(MemorydError) as caught, SyncClient(narrow.socket):
                pass
            assert caught.value.code == "too_many_connections"
        assert held[0].call("ping") == {}
    finally:
        for lines in held:
            lines.__exit__()


def test_the_http_door_counts_idle_connections(narrow: Daemon) -> None:
    port = int(narrow.settings["MEMORYD_DOORS_HTTP_PORT"])
    url = f"http://127.0.0.1:{port}/health"
    held = [socket.create_connection(("127.0.0.1", port)) for _ in range(MOST)]
    try:
        answer = httpx.get(url, trust_env=False)
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "too_many_connections"
        with socket.create_connection(("127.0.0.1", port), timeout=60) as idle:
            assert idle.recv(1) == b""  # closed, though it never asked for anything
    finally:
        for link in held:
            link.close()
    deadline = time.monotonic() + 60
    while httpx.get(url, trust_env=False).status_code != 200:  # those are closing
        assert time.monotonic() < deadline


@pytest.mark.parametrize("first", [b"", b"GET /health HTTP/1.1\r\nHost:"], ids=["none", "half"])
def test_the_http_door_waits_for_headers_a_while_only(narrow: Daemon, first: bytes) -> None:
    port = int(narrow.settings["MEMORYD_DOORS_HTTP_PORT"])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as link:
        link.sendall(first)
        assert link.recv(1) == b""


def test_the_http_door_waits_for_the_headers_of_each_request(narrow: Daemon) -> None:
    port = int(narrow.settings["MEMORYD_DOORS_HTTP_PORT"])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as link:
        link.sendall(f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        while not link.recv(4096).endswith(b"}"):
            pass
        link.sendall(b"GET /health HT")  # which ends the time for an idle connection
        assert link.recv(1) == b""


def test_the_http_door_has_a_rate(narrow: Daemon) -> None:
    port = int(narrow.settings["MEMORYD_DOORS_HTTP_PORT"])
    token = read_token(narrow.folder / "token")
    with httpx.Client(trust_env=False, timeout=30) as client:
        headers = {"Authorization": f"Bearer {token}"}
        answers = [client.get(f"http://127.0.0.1:{port}/x", headers=headers) for _ in range(200)]
    codes = [answer.status_code for answer in answers]
    assert set(codes) <= {404, 429}
    assert codes.count(404) >= 20
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused[0].json()["error"]["code"] == "rate_limited"
