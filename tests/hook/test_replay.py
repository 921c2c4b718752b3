"""A recorded session's events, replayed by real hooks against a real daemon.

The events are in the shapes that the clients document; each must inject exactly what is expected.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.hook.command import hook_command
from memoryd.recall_text import NOTICE
from tests.checkouts import checkout
from tests.daemons import Daemon, ForkedDaemon, Lines
from tests.engine.push.test_transcript import line, text
from tests.processes import environment, until

DATABASE = "The billing service keeps its invoices in PostgreSQL 16"
GOTCHA = "scripts/deploy.sh hangs without the VPN"
PREFERENCE = "The user prefers short answers"
LEAK = "The invoices of the other project are kept in MongoDB"
ASKED = "Where does the billing service keep its invoices, in PostgreSQL?"
SESSION = "0b7e6a52-52a1-4f0e-9d5c-6b1f6a5a1c11"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    running = ForkedDaemon(tmp_path_factory.mktemp("hooks") / "data").start()
    yield running
    assert running.stop() == 0, running.log.read_text()


class Client:
    """An agent's client that works in one project."""

    def __init__(self, daemon: Daemon, folder: Path, client: str = "claude-code") -> None:
        self.daemon = daemon
        self.folder = folder
        self.client = client

    def run(self, event: str, payload: Any, **changes: str) -> str:
        """Run a hook; what it printed."""
        settings = {"MEMORYD_HOOK_BUDGETS": f"{event}=30"} | changes
        env = environment(**settings)
        del env["MEMORYD_PROJECT"]
        done = subprocess.run(
            [*hook_command(socket=str(self.daemon.socket)), event, "--client", self.client],
            input=payload if isinstance(payload, bytes) else json.dumps(payload).encode(),
            capture_output=True,
            cwd=self.folder,
            env=env,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode()

    def send(self, event: str, name: str, **fields: Any) -> str:
        """The context that an event of Claude Code injects; "" for none."""
        common = {
            "session_id": SESSION,
            "transcript_path": str(self.folder.parent / "transcript.jsonl"),
            "cwd": str(self.folder),
            "hook_event_name": name,
        }
        printed = self.run(event, common | fields)
        if not printed:
            return ""
        told = json.loads(printed)["hookSpecificOutput"]
        assert told["hookEventName"] == name
        return str(told["additionalContext"])


def block(part: str, title: str, *lines: str) -> str:
    return "\n".join([NOTICE, f'<memory part="{part}" title="{title}">', *lines, "</memory>"])


def remember(daemon: Daemon, content: str, project: str | None, **metadata: Any) -> str:
    if project:
        metadata["project"] = project
    stored = daemon.tool("store_memory", content=content, metadata=metadata)
    return f"{stored['created_at']:.10}"


async def test_a_session_of_claude_code_gets_exactly_what_is_expected(
    daemon: Daemon, tmp_path: Path
) -> None:
    folder = checkout(tmp_path / "one", "https://host.test/acme/one.git")
    remember(daemon, LEAK, "acme/two")
    day = remember(daemon, DATABASE, "acme/one", kind="decision")
    files = ["scripts/deploy.sh"]
    remember(daemon, GOTCHA, "acme/one", kind="gotcha", related_files=files, scope="work_unit")
    client = Client(daemon, folder)
    transcript = tmp_path / "transcript.jsonl"

    facts = block("facts", "Facts that hold, most trusted first", f"- {DATABASE}")
    assert client.send("session-start", "SessionStart", source="startup") == facts
    assert client.send("prompt", "UserPromptSubmit", prompt=ASKED) == ""  # it has it already
    deploy = {"file_path": str(folder / "scripts" / "deploy.sh")}
    used = {"tool_name": "Read", "tool_input": deploy, "tool_use_id": "t1"}
    title = "Known trouble with this file"
    note = block("file_note", title, f"- (gotcha, {day}) {GOTCHA}")
    assert client.send("tool", "PostToolUse", **used, tool_response={"type": "text"}) == note
    assert client.send("tool", "PostToolUse", **used, tool_response={"type": "again"}) == ""

    with transcript.open("wb") as file:
        for one in (
            line("user", "Please remember that my name is Ann.", "u1", sessionId=SESSION),
            line("assistant", text("Nice to meet you, Ann."), "a1", sessionId=SESSION),
        ):
            file.write(one + b"\n")
    stop = {"stop_hook_active": False, "last_assistant_message": "Nice to meet you, Ann."}
    assert client.send("stop", "Stop", **stop) == ""
    await until(lambda: len(messages(daemon)) == 2)
    assert client.send("compact", "PreCompact", trigger="auto", custom_instructions="") == ""
    await until(lambda: bool(session(daemon)["markers"]))

    after = client.send("session-start", "SessionStart", source="compact")
    assert f"- {DATABASE}" in after
    assert "Recaps of earlier parts of this session" in after
    assert client.send("session-end", "SessionEnd", reason="other") == ""
    await until(lambda: session(daemon)["closed_at"] is not None)

    events = [push["event"] for push in daemon.tool("list_pushes", session_id=SESSION)["pushes"]]
    assert events == ["session-start", "tool", "session-start"]
    assert LEAK not in facts + note + after


def session(daemon: Daemon) -> Any:
    with Lines(daemon.connect()) as lines:
        lines.open(tools=["all"])
        return lines.tool("read_session", session_id=SESSION)["structuredContent"]


def messages(daemon: Daemon) -> Any:
    return session(daemon)["messages"]


def test_projects_do_not_leak_into_each_other(daemon: Daemon, tmp_path: Path) -> None:
    for name in ("red", "blue"):
        content = f"The {name} team keeps its minutes in the {name} cupboard"
        remember(daemon, content, f"acme/{name}")
    for name, other in (("red", "blue"), ("blue", "red")):
        folder = checkout(tmp_path / name, f"https://host.test/acme/{name}.git")
        client = Client(daemon, folder)
        common = {"session_id": f"leak-{name}", "cwd": str(folder)}
        start = {"hook_event_name": "SessionStart", "source": "startup"}
        asked = f"Where does the {other} team keep its minutes, in the {other} cupboard?"
        ask = {"hook_event_name": "UserPromptSubmit", "prompt": asked}
        told = client.run("session-start", common | start) + client.run("prompt", common | ask)
        assert f"{name} cupboard" in told
        assert f"{other} cupboard" not in told


@pytest.mark.parametrize(
    ("client", "event", "name", "shape"),
    [
        ("codex", "session-start", "SessionStart", "hookSpecificOutput"),
        ("gemini", "session-start", "SessionStart", "hookSpecificOutput"),
        ("cursor", "session-start", "sessionStart", "additional_context"),
    ],
)
def test_other_clients_get_it_in_their_own_shape(
    daemon: Daemon, tmp_path: Path, client: str, event: str, name: str, shape: str
) -> None:
    remember(daemon, PREFERENCE, None, kind="preference")
    payload = {"session_id": f"other-{client}", "hook_event_name": name, "cwd": str(tmp_path)}
    told = json.loads(Client(daemon, tmp_path, client).run(event, payload))
    assert list(told) == [shape]
    assert PREFERENCE in json.dumps(told)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"null",
        b"\x00\xff",
        b"{}",
        b'{"session_id": 5, "hook_event_name": "UserPromptSubmit", "prompt": ["x"]}',
        json.dumps({"session_id": "s" * 5000, "hook_event_name": "SessionStart"}).encode(),
        json.dumps({"session_id": "a\nb\u202e", "hook_event_name": "SessionStart"}).encode(),
        json.dumps({"session_id": "h", "hook_event_name": "Stop", "cwd": "\0/x"}).encode(),
        json.dumps(
            {"session_id": "h", "hook_event_name": "Stop", "transcript_path": "/dev/zero"}
        ).encode(),
        json.dumps(
            {"session_id": "h", "hook_event_name": "UserPromptSubmit", "prompt": "\ud800 a b c"}
        ).encode(),
        json.dumps(
            {"session_id": "h", "hook_event_name": "UserPromptSubmit", "prompt": "word " * 150_000}
        ).encode(),
    ],
)
def test_hostile_input_does_no_harm(daemon: Daemon, tmp_path: Path, payload: bytes) -> None:
    client = Client(daemon, tmp_path)
    for event in ("session-start", "prompt", "tool", "stop", "compact", "session-end", "nonsense"):
        printed = client.run(event, payload, MEMORYD_HOOK_BUDGETS="nonsense=30")
        assert printed == "" or json.loads(printed)
    log = daemon.log.read_text()
    assert "tool_failed" not in log
    assert "intake_failed" not in log


def test_an_agent_behind_the_shim_cannot_play_its_client(daemon: Daemon) -> None:
    with Lines(daemon.connect()) as lines:
        told = {"session_id": "agent"}
        method = "notifications/memoryd/session"
        lines.send({"jsonrpc": "2.0", "method": method, "params": told})
        lines.open()
        for name in ("hook", "explain_push", "list_pushes"):
            found = lines.tool(name)
            assert found["isError"]
            assert found["_meta"]["memoryd/error"]["code"] == "not_local"


def test_hooks_are_not_advertised(daemon: Daemon) -> None:
    with Lines(daemon.connect()) as lines:
        lines.open(tools=["all"])
        names = {tool["name"] for tool in lines.call("tools/list")["tools"]}
    assert not names & {"hook", "explain_push", "list_pushes"}
