"""A data directory in which another program kept its memories: a real daemon takes them over."""

from __future__ import annotations

import json
import signal
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from memoryd.cli.main import main
from tests.chroma_seed import Row, digests, seed
from tests.daemons import Daemon, ForkedDaemon

Capture = pytest.CaptureFixture[str]
SECONDS = 120  # for a take-over
# The types of the managers that memoryd replaces, and what they are here.
TYPES = {
    "fact": "fact",
    "conversation": "conversation",
    "context": "context",
    "preference": "fact",
    "observation": "conversation",
    "task": "context",
    "goal": "fact",
}


def rows(count: int, created: datetime) -> list[Row]:
    """Rows of every type in turn."""
    types = list(TYPES)
    return [
        (
            str(UUID(int=n, version=4)),
            f"Memory number {n} is about topic {n % 97}.",
            {
                "type": types[n % len(types)],
                "created_at": created.isoformat(),
                "importance": n / 4,
                "session": f"s{n % 5}",
                "verified": n % 2 == 0,
                "n": n,
            },
        )
        for n in range(count)
    ]


def taken(daemon: Daemon, state: str = "done") -> Any:
    """The facts of a take-over once it is in this state."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found = daemon.status().get("takeover")
        if found and found["state"] == state:
            return found
        time.sleep(0.02)
    raise AssertionError(daemon.log.read_text())


def exported(daemon: Daemon) -> dict[str, Any]:
    found: dict[str, Any] = {}
    after = None
    while True:
        page = daemon.tool("export_memories", after=after, embeddings=True)
        found |= {memory["id"]: memory for memory in page["memories"]}
        if (after := page["after"]) is None:
            return found


def check_every_field(found: dict[str, Any], given: list[Row]) -> None:
    assert len(found) == len(given)
    for id, document, metadata in given:
        memory, expected = found[id], dict(metadata)
        type, created = expected.pop("type"), expected.pop("created_at")
        if TYPES[type] != type:
            expected["original_type"] = type
        assert (memory["type"], memory["content"]) == (TYPES[type], document)
        assert memory["created_at"] == datetime.fromisoformat(created).timestamp()
        assert memory["metadata"] == expected
        assert (memory["expires_at"] is None) == (TYPES[type] == "fact")
        assert len(memory["passages"]) == 1


def test_the_memories_of_another_program_are_taken_over(tmp_path: Path, capsys: Capture) -> None:
    now = datetime.now().replace(microsecond=250_000)
    given = rows(50, now)
    past = (now - timedelta(days=40)).isoformat()
    old = [("old", "Said long ago.", {"type": "conversation", "created_at": past})]
    odd: list[Row] = [("no time", "Without a time.", {"type": "fact"}), ("empty", "", {"n": 1})]
    folder = seed(tmp_path / "data", [*given, *old, *odd])
    seed(folder, [("x1", "Of something else.", {"n": 1})], "recipes")
    before = digests(folder)
    daemon = ForkedDaemon(folder).start()
    facts = taken(daemon)
    counts = {key: facts[key] for key in ("added", "expired", "refused", "no_time", "new_id")}
    assert counts == {"added": 51, "expired": 1, "refused": 1, "no_time": 1, "new_id": 1}
    assert (facts["reused_vectors"], facts["other_collections"]) == (51, {"recipes": 1})
    found = exported(daemon)
    (renamed,) = [id for id, memory in found.items() if "original_id" in memory["metadata"]]
    assert found.pop(renamed)["metadata"] == {"original_id": "no time"}
    check_every_field(found, given)
    assert (
        daemon.tool("search_memories", query="memory number 7")["results"][0]["id"] == given[7][0]
    )
    assert digests(folder) == before
    assert not (folder / "takeover.part").exists()
    log = daemon.log.read_text()
    assert "takeover" in log
    assert "number 7" not in log

    assert main(["status", "--socket", str(daemon.socket)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"Took over 51 memories from the collection memories in {folder} (1 expired and" in said
    assert "Not taken: the collection recipes (1 rows)" in said
    assert main(["doctor", "--data-dir", str(folder), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    (fault,) = [fault for fault in told["faults"] if fault["code"] != "mode_loose"]
    assert fault["code"] == "takeover_refused"
    assert "empty (Content is empty.)" in fault["message"]
    assert "Took over 51 memories" in told["notes"][0]
    assert daemon.stop() == 0


@pytest.mark.slow
def test_a_second_start_adds_nothing_and_what_was_forgotten_stays_forgotten(
    tmp_path: Path, capsys: Capture
) -> None:
    given = rows(20, datetime.now())
    daemon = ForkedDaemon(seed(tmp_path / "data", given)).start()
    taken(daemon)
    assert daemon.tool("forget_memory", memory_id=given[3][0])["success"]
    daemon.stop()
    daemon.start()
    assert taken(daemon)["added"] == 20
    assert set(exported(daemon)) == {id for id, _, _ in given} - {given[3][0]}
    daemon.stop()
    seed(daemon.folder, [("later", "Written by the old program.", {"type": "fact"})])
    daemon.start()
    assert taken(daemon, "changed")["added"] == 20
    main(["doctor", "--data-dir", str(daemon.folder), "--json"])
    faults = json.loads(capsys.readouterr().out)["faults"]
    assert "takeover_outdated" in {fault["code"] for fault in faults}
    assert main(["import", "--chroma", str(daemon.folder), "--socket", str(daemon.socket)]) == 0
    assert "later" in exported(daemon)
    assert daemon.stop() == 0


@pytest.mark.slow
def test_a_kill_in_the_middle_continues(tmp_path: Path) -> None:
    given = rows(3000, datetime.now())
    daemon = ForkedDaemon(seed(tmp_path / "data", given)).start()
    deadline = time.monotonic() + SECONDS
    while not sum(daemon.status()["memories"].values()):
        assert time.monotonic() < deadline, daemon.log.read_text()
    daemon.stop(signal.SIGKILL)
    assert not (daemon.folder / "takeover.json").exists()
    daemon.start()
    facts = taken(daemon)
    assert facts["known"] > 0
    assert facts["added"] + facts["known"] == 3000
    check_every_field(exported(daemon), given)
    assert daemon.stop() == 0


@pytest.mark.slow
def test_ten_thousand_memories_are_taken_over_with_every_field(tmp_path: Path) -> None:
    given = rows(10_000, datetime.now())
    folder = seed(tmp_path / "data", given)
    before = digests(folder)
    daemon = ForkedDaemon(folder).start()
    while daemon.status()["takeover"]["state"] == "running":  # searches are answered meanwhile
        assert "results" in daemon.tool("search_memories", query="topic 7")
    assert taken(daemon)["reused_vectors"] == 10_000
    check_every_field(exported(daemon), given)
    assert digests(folder) == before
    assert daemon.stop() == 0


def test_a_store_that_cannot_be_read_is_named_and_tried_again(
    tmp_path: Path, capsys: Capture
) -> None:
    folder = seed(tmp_path / "data", rows(5, datetime.now()))
    good = (folder / "chroma.sqlite3").read_bytes()
    (folder / "chroma.sqlite3").write_bytes(good[:20_000])
    daemon = ForkedDaemon(folder).start()
    error = taken(daemon, "failed")["error"]
    assert error["code"] == "chroma_unreadable"
    assert str(folder) in error["message"]
    assert daemon.tool("store_memory", content="It serves all the same.")["id"]
    assert main(["doctor", "--data-dir", str(folder), "--json"]) == 1
    faults = json.loads(capsys.readouterr().out)["faults"]
    assert "takeover_failed" in {fault["code"] for fault in faults}
    daemon.stop()
    (folder / "chroma.sqlite3").write_bytes(good)
    daemon.start()
    assert taken(daemon)["added"] == 5
    assert daemon.stop() == 0


@pytest.mark.slow
def test_import_chroma_from_anywhere(tmp_path: Path, capsys: Capture) -> None:
    def run(*words: str) -> tuple[int, Any]:
        code = main(["import", *words, "--json", "--socket", str(daemon.socket)])
        said = capsys.readouterr()
        return code, json.loads(said.out or said.err)

    given = rows(100, datetime.now())
    other = seed(tmp_path / "other", given)
    seed(other, [("r1", "Soup needs salt.", {"type": "fact"})], "recipes")
    before = digests(other)
    daemon = ForkedDaemon(tmp_path / "data").start()
    code, told = run("--chroma", str(other))
    assert (code, told["added"], told["other_collections"]) == (0, 100, {"recipes": 1})
    check_every_field(exported(daemon), given)
    assert daemon.status()["takeover"] is None
    code, told = run("--chroma", str(other))
    assert (told["added"], told["known"]) == (0, 100)
    code, told = run("--chroma", str(other), "--collection", "recipes")
    assert (told["added"], told["no_time"]) == (1, 1)
    code, told = run("--chroma", str(other), "--collection", "nothing")
    assert (code, told["error"]["code"]) == (1, "collection_missing")
    code, told = run("--chroma", str(tmp_path))
    assert (code, told["error"]["code"]) == (1, "chroma_missing")
    for words in ([], ["--collection", "a", "f"], ["f", "--chroma", str(other)]):
        code, told = run(*words)
        assert (code, told["error"]["code"]) == (1, "usage")
    assert digests(other) == before
    file = tmp_path / "export.jsonl"
    assert main(["export", str(file), "--socket", str(daemon.socket)]) == 0
    daemon.tool("forget_where", everything=True)
    capsys.readouterr()
    assert run(str(file))[1]["added"] == 101  # ids of other programs survive an export
    assert daemon.stop() == 0
