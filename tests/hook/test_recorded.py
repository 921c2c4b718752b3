"""A whole session of each client: every event of the table, in the shape that the client documents,
replayed by the commands that `memoryd setup` writes against a real daemon. Each must print exactly
what is expected.

Meanwhile another agent stores what the prompt asks for; what is known at the start comes then.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from memoryd.hook.command import hook_command
from memoryd.hook_events import CLIENTS, hooks_block
from tests.checkouts import checkout
from tests.daemons import Daemon, ForkedDaemon, Lines
from tests.engine.push.test_transcript import line, text
from tests.hook.test_replay import block, remember
from tests.processes import environment, until

FACT = "The {} service keeps its invoices in PostgreSQL 16"
GOTCHA = "scripts/deploy.sh hangs without the VPN of {}"
DEAD_END = "ModuleNotFoundError No module named {}_parser"
LATER = "The {} release needs the signature of the release manager"
ASKED = "Does the {} release need the signature of the release manager?"
ANSWER = "Yes, of the release manager."
ERROR = "ModuleNotFoundError: No module named '{}_parser'"
# What an event injects. The client may have no way to.
NOTHING, FACTS, AGAIN = "nothing", "facts", "facts of a session that goes on"
RELEVANT, NOTE, FAILURE = "relevant", "note", "failure"


@dataclass(frozen=True, slots=True)
class Event:
    """An event as a client reports it: beside the fields that all events of the client have."""

    name: str
    injects: str = NOTHING
    fields: dict[str, Any] = field(default_factory=dict)


def claude_like(client: str, folder: Path) -> list[Event]:
    """Claude Code; Codex has the same but for the event of a failure."""
    deploy = {"file_path": str(folder / "scripts" / "deploy.sh")}
    read = {"tool_name": "Read", "tool_input": deploy, "tool_use_id": "t1"}
    command = {"command": "python3 run.py", "description": "Run it"}
    bash = {"tool_name": "Bash", "tool_input": command, "tool_use_id": "t3"}
    error = ERROR.format(client)
    if client == "claude-code":
        more = {"error": error, "is_interrupt": False, "duration_ms": 9}
        failed = Event("PostToolUseFailure", FAILURE, bash | more)
    else:
        response = {"tool_response": {"success": False, "stderr": error}}
        failed = Event("PostToolUse", FAILURE, bash | response)
    stop = {"stop_hook_active": False, "last_assistant_message": ANSWER}
    return [
        Event("SessionStart", FACTS, {"source": "startup", "model": "m"}),
        Event("UserPromptSubmit", RELEVANT, {"prompt": ASKED.format(client)}),
        Event("PostToolUse", NOTE, read | {"tool_response": {"type": "text"}, "duration_ms": 3}),
        Event("PostToolUse", NOTHING, read | {"tool_use_id": "t2", "tool_response": {}}),
        failed,
        Event("Stop", NOTHING, stop),
        Event("SessionStart", AGAIN, {"source": "resume"}),
        Event("PreCompact", NOTHING, {"trigger": "manual", "custom_instructions": ""}),
        Event("SessionEnd", NOTHING, {"reason": "other"}),
    ]


def vscode(client: str, folder: Path) -> list[Event]:
    deploy = {"filePath": str(folder / "scripts" / "deploy.sh")}
    read = {"toolName": "readFile", "toolInput": deploy}
    run = {"toolName": "runInTerminal", "toolInput": {"command": "python3 run.py"}}
    failed = {"toolResponse": {"error": ERROR.format(client)}}
    return [
        Event("SessionStart", FACTS, {"source": "new"}),
        Event("UserPromptSubmit", NOTHING, {"prompt": ASKED.format(client)}),
        Event("PostToolUse", NOTE, read | {"toolResponse": {"text": "#!/bin/sh"}}),
        Event("PostToolUse", NOTHING, read | {"toolResponse": {}}),
        Event("PostToolUse", FAILURE, run | failed),
        Event("Stop", NOTHING, {"stop_hook_active": False, "last_assistant_message": ANSWER}),
        Event("PreCompact", NOTHING, {"trigger": "auto"}),
    ]


def gemini(client: str, folder: Path) -> list[Event]:
    deploy = {"absolute_path": str(folder / "scripts" / "deploy.sh")}
    read = {"tool_name": "read_file", "tool_input": deploy}
    run = {"tool_name": "run_shell_command", "tool_input": {"command": "python3 run.py"}}
    # In headless mode, what came at the start is in front of the prompt.
    prompt = f"<hook_context>- {FACT.format(client)}</hook_context>\n\n{ASKED.format(client)}"
    failed = {"tool_response": {"error": ERROR.format(client), "returnDisplay": ""}}
    return [
        Event("SessionStart", FACTS, {"source": "startup"}),
        Event("BeforeAgent", RELEVANT, {"prompt": prompt}),
        Event("PreCompress", NOTHING, {"trigger": "auto"}),  # at every turn, not only if it does
        Event("AfterTool", NOTE, read | {"tool_response": {"llmContent": "#!/bin/sh"}}),
        Event("AfterTool", NOTHING, read | {"tool_response": {}}),
        Event("AfterTool", FAILURE, run | failed),
        Event("AfterAgent", NOTHING, {"prompt": prompt, "prompt_response": ANSWER}),
        Event("SessionStart", AGAIN, {"source": "resume"}),
        Event("PreCompress", NOTHING, {"trigger": "manual"}),
        Event("SessionEnd", NOTHING, {"reason": "exit"}),
    ]


def cursor(client: str, folder: Path) -> list[Event]:
    deploy = {"target_file": str(folder / "scripts" / "deploy.sh")}
    read = {"tool_name": "Read", "tool_input": deploy, "tool_output": "#!/bin/sh"}
    return [
        Event("sessionStart", FACTS, {"is_background_agent": False, "composer_mode": "agent"}),
        Event("beforeSubmitPrompt", NOTHING, {"prompt": ASKED.format(client), "attachments": []}),
        Event("postToolUse", NOTHING, read),
        Event("afterAgentResponse", NOTHING, {"text": ANSWER}),
        Event("preCompact", NOTHING, {"trigger": "auto", "context_usage_percent": 85}),
        Event("sessionEnd", NOTHING, {"reason": "completed"}),
    ]


SESSIONS = {
    "claude-code": claude_like,
    "codex": claude_like,
    "vscode": vscode,
    "gemini": gemini,
    "cursor": cursor,
}


def common(client: str, name: str, folder: Path) -> dict[str, Any]:
    """The fields that every event of a client has."""
    session, transcript = f"recorded-{client}", str(folder.parent / "transcript.jsonl")
    if client == "cursor":
        roots = {"workspace_roots": [str(folder)], "generation_id": "g1"}
        return {"conversation_id": session, "hook_event_name": name, **roots}
    if client == "vscode":
        where = {"cwd": str(folder), "transcriptPath": transcript}
        return {"sessionId": session, "hookEventName": name, **where}
    named = {"session_id": session, "hook_event_name": name, "cwd": str(folder)}
    return named | {"transcript_path": transcript}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    running = ForkedDaemon(tmp_path_factory.mktemp("recorded") / "data").start()
    yield running
    assert running.stop() == 0, running.log.read_text()


def run(daemon: Daemon, client: str, event: Event, number: int, folder: Path) -> str:
    """Run the hook as its client does, by a shell; what it printed."""
    hooks = hooks_block(client, hook_command(socket=str(daemon.socket)))["hooks"]
    [element] = hooks[event.name]
    command = (element["hooks"][0] if "hooks" in element else element)["command"]
    budgets = ",".join(f"{name}=30" for name in CLIENTS[client].events.values())
    env = environment(MEMORYD_HOOK_BUDGETS=budgets)
    del env["MEMORYD_PROJECT"]
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        input=json.dumps(common(client, event.name, folder) | event.fields).encode(),
        capture_output=True,
        cwd=folder,
        env=env,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b""), (number, event.name)
    return done.stdout.decode()


def printed(client: str, event: Event, blocks: dict[str, str]) -> str:
    """What the client has to read."""
    if event.injects == NOTHING:
        return ""
    if client == "cursor":
        return json.dumps({"additional_context": blocks[event.injects]})
    told = {"hookEventName": event.name, "additionalContext": blocks[event.injects]}
    return json.dumps({"hookSpecificOutput": told})


def stored(daemon: Daemon, client: str, project: str) -> dict[str, str]:
    """Store what is known before the session; the injections that are expected."""
    fact, gotcha, dead_end = (known.format(client) for known in (FACT, GOTCHA, DEAD_END))
    day = remember(daemon, fact, project, kind="decision")
    unit = {"scope": "work_unit"}  # for the files and failures that they are about
    files = ["scripts/deploy.sh"]
    remember(daemon, gotcha, project, kind="gotcha", related_files=files, **unit)
    remember(daemon, dead_end, project, kind="error_pattern", **unit)
    title, failure = "Known trouble with this file", "Known trouble that looks like this failure"
    matches = "Memories that match this prompt, best first"
    facts = ("facts", "Facts that hold, most trusted first", f"- {fact}")
    return {
        FACTS: block(*facts),
        AGAIN: block(*facts, f"- {LATER.format(client)}"),
        NOTE: block("file_note", title, f"- (gotcha, {day}) {gotcha}"),
        FAILURE: block("file_note", failure, f"- (error_pattern, {day}) {dead_end}"),
        RELEVANT: block("relevant", matches, f"- (reference, {day}) {LATER.format(client)}"),
    }


def test_every_event_of_the_table_is_in_a_recorded_session(tmp_path: Path) -> None:
    for client, known in CLIENTS.items():
        assert {event.name for event in SESSIONS[client](client, tmp_path)} == set(known.events)


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_session_gets_exactly_what_is_expected(
    client: str, daemon: Daemon, tmp_path: Path
) -> None:
    project = f"acme/{client}"
    folder = checkout(tmp_path / client, f"https://host.test/{project}.git")
    blocks = stored(daemon, client, project)
    expected, found = [], []
    for number, event in enumerate(SESSIONS[client](client, folder)):
        if number == 1:  # another agent learns it meanwhile
            remember(daemon, LATER.format(client), project, kind="reference")
        write_transcript(tmp_path / "transcript.jsonl", client, event)
        found.append((event.name, run(daemon, client, event, number, folder)))
        expected.append((event.name, printed(client, event, blocks)))
    assert found == expected
    await until(lambda: len(session(daemon, client)["markers"]) == 1)  # of its end
    messages = session(daemon, client)["messages"]
    heard = [(message["role"], message["content"]) for message in messages]
    assert heard == [("user", ASKED.format(client)), ("assistant", ANSWER)]


def write_transcript(file: Path, client: str, event: Event) -> None:
    """Add to the transcript what Claude Code has written since the event before."""
    said = {
        "UserPromptSubmit": ("user", ASKED.format(client), "u1"),
        "Stop": ("assistant", text(ANSWER), "a1"),
    }
    if event.name in said:
        with file.open("ab") as transcript:
            transcript.write(line(*said[event.name], sessionId=f"recorded-{client}") + b"\n")


def session(daemon: Daemon, client: str) -> Any:
    with Lines(daemon.connect()) as lines:
        lines.open(tools=["all"])
        told = lines.tool("read_session", session_id=f"recorded-{client}")
        return told["structuredContent"]
