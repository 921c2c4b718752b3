"""The daemon as a process: start, stop, kill, systemd, neighbours."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from memoryd import daemon_record, places
from memoryd.adapters.chroma.store import open_chroma
from memoryd.adapters.chroma.swap import CLEAN
from memoryd.cli.daemon import STOP_TIMEOUT
from memoryd.client import SyncClient
from memoryd.ports import Identity
from memoryd.settings import StoreSettings
from tests.adapters.chroma import odd_worker
from tests.daemons import Daemon, Lines
from tests.processes import is_running


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path / "data")
    yield made
    if made.process is not None:
        made.stop()


def test_it_stops_cleanly_and_everything_is_there_again(daemon: Daemon) -> None:
    daemon.start()
    made = daemon.tool("store_memory", content="kept over the restart", name="n")
    worker = daemon.status()["store"]["pid"]
    assert daemon.stop() == 0
    assert not daemon.socket.exists()
    assert not is_running(worker)
    daemon.start()
    found = daemon.tool("search_memories", query="kept over the restart")["results"]
    assert found[0]["id"] == made["id"]


@pytest.mark.slow
def test_a_running_call_is_finished_before_it_stops(daemon: Daemon) -> None:
    daemon.start()
    with Lines(daemon.connect()) as client:
        client.open()
        ids = {
            client.request("tools/call", name="store_memory", arguments={"content": f"last {n}"})
            for n in range(30)
        }
        assert client.read()["id"] in ids
        assert daemon.process is not None
        daemon.process.send_signal(signal.SIGTERM)
        answers = []
        while (answer := client.read()) is not None:
            answers.append(answer)
    assert daemon.process.wait(60) == 0
    done = 1 + sum("result" in answer for answer in answers)
    daemon.start()
    assert daemon.status()["memories"]["fact"] >= done


@pytest.mark.slow
def test_a_second_daemon_is_told_and_touches_nothing(daemon: Daemon) -> None:
    daemon.start()
    second = Daemon(daemon.folder)
    second.socket = daemon.socket
    assert second.spawn().wait(60) == 3
    assert daemon.process is not None
    assert f"process {daemon.process.pid}" in second.log.read_text()
    assert daemon.tool("store_memory", content="still served")["content"] == "still served"


@pytest.mark.slow
def test_a_stale_socket_of_a_killed_daemon_is_no_obstacle(daemon: Daemon) -> None:
    daemon.start()
    daemon.tool("store_memory", content="acknowledged")
    daemon.stop(signal.SIGKILL)
    assert daemon.socket.exists()
    daemon.start()
    assert daemon.status()["memories"]["fact"] == 1


@pytest.mark.slow
def test_a_killed_store_worker_is_replaced_without_an_error(daemon: Daemon) -> None:
    daemon.start()
    daemon.tool("store_memory", content="before")
    os.kill(daemon.status()["store"]["pid"], signal.SIGKILL)
    daemon.tool("store_memory", content="after")
    status = daemon.status()
    assert status["memories"]["fact"] == 2
    assert status["store"]["restarts"] == 1


@pytest.mark.slow
def test_it_listens_before_it_is_ready_and_calls_wait(daemon: Daemon) -> None:
    daemon.process = daemon.spawn()
    with Lines(daemon.connect()) as client:
        assert client.open()["serverInfo"]["name"] == "memoryd"
        stored = client.tool("store_memory", content="early bird")
        assert stored["structuredContent"]["content"] == "early bird"


@pytest.mark.slow
def test_a_second_signal_forces_the_end(daemon: Daemon) -> None:
    daemon.start()
    worker = daemon.status()["store"]["pid"]
    os.kill(worker, signal.SIGSTOP)  # so that closing would wait
    assert daemon.process is not None
    client = Lines(daemon.connect())
    client.open()
    client.request("tools/call", name="store_memory", arguments={"content": "stuck"})
    daemon.process.send_signal(signal.SIGTERM)
    while "stopping" not in daemon.log.read_text():
        assert daemon.process.poll() is None
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(60) == 1
    client.__exit__()
    os.kill(worker, signal.SIGCONT)
    while is_running(worker):
        pass


def test_a_directory_that_cannot_be_used_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    daemon = Daemon(tmp_path / "file")
    assert daemon.spawn().wait(60) == 1
    assert "Error: The data directory" in daemon.log.read_text()
    assert "Traceback" not in daemon.log.read_text()


@pytest.mark.slow
def test_another_model_in_the_configuration_takes_the_store_over(daemon: Daemon) -> None:
    daemon.start()
    daemon.tool("store_memory", content="The charging dock is behind the door.")
    daemon.stop()
    other = Daemon(daemon.folder, MEMORYD_EMBEDDING_BACKEND="onnx").start()
    try:
        while (status := other.status())["model_change"]:
            pass
        assert status["model"] == status["store"]["model"] == "all-MiniLM-L6-v2"
        found = other.tool(
            "search_memories", query="where can it refill its battery?", min_score=0.1
        )
        assert len(found["results"]) == 1
    finally:
        other.stop()


def store_doors_and_kill(daemon: Daemon, count: int) -> None:
    for n in range(count):
        daemon.tool("store_memory", content=f"the door number {n} is locked")
    daemon.stop(signal.SIGKILL)


@pytest.mark.slow
def test_a_broken_index_is_repaired_and_vectors_are_made_again(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "data", MEMORYD_STORE_SYNC_THRESHOLD="3").start()
    try:
        store_doors_and_kill(daemon, 7)
        for file in (daemon.folder / "store").glob("*/index_metadata.pickle"):
            file.write_bytes(b"")
        daemon.start()
        while (status := daemon.status())["pending_vectors"]:
            pass
        assert status["memories"]["fact"] == 7
        assert status["store"]["since_by"] == "repair"
        assert status["store"]["set_aside"][0].startswith("backups/store.broken-")
        page = daemon.tool("search_memories", query="the door number 3 is locked")
        assert page["results"][0]["content"] == "the door number 3 is locked"
        assert page["warnings"] == []
        assert "number" not in daemon.log.read_text()
    finally:
        daemon.stop()


@pytest.mark.slow
def test_a_start_with_another_collection_says_what_else_is_there(tmp_path: Path) -> None:
    Daemon(tmp_path / "data").start().stop()
    other = Daemon(tmp_path / "data", MEMORYD_STORE_COLLECTION="work").start()
    try:
        assert other.status()["store"]["other_collections"] == {"memories": 0}
        assert "other_collections" in other.log.read_text()
    finally:
        other.stop()


SLOW = """
import sys
import time
from memoryd.adapters.chroma import early_worker
from memoryd.cli.main import main
early_worker.WORKER = [sys.executable, "-P", sys.argv.pop(1), sys.argv.pop(1)]
sys.exit(main())
"""


@pytest.mark.slow
def test_status_answers_and_tells_how_far_a_repair_is(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "data", MEMORYD_STORE_SYNC_THRESHOLD="100").start()
    try:
        store_doors_and_kill(daemon, 250)
        for file in (daemon.folder / "store").glob("*/header.bin"):
            file.unlink()
        hold = tmp_path / "control" / odd_worker.HOLD
        hold.parent.mkdir()
        hold.touch()  # the worker is quick: it must not be done before anybody asks
        daemon.process = daemon.spawn(("-c", SLOW, odd_worker.__file__, str(hold.parent)))
        daemon.connect().close()
        hold.unlink()
        seen: list[Any] = []
        status: dict[str, Any] = {"health": "starting"}
        while status["health"] == "starting":
            status = daemon.status()
            seen.append(status.get("progress"))
        steps = [(it["done"], it["total"]) for it in seen if it and it["what"] == "repairing"]
        assert any(0 <= done < total == 250 for done, total in steps), seen
        assert sum(status["memories"].values()) == 250
    finally:
        daemon.stop()


@pytest.mark.slow
def test_status_tells_that_a_slow_opening_goes_on(daemon: Daemon, tmp_path: Path) -> None:
    daemon.start()
    daemon.tool("store_memory", content="patience")
    daemon.stop()
    hold = tmp_path / "control" / odd_worker.HOLD
    hold.parent.mkdir()
    hold.touch()
    daemon.process = daemon.spawn(("-c", SLOW, odd_worker.__file__, str(hold.parent)))
    seen: list[float] = []
    end = time.monotonic() + 120
    while len(set(seen)) < 3:
        assert time.monotonic() < end, "it tells nothing"
        status = daemon.status()
        assert status["health"] == "starting"
        if (so_far := status.get("progress")) and so_far["what"] == "opening":
            seen.append(so_far["seconds"])
    assert seen == sorted(seen), "it tells for how long"
    hold.unlink()
    assert daemon.tool("search_memories", query="patience")["results"]
    assert daemon.status()["store"]["set_aside"] == []


@pytest.mark.slow
def test_a_stop_during_a_long_opening_is_clean(daemon: Daemon, tmp_path: Path) -> None:
    """The daemon does not wait for it for ever and does not fail; its worker finishes the opening
    and closes the store, so that the next start need not even check it."""
    daemon.start()
    daemon.tool("store_memory", content="patience")
    daemon.stop()
    hold = tmp_path / "control" / odd_worker.HOLD
    hold.parent.mkdir()
    hold.touch()
    hurried = SLOW.replace(
        "sys.exit", "from memoryd import daemon; daemon.STOP_SECONDS = 0.5; sys.exit"
    )
    daemon.process = daemon.spawn(("-c", hurried, odd_worker.__file__, str(hold.parent)))
    while not (begun := list(hold.parent.glob("opening-*"))):
        assert daemon.process.poll() is None, daemon.log.read_text()
    worker = int(begun[0].name.partition("-")[2])
    assert daemon.stop() == 0
    assert is_running(worker), "a kill could damage the index"
    assert not daemon.socket.exists()
    assert daemon_record.read(daemon.folder) is None
    hold.unlink()
    while is_running(worker):
        pass
    assert (daemon.folder / "store" / CLEAN).exists()
    daemon.start()
    assert daemon.tool("search_memories", query="patience")["results"]
    assert daemon.status()["store"]["since_by"] == "made"


@pytest.mark.slow
def test_a_daemon_that_cannot_open_its_store_stays_up_and_says_why(daemon: Daemon) -> None:
    daemon.start()
    daemon.tool("store_memory", content="x")
    daemon.stop()
    (daemon.folder / "store" / "chroma.sqlite3").write_bytes(b"noise" * 1000)
    daemon.process = daemon.spawn()
    asked = {"name": "search_memories", "arguments": {"query": "x"}}
    answer = daemon.call("tools/call", **asked)
    assert answer["_meta"]["memoryd/error"]["code"] == "store_corrupt"
    status = daemon.status()
    assert (status["health"], status["store"]["error"]["code"]) == ("failed", "store_corrupt")
    assert daemon.stop() == 0
    assert "store_not_open" in daemon.log.read_text()
    assert "Traceback" not in daemon.log.read_text()


def test_memory_text_is_never_logged(daemon: Daemon) -> None:
    daemon.start()
    canary = "canary-7f3a"
    daemon.tool("store_memory", content=f"the {canary} sings", metadata={"k": canary})
    daemon.tool("search_memories", query=canary)
    daemon.tool("add_turn", role="user", content=canary, session_id=canary)
    daemon.call("tools/call", name="store_memory", arguments={"content": canary, "pinned": canary})
    daemon.call("tools/call", name=canary, arguments={canary: 1})
    daemon.call("resources/read", uri=f"memory://memory/{canary}")
    daemon.stop()
    assert canary not in daemon.log.read_text()


@pytest.mark.slow
def test_a_database_that_cannot_be_decoded_tells_no_memory_text(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "data", MEMORYD_STORE_SYNC_THRESHOLD="3").start()
    for n in range(7):
        daemon.tool("store_memory", content=f"the canary number {n} sings")
    daemon.stop()
    with closing(sqlite3.connect(daemon.folder / "store" / "chroma.sqlite3")) as database:
        database.execute(
            "UPDATE embedding_metadata SET string_value = "
            "CAST(CAST(string_value AS BLOB) || x'ff' AS TEXT) WHERE string_value LIKE '%canary%'"
        )
        database.commit()
    for file in (daemon.folder / "store").glob("*/header.bin"):
        file.write_bytes(b"")
    daemon.process = daemon.spawn()
    asked = {"name": "search_memories", "arguments": {"query": "sings"}}
    answer = json.dumps(daemon.call("tools/call", **asked))
    daemon.stop()
    for said in (answer, daemon.log.read_text()):
        assert "chroma.sqlite3" in said
        assert "backup" in said
        assert "canary" not in said


@pytest.mark.slow
def test_it_is_ready_and_stopping_for_systemd(daemon: Daemon) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        address = tempfile.mkdtemp(prefix="memoryd-test-") + "/notify"
        manager.bind(address)
        manager.settimeout(60)
        daemon.settings |= {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "200000"}
        daemon.process = daemon.spawn()
        seen: list[str] = []
        while "READY=1" not in seen or seen.count("WATCHDOG=1") < 3:
            seen.append(manager.recv(100).decode())
        daemon.process.send_signal(signal.SIGTERM)
        while "STOPPING=1" not in seen:
            seen.append(manager.recv(100).decode())
        assert daemon.process.wait(60) == 0


def recorded(daemon: Daemon) -> tuple[int, str]:
    """Who listens at the daemon's socket, by the record in its data directory."""
    known = daemon_record.read(daemon.folder)
    assert known is not None
    assert known.socket == str(daemon.socket)
    return known.pid, known.state


