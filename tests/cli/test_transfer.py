"""`memoryd export` and `memoryd import` between real daemons."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import pytest

from memoryd.cli.main import main
from memoryd.export_file import Header, Writer, vector_from
from tests.daemons import Daemon, ForkedDaemon
from tests.processes import environment

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, Daemon]]:
    folder = tmp_path_factory.mktemp("transfer")
    alone = {"MEMORYD_SESSIONS_AUTO_COMPACT": "false"}  # no archives beside what is stored
    one, two = (ForkedDaemon(folder / name, **alone).start() for name in ("one", "two"))
    running = (one, two)
    yield running
    for daemon in running:
        assert daemon.stop() == 0, daemon.log.read_text()


@pytest.fixture
def one(daemons: tuple[Daemon, Daemon]) -> Daemon:
    daemons[0].tool("forget_where", everything=True)
    return daemons[0]


@pytest.fixture
def two(daemons: tuple[Daemon, Daemon]) -> Daemon:
    daemons[1].tool("forget_where", everything=True)
    return daemons[1]


@pytest.fixture
def run(capsys: Capture) -> Any:
    def verb(daemon: Daemon, *words: str, fails: int = 0) -> str:
        code = main([*words, "--socket", str(daemon.socket)])
        said = capsys.readouterr()
        assert code == fails, said.err
        return said.out if code == 0 else said.err

    return verb


def fill(daemon: Daemon, count: int = 3) -> None:
    extra = {"name": "all", "session_id": "s1", "metadata": {"n": 1.0, "deep": [None, {"ü": "€"}]}}
    daemon.tool("store_memory", content="Every field: ü €\u2028 line.", pinned=True, **extra)
    daemon.tool("store_memory", content="Ends.", expires_at="2099-01-01T00:00:00.123456+00:00")
    for n in range(count - 2):
        daemon.tool("add_turn", role="user", content=f"Said {n}. " * 3, session_id="talk")


def everything(daemon: Daemon) -> Any:
    return daemon.tool("export_memories", embeddings=True)["memories"]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("embeddings", [[], ["--embeddings"]], ids=["texts", "with vectors"])
def test_every_field_survives_the_round_trip(
    run: Any, one: Daemon, two: Daemon, tmp_path: Path, embeddings: list[str]
) -> None:
    fill(one)
    file = tmp_path / "memories.jsonl"
    assert run(one, "export", str(file), *embeddings) == f"Exported 3 memories to {file}.\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    head, *memories, end = lines(file)
    assert (head["version"], head["count"], end["count"]) == (1, 3, 3)
    assert all(("passages" in memory) == bool(embeddings) for memory in memories)
    assert run(two, "import", str(file)) == "Imported: 3 added.\n"
    assert everything(two) == everything(one)
    assert two.tool("search_memories", query="every field")["results"][0]["name"] == "all"
    assert run(two, "import", str(file)) == "Imported: 0 added, 3 known.\n"
    again = tmp_path / "again.jsonl"
    run(two, "export", str(again), *embeddings)
    assert again.read_bytes() == file.read_bytes()


def test_an_import_tells_of_secrets_that_it_removed(
    run: Any, one: Daemon, two: Daemon, tmp_path: Path
) -> None:
    fill(one)
    file, other = tmp_path / "memories.jsonl", tmp_path / "other.jsonl"
    run(one, "export", str(file))
    with other.open("wb") as out:
        head, *memories, _ = lines(file)
        writer = Writer(out, Header(head["model"], head["dimension"]))
        memories[0]["content"] = "my password is " + "hunter2-" + "Xy9"
        for memory in memories:
            writer.memory(memory)
        writer.end()
    said = run(two, "import", str(other))
    assert said.endswith("What looked like a secret was removed from 1 of them.\n")
    assert json.loads(run(two, "import", str(other), "--json"))["known"] == 3


@pytest.mark.slow
def test_a_pipe_works_both_ways(one: Daemon, two: Daemon) -> None:
    fill(one, count=450)  # several pages, several batches
    command = [sys.executable, "-m", "memoryd", "--socket"]
    sent = subprocess.run(
        [*command, str(one.socket), "export"], capture_output=True, check=True, timeout=60
    )
    assert sent.stderr == b"Note: Exported 450 memories.\n"
    taken = subprocess.run(
        [*command, str(two.socket), "import", "-"],
        input=sent.stdout, capture_output=True, check=True, timeout=120,
    )  # fmt: skip
    assert taken.stdout == b"Imported: 450 added.\n"
    assert sum(two.status()["memories"].values()) == 450


def test_what_differs_is_reported_and_kept(
    run: Any, one: Daemon, two: Daemon, tmp_path: Path, capsys: Capture
) -> None:
    fill(one)
    file = tmp_path / "memories.jsonl"
    run(one, "export", str(file))
    run(two, "import", str(file))
    two.tool("store_memory", content="Another text.", name="all")
    told = json.loads(run(two, "import", str(file), "--json"))
    assert {key: told[key] for key in ("added", "known", "kept")} == {
        "added": 0, "known": 2, "kept": 1,
    }  # fmt: skip
    found = next(n for n, memory in enumerate(lines(file), 1) if memory.get("name") == "all")
    assert told["lines"][0]["line"] == found
    assert main(["import", str(file), "--socket", str(two.socket)]) == 0
    assert f"Line {found}: " in capsys.readouterr().err
    assert everything(two) != everything(one)
    assert (
        run(two, "import", str(file), "--overwrite") == "Imported: 0 added, 1 replaced, 2 known.\n"
    )
    assert everything(two) == everything(one)


def test_the_expired_are_counted_and_a_refusal_names_its_line(
    run: Any, two: Daemon, tmp_path: Path
) -> None:
    base = {"type": "fact", "created_at": 1.5, "expires_at": None, "metadata": {}}
    file = tmp_path / "made.jsonl"
    with file.open("wb") as raw:
        writer = Writer(raw, Header())
        writer.memory(base | {"id": "a" * 20, "content": "Fine."})
        writer.memory(base | {"id": "b" * 20, "content": "Over.", "expires_at": 2.5})
        writer.memory(base | {"id": "c" * 20, "content": "x" * 200_000})
        writer.memory(base | {"id": "d" * 20, "content": "Fine too."})
        writer.end()
    said = run(two, "import", str(file), fails=1)
    assert said.startswith("Note: Line 4: refused. Content has 200000 bytes or more;")
    assert {memory["content"] for memory in everything(two)} == {"Fine.", "Fine too."}
    told = json.loads(subprocess.run(
        [sys.executable, "-m", "memoryd", "import", str(file), "--json", "--socket",
         str(two.socket)], capture_output=True, timeout=60).stdout)  # fmt: skip
    assert (told["expired"], told["known"], told["refused"]) == (1, 2, 1)


def test_vectors_of_another_model_are_made_anew(
    run: Any, one: Daemon, two: Daemon, tmp_path: Path
) -> None:
    fill(one)
    file = tmp_path / "memories.jsonl"
    run(one, "export", str(file), "--embeddings")
    head, *memories, _ = lines(file)
    for memory in memories:
        memory["passages"][0]["vector"] = "AAAA"
    for model, code, said in (("other", 0, "3 added"), (head["model"], 1, "3 refused")):
        two.tool("forget_where", everything=True)
        with file.open("wb") as raw:
            writer = Writer(raw, Header(model, 384, embeddings=True))
            for memory in memories:
                writer.memory(memory)
            writer.end()
        told = json.loads(subprocess.run(
            [sys.executable, "-m", "memoryd", "import", str(file), "--json", "--trust-vectors",
             "--socket", str(two.socket)], capture_output=True, timeout=60).stdout)  # fmt: skip
        number, outcome = said.split()
        assert told[outcome] == int(number)
        if code == 0:
            assert everything(two) == everything(one)


def test_vectors_of_a_file_are_used_only_if_the_user_trusts_them(
    run: Any, one: Daemon, two: Daemon, tmp_path: Path, capsys: Capture
) -> None:
    """Vectors that belong to other texts would have searches find the wrong memories."""
    fill(one)
    file = tmp_path / "memories.jsonl"
    run(one, "export", str(file), "--embeddings")
    head, *memories, _ = lines(file)
    passages = [memory["passages"] for memory in memories]
    length = min(len(memory["content"]) for memory in memories)
    for memory, others in zip(memories, passages[1:] + passages[:1], strict=True):
        memory["passages"] = [{**others[0], "span": [0, length]}]
    with file.open("wb") as raw:
        writer = Writer(raw, Header(head["model"], 384, embeddings=True))
        for memory in memories:
            writer.memory(memory)
        writer.end()
    assert main(["import", str(file), "--socket", str(two.socket)]) == 0
    assert "Every vector is computed again" in capsys.readouterr().err
    assert everything(two) == everything(one)
    given = {"memories": memories, "model": head["model"], "overwrite": True}
    two.tool("forget_where", everything=True)
    assert two.tool("import_memories", **given)["outcomes"][0]["outcome"] == "added"
    assert everything(two) == everything(one), "whoever asks the daemon"
    two.tool("forget_where", everything=True)
    run(two, "import", str(file), "--trust-vectors")
    assert everything(two) == memories


@pytest.mark.parametrize("flags", [[], ["--trust-vectors"]], ids=["made anew", "trusted"])
def test_a_backup_can_be_imported_and_is_then_checked_like_an_export(
    run: Any, one: Daemon, two: Daemon, tmp_path: Path, flags: list[str]
) -> None:
    fill(one)
    made = json.loads(run(one, "backup", str(tmp_path / "files"), "--json"))
    assert made["memories"] == 3
    assert run(two, "import", made["path"], *flags) == "Imported: 3 added.\n"
    mine, theirs = everything(two), everything(one)
    for memory in (*mine, *theirs):
        vectors = [vector_from(passage["vector"]) for passage in memory["passages"]]
        memory["passages"] = len(vectors)
        assert all(abs(float(vector @ vector) - 1) < 1e-3 for vector in vectors)
    assert mine == theirs
    hostile = tmp_path / "hostile.jsonl.gz"
    with gzip.open(made["path"]) as file:
        head, *memories, _ = map(json.loads, file)
    with gzip.open(hostile, "wb") as raw:
        writer = Writer(cast(IO[bytes], raw), Header(head["model"], 384, True, created_at=1.0))
        for number, wrong in enumerate(({"id": "../x"}, {"metadata": {"memoryd:type": "x"}})):
            writer.memory(memories[number] | wrong)
        writer.end()
    told = run(two, "import", str(hostile), *flags, fails=1)
    assert [line.partition(". ")[0] for line in told.splitlines() if "refused" in line] == [
        "Note: Line 2: refused", "Note: Line 3: refused",
    ]  # fmt: skip


def test_an_export_is_not_restored_but_the_command_is_named(
    run: Any, one: Daemon, tmp_path: Path
) -> None:
    fill(one)
    file = tmp_path / "memories.jsonl"
    run(one, "export", str(file), "--embeddings")
    said = run(one, "restore", str(file), "--replace", fails=1)
    assert said == f"Error: {file} is an export, not a backup.\nTry: memoryd import {file}\n"
    assert len(everything(one)) == 3, "nothing was stopped"


def test_times_that_cannot_be_are_refused_with_their_lines(
    run: Any, two: Daemon, tmp_path: Path
) -> None:
    base = {"type": "fact", "created_at": 1.5, "expires_at": None, "metadata": {}}
    file = tmp_path / "made.jsonl"
    times: list[dict[str, object]] = [
        {}, {"created_at": -2e11}, {"created_at": 1e300}, {"created_at": float("nan")},
        {"expires_at": 10**30}, {"expires_at": -2e11, "pinned": True}, {"expires_at": "soon"},
        {"expires_at": 5, "pinned": True},
    ]  # fmt: skip
    with file.open("wb") as raw:
        writer = Writer(raw, Header())
        for number, odd in enumerate(times, start=2):
            writer.memory(base | {"id": f"{number:020x}", "content": f"Line {number}."} | odd)
        writer.end()
    said = run(two, "import", str(file), "--json", fails=1)
    assert said == ""
    said = run(two, "import", str(file), fails=1)
    refused = [line.partition(": refused. ")[0] for line in said.splitlines() if "refused." in line]
    assert refused == [f"Note: Line {number}" for number in range(3, 9)]
    assert {memory["content"] for memory in everything(two)} == {"Line 2.", "Line 9."}
    assert [memory["expires_at"] for memory in everything(two)] == [None, None]
    found = two.tool("search_memories", query="Line 9.")["results"]
    assert found[0]["pinned"] is True


@pytest.fixture
def whole(run: Any, one: Daemon, tmp_path: Path) -> bytes:
    fill(one)
    run(one, "export", str(tmp_path / "whole.jsonl"))
    return (tmp_path / "whole.jsonl").read_bytes()


def test_a_damaged_file_is_refused_with_its_line_and_changes_nothing(
    run: Any, two: Daemon, whole: bytes, tmp_path: Path
) -> None:
    rows = whole.splitlines(keepends=True)
    newer = rows[0].replace(b'"version": 1', b'"version": 2')
    wrong = rows[2].replace(b'"content"', b'"contents"')
    cases = {
        b"": "line 1: the file is empty",
        b"hello\n": "line 1: it is not JSON",
        b"[]\n": "line 1: it is not a JSON object",
        b"".join(rows[:-1]): "line 4: the file ends here, before its last line",
        b"".join(rows[:2]) + rows[2][:20]: "line 3: the line has no end",
        b"".join([*rows[:2], b"{oops\n", *rows[3:]]): "line 3: it is not JSON",
        b"".join([*rows[:2], b"\xff\xfe\n", *rows[3:]]): "line 3: it is not JSON",
        b"".join([*rows[:2], wrong, *rows[3:]]): "line 3: `content` is missing",
        b"".join([*rows[:2], *rows[3:]]): "line 4: 3 memories were written, 2 are here",
        whole.replace(b"Ends.", b"End?."): "line 5: the checksum does not match",
        whole + b"{}\n": "line 6: there is more after the last line",
    }
    file = tmp_path / "damaged.jsonl"
    for data, sentence in cases.items():
        file.write_bytes(data)
        said = run(two, "import", str(file), fails=1)
        assert said.startswith(f"Error: {file}, {sentence}"), (data[:100], said)
        assert "\nTry: " in said
    file.write_bytes(newer + b"".join(rows[1:]))
    said = run(two, "import", str(file), fails=1)
    assert said.startswith(f"Error: A newer memoryd wrote {file} (format 2, known: 1)")
    file.write_bytes(b'{"a": 1}\n')
    said = run(two, "import", str(file), fails=1)
    assert said.startswith(f"Error: Nothing that can be imported was recognised in {file}.")
    assert everything(two) == []


def test_a_file_that_cannot_be_used_is_told(run: Any, one: Daemon, tmp_path: Path) -> None:
    assert "cannot be read" in run(one, "import", str(tmp_path / "none"), fails=1)
    assert "cannot be written" in run(one, "export", str(tmp_path / "no" / "where"), fails=1)
    there = tmp_path / "there"
    there.write_text("precious")
    assert "already exists" in run(one, "export", str(there), fails=1)
    assert there.read_text() == "precious"
    run(one, "export", str(there), "--overwrite")
    assert lines(there)[0]["memoryd"] == "export"


def test_an_export_that_was_killed_leaves_no_half(run: Any, one: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "memories.jsonl"
    (tmp_path / "memories.jsonl.part").write_text("half of")
    run(one, "export", str(file))
    assert [path.name for path in tmp_path.iterdir()] == ["memories.jsonl"]
    assert lines(file)[-1]["end"] is True


def many_facts(file: Path, count: int) -> None:
    with file.open("wb") as raw:
        writer = Writer(raw, Header())
        for n in range(count):
            fields = {"id": f"{n:020x}", "type": "fact", "content": f"Fact {n}.", "metadata": {}}
            writer.memory(fields | {"created_at": n / 8, "expires_at": None})
        writer.end()


@pytest.mark.slow
def test_an_import_whose_daemon_was_killed_is_continued(run: Any, tmp_path: Path) -> None:
    """Nothing is left half: what is there is as it was in the file."""
    count = 3000
    file, copy = tmp_path / "many.jsonl", tmp_path / "copy.jsonl"
    many_facts(file, count)
    daemon = Daemon(tmp_path / "data").start()
    command = [sys.executable, "-m", "memoryd", "import", str(file), "--socket", str(daemon.socket)]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + 60
        while sum(daemon.status()["memories"].values()) < 100 and time.monotonic() < deadline:
            time.sleep(0.01)
        daemon.stop(signal.SIGKILL)
        assert running.wait(60) == 1
    daemon.start()
    before = sum(daemon.status()["memories"].values())
    assert 100 <= before < count
    told = json.loads(run(daemon, "import", str(file), "--json"))
    assert (told["added"], told["known"]) == (count - before, before)
    run(daemon, "export", str(copy))
    assert lines(copy)[1:-1] == lines(file)[1:-1]
    assert daemon.stop() == 0


@pytest.mark.slow
def test_an_import_that_was_killed_is_continued(run: Any, two: Daemon, tmp_path: Path) -> None:
    count = 3000
    file = tmp_path / "many.jsonl"
    many_facts(file, count)
    command = [sys.executable, "-m", "memoryd", "import", str(file), "--socket", str(two.socket)]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + 60
        while sum(two.status()["memories"].values()) < 100 and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(running.pid, signal.SIGKILL)
    before = sum(two.status()["memories"].values())
    assert 100 <= before < count
    told = json.loads(run(two, "import", str(file), "--json"))
    assert told["added"] + told["known"] == count
    assert told["known"] >= before
    assert sum(two.status()["memories"].values()) == count


def test_progress_is_shown_at_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from memoryd.cli import progress as cli_progress

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(cli_progress, "REDRAW_INTERVAL", 0)
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with cli_progress.Progress("Exporting", 10) as progress:
            progress.at(5)
        assert ("Exporting [###" in stream.getvalue()) is shown
        assert (" 50%" in stream.getvalue()) is shown
