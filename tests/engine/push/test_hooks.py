"""What each event injects and takes in: the rules, on a fake clock."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memoryd.engine.engine import Engine
from memoryd.engine.push import pushes as pushes_module
from memoryd.engine.push.pushes import Push
from memoryd.engine.sessions.messages import messages_of
from memoryd.engine.sessions.records import facts_of
from memoryd.hook_events import HookInput
from memoryd.model import DAY
from tests.engine.conftest import Clock, Start
from tests.engine.push.test_transcript import line, text

OWN, OTHER = "acme/one", "acme/two"
DATABASE = "The billing database is PostgreSQL 16"
ASKED = "Which database does the billing use, is it PostgreSQL?"


def call(event: str, **given: Any) -> HookInput:
    made: dict[str, Any] = {"session_id": "s1", "cwd": "/work", "client": "claude-code"}
    return HookInput(event=event, **made | given)


async def gotcha(engine: Engine, content: str, file: str = "src/a.py", **more: Any) -> str:
    metadata = {"kind": "gotcha", "related_files": [file], **more}
    return (await engine.store(content, metadata=metadata, own_project=OWN)).memory.id


async def test_a_session_start_gets_the_recall_of_its_project(engine: Engine) -> None:
    await engine.store(DATABASE, own_project=OWN)
    await engine.store("The other project has no database", own_project=OTHER)
    found = await engine.hooks.handle(call("session-start", source="startup"), OWN)
    assert DATABASE in found
    assert "other project" not in found
    assert await engine.hooks.handle(call("session-start", source="resume"), None) == ""


async def test_a_session_start_with_nothing_to_say_says_nothing(engine: Engine) -> None:
    assert await engine.hooks.handle(call("session-start"), OWN) == ""
    assert engine.hooks.pushes() == {}


async def test_a_session_start_stays_in_its_budget_and_below_what_clients_cut(
    engine: Engine,
) -> None:
    for number in range(60):
        await engine.store(f"Fact {number} is about " + "the colour of cups " * 20, own_project=OWN)
    engine._parts.sessions = replace(engine._parts.sessions, max_memory_size=100_000)
    found = await engine.hooks.handle(call("session-start"), OWN)
    assert 5000 < len(found) <= 4 * engine._parts.hooks.session_tokens
    engine._parts.hooks = replace(engine._parts.hooks, session_tokens=2500)
    most = await engine.hooks.handle(call("session-start", session_id="s2"), OWN)
    assert 8800 < len(most) <= 9500


async def test_a_prompt_gets_what_matches_once_in_a_session(engine: Engine) -> None:
    stored = (await engine.store(DATABASE, own_project=OWN)).memory
    first = await engine.hooks.handle(call("prompt", prompt=ASKED), OWN)
    assert DATABASE in first
    assert await engine.hooks.handle(call("prompt", prompt=f"Again: {ASKED}"), OWN) == ""
    second = await engine.hooks.handle(call("prompt", prompt=ASKED, session_id="s2"), OWN)
    assert second == first
    assert [push.ids for push in engine.hooks.pushes()["s1"]] == [(stored.id,)]


async def test_a_session_start_counts_as_seen_until_the_context_is_lost(engine: Engine) -> None:
    await engine.store(DATABASE, own_project=OWN)
    await engine.hooks.handle(call("session-start", source="startup"), OWN)
    assert await engine.hooks.handle(call("prompt", prompt=ASKED), OWN) == ""
    engine._parts.hooks = replace(engine._parts.hooks, session_tokens=30)  # nothing fits
    assert await engine.hooks.handle(call("session-start", source="compact"), OWN) == ""
    assert DATABASE in await engine.hooks.handle(call("prompt", prompt=f"So, {ASKED}"), OWN)


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "go on",
        "<task-notification>The billing database PostgreSQL 16 is ready</task-notification>",
        "How warm will it be in Lisbon on Sunday?",
        "?!? ... !!!",
    ],
)
async def test_a_prompt_that_nothing_matches_gets_nothing(engine: Engine, prompt: str) -> None:
    await engine.store(DATABASE, own_project=OWN)
    assert await engine.hooks.handle(call("prompt", prompt=prompt), OWN) == ""


async def test_projects_do_not_leak_into_each_other(engine: Engine) -> None:
    await engine.store(DATABASE, own_project=OTHER)
    await gotcha(engine, "The importer of src/a.py needs a header")
    read = {"tool": "Read", "files": ("/project/src/a.py",)}
    for project in (OWN, None):
        assert await engine.hooks.handle(call("prompt", prompt=ASKED), project) == ""
    for project in (OTHER, None):
        assert await engine.hooks.handle(call("tool", session_id="s3", **read), project) == ""
    assert engine.hooks.pushes() == {}


async def test_what_was_said_in_the_session_is_not_pushed_into_it(engine: Engine) -> None:
    await engine.add_turn("user", DATABASE, "s1", own_project=OWN)
    assert await engine.hooks.handle(call("prompt", prompt=ASKED), OWN) == ""
    assert DATABASE in await engine.hooks.handle(call("prompt", prompt=ASKED, session_id="x"), OWN)


async def test_an_earlier_prompt_that_asked_the_same_is_no_answer(engine: Engine) -> None:
    again = "Which database does our billing use, PostgreSQL?"
    await engine.add_turn("user", again, "before", own_project=OWN)
    await engine.add_turn("assistant", "One moment.", "before", own_project=OWN)
    assert await engine.hooks.handle(call("prompt", prompt=ASKED), OWN) == ""
    refused = [one.refused for one in (await engine.hooks.explain(ASKED, "", OWN)).judged]
    assert "it is an earlier prompt like this one" in refused
    assert "only the messages around it match" in refused


async def test_a_file_gets_its_note_once(engine: Engine) -> None:
    await gotcha(engine, "The importer needs a header")
    read = call("tool", tool="Read", files=("/project/src/a.py",))
    assert "needs a header" in await engine.hooks.handle(read, OWN)
    edit = call("tool", tool="Edit", files=("/project/src/a.py",))
    assert await engine.hooks.handle(edit, OWN) == ""


async def test_a_session_gets_few_notes(engine: Engine) -> None:
    for number in range(6):
        await gotcha(engine, f"Trap number {number}", file=f"src/f{number}.py")
    found = [
        await engine.hooks.handle(call("tool", tool="Read", files=(f"src/f{number}.py",)), OWN)
        for number in range(6)
    ]
    assert [bool(one) for one in found] == [True] * 4 + [False] * 2


async def test_a_note_must_be_sure_enough(engine: Engine, clock: Clock) -> None:
    await gotcha(engine, "The importer needs a header")
    clock.now += 30 * DAY  # half of the half-life: 0.8 became 0.57
    read = call("tool", tool="Read", files=("/project/src/a.py",))
    assert await engine.hooks.handle(read, OWN) == ""


async def test_other_kinds_and_superseded_notes_are_no_notes(engine: Engine) -> None:
    metadata = {"kind": "decision", "related_files": ["src/a.py"]}
    await engine.store("The importer is written in C", metadata=metadata, own_project=OWN)
    old = await gotcha(engine, "The importer needs a header", file="src/b.py")
    await gotcha(engine, "The importer needs two headers", file="src/c.py", supersedes=[old])
    for file in ("src/a.py", "src/b.py"):
        assert await engine.hooks.handle(call("tool", tool="Read", files=(file,)), OWN) == ""
    found = await engine.hooks.handle(call("tool", tool="Read", files=("src/c.py",)), OWN)
    assert "two headers" in found


async def test_a_failure_gets_the_note_that_matches_it(engine: Engine) -> None:
    metadata = {"kind": "error_pattern"}
    known = "Error: lock file exists: another importer is running, delete import.lock"
    await engine.store(known, metadata=metadata, own_project=OWN)
    failed = call(
        "tool", tool="Bash", failed=True, error="lock file exists: another importer is running"
    )
    assert "delete import.lock" in await engine.hooks.handle(failed, OWN)
    other = call("tool", tool="Bash", failed=True, error="division by zero", session_id="s2")
    assert await engine.hooks.handle(other, OWN) == ""


@pytest.mark.parametrize("error", ["failed", "1 failed", "Exit code 1", "Error: Exit code 127\n"])
async def test_a_failure_that_says_too_little_gets_nothing(engine: Engine, error: str) -> None:
    for content in ("The import failed 1 time", "Exit code 1: the import failed, error 127"):
        await engine.store(content, metadata={"kind": "dead_end"}, own_project=OWN)
    failed = call("tool", tool="Bash", failed=True, error=error)
    assert await engine.hooks.handle(failed, OWN) == ""


@pytest.mark.parametrize(
    ("calls", "phase"),
    [
        (
            [{"tool": "Edit", "files": ("a.py",), "tool_call": f"t{n}"} for n in range(3)],
            "implement",
        ),
        ([{"tool": "Bash", "command": f"pytest -k t{n}"} for n in range(3)], "validate"),
        ([{"tool": "Edit", "files": ("a.py",), "tool_call": "t0"}] * 3, None),
    ],
)
async def test_only_the_same_call_counts_once(
    engine: Engine, calls: list[dict[str, Any]], phase: str | None
) -> None:
    """Calls in quick succession that name one file, or run other commands, are all counted."""
    await engine.store(DATABASE, own_project=OWN)
    for one in calls:
        await engine.hooks.handle(call("tool", **one), OWN)
    await engine.hooks.handle(call("session-start", source="compact"), OWN)
    shown = "session start: compact" + (f", phase {phase}" if phase else "")
    assert [push.why for push in engine.hooks.pushes()["s1"]] == [shown]


async def test_an_event_that_two_hooks_report_counts_once(engine: Engine) -> None:
    await engine.store(DATABASE, own_project=OWN)
    start = call("session-start", source="startup")
    assert await engine.hooks.handle(start, OWN)
    assert await engine.hooks.handle(replace(start, client="vscode"), OWN) == ""
    assert len(engine.hooks.pushes()["s1"]) == 1


async def test_a_turn_that_looks_like_the_one_before_is_taken_in_too(
    engine: Engine, tmp_path: Path
) -> None:
    """Of a transcript nothing comes twice, so events that look the same are all read."""
    stop = call("stop", session_id="5f1c", said="Done.")
    for number in range(2):
        more = (line("user", f"Step {number}", f"u{number}"), line("assistant", text("Done."), "a"))
        await engine.hooks.handle(replace(stop, transcript=transcript(tmp_path, *more)), OWN)
        await engine.intake.drained()
    assert [content for role, content in said(engine) if role == "user"] == ["Step 0", "Step 1"]


async def test_an_answer_that_two_hooks_report_is_taken_in_once(
    engine: Engine, tmp_path: Path
) -> None:
    """As with the plugin and hooks in the settings: the second finds nothing new to read."""
    more = (line("user", "Step 1", "u1"), line("assistant", text("Done."), "a1"))
    stop = call("stop", session_id="5f1c", said="Done.", transcript=transcript(tmp_path, *more))
    for _ in range(2):
        await engine.hooks.handle(stop, OWN)
        await engine.intake.drained()
    assert said(engine) == [("user", "Step 1"), ("assistant", "Done.")]


@pytest.mark.parametrize("off", [{"enabled": False}, {"off_projects": (OWN,)}])
async def test_hooks_can_be_switched_off(engine: Engine, off: dict[str, Any]) -> None:
    await engine.store(DATABASE, own_project=OWN)
    engine._parts.hooks = replace(engine._parts.hooks, **off)
    assert await engine.hooks.handle(call("session-start"), OWN) == ""
    assert await engine.hooks.handle(call("prompt", prompt=ASKED), OWN) == ""
    stop = call("stop", client="codex", said="Done with it all.")
    assert await engine.hooks.handle(stop, OWN) == ""
    await engine.intake.drained()
    assert messages_of(engine._parts.index, "s1", engine._parts.clock()) == []
    assert "switched off" in (await engine.hooks.explain(ASKED, "", OWN)).reason


async def test_deprecated_memories_are_not_pushed(engine: Engine, clock: Clock) -> None:
    await engine.store(DATABASE, metadata={"kind": "gotcha"}, own_project=OWN)
    clock.now += 200 * DAY  # more than three half-lives
    assert await engine.hooks.handle(call("prompt", prompt=ASKED), OWN) == ""
    assert "may not be pushed" in (await engine.hooks.explain(ASKED, "", OWN)).judged[0].refused


async def test_pushes_outlive_a_restart(start: Start) -> None:
    async with start() as engine:
        await engine.store(DATABASE, own_project=OWN)
        assert await engine.hooks.handle(call("prompt", prompt=ASKED), OWN)
    async with start() as engine:
        assert [push.event for push in engine.hooks.pushes()["s1"]] == ["prompt"]
        assert await engine.hooks.handle(call("prompt", prompt=ASKED), OWN) == ""


async def test_the_list_of_pushes_is_bounded(engine: Engine) -> None:
    for number in range(pushes_module.MAX_PUSHES + 20):
        ids = tuple(f"{number:020x}" for _ in range(20))
        engine.pushes.note("s1", Push(float(number), "prompt", "", ids, 10))
    held = engine.pushes.of("s1")
    assert sum(len(push.ids) for push in held) <= pushes_module.MAX_IDS
    assert held[-1].at == pushes_module.MAX_PUSHES + 19
    await engine.pushes.write_at_end()
    record = engine.records.find("s1")
    assert record is not None
    assert len(json.dumps(facts_of(record))) < 8_000


async def test_explain_says_why_and_changes_nothing(engine: Engine) -> None:
    await engine.store(DATABASE, own_project=OWN)
    await engine.store("A bicycle has two wheels", own_project=OWN)
    chosen = await engine.hooks.explain(ASKED, "", OWN)
    assert DATABASE in chosen.text
    assert chosen.judged[0].refused == ""
    assert all("below" in one.refused for one in chosen.judged[1:])
    assert engine.hooks.pushes() == {}


def transcript(folder: Path, *lines: bytes) -> str:
    file = folder / "transcript.jsonl"
    with file.open("ab") as opened:
        opened.write(b"".join(one + b"\n" for one in lines))
    return str(file)


def said(engine: Engine, session: str = "5f1c") -> list[tuple[str, str]]:
    found = messages_of(engine._parts.index, session, engine._parts.clock())
    return [(str(one.metadata["role"]), one.content) for one in found]


async def test_a_stop_takes_in_the_new_part_of_the_transcript(
    engine: Engine, tmp_path: Path
) -> None:
    file = transcript(tmp_path, line("user", "Hello, I am Ann.", "u1"))
    stop = call("stop", session_id="5f1c", transcript=file)
    for _ in range(2):  # the second one finds nothing new
        await engine.hooks.handle(stop, OWN)
        await engine.intake.drained()
    transcript(tmp_path, line("assistant", text("Hello Ann."), "a1"))
    await engine.hooks.handle(replace(stop, said="Hello Ann."), OWN)
    await engine.intake.drained()
    assert said(engine) == [("user", "Hello, I am Ann."), ("assistant", "Hello Ann.")]
    first = messages_of(engine._parts.index, "5f1c", engine._parts.clock())[0]
    assert first.metadata["project"] == OWN


async def test_an_answer_that_the_transcript_lacks_is_taken_once(
    engine: Engine, tmp_path: Path
) -> None:
    file = transcript(tmp_path, line("user", "Is it done?", "u1"))
    stop = call("stop", session_id="5f1c", transcript=file, said="Yes, it is.")
    await engine.hooks.handle(stop, OWN)
    await engine.intake.drained()
    assert said(engine) == [("user", "Is it done?"), ("assistant", "Yes, it is.")]
    transcript(tmp_path, line("assistant", text("Yes, it is."), "a1"))
    await engine.hooks.handle(replace(stop, event="session-end", said=""), OWN)
    await engine.intake.drained()
    assert said(engine) == [("user", "Is it done?"), ("assistant", "Yes, it is.")]


@pytest.mark.parametrize("answer", ["Yes, it is.", f"The key is AKIA{'Q7' * 8}."])
async def test_an_answer_that_an_earlier_event_has_read_is_taken_once(
    engine: Engine, tmp_path: Path, answer: str
) -> None:
    """A compaction before the stop reads the answer too; what it says may have been masked."""
    lines = line("user", "Is it done?", "u1"), line("assistant", text(answer), "a1")
    file = transcript(tmp_path, *lines)
    await engine.hooks.handle(call("compact", session_id="5f1c", transcript=file), OWN)
    await engine.intake.drained()
    stop = call("stop", session_id="5f1c", transcript=file, said=answer)
    await engine.hooks.handle(stop, OWN)
    await engine.intake.drained()
    assert [role for role, _ in said(engine)] == ["user", "assistant"]


async def test_a_restart_before_the_offset_was_written_takes_nothing_twice(
    start: Start, tmp_path: Path
) -> None:
    file = transcript(tmp_path, line("user", "Hello, I am Ann.", "u1"))
    stop = call("stop", session_id="5f1c", transcript=file)
    async with start() as engine:
        await engine.hooks.handle(stop, OWN)
        await engine.intake.drained()
        await engine.records.change("5f1c", taken=None)  # as if it had been killed before
    transcript(tmp_path, line("user", "And you?", "u2"))
    async with start() as engine:
        await engine.hooks.handle(stop, OWN)
        await engine.intake.drained()
        assert said(engine) == [("user", "Hello, I am Ann."), ("user", "And you?")]


async def test_the_end_of_a_session_consolidates_it(engine: Engine, tmp_path: Path) -> None:
    file = transcript(tmp_path, line("user", "Remember that my name is Ann.", "u1"))
    await engine.hooks.handle(call("session-end", session_id="5f1c", transcript=file), OWN)
    await engine.intake.drained()
    facts = await engine.sessions.read_session("5f1c")
    assert facts.facts.closed_at is not None
    assert len(facts.facts.markers) == 1
    found = await engine.hooks.handle(call("session-start", session_id="next"), OWN)
    assert 'part="archives"' in found
    assert "Ann" in found


async def test_a_session_that_was_killed_is_finished_at_the_next_start(
    engine: Engine, clock: Clock, tmp_path: Path
) -> None:
    file = transcript(tmp_path, line("user", "Hello, I am Ann.", "u1"))
    await engine.hooks.handle(call("stop", session_id="5f1c", transcript=file), OWN)
    await engine.intake.drained()
    transcript(tmp_path, line("user", "My last words.", "u2"))
    clock.now += 7200
    await engine.hooks.handle(call("session-start", session_id="next"), OWN)
    await engine.intake.drained()
    assert said(engine)[-1] == ("user", "My last words.")
    assert (await engine.sessions.read_session("5f1c")).facts.closed_at is not None


async def test_clients_without_a_known_transcript_bring_it_by_their_events(engine: Engine) -> None:
    asked = call("prompt", client="codex", prompt="Is it done?", transcript="/no/such.jsonl")
    await engine.hooks.handle(asked, OWN)
    await engine.hooks.handle(call("stop", client="codex", said="Yes, it is."), OWN)
    again = replace(asked, prompt="Is that done as well?")
    await engine.hooks.handle(again, OWN)
    await engine.hooks.handle(call("stop", client="codex", said="Yes, it is.", source="x"), OWN)
    await engine.intake.drained()
    answer = ("assistant", "Yes, it is.")
    asked_for = [("user", "Is it done?"), answer, ("user", "Is that done as well?"), answer]
    assert said(engine, "s1") == asked_for


async def test_secrets_in_a_transcript_are_masked(engine: Engine, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    file = transcript(tmp_path, line("user", f"The token is {secret}", "u1"))
    await engine.hooks.handle(call("stop", session_id="5f1c", transcript=file), OWN)
    await engine.intake.drained()
    assert len(said(engine)) == 1
    assert secret not in said(engine)[0][1]


async def test_a_subagent_neither_gets_nor_brings_anything(engine: Engine, tmp_path: Path) -> None:
    await engine.store(DATABASE, own_project=OWN)
    file = transcript(tmp_path, line("user", "Hello", "u1"))
    inner = call("prompt", prompt=ASKED, in_subagent=True, transcript=file)
    assert await engine.hooks.handle(inner, OWN) == ""
    await engine.intake.drained()
    assert said(engine, "s1") == []
