"""Too little memory: clear words, reads go on, and everything works again once there is some."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import mcp.types as types
import pytest

from memoryd.doors.lines import BadLine, LineBuffer, parse
from tests.daemons import Daemon, Lines

pytestmark = pytest.mark.slow

MEGABYTE = 1 << 20


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path / "data").start()
    yield made
    made.stop()


def squeeze(pid: int, spare: int | None) -> None:
    """Let a process have so many bytes more than it has; None: as many as it wants."""
    status = Path(f"/proc/{pid}/status").read_text()
    size = next(line for line in status.splitlines() if line.startswith("VmSize"))
    most = resource.RLIM_INFINITY if spare is None else int(size.split()[1]) * 1024 + spare
    resource.prlimit(pid, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def test_a_daemon_short_of_memory_says_so_and_recovers(daemon: Daemon) -> None:
    assert daemon.process is not None
    pid = daemon.process.pid
    for n in range(20):
        daemon.tool("store_memory", content=f"the door {n} is locked")
    with Lines(daemon.connect()) as client:
        client.open()
        client.tool("search_memories", query="door")
        squeeze(pid, 6 * MEGABYTE)
        codes = set()
        for n in range(10):
            large = {"content": f"{n} " + "x" * 3_900_000}
            client.request("tools/call", name="store_memory", arguments=large)
            answer = client.read()  # without an id, where even that could not be read
            refused = answer.get("error") or answer["result"]["_meta"]["memoryd/error"]
            codes.add(refused["code"])
            found = client.tool("search_memories", query="door 3 locked")
            assert found["structuredContent"]["results"][0]["content"] == "the door 3 is locked"
        squeeze(pid, None)
        assert codes & {"out_of_memory", types.INTERNAL_ERROR, types.INVALID_REQUEST}, codes
        assert client.tool("store_memory", content="there is room again")["structuredContent"]["id"]
    assert daemon.process.poll() is None
    assert daemon.status()["memories"]["fact"] == 21


def test_a_line_that_memory_does_not_suffice_for_is_answered_and_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Full(bytearray):
        def __iadd__(self, more: object) -> Full:
            raise MemoryError

    buffer = LineBuffer(limit=100)
    monkeypatch.setattr(buffer, "_pending", Full())
    assert list(buffer.feed(b'{"a": 1')) == [None]
    monkeypatch.setattr(buffer, "_pending", bytearray())
    assert list(buffer.feed(b"}\nnext\n")) == [b"next\n"]


def test_a_message_that_memory_does_not_suffice_for_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*args: object, **options: object) -> object:
        raise MemoryError

    monkeypatch.setattr("memoryd.doors.lines.json.loads", full)
    with pytest.raises(BadLine) as refused:
        parse(b"{}\n", 100)
    assert refused.value.answer.error.code == types.INTERNAL_ERROR
    assert "RAM" in refused.value.answer.error.message
