"""A store that cannot be opened: every way in names the fault, the file and the way to restore."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import homes
from tests.daemons import INITIALIZE
from tests.homes import Home

pytestmark = pytest.mark.slow

TEXTS = [f"The robot parked in bay {n} of hall {n % 7}." for n in range(220)]
SEARCH = "".join(
    json.dumps({"jsonrpc": "2.0", **message}) + "\n"
    for message in (
        {"id": 1, "method": "initialize", "params": INITIALIZE},
        {"method": "notifications/initialized"},
        {
            "id": 2,
            "method": "tools/call",
            "params": {"name": "search_memories", "arguments": {"query": "robot"}},
        },
    )
)
LIBRARY = """
from memoryd.client import SyncClient
from memoryd.errors import MemorydError
with SyncClient(start=True) as memory:
    try:
        memory.search("robot")
    except MemorydError as exc:
        print(exc.code, exc.message, exc.hint)
"""
FILL = """
import sys
from memoryd.client import SyncClient
with SyncClient(start=True) as memory:
    for line in sys.stdin:
        memory.store(line.strip())
"""


def python(home: Home, code: str, given: str = "") -> str:
    done = subprocess.run(
        [*homes.MEMORYD[:-2], "-c", code],
        env=home.environment("sdk"),
        input=given,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def fold_log(path: Path) -> None:
    """Write what is still in the write-ahead log into the database. A busy machine may leave it
    there when the daemon ends, and the damages below are to the database alone."""
    with closing(sqlite3.connect(path, timeout=60)) as connection:
        busy, left, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert (busy, max(left, 0)) == (0, 0)


@pytest.fixture(scope="module")
def used() -> Iterator[Path]:
    """The data directory of a daemon that stored, made a backup and was stopped."""
    home = Home()
    python(home, FILL, "\n".join(TEXTS))
    home.run("sdk", "backup")
    home.run("sdk", "stop")
    fold_log(home.data / "store" / "chroma.sqlite3")
    yield home.data
    home.close()


@pytest.fixture
def broken(used: Path, home: Home) -> Home:
    """A home with a copy of it, to be damaged."""
    shutil.rmtree(home.data, ignore_errors=True)
    shutil.copytree(used, home.data)
    return home


def database(home: Home) -> Path:
    path = home.data / "store" / "chroma.sqlite3"
    for log in path.parent.glob("*-wal"):
        log.unlink()  # empty, but a damaged database with a log looks like another damage
    return path


def missing(home: Home) -> Path:
    database(home).unlink()
    return database(home)


def emptied(home: Home) -> Path:
    database(home).write_bytes(b"")
    return database(home)


def header_overwritten(home: Home) -> Path:
    with database(home).open("r+b") as file:
        file.write(b"this was a database once")
    return database(home)


def page_zeroed(home: Home) -> Path:
    """A page of the table with the texts."""
    path = database(home)
    with closing(sqlite3.connect(path)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'embedding_metadata'"
        ).fetchone()
    data = bytearray(path.read_bytes())
    # The root is an interior page: the first of its children, by the pointer in its first cell.
    page = data[(root - 1) * size : root * size]
    assert page[0] == 5
    cell = int.from_bytes(page[12:14], "big")
    child = int.from_bytes(page[cell : cell + 4], "big")
    data[(child - 1) * size : child * size] = bytes(size)
    path.write_bytes(data)
    return path


def truncated(home: Home) -> Path:
    path = database(home)
    os.truncate(path, path.stat().st_size // 2)
    return path


def replaced_by_a_file(home: Home) -> Path:
    store = home.data / "store"
    shutil.rmtree(store)
    store.write_text("not a store")
    return store


def deleted(home: Home) -> Path:
    shutil.rmtree(home.data / "store")
    return home.data / "store"


def of_a_newer_schema(home: Home) -> Path:
    with closing(sqlite3.connect(database(home))) as connection:
        connection.execute(
            "UPDATE collection_metadata SET int_value = 99 WHERE key = 'memoryd:schema'"
        )
        connection.commit()
    return database(home)


def index_missing(home: Home) -> Path:
    (header,) = (home.data / "store").glob("*/header.bin")
    shutil.rmtree(header.parent)
    return header.parent


def database_unreadable(home: Home) -> Path:
    database(home).chmod(0)
    return database(home)


def index_unreadable(home: Home) -> Path:
    (vectors,) = (home.data / "store").glob("*/data_level0.bin")
    vectors.chmod(0)
    return vectors


class Damage(NamedTuple):
    """How it is done, the code to be told, and the words that must be there beside the path."""

    do: Callable[[Home], Path]
    code: str
    words: tuple[str, ...]


RESTORE = "memoryd restore"
DAMAGES = {
    "missing": Damage(missing, "store_corrupt", ("is missing", RESTORE)),
    "empty": Damage(emptied, "store_corrupt", ("is empty", RESTORE)),
    "header": Damage(header_overwritten, "store_corrupt", ("header is damaged", RESTORE)),
    "page": Damage(page_zeroed, "store_corrupt", ("is damaged", RESTORE)),
    "truncated": Damage(truncated, "store_corrupt", ("is cut off", RESTORE)),
    "file": Damage(replaced_by_a_file, "store_corrupt", ("is not a directory", RESTORE)),
    "deleted": Damage(deleted, "store_corrupt", ("is missing", "store.made", RESTORE)),
    "newer": Damage(of_a_newer_schema, "store_newer", ("schema 99", "version of memoryd")),
}


UNREADABLE = {
    "database": Damage(database_unreadable, "store_unwritable", ("Permission denied", "ls -ld")),
    "index": Damage(index_unreadable, "store_unwritable", ("Permission denied", "ls -ld")),
}


@pytest.fixture
def bound_by_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the mode of a file count for our processes, which it does not for root's."""
    if os.getuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root can read everything here")
        drop = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
        monkeypatch.setattr(homes, "MEMORYD", (*drop, *homes.MEMORYD))


