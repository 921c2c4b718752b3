"""`memoryd import` of what other programs keep, into a real daemon."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from memoryd.cli.main import main
from memoryd.client.owner import OwnerClient
from memoryd.imports import report
from tests.chroma_seed import digests, seed
from tests.daemons import Daemon, ForkedDaemon
from tests.imports import samples
from tests.imports.samples import SAMPLES, Sample, lines
from tests.processes import environment

Capture = pytest.CaptureFixture[str]
AT = time.time() - 3600


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    daemon = ForkedDaemon(tmp_path_factory.mktemp("imports")).start()
    yield daemon
    assert daemon.stop() == 0, daemon.log.read_text()


@pytest.fixture
def daemon(running: Daemon) -> Daemon:
    running.tool("forget_where", everything=True)
    return running


@pytest.fixture
def run(daemon: Daemon, capsys: Capture) -> Any:
    def verb(*words: str, fails: int = 0) -> str:
        code = main(["import", *words, "--socket", str(daemon.socket)])
        said = capsys.readouterr()
        assert code == fails, said.err
        return said.out if code == 0 else said.err

    return verb


def everything(daemon: Daemon) -> list[dict[str, Any]]:
    found = daemon.tool("export_memories")["memories"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("name", SAMPLES)
def test_dry_run_import_and_again(
    run: Any, daemon: Daemon, tmp_path: Path, name: str, capsys: Capture
) -> None:
    """A dry run changes nothing, an import brings what it said, and a second one adds nothing."""
    sample: Sample = SAMPLES[name]
    path = str(sample.write(tmp_path, AT))
    before = json.loads(run(path, "--dry-run", "--json"))
    assert everything(daemon) == []
    assert (before["memories"], before["expired"]) == (sample.facts + sample.messages, sample.old)
    said = json.loads(run(path, "--json"))
    assert (said["added"], said["expired"]) == (before["memories"], sample.old)
    assert (said["refused"], said["faults"], said["rows"]) == (0, [], [])
    assert said["skipped"] == before["skipped"]
    stored = everything(daemon)
    groups = {
        (row["type"], row["kind"], row["project"]): row["memories"] for row in before["groups"]
    }
    for memory in stored:
        about = memory["metadata"]
        groups[memory["type"], about.get("kind", "-"), about.get("project", "-")] -= 1
        assert about["source"] == "import"
    assert set(groups.values()) == {0}
    again = json.loads(run(path, "--json"))
    assert (again["added"], again["kept"], again["refused"]) == (0, 0, 0)
    assert again["known"] == len(stored)
    assert everything(daemon) == stored


@pytest.mark.parametrize("name", SAMPLES)
def test_an_import_that_was_interrupted_continues(
    run: Any, daemon: Daemon, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample: Sample = SAMPLES[name]
    path = str(sample.write(tmp_path, AT))
    monkeypatch.setattr(report, "BATCH_ROWS", 1)
    real, calls = OwnerClient.import_rows, 0
    stored = asyncio.Event()

    async def first_only(self: OwnerClient, rows: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            answer = await real(self, rows, **options)
            stored.set()
            return answer
        if calls == 2:
            await stored.wait()
            signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(OwnerClient, "import_rows", first_only)
        if sample.facts + sample.messages + sample.old > 1:
            main(["import", path, "--socket", str(daemon.socket)])
            assert len(everything(daemon)) == 1
    left = sample.facts + sample.messages - len(everything(daemon))
    said = json.loads(run(path, "--json"))
    assert said["added"] == left
    assert len(everything(daemon)) == sample.facts + sample.messages


def test_times_ids_sessions_and_projects_are_kept(run: Any, daemon: Daemon, tmp_path: Path) -> None:
    run(str(samples.claude_code(tmp_path, AT)))
    stored = {memory["content"]: memory for memory in everything(daemon)}
    asked = stored["Why does the import hang?"]
    assert asked["id"] == "00000001-aaaa-4bbb-8ccc-000000000000"
    assert asked["created_at"] == pytest.approx(AT, abs=1e-3)
    assert asked["expires_at"] == pytest.approx(AT + 30 * 86_400, abs=1e-3)
    assert asked["session_id"] == "11111111-2222-4333-8444-555555555555"
    assert asked["metadata"]["project"] == "/nowhere/work/app"
    results = daemon.tool("search_memories", query="pool never closed")["results"]
    assert results[0]["content"] == "The pool is never closed."


def test_a_conversation_is_a_session_that_can_be_continued(
    run: Any, daemon: Daemon, tmp_path: Path
) -> None:
    run(str(samples.chatgpt(tmp_path, AT)))
    daemon.tool("add_turn", role="user", content="And lavender?", session_id="c-1")
    window = daemon.tool("get_context", session_id="c-1")
    assert [message["content"] for message in window["messages"]] == [
        "How do I prune roses in c-1?", "In early spring, c-1.", "And lavender?",
    ]  # fmt: skip


def test_old_conversations_come_with_keep(run: Any, daemon: Daemon, tmp_path: Path) -> None:
    path = str(samples.chatgpt(tmp_path, AT))
    assert json.loads(run(path, "--keep", "--dry-run", "--json"))["expired"] == 0
    said = json.loads(run(path, "--keep", "--json"))
    assert (said["added"], said["expired"]) == (6, 0)
    old = next(m for m in everything(daemon) if m["id"] == "c-2-m2")
    assert (old["type"], old["expires_at"]) == ("conversation", None)
    assert old.get("pinned") is None
    assert json.loads(run(path, "--keep", "--json"))["known"] == 6


def test_what_was_changed_here_stays_unless_it_is_overwritten(
    run: Any, daemon: Daemon, tmp_path: Path
) -> None:
    path = str(samples.mem0_json(tmp_path, AT))
    run(path)
    changed = next(m for m in everything(daemon) if m["id"] == "m0-2")
    changed["content"] = "Lives in Bergen"
    daemon.tool("import_memories", memories=[changed], overwrite=True)
    said = json.loads(run(path, "--json"))
    assert (said["known"], said["kept"]) == (1, 1)
    assert said["rows"][0]["id"] == "m0-2"
    assert json.loads(run(path, "--overwrite", "--json"))["replaced"] == 1
    assert {m["content"] for m in everything(daemon)} == {"Likes green tea", "Lives in Oslo"}


def test_a_fact_that_is_here_under_another_id_is_not_added(
    run: Any, daemon: Daemon, tmp_path: Path
) -> None:
    daemon.tool("store_memory", content="Lives in Oslo")
    said = json.loads(run(str(samples.mem0_json(tmp_path, AT)), "--json"))
    assert (said["added"], said["known"]) == (1, 1)


def test_secrets_are_masked_and_told(run: Any, daemon: Daemon, tmp_path: Path) -> None:
    secret = "hunter2-" + "Xy9"
    path = lines(
        tmp_path / "memory.jsonl",
        {"type": "entity", "name": "db", "entityType": "x",
         "observations": [f"the password is {secret}"]},
    )  # fmt: skip
    assert "looked like a secret" in run(str(path))
    assert secret not in json.dumps(everything(daemon))
    assert json.loads(run(str(path), "--json"))["known"] == 1


def test_a_broken_line_is_named_and_the_rest_imported(
    run: Any, daemon: Daemon, tmp_path: Path
) -> None:
    path = samples.server_memory(tmp_path, AT)
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([first, '{"type": "entity", "na', *rest, '"half of a li']))
    said = run(str(path), fails=1)
    assert "memory.jsonl, line 2: not JSON. It was left out." in said
    assert "line 5" not in said  # still being written
    assert len(everything(daemon)) == 4


def test_what_the_daemon_refuses_is_named(run: Any, daemon: Daemon, tmp_path: Path) -> None:
    path = lines(
        tmp_path / "memory.jsonl",
        {"type": "entity", "name": "x", "entityType": "y", "observations": ["z" * 200_000, "ok"]},
    )
    assert "line 1: refused. Content has 200003 bytes or more" in run(str(path), fails=1)
    assert [memory["content"] for memory in everything(daemon)] == ["x: ok"]


def test_the_table_for_people(run: Any, tmp_path: Path) -> None:
    said = run(str(samples.claude_mem(tmp_path, AT)), "--dry-run")
    lines = said.splitlines()
    assert lines[0].startswith("Found: the database of claude-mem, ")
    assert lines[1].split() == ["type", "kind", "project", "from", "to", "memories"]
    assert any(line.split()[:3] == ["fact", "bugfix", "app"] for line in lines)
    assert "1 memory would be left out: conversations that have expired." in said


def test_a_dry_run_of_an_export_of_memoryd(
    run: Any, daemon: Daemon, tmp_path: Path, capsys: Capture
) -> None:
    daemon.tool("store_memory", content="A fact.", metadata={"kind": "decision"})
    file = tmp_path / "memories.jsonl"
    assert main(["export", str(file), "--socket", str(daemon.socket)]) == 0
    capsys.readouterr()
    said = json.loads(run(str(file), "--dry-run", "--json"))
    assert said["groups"][0]["kind"] == "decision"
    assert said["memories"] == 1


def test_wrong_use_is_explained(run: Any, tmp_path: Path) -> None:
    path = samples.mem0_json(tmp_path, AT)
    assert "is not a data export of ChatGPT, but the memories of mem0" in run(
        str(path), "--format", "chatgpt", fails=1
    )
    (tmp_path / "empty").mkdir()
    assert "Nothing that can be imported was recognised" in run(str(tmp_path / "empty"), fails=1)
    assert "--trust-vectors is only" in run(str(path), "--trust-vectors", fails=1)
    assert "cannot be read: No such file" in run(str(tmp_path / "missing"), fails=1)
    assert "cannot be read from stdin" in run("-", "--format", "mem0", fails=1)


@pytest.mark.slow
def test_a_killed_import_continues(daemon: Daemon, tmp_path: Path) -> None:
    """A real process, killed while it sends."""
    path = lines(
        tmp_path / "memory.jsonl",
        *({"type": "entity", "name": f"entity {n}", "entityType": "x",
           "observations": [f"has the number {n}, " + "and a long text " * 20]}
          for n in range(3000)),
    )  # fmt: skip
    command = [sys.executable, "-m", "memoryd", "import", str(path), "--socket", str(daemon.socket)]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not daemon.status()["memories"].get("fact"):
        assert time.monotonic() < deadline
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
    there = daemon.status()["memories"]["fact"]
    assert 0 < there < 3000
    done = subprocess.run(
        [*command, "--json"], env=environment(), capture_output=True, check=True, timeout=300
    )
    said = json.loads(done.stdout)
    assert said["added"] + said["known"] == 3000
    assert said["known"] >= there
    assert daemon.status()["memories"]["fact"] == 3000


@pytest.mark.slow
def test_a_palace_in_chromadb(run: Any, daemon: Daemon, tmp_path: Path) -> None:
    """Read from a copy, by another process; the original stays as it is."""
    filed = datetime.fromtimestamp(AT).isoformat()
    about = {"wing": "wing_app", "room": "db", "source_file": "notes.md", "chunk_index": 0}
    rows: list[Any] = [
        ("drawer_1", "Use Postgres.", about | {"filed_at": filed, "uses": 9}),
        ("drawer_2", "Two replicas.", about | {"filed_at": filed}),
    ]
    palace = seed(tmp_path / "palace", rows, "mempalace_drawers")
    before = digests(palace)
    assert json.loads(run(str(palace), "--dry-run", "--json"))["memories"] == 2
    assert json.loads(run(str(palace), "--json"))["added"] == 2
    assert json.loads(run(str(palace / "chroma.sqlite3"), "--json"))["known"] == 2
    assert digests(palace) == before
    first = everything(daemon)[0]
    assert (first["id"], first["content"]) == ("drawer_1", "Use Postgres.")
    assert first["created_at"] == pytest.approx(AT, abs=1e-3)
    assert first["metadata"] == {
        "chunk_index": 0, "original_uses": 9, "project": "wing_app", "tags": ["db"],
        "related_files": ["notes.md"], "source": "import", "imported_from": "mempalace",
    }  # fmt: skip


@pytest.mark.slow
def test_another_directory_of_chromadb_is_taken_over(
    run: Any, daemon: Daemon, tmp_path: Path
) -> None:
    other = seed(tmp_path / "other", [("x1", "Tea is green.", {"type": "fact"})])
    assert run(str(other)).startswith("Took over 1 memory from the collection memories")
    assert "are not for a directory of ChromaDB" in run(str(other), "--dry-run", fails=1)
