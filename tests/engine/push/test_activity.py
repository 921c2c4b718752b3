"""The phase that the tools of a session show, and that a session start uses it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from memoryd.engine.engine import Engine
from memoryd.engine.push.activity import LATELY, MAX_SESSIONS, Activity, use_of
from memoryd.hook_events import REPORTED_TOOLS, HookInput, read_input
from tests.engine.push.test_hooks import OWN, call


def tool(name: str, command: str = "", **more: Any) -> HookInput:
    return call("tool", tool=name, command=command, **more)


READ, EDIT, PLAN = tool("Read"), tool("Edit", files=("a.py",)), tool("ExitPlanMode")
DOCUMENT = tool("Write", files=("docs/plan.md",))
TEST = tool("Bash", "python -m pytest tests -q")
FAILED = tool("Bash", "pytest", failed=True, error="1 failed")
BROKEN = tool("Bash", "python3 run.py", failed=True, error="no such module")
LIST = tool("Bash", "ls -la")
LOOK_BACK = call("prompt", prompt="Write a retrospective of this sprint")


@pytest.mark.parametrize(
    ("calls", "phase"),
    [
        ([], None),
        ([READ, READ], None),
        ([READ, READ, READ], "explore"),
        ([READ, LIST, READ, READ], "explore"),
        ([READ, EDIT, EDIT, EDIT], "implement"),
        ([EDIT, EDIT, TEST, EDIT], "implement"),
        ([EDIT, TEST, TEST], "validate"),
        ([EDIT, FAILED, EDIT], "refine"),
        ([FAILED, READ, EDIT, READ], "refine"),
        ([BROKEN, READ, EDIT, READ], "refine"),
        ([EDIT, FAILED, FAILED], "validate"),
        ([READ, READ, BROKEN], None),
        ([EDIT, FAILED, EDIT, TEST], "validate"),
        ([READ, DOCUMENT, DOCUMENT], "define"),
        ([READ, PLAN, PLAN, DOCUMENT], "define"),
        ([READ, READ, READ, PLAN], None),
        ([READ, EDIT, READ], None),
        ([EDIT, EDIT, TEST, LOOK_BACK], "reflect"),
        ([READ, READ, LOOK_BACK, READ], None),
        ([call("prompt", prompt="Fix the summary page")], None),
    ],
)
def test_the_phase_of_a_session(calls: list[HookInput], phase: str | None) -> None:
    activity = Activity()
    for one in calls:
        activity.note("s1", one)
    assert activity.phase("s1") == phase
    assert activity.phase("s2") is None


@pytest.mark.parametrize(
    ("name", "phase"), [("ExitPlanMode", "define"), ("TodoWrite", "define"), ("Grep", "explore"),
    ("Glob", "explore"), ("Read", "explore"), ("Edit", "implement")],
)  # fmt: skip
def test_claude_code_reports_the_tools_that_show_a_phase(name: str, phase: str) -> None:
    """A tool that its matcher leaves out would never be seen."""
    assert re.fullmatch(REPORTED_TOOLS, name)
    activity = Activity()
    for _ in range(3):
        activity.note("s1", tool(name))
    assert activity.phase("s1") == phase


def test_only_what_was_done_lately_counts() -> None:
    activity = Activity()
    for one in [FAILED, EDIT, *[READ] * LATELY]:
        activity.note("s1", one)
    assert activity.phase("s1") == "explore"


def test_the_oldest_session_is_dropped() -> None:
    activity = Activity()
    for number in range(MAX_SESSIONS + 1):
        for _ in range(3):
            activity.note(f"s{number}", READ)
    assert (activity.phase("s0"), activity.phase("s1")) == (None, "explore")


@pytest.mark.parametrize(
    ("command", "checks"),
    [
        ("cargo test --all", True),
        ("npm run build", True),
        (".venv/bin/python -m mypy --strict src", True),
        ("cd app && make", True),
        ("git log --oneline", False),
        ("cat makefile.txt", False),
        ("npm install", False),
    ],
)
def test_commands_that_test_or_build(command: str, checks: bool) -> None:
    assert (use_of(tool("Bash", command)) == "check") is checks


def test_the_command_comes_from_the_event() -> None:
    payload = (
        '{"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "Bash",'
        ' "tool_input": {"command": "pytest -q"}, "tool_response": {}}'
    )
    read = read_input("tool", "claude-code", payload)
    assert read is not None
    assert use_of(read) == "check"


async def test_a_session_start_is_in_the_phase_that_the_tools_show(engine: Engine) -> None:
    for kind in ("gotcha", "module_insight"):
        await engine.store(f"A {kind} of the pump", metadata={"kind": kind}, own_project=OWN)
    plain = await engine.hooks.handle(call("session-start", source="startup"), OWN)
    assert "for the phase" not in plain
    for number in range(3):
        await engine.hooks.handle(tool("Edit", files=(f"{number}.py",)), OWN)
    renewed = await engine.hooks.handle(call("session-start", source="compact"), OWN)
    assert "for the phase implement" in renewed
    assert renewed.index("(gotcha)") < renewed.index("(module_insight)")
    assert engine.hooks.pushes()["s1"][-1].why == "session start: compact, phase implement"