def shim(home: Home) -> str:
    """What an agent reads, who waits for the answer before it leaves."""
    command, environment = [*homes.MEMORYD, "mcp"], home.environment("sdk")
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(SEARCH)
        process.stdin.flush()
        answer: dict[str, Any] = {}
        while answer.get("id") != 2:
            answer = json.loads(process.stdout.readline())
        process.stdin.close()
    assert answer["result"]["isError"]
    return str(answer["result"]["content"][0]["text"])


def log_of(home: Home) -> str:
    (log,) = home.path.rglob("daemon.log")
    return log.read_text()


def every_way_in(home: Home) -> dict[str, str]:
    """What each says of the store, the daemon started by the first of them that needs it."""
    doctor = home.run("sdk", "doctor", fails=1).stdout
    said = {
        "doctor without a daemon": doctor,
        "shim": shim(home),
        "client": python(home, LIBRARY),
        "cli": home.run("sdk", "search", "robot", fails=1).stderr,
        "status": home.run("sdk", "status", fails=1).stdout,
        "doctor": home.run("sdk", "doctor", fails=1).stdout,
        "log": log_of(home),
    }
    home.run("sdk", "stop")
    return said | {"serve": on_the_terminal(home)}


def on_the_terminal(home: Home) -> str:
    """What `memoryd serve` says until it has said that it stays."""
    command, environment = [*homes.MEMORYD, "serve"], home.environment("sdk")
    said = ""
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            said += line
            if "stays up" in line:
                break
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(60) == 0
    assert "Error: " in said
    return said


def files(home: Home) -> dict[str, bytes]:
    """What must not be touched. SQLite's shared memory and empty logs are no data; neither is the
    mark of an orderly end, which goes when the damage is found only later."""
    store = home.data / "store"
    if store.is_file():
        return {"store": store.read_bytes()}
    kept = [
        f
        for f in store.rglob("*")
        if f.is_file() and not f.name.endswith(("-shm", "-wal", "clean"))
    ]
    return {str(file.relative_to(store)): file.read_bytes() for file in kept}