def test_a_socket_that_systemd_passes_is_used_and_left(daemon: Daemon) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(daemon.socket))
    listening.listen(10)
    early = Lines(daemon.connect())  # before the daemon exists, as socket activation allows
    passing = (
        "import os, sys; os.dup2(int(sys.argv[1]), 3); os.set_inheritable(3, True);"
        "os.environ['LISTEN_FDS'] = '1'; os.environ['LISTEN_PID'] = str(os.getpid());"
        "os.execv(sys.executable, [sys.executable, '-m', 'memoryd', *sys.argv[2:]])"
    )
    flags = ["--data-dir", str(daemon.folder), "--socket", str(daemon.socket), "serve"]
    with open(daemon.log, "ab") as log:
        daemon.process = subprocess.Popen(
            [sys.executable, "-c", passing, str(listening.fileno()), *flags],
            pass_fds=[listening.fileno()],
            stderr=log,
            env={**os.environ, **daemon.settings},
        )
    with early:
        assert early.open()["serverInfo"]["name"] == "memoryd"
        assert early.call("tools/list")["tools"]
    assert recorded(daemon) == (daemon.process.pid, "listening")
    assert daemon.stop() == 0
    assert daemon.socket.exists()  # it is the service manager's
    assert recorded(daemon) == (0, "managed")  # who looks for a daemon knocks there
    listening.close()


