"""Bad peers: whatever one connection does, the others notice nothing."""

from __future__ import annotations

import json
import os
import socket
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.doors.lines import BadLine, LineBuffer, parse
from tests.daemons import Daemon, Lines
from tests.processes import free_port


def code_of(line: bytes | None) -> int:
    with pytest.raises(BadLine) as refused:
        parse(line, 100)
    return refused.value.answer.error.code


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"nonsense\n", -32700),
        (b"{\n", -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "x"\xff}\n', -32700),
        (b"\x00\x01\x02\n", -32700),
        (b"[" * 100_000 + b"\n", -32700),
        (b"[]\n", -32600),
        (b"5\n", -32600),
        (b'"text"\n', -32600),
        (b"{}\n", -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "x"}\n', -32600),
        (b'{"jsonrpc": "2.0", "id": 1}\n', -32600),
        (None, -32600),
    ],
)
def test_what_is_no_message_has_its_error(line: bytes | None, code: int) -> None:
    assert code_of(line) == code


@given(st.lists(st.binary(max_size=30), max_size=20), st.integers(1, 7))
def test_lines_come_out_whole_however_they_are_cut(parts: list[bytes], size: int) -> None:
    data = b"".join(part.replace(b"\n", b"") + b"\n" for part in parts)
    buffer = LineBuffer(limit=1000)
    found: list[bytes | bytearray | None] = []
    for start in range(0, len(data), size):
        found += buffer.feed(data[start : start + size])
    assert found == [line + b"\n" for line in data.split(b"\n") if line.strip()]


def test_an_over_long_line_is_reported_once_and_skipped() -> None:
    buffer = LineBuffer(limit=10)
    found: list[bytes | bytearray | None] = []
    for piece in (b"x" * 8, b"x" * 8, b"x" * 50, b"x\nok\n"):
        found += buffer.feed(piece)
    assert found == [None, b"ok\n"]


def test_malformed_lines_are_answered_and_the_connection_lives(daemon: Daemon) -> None:
    with Lines(daemon.connect()) as client:
        client.open()
        for noise in (b"nonsense\n", os.urandom(200).replace(b"\n", b"") + b"\n", b"{}\n"):
            client.send(noise)
            answer = client.read()
            assert answer["error"]["code"] in (-32700, -32600)
            assert answer["id"] is None
        assert len(client.call("tools/list")["tools"]) == 6


def test_noise_before_the_handshake_does_no_harm(daemon: Daemon) -> None:
    with Lines(daemon.connect()) as client:
        client.send(b"\x16\x03\x01 GET / HTTP/1.1\n")
        assert client.read()["error"]["code"] == -32700
        client.open()
        assert client.call("tools/list")["tools"]


def test_half_a_character_is_answered_and_the_connection_lives(daemon: Daemon) -> None:
    with Lines(daemon.connect()) as client:
        client.open()
        gone = client.tool("forget_memory", memory_id="\ud800")
        assert gone["structuredContent"]["success"] is False
        refused = client.tool("store_memory", content="\ud800")
        assert refused["_meta"]["memoryd/error"]["code"] == "content_has_surrogate"
        assert client.call("resources/read", uri="memory://memory/\ud800")["code"] == -32002
        client.send({"jsonrpc": "2.0", "id": "\udfff", "method": "ping"})
        assert client.read()["id"] == "\udfff"


@pytest.mark.parametrize("id", [1.5, None, True, [1]])
def test_an_id_that_is_none_is_refused(daemon: Daemon, id: object) -> None:
    with Lines(daemon.connect()) as client:
        client.open()
        client.send({"jsonrpc": "2.0", "id": id, "method": "ping"})
        assert client.read()["error"]["code"] == -32600


@pytest.mark.slow
def test_an_answer_is_bounded_and_says_so(daemon: Daemon) -> None:
    for n in range(8):
        daemon.tool("store_memory", content=f"heavy {n} " + "load " * 18_000)
    found = daemon.tool("search_memories", query="heavy load", limit=1000, min_score=0)
    assert sum(len(r["content"]) for r in found["results"]) < 600_000
    assert any("fit into one answer" in warning for warning in found["warnings"])


