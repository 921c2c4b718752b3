"""Files that go away under a running daemon: `memoryd rescue` writes what is in RAM to new ones."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from memoryd.adapters.backup_file import verify
from memoryd.client import SyncClient
from memoryd.errors import MemorydError
from tests.daemons import INITIALIZE
from tests.homes import Home

pytestmark = pytest.mark.slow

COUNT = 130  # more than one flush of the index
LOSSES: dict[str, Callable[[Path], object]] = {
    "data directory deleted": shutil.rmtree,
    "data directory moved": lambda data: data.rename(data.with_name("moved")),
    "store deleted": lambda data: shutil.rmtree(data / "store"),
    "database deleted": lambda data: (data / "store" / "chroma.sqlite3").unlink(),
    "store replaced by a file": lambda data: by_a_file(data / "store"),
}


def by_a_file(store: Path) -> None:
    shutil.rmtree(store)
    store.write_text("not a store")


def fill(client: SyncClient) -> None:
    """Memories of every kind, one of them forgotten."""
    client.store("The owner is called Anna.", name="owner", metadata={"sure": True, "n": 1.5})
    client.store("Pinned for ever.", pinned=True)
    client.store("A long text. " * 400, metadata={"tags": ["a", "b"]})
    client.store("Noted today.", "context")
    doomed = client.store("Nobody shall know.")
    for n in range(COUNT):
        client.store(f"Fact {n} of the rescue.", metadata={"n": n})
    client.forget(doomed["id"])


def memories(home: Home, *words: str) -> dict[str, Any]:
    """Everything, with the vectors."""
    file = home.path / f"export-{time.monotonic_ns()}.jsonl"
    home.run("sdk", "export", str(file), "--embeddings", *words)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return {line["id"]: line for line in lines if "id" in line}


def assert_same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """The same to the letter; in vectors Chroma moves the last bits."""
    assert found.keys() == wanted.keys()
    for id, line in wanted.items():
        mine, theirs = dict(found[id]), dict(line)
        pairs = zip(mine.pop("passages"), theirs.pop("passages"), strict=True)
        assert mine == theirs
        for a, b in pairs:
            assert a["span"] == b["span"]
            assert np.allclose(vector(a), vector(b), atol=1e-5)


def vector(passage: dict[str, Any]) -> NDArray[np.float32]:
    return np.frombuffer(base64.b64decode(passage["vector"]), "<f4")


@pytest.fixture
def served(home: Home) -> Home:
    home.serve("sdk")
    with SyncClient(data_dir=home.data) as client:
        fill(client)
    return home


def refused(home: Home) -> MemorydError:
    """What a store is answered with, once the daemon can be found again."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with SyncClient(data_dir=home.data) as client:
                client.store("into nothing")
        except MemorydError as exc:
            if exc.code.startswith("store_"):
                return exc
        assert time.monotonic() < deadline


@pytest.mark.parametrize("loss", LOSSES)
def test_everything_in_ram_is_written_and_served_again(served: Home, loss: str) -> None:
    pid = served.json("sdk", "status")["pid"]
    before = memories(served)
    LOSSES[loss](served.data)
    told = refused(served)
    assert told.code == "store_gone"
    assert "memoryd rescue" in told.hint
    done = served.json("sdk", "rescue")
    assert done["memories"] == verify(Path(done["path"])) == len(before)
    found = served.json("sdk", "status")
    assert (found["pid"], found["pending_vectors"]) == (pid, 0)
    assert "error" not in found["store"]
    assert_same(memories(served), before)
    with SyncClient(data_dir=served.data) as client:
        later = client.store("Stored after the rescue.")["id"]
    served.run("sdk", "stop")
    after = memories(served)
    assert after.pop(later)["content"] == "Stored after the rescue."
    assert_same(after, before)


def test_status_and_doctor_name_the_loss_and_the_command(served: Home) -> None:
    LOSSES["database deleted"](served.data)
    path = str(served.data / "store")
    for verb, code in (("status", 0), ("doctor", 1)):
        said = " ".join(served.run("sdk", verb, fails=code).stdout.split())
        assert path in said
        assert "memoryd rescue" in said


def test_a_rescue_needs_no_worker_that_has_the_files_open(served: Home) -> None:
    before = memories(served)
    worker = served.json("sdk", "status")["store"]["pid"]
    LOSSES["store deleted"](served.data)
    os.kill(worker, signal.SIGKILL)
    assert served.json("sdk", "rescue")["memories"] == len(before)
    assert_same(memories(served), before)


def test_a_database_that_is_damaged_under_the_daemon_is_rescued(served: Home) -> None:
    before = memories(served)
    worker = served.json("sdk", "status")["store"]["pid"]
    os.kill(worker, signal.SIGKILL)
    path = served.data / "store" / "chroma.sqlite3"
    for file in path.parent.glob("chroma.sqlite3*"):
        file.unlink()
    path.write_bytes(b"noise" * 5000)
    told = refused(served)
    assert (told.code, "memoryd rescue" in told.hint) == ("store_corrupt", True)
    assert served.json("sdk", "rescue")["memories"] == len(before)
    assert_same(memories(served), before)
    (aside,) = (served.data / "backups").glob("store.broken-*")
    assert (aside / path.name).read_bytes() == b"noise" * 5000, "nothing is deleted"


def test_the_backup_goes_where_it_is_told(served: Home) -> None:
    LOSSES["data directory deleted"](served.data)
    folder = served.path / "elsewhere"
    done = served.json("sdk", "rescue", str(folder))
    assert Path(done["path"]).parent == folder
    assert Path(done["path"]).stat().st_mode & 0o777 == 0o600


def test_a_store_in_its_place_is_left_alone(served: Home) -> None:
    said = served.run("sdk", "rescue", fails=1).stderr
    assert "in their place" in said
    assert not (served.data / "backups").exists()


def test_without_a_daemon_there_is_nothing_to_rescue_and_none_is_started(home: Home) -> None:
    said = home.run("sdk", "rescue", fails=1).stderr
    assert "Only a running daemon holds" in said
    assert not (home.data / "store").exists()


def test_an_agent_cannot_ask_for_it(served: Home) -> None:
    asked = {"name": "rescue", "arguments": {"folder": str(served.path / "stolen")}}
    given = "".join(
        json.dumps({"jsonrpc": "2.0", **message}) + "\n"
        for message in (
            {"id": 1, "method": "initialize", "params": INITIALIZE},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": asked},
        )
    )
    answer = json.loads(served.run("sdk", "mcp", given=given).stdout.splitlines()[-1])
    assert answer["result"]["_meta"]["memoryd/error"]["code"] == "not_local"


def test_vectors_that_are_not_in_ram_are_read_while_they_can_be(home: Home) -> None:
    home.config.write_text("embedding:\n  backend: hash\nsearch:\n  exact_limit: 10\n")
    home.serve("sdk")
    with SyncClient(data_dir=home.data) as client:
        fill(client)
    before = memories(home)
    LOSSES["store deleted"](home.data)
    assert home.json("sdk", "rescue")["memories"] == len(before)
    assert {id: it["content"] for id, it in memories(home).items()} == {
        id: it["content"] for id, it in before.items()
    }