def test_expired_memories_are_deleted_by_the_sweep(daemon: Daemon) -> None:
    daemon.settings |= {"MEMORYD_MEMORY_CLEANUP_INTERVAL": "0.2"}
    daemon.start()
    for n in range(5):
        daemon.store_brief(f"short lived {n}")
    daemon.tool("store_memory", content="kept")
    while daemon.status()["store"]["rows"] > 1:
        pass
    assert daemon.tool("search_memories", query="short lived 1")["results"] == []


@pytest.mark.slow
def test_many_clients_end_with_exactly_what_they_stored(daemon: Daemon) -> None:
    """50 clients, 200 mixed calls each: nothing lost, nothing twice, nobody else's session."""
    daemon.start()
    expected: dict[int, set[str]] = {}
    failures: list[str] = []

    def work(number: int) -> None:
        mine: dict[str, str] = {}
        with Lines(daemon.connect()) as client:
            client.open()
            for n in range(200):
                kind = n % 5
                if kind in (0, 1):
                    text = f"client{number} memory{n}"
                    made = client.tool("store_memory", content=text)["structuredContent"]
                    mine[made["id"]] = text
                elif kind == 2:
                    query = f"client{number} memory{n - 1}"
                    found = client.tool("search_memories", query=query, limit=1)
                    if found["structuredContent"]["results"][0]["content"] != query:
                        failures.append(query)
                elif kind == 3:
                    client.tool("add_turn", role="user", content=f"turn {number} {n}")
                else:
                    id, _ = mine.popitem()
                    gone = client.tool("forget_memory", memory_id=id)["structuredContent"]
                    if not gone["success"]:
                        failures.append(id)
            recalled = client.tool("get_context", window_only=True)["structuredContent"]
            window = recalled["messages"]
            if [m["content"].split()[1] for m in window] != [str(number)] * 10:
                failures.append(f"window of {number}")
        expected[number] = set(mine.values())

    threads = [threading.Thread(target=work, args=(n,)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(expected) == 50
    total = sum(map(len, expected.values()))
    assert daemon.status()["memories"] == {"fact": total, "conversation": 2000, "context": 0}
    daemon.stop()
    daemon.start()
    assert daemon.status()["memories"]["fact"] == total


@pytest.mark.slow
def test_without_unix_sockets_the_same_lines_go_over_loopback_with_a_token(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Windows gets, tried here with Unix sockets switched off on both sides."""
    without = (
        "import sys; from memoryd import places; places.HAS_UNIX_SOCKETS = False;"
        "from memoryd.__main__ import main; sys.exit(main())"
    )
    daemon.process = daemon.spawn(start=["-c", without])
    monkeypatch.setattr(places, "HAS_UNIX_SOCKETS", False)
    while not daemon.socket.exists() or not daemon.socket.read_text().endswith("\n"):
        assert daemon.process.poll() is None, daemon.log.read_text()
    assert daemon.socket.stat().st_mode & 0o777 == 0o600
    with SyncClient(daemon.socket) as client:
        made = client.store("over loopback")
        assert client.get(made["id"]) is not None
    shim = subprocess.run(
        [sys.executable, "-c", without, "--socket", str(daemon.socket), "mcp"],
        input=b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n',
        capture_output=True,
        timeout=60,
    )
    assert json.loads(shim.stdout)["id"] == 1
    port, _ = daemon.socket.read_text().split()
    with Lines(socket.create_connection((places.LOOPBACK, int(port)), timeout=60)) as stranger:
        stranger.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert stranger.read() is None
    assert daemon.stop() == 0
    assert not daemon.socket.exists()


@pytest.mark.slow
def test_a_socket_that_is_in_use_is_not_taken_away(daemon: Daemon, tmp_path: Path) -> None:
    daemon.start()
    other = Daemon(tmp_path / "other")
    other.socket = daemon.socket
    assert other.spawn().wait(60) == 1
    assert "Another program listens" in other.log.read_text()
    assert daemon.status()["data_dir"] == str(daemon.folder)


@pytest.mark.slow
def test_it_stops_in_time_though_its_worker_is_stuck(daemon: Daemon) -> None:
    daemon.start()
    worker = daemon.status()["store"]["pid"]
    os.kill(worker, signal.SIGSTOP)
    try:
        with Lines(daemon.connect()) as client:
            client.open()
            client.request("tools/call", name="store_memory", arguments={"content": "stuck"})
            assert daemon.process is not None
            daemon.process.send_signal(signal.SIGTERM)
            daemon.process.wait(STOP_TIMEOUT)  # as long as `memoryd stop` waits
    finally:
        os.kill(worker, signal.SIGCONT)


SLOW_SNAPSHOT = """
import sys, time
from memoryd.adapters.snapshot_file import LocalSnapshotFile
from memoryd.engine.index import snapshot

def save(self, *given):
    print("snapshot begun", file=sys.stderr, flush=True)
    time.sleep(600)

snapshot.MIN_MEMORIES, LocalSnapshotFile.save = 1, save
from memoryd.__main__ import main
sys.exit(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("begun", [True, False], ids=["while it is written", "before"])
def test_a_slow_snapshot_delays_no_stop(daemon: Daemon, begun: bool) -> None:
    """The end of a large store: it does not wait for the snapshot, and the store is closed in
    order, so that the next start need not check every row."""
    daemon.start()
    daemon.tool("store_memory", content="kept")
    daemon.stop()
    daemon.process = daemon.spawn(start=["-c", SLOW_SNAPSHOT])
    daemon.tool("store_memory", content="kept as well")
    while begun and "snapshot begun" not in daemon.log.read_text():
        assert daemon.process.poll() is None
    assert daemon.stop() == 0
    assert (daemon.folder / "store" / CLEAN).exists()
    assert "checking" not in anyio.run(told_at_opening, daemon.folder)
    (daemon.folder / "store" / CLEAN).unlink()
    assert "checking" in anyio.run(told_at_opening, daemon.folder)


async def told_at_opening(folder: Path) -> list[str]:
    """What took its time when the store was opened."""
    told: list[str] = []
    identity = Identity("hash-384", 384)
    async with open_chroma(
        StoreSettings(), folder, identity, progress=lambda at: told.append(at.what) if at else None
    ) as store:
        assert await store.count() == 2
    return told


@pytest.mark.slow
def test_a_crash_writes_no_core_dump(daemon: Daemon) -> None:
    daemon.start()
    assert daemon.process is not None
    for pid in (daemon.process.pid, daemon.status()["store"]["pid"]):
        assert resource.prlimit(pid, resource.RLIMIT_CORE) == (0, 0)


def test_a_worker_forbids_core_dumps_itself() -> None:
    """Whoever starts it: `memoryd restore` has no daemon."""
    code = (
        "import resource, sys; from memoryd.adapters.chroma.worker import main; main();"
        "sys.stderr.write(str(resource.getrlimit(resource.RLIMIT_CORE)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, timeout=60
    )
    assert done.stderr == b"(0, 0)"


@pytest.mark.slow
def test_everything_it_makes_is_its_owners_alone(daemon: Daemon) -> None:
    daemon.start()
    daemon.tool("store_memory", content="private")
    modes = {p: p.stat().st_mode & 0o077 for p in daemon.folder.rglob("*")}
    assert [path for path, mode in modes.items() if mode] == []