def test_an_over_long_line_is_answered_and_skipped(daemon: Daemon) -> None:
    with Lines(daemon.connect()) as client:
        client.open()
        client.send(b'{"jsonrpc": "2.0", "id": 99, "method": "' + b"x" * 3_000_000 + b'"}\n')
        answer = client.read()
        assert answer["error"]["code"] == -32600
        assert "1000000" in answer["error"]["message"]
        assert client.call("ping") == {}


def test_an_unknown_method_is_an_error(daemon: Daemon) -> None:
    assert daemon.call("no/such/method")["code"] == -32601


def test_a_client_that_closes_its_sending_half_gets_its_answers(daemon: Daemon) -> None:
    with Lines(daemon.connect()) as client:
        client.open()
        ids = {
            client.request("tools/call", name="store_memory", arguments={"content": f"half {n}"})
            for n in range(20)
        }
        client.sock.shutdown(socket.SHUT_WR)
        while (answer := client.read()) is not None:
            ids.discard(answer["id"])
        assert ids == set()


def test_vanished_half_open_and_reset_clients_leave_no_trace(daemon: Daemon) -> None:
    before = len(os.listdir(f"/proc/{daemon.status()['pid']}/fd"))
    for n in range(60):
        client = Lines(daemon.connect())
        client.open()
        for _ in range(5):
            client.request("tools/call", name="search_memories", arguments={"query": f"q{n}"})
        if n % 3 == 0:
            linger = struct.pack("ii", 1, 0)
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        elif n % 3 == 1:
            client.send(b'{"jsonrpc": "2.0", "id": 7, "method": "tools/')
        client.__exit__()
    for _ in range(600):
        if len(os.listdir(f"/proc/{daemon.status()['pid']}/fd")) <= before + 2:
            break
    assert len(os.listdir(f"/proc/{daemon.status()['pid']}/fd")) <= before + 2


def test_a_client_that_never_reads_is_bounded_and_harms_nobody(daemon: Daemon) -> None:
    daemon.tool("store_memory", content="filler " * 5000, name="filler")
    before = daemon.status()["resident_bytes"]
    deaf = Lines(daemon.connect())
    deaf.open()
    deaf.sock.settimeout(1)
    search = {"name": "search_memories", "arguments": {"query": "filler", "min_score": 0}}
    line = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": search})
    try:
        for n in range(100_000):
            deaf.send(line.replace('"id": 0', f'"id": {n + 10}').encode() + b"\n")
    except TimeoutError:
        pass  # the daemon stopped reading, as it should
    else:
        raise AssertionError("the daemon read on without end")
    assert daemon.tool("search_memories", query="filler")["results"]
    grown = daemon.status()["resident_bytes"] - before
    assert grown < 100_000_000
    deaf.__exit__()


def test_five_hundred_connections_at_once(daemon: Daemon) -> None:
    clients = [Lines(daemon.connect()) for _ in range(500)]
    try:
        for client in clients:
            client.open()
        ids = [client.request("ping") for client in clients]
        assert [client.read()["id"] for client in clients] == ids
    finally:
        for client in clients:
            client.__exit__()
    assert daemon.status()["health"] == "ready"


def test_the_socket_is_for_its_owner_only(daemon: Daemon) -> None:
    assert daemon.socket.stat().st_mode & 0o777 == 0o600
    assert daemon.folder.stat().st_mode & 0o777 == 0o700


def tcp(daemon: Daemon, first: bytes) -> Lines:
    port = int(daemon.settings["MEMORYD_DOORS_TCP_PORT"])
    sock = socket.create_connection(("127.0.0.1", port), timeout=60)
    sock.sendall(first)
    return Lines(sock)


def test_tcp_wants_the_token_first(daemon: Daemon, token: str) -> None:
    with tcp(daemon, token.encode() + b"\n") as client:
        client.open()
        assert len(client.call("tools/list")["tools"]) == 6
    for wrong in (b"wrong\n", token.encode()[:-1] + b"\n", b"x" * 5000, b'{"jsonrpc":"2.0"}\n'):
        with tcp(daemon, wrong) as client:
            try:
                assert client.read() is None
            except ConnectionError:
                pass


def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    (folder / "token").write_text("x" * 40)
    (folder / "token").chmod(0o644)
    daemon = Daemon(folder, MEMORYD_DOORS_TCP_PORT=str(free_port()))
    assert daemon.spawn().wait(60) == 1
    assert "chmod 600" in daemon.log.read_text()
