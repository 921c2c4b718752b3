"""What one connection may use: more gets an error with a stable code, never silence."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from memoryd.client import SyncClient
from memoryd.doors.limits import Rate
from memoryd.doors.tokens import read_token
from memoryd.errors import MemorydError
from tests.daemons import Daemon, ForkedDaemon, Lines
from tests.doors.clients import HELLO
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
        "MEMORYD_DOORS_HTTP_MAX_SESSIONS": "2",
    }
    running = ForkedDaemon(tmp_path_factory.mktemp("limits") / "data", **settings).start()
    yield running
    assert running.stop() == 0, running.log.read_text()


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that waits for nobody."""
    settings = {
        "MEMORYD_DOORS_HTTP_PORT": str(free_port()),
        "MEMORYD_DOORS_HTTP_SESSION_IDLE": "1",
        "MEMORYD_DOORS_HTTP_IDLE": "1",
    }
    running = ForkedDaemon(tmp_path_factory.mktemp("hasty") / "data", **settings).start()
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


def _ask(link: socket.socket, token: str) -> int:
    """The status of a request on this connection, which stays open."""
    port = link.getpeername()[1]
    head = f"GET /x HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}"
    link.sendall(head.encode() + b"\r\n\r\n")
    answer = b""
    while b"\r\n\r\n" not in answer:
        data = link.recv(4096)
        assert data, "closed"
        answer += data
    return int(answer.split()[1])


def _wait_for(status: int, url: str) -> None:
    """Connections of a test before may only just be closing."""
    deadline = time.monotonic() + 60
    while httpx.get(url, trust_env=False).status_code != status:
        assert time.monotonic() < deadline


def test_the_http_door_counts_idle_connections(narrow: Daemon) -> None:
    port = int(narrow.settings["MEMORYD_DOORS_HTTP_PORT"])
    token = read_token(narrow.folder / "token")
    url = f"http://127.0.0.1:{port}/health"
    _wait_for(200, url)
    held = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(MOST)]
    try:
        assert {_ask(link, token) for link in held} <= {404, 429}
        answer = httpx.get(url, trust_env=False)
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "too_many_connections"
        with socket.create_connection(("127.0.0.1", port), timeout=60) as idle:
            assert idle.recv(1) == b""  # closed, though it never asked for anything
    finally:
        for link in held:
            link.close()
    _wait_for(200, url)


def test_idle_http_connections_are_closed(hasty: Daemon) -> None:
    port = int(hasty.settings["MEMORYD_DOORS_HTTP_PORT"])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as link:
        assert _ask(link, read_token(hasty.folder / "token")) == 404
        while link.recv(4096):  # the rest of the answer, then its end
            pass


def test_the_session_that_was_not_used_for_long_gives_way(narrow: Daemon) -> None:
    with _sessions(narrow) as (client, opened):
        first, second = opened(), opened()
        assert _listed(client, first) == 200  # so the second is the one that was not used
        third = opened()
        assert _listed(client, second) == 404
        assert _listed(client, first) == _listed(client, third) == 200


def test_a_session_that_nobody_uses_ends(hasty: Daemon) -> None:
    with _sessions(hasty) as (client, opened):
        session = opened()
        deadline = time.monotonic() + 60
        while _listed(client, session) != 404:
            assert time.monotonic() < deadline
            time.sleep(1.5)  # nothing tells that it is over, and asking begins its time anew


@contextmanager
def _sessions(daemon: Daemon) -> Iterator[tuple[httpx.Client, Callable[[], str]]]:
    headers = {
        "Authorization": f"Bearer {read_token(daemon.folder / 'token')}",
        "Accept": "application/json, text/event-stream",
    }
    url = f"http://127.0.0.1:{daemon.settings['MEMORYD_DOORS_HTTP_PORT']}"
    with httpx.Client(trust_env=False, timeout=60, headers=headers, base_url=url) as client:

        def opened() -> str:
            answer = _patiently(lambda: client.post("/mcp", json=HELLO))
            assert answer.status_code == 200, answer.text
            session: str = answer.headers["Mcp-Session-Id"]
            return session

        yield client, opened


def _listed(client: httpx.Client, session: str) -> int:
    ask = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    headers = {"Mcp-Session-Id": session}
    return _patiently(lambda: client.post("/mcp", json=ask, headers=headers)).status_code


def _patiently(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """The answer, though calls of a test before may have used up the rate."""
    deadline = time.monotonic() + 60
    while (answer := ask()).status_code == 429:
        assert time.monotonic() < deadline
    return answer


@pytest.mark.slow
@pytest.mark.parametrize("first", [b"", b"GET /health HTTP/1.1\r\nHost:"], ids=["none", "half"])
def test_the_http_door_waits_for_headers_a_while_only(narrow: Daemon, first: bytes) -> None:
    port = int(narrow.settings["MEMORYD_DOORS_HTTP_PORT"])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as link:
        link.sendall(first)
        assert link.recv(1) == b""


@pytest.mark.slow
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
    with httpx.Client(trust_env=False, timeout=60) as client:
        headers = {"Authorization": f"Bearer {token}"}
        answers = [client.get(f"http://127.0.0.1:{port}/x", headers=headers) for _ in range(200)]
    codes = [answer.status_code for answer in answers]
    assert set(codes) <= {404, 429}
    assert codes.count(404) >= 20
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused[0].json()["error"]["code"] == "rate_limited"