def assert_told(home: Home, damage: Damage) -> None:
    path = damage.do(home)
    before = files(home)
    for way, said in every_way_in(home).items():
        flat = " ".join(said.split())
        for word in (str(path), *damage.words):
            assert word in flat, (way, said)
        assert "Traceback" not in said
        assert "Try again" not in said, way
    after = files(home)
    if damage.do is page_zeroed:  # Chroma had it open until the page was read
        assert len(after.pop(path.name)) == len(before.pop(path.name))
    assert after == before, "nothing is lost, and no empty store took its place"


@pytest.mark.parametrize("name", DAMAGES)
def test_every_way_in_names_the_fault_the_file_and_the_way_out(broken: Home, name: str) -> None:
    assert_told(broken, DAMAGES[name])


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_may_not_be_read_is_named_and_not_taken_for_damage(
    broken: Home, bound_by_modes: None, name: str
) -> None:
    assert_told(broken, UNREADABLE[name])
    assert not list((broken.data / "backups").glob("store.*"))


def test_once_the_cause_is_gone_the_same_daemon_serves(broken: Home) -> None:
    path = database(broken)
    away = path.rename(broken.path / "away")
    broken.run("sdk", "search", "robot", fails=1)
    pid = broken.json("sdk", "status", fails=1)["pid"]
    away.rename(path)
    deadline = time.monotonic() + 60
    while broken.json("sdk", "status", fails=None)["health"] != "ready":
        broken.run("sdk", "search", "robot", fails=None)
        assert time.monotonic() < deadline
    found = broken.json("sdk", "status")
    assert (found["pid"], sum(found["memories"].values())) == (pid, len(TEXTS))


def test_a_missing_index_is_rebuilt_and_nothing_is_missing(broken: Home) -> None:
    path = index_missing(broken)
    assert str(path) in broken.run("sdk", "doctor", fails=1).stdout
    assert len(exported(broken)) == len(TEXTS)
    assert "repaired" in broken.run("sdk", "status").stdout


def test_without_a_backup_the_hint_says_so(broken: Home) -> None:
    missing(broken)
    shutil.rmtree(broken.data / "backups")
    said = broken.run("sdk", "search", "robot", fails=1).stderr
    assert "There is no backup in" in said
    assert "memoryd restore" not in said


def test_a_store_without_database_and_index_is_not_taken_for_a_new_one(broken: Home) -> None:
    """What memoryd wrote beside the database tells that there was one."""
    path = missing(broken)
    index_missing(broken)
    assert "is missing" in broken.run("sdk", "search", "robot", fails=1).stderr
    assert not path.exists()


@pytest.mark.parametrize("emptied", [True, False], ids=["emptied", "deleted"])
def test_a_deleted_store_is_not_taken_for_a_new_one_until_the_user_says_so(
    broken: Home, emptied: bool
) -> None:
    store = deleted(broken)
    if emptied:
        store.mkdir(mode=0o700)
    for words in (["search", "robot"], ["export"], ["backup"]):
        assert "is missing" in broken.run("sdk", *words, fails=1).stderr
    assert not list(store.glob("*"))
    broken.run("sdk", "stop")
    (broken.data / "store.made").unlink()
    assert broken.json("sdk", "search", "robot")["results"] == []
    assert broken.json("sdk", "status")["memories"]["fact"] == 0
    assert (broken.data / "store.made").exists()


@pytest.mark.parametrize("name", [name for name in DAMAGES if name != "newer"])
def test_the_command_that_is_named_restores_everything(broken: Home, name: str) -> None:
    DAMAGES[name].do(broken)
    broken.run("sdk", "search", "robot", fails=1)
    error = broken.json("sdk", "status", fails=1)["store"]["error"]
    assert error["code"] == DAMAGES[name].code
    command = error["hint"].removeprefix("Run: ")
    words = command.split()
    assert words[:2] == ["memoryd", "restore"]
    broken.run("sdk", *words[1:])
    assert len(exported(broken)) == len(TEXTS)


def exported(home: Home) -> list[Any]:
    file = home.path / f"export-{time.monotonic_ns()}.jsonl"
    home.run("sdk", "export", str(file))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [line for line in lines if "content" in line]
