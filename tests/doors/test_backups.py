"""Backups of a real daemon: listed, compared with what is there, restored while it runs; and killed
in between."""

from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.daemons import Daemon, ForkedDaemon


@pytest.fixture
def owner(tmp_path: Path) -> Any:
    running = ForkedDaemon(tmp_path / "data", MEMORYD_DOORS_TOOLSETS="all").start()
    yield running
    assert running.stop() == 0, running.log.read_text()


def error(owner: Daemon, name: str, /, **arguments: Any) -> Any:
    answer = owner.call("tools/call", name=name, arguments=arguments)
    assert answer["isError"], answer
    return answer["_meta"]["memoryd/error"]["code"]


def contents(owner: Daemon) -> list[str]:
    listed = owner.tool("list_memories", limit=1000)["memories"]
    return sorted(memory["content"] for memory in listed)


def changed_since(owner: Daemon) -> str:
    """A backup of three memories, of which one is forgotten and one changed since, and one is new;
    the path of the backup."""
    ids = [owner.tool("store_memory", content=f"Memory {n}.")["id"] for n in range(3)]
    path: str = owner.tool("backup")["path"]
    owner.tool("forget_memory", memory_id=ids[0])
    owner.tool("update_memory", memory_id=ids[1], content="Memory 1, changed.")
    owner.tool("store_memory", content="Memory 3, new.")
    return path


BEFORE = ["Memory 0.", "Memory 1.", "Memory 2."]
SINCE = ["Memory 1, changed.", "Memory 2.", "Memory 3, new."]


def test_backups_are_listed_and_compared(owner: Daemon) -> None:
    """The newest comes first, with its count; a preview says exactly what a restore would do."""
    assert owner.tool("backups")["backups"] == []
    path = changed_since(owner)
    newer = owner.tool("backup")["path"]
    (Path(path).parent / "memoryd-000009-broken.jsonl.gz").write_bytes(b"no backup")
    found = owner.tool("backups")["backups"]
    assert [(one["path"], one["verified"]) for one in found[1:]] == [(newer, True), (path, True)]
    assert [one["memories"] for one in found] == [None, 3, 3]
    assert not found[0]["verified"]
    seen = owner.tool("restore_preview", path=path)
    counts = ("memories", "would_return", "would_be_lost", "differ", "same")
    assert [seen[key] for key in counts] == [3, 1, 1, 1, 1]
    assert [one["text"] for one in seen["first_returned"]] == ["Memory 0."]
    assert [one["text"] for one in seen["first_lost"]] == ["Memory 3, new."]
    assert seen["now"] == {"memories": 3, "by_type": {"fact": 3}}
    assert contents(owner) == SINCE


def test_a_restore_adds_what_is_missing(owner: Daemon) -> None:
    """What was forgotten comes back; what is here stays as it is."""
    path = changed_since(owner)
    done = owner.tool("restore", path=path, confirm=True)
    assert (done["mode"], done["added"], done["known"], done["kept"]) == ("add", 1, 1, 1)
    assert contents(owner) == sorted(["Memory 0.", *SINCE])
    assert owner.tool("search_memories", query="Memory 0")["results"]


def test_a_restore_replaces_the_store(owner: Daemon) -> None:
    """Afterwards there is exactly what the backup has, in the same process; what was there before
    is in a backup of its own, and the next restore brings it back."""
    path, process = changed_since(owner), owner.status()["pid"]
    done = owner.tool("restore", path=path, confirm=True, mode="replace")
    assert (done["mode"], done["memories"]) == ("replace", 3)
    assert contents(owner) == BEFORE
    assert owner.status()["pid"] == process
    assert owner.tool("audit") == {"index": 3, "store": 3}
    again = owner.tool("restore", path=done["safety_backup"], confirm=True, mode="replace")
    assert again["memories"] == 3
    assert contents(owner) == SINCE
    assert not list(owner.folder.glob("restoring*"))


def test_calls_wait_for_a_restore(owner: Daemon) -> None:
    """Calls during a restore are answered after it, none with an error."""
    path = changed_since(owner)
    answers: list[Any] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            asked = {"name": "list_memories", "arguments": {}}
            answers.append(owner.call("tools/call", **asked))

    asking = threading.Thread(target=ask)
    asking.start()
    owner.tool("restore", path=path, confirm=True, mode="replace")
    stop.set()
    asking.join(60)
    assert answers
    assert not [answer for answer in answers if answer.get("isError")]


def test_a_restore_must_be_meant(owner: Daemon) -> None:
    """Without confirmation, or with a damaged file, nothing is changed."""
    path = changed_since(owner)
    cut = Path(path).with_name("memoryd-000007-cut.jsonl.gz")
    lines = gzip.decompress(Path(path).read_bytes()).splitlines(keepends=True)
    cut.write_bytes(gzip.compress(b"".join(lines[:-2])))
    export = Path(path).with_name("export.jsonl")
    made = owner.tool("export_selection", memory_ids=["nobody"])
    export.write_text(made["text"])
    assert error(owner, "restore", path=path) == "confirm_missing"
    assert error(owner, "restore", path=path, confirm=True, mode="all") == "mode_unknown"
    for mode in ("add", "replace"):
        asked = {"confirm": True, "mode": mode}
        assert error(owner, "restore", path=str(cut), **asked) == "file_damaged"
        assert error(owner, "restore", path=str(export), **asked) == "not_a_backup"
        assert error(owner, "restore", path="/nowhere", **asked) == "not_found"
    assert error(owner, "restore_preview", path="relative") == "path_invalid"
    assert error(owner, "restore_preview") == "path_invalid"
    assert contents(owner) == SINCE


AT_ONCE = ""
KILLED_AT = [AT_ONCE, "restore_began", '"stage": "restore"', "restored"]


@pytest.mark.slow
@pytest.mark.parametrize("event", KILLED_AT)
def test_a_kill_during_a_restore_loses_nothing(tmp_path: Path, event: str) -> None:
    """After a kill the store is the old one or the restored one, whole; and once the restore has
    begun, what was there before is in the newest backup."""
    daemon = ForkedDaemon(tmp_path / "data", MEMORYD_DOORS_TOOLSETS="all").start()
    path = changed_since(daemon)
    assert daemon.process is not None
    known = len(daemon.log.read_text())
    asked = {"path": path, "confirm": True, "mode": "replace"}

    def ask() -> None:
        try:
            daemon.tool("restore", **asked)
        except (ConnectionError, OSError, KeyError, ValueError, TypeError):
            pass  # it was killed

    asking = threading.Thread(target=ask)
    asking.start()
    deadline = threading.Event()
    while event not in daemon.log.read_text()[known:]:
        assert asking.is_alive() or event in daemon.log.read_text()[known:], daemon.log.read_text()
        deadline.wait(0.002)
    daemon.process.kill()
    daemon.process.wait(60)
    asking.join(60)
    daemon.start()
    assert contents(daemon) in (SINCE, BEFORE)
    assert not list(daemon.folder.glob("restoring*"))
    found = daemon.tool("audit")
    assert found["index"] == found["store"] == 3
    if event != AT_ONCE:
        newest = next(one for one in daemon.tool("backups")["backups"] if one["verified"])
        texts = [
            json.loads(line).get("content")
            for line in gzip.decompress(Path(newest["path"]).read_bytes()).splitlines()
        ]
        assert sorted(text for text in texts if text) == SINCE
    assert daemon.stop() == 0
