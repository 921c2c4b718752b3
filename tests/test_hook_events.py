"""The table of clients' hooks: what comes in, and what goes out, in each client's own words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.hook.call import BUDGETS
from memoryd.hook.command import hook_command
from memoryd.hook_events import (
    CLIENTS,
    EVENTS,
    TIMEOUTS,
    HookInput,
    hooks_block,
    human_prompt,
    output,
    read_input,
)
from tests.paths import ROOT


def read(payload: dict[str, Any], event: str = "", client: str = "") -> HookInput:
    found = read_input(event, client, json.dumps(payload), "/hook/cwd")
    assert found is not None
    return found


CASES = [
    (
        "claude-code",
        {"session_id": "s", "cwd": "/w", "hook_event_name": "SessionStart", "source": "compact"},
        {"event": "session-start", "session_id": "s", "cwd": "/w", "source": "compact"},
    ),
    (
        "claude-code",
        {"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": "Hi"},
        {"event": "prompt", "prompt": "Hi", "cwd": "/hook/cwd"},
    ),
    (
        "claude-code",
        {
            "session_id": "s",
            "hook_event_name": "PostToolUse",
            "tool_name": "Edit",
            "tool_input": {"file_path": "/w/a.py", "old_string": "x"},
            "tool_response": {"filePath": "/w/a.py"},
        },
        {"event": "tool", "tool": "Edit", "files": ("/w/a.py",), "failed": False},
    ),
    (
        "claude-code",
        {
            "session_id": "s",
            "hook_event_name": "PostToolUseFailure",
            "tool_name": "Bash",
            "tool_input": {"command": "python src/run.py --fast"},
            "error": "Exit code 1",
        },
        {"event": "tool", "failed": True, "files": ("src/run.py",), "error": "Exit code 1"},
    ),
    (
        "claude-code",
        {
            "session_id": "s",
            "hook_event_name": "Stop",
            "transcript_path": "/t.jsonl",
            "last_assistant_message": "Done.",
        },
        {"event": "stop", "transcript": "/t.jsonl", "said": "Done."},
    ),
    (
        "claude-code",
        {"session_id": "s", "hook_event_name": "PreCompact", "trigger": "auto"},
        {"event": "compact", "source": "auto"},
    ),
    (
        "claude-code",
        {"session_id": "s", "hook_event_name": "PostToolUse", "agent_id": "a1"},
        {"event": "tool", "in_subagent": True},
    ),
    (
        "",  # VS Code runs the hooks of Claude Code with its own spellings
        {"sessionId": "s", "hookEventName": "UserPromptSubmit", "prompt": "Hi"},
        {"event": "prompt", "client": "vscode", "session_id": "s", "injects": False},
    ),
    (
        "codex",
        {"session_id": "s", "hook_event_name": "SessionEnd", "reason": "other"},
        {"event": "session-end", "injects": False},
    ),
    (
        "gemini",
        {"session_id": "s", "hook_event_name": "BeforeAgent", "prompt": "Hi"},
        {"event": "prompt", "injects": True},
    ),
    (
        "gemini",
        {"session_id": "s", "hook_event_name": "AfterAgent", "prompt_response": "Hello."},
        {"event": "stop", "said": "Hello."},
    ),
    (
        "cursor",
        {
            "conversation_id": "s",
            "hook_event_name": "sessionStart",
            "workspace_roots": ["/w", "/v"],
        },
        {"event": "session-start", "session_id": "s", "cwd": "/w", "injects": True},
    ),
    (
        "cursor",
        {"conversation_id": "s", "hook_event_name": "beforeSubmitPrompt", "prompt": "Hi"},
        {"event": "prompt", "injects": False},
    ),
]


@pytest.mark.parametrize(("client", "payload", "expected"), CASES)
def test_the_events_of_each_client(
    client: str, payload: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = read(payload, client=client)
    assert {key: getattr(found, key) for key in expected} == expected


def test_an_event_without_a_name_is_that_of_the_command_line() -> None:
    found = read({"session_id": "s"}, "prompt", "codex")
    assert (found.event, found.client_event) == ("prompt", "UserPromptSubmit")


@pytest.mark.parametrize(
    ("event", "client", "payload"),
    [
        ("prompt", "", ""),
        ("prompt", "", "[]"),
        ("prompt", "", "null"),
        ("prompt", "", "{"),
        ("prompt", "", "[" * 100_000),
        ("prompt", "nobody", "{}"),
        ("", "", "{}"),
        ("explode", "", "{}"),
        ("", "", '{"hook_event_name": "WorktreeCreate"}'),
        ("compact", "gemini", '{"hook_event_name": "PreCompress", "trigger": "auto"}'),
    ],
)
def test_what_is_no_event_is_left_alone(event: str, client: str, payload: str) -> None:
    assert read_input(event, client, payload) is None


@given(
    st.dictionaries(
        st.sampled_from(
            "session_id cwd prompt tool_input tool_response error source transcript_path "
            "hook_event_name agent_id last_assistant_message".split()
        ),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["file_path", "command", "error", "paths", "x"]),
                    inner,
                    max_size=3,
                )
            ),
            max_leaves=8,
        ),
    ),
    st.sampled_from(EVENTS),
    st.sampled_from(list(CLIENTS)),
)
def test_fields_of_any_type_are_read(payload: dict[str, Any], event: str, client: str) -> None:
    found = read_input(event, client, json.dumps(payload))
    assert found is not None
    assert all(isinstance(file, str) for file in found.files)
    assert isinstance(found.prompt, str)


def test_the_output_has_the_shape_of_its_client() -> None:
    start = {"session_id": "s", "hook_event_name": "SessionStart"}
    for client in ("claude-code", "codex", "vscode", "gemini"):
        made = json.loads(output(read(start, client=client), "Hello"))
        told = {"hookEventName": "SessionStart", "additionalContext": "Hello"}
        assert made == {"hookSpecificOutput": told}
    cursor = read({"session_id": "s", "hook_event_name": "sessionStart"}, client="cursor")
    assert json.loads(output(cursor, "Hello")) == {"additional_context": "Hello"}


def test_nothing_is_printed_where_no_model_would_read_it() -> None:
    stop = read({"session_id": "s", "hook_event_name": "Stop"}, client="claude-code")
    assert output(stop, "Hello") == ""
    assert output(read({"session_id": "s"}, "prompt"), "") == ""


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Hello", "Hello"),
        ("<task-notification>x</task-notification>", ""),
        ("<hook_context>Facts</hook_context>\n\nHello", "Hello"),
        ("<hook_context>Facts never closed", ""),
        ('<memory part="facts" title="Facts">\n- One\n</memory>\nHello', "Hello"),
        ("Print <memory> in a loop", "Print <memory> in a loop"),
    ],
)
def test_what_a_person_wrote_of_a_prompt(prompt: str, expected: str) -> None:
    assert human_prompt(prompt) == expected


def test_every_event_has_a_budget_below_the_timeout_of_the_client() -> None:
    assert set(BUDGETS) == set(EVENTS) == set(TIMEOUTS)
    assert all(BUDGETS[event] < TIMEOUTS[event] for event in EVENTS)


def test_the_hooks_of_a_client_as_it_configures_them() -> None:
    block = hooks_block("gemini", ["memoryd", "hook"])
    hook = block["hooks"]["BeforeAgent"][0]["hooks"][0]
    assert hook == {
        "type": "command",
        "command": "memoryd hook prompt --client gemini",
        "timeout": 3000,
    }
    cursor = hooks_block("cursor", ["/a b/memoryd", "hook"])
    assert cursor["version"] == 1
    assert cursor["hooks"]["sessionStart"][0]["command"].startswith("'/a b/memoryd' hook")
    for client in CLIENTS:
        assert set(hooks_block(client, hook_command())["hooks"]) == set(CLIENTS[client].events)


def test_the_file_for_claude_code_is_what_the_table_says() -> None:
    file = ROOT / "config" / "clients" / "hooks" / "claude_code.json"
    assert json.loads(file.read_text()) == hooks_block("claude-code", ["memoryd", "hook"])
