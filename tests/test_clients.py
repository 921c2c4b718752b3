"""MCP clients of others, from their registries, start the shim as their users would.

Their stdio transports pass next to nothing of the environment on, while the daemon was started
from a shell that has more. `scripts/clients` installs them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.homes import Home
from tests.messages_api import ANSWER, MessagesApi, messages_api
from tests.processes import until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
INSTALLED = ROOT / ".venv-clients"
HERE = Path(__file__).parent / "clients"
PLUGIN = ROOT / "memoryd" / "data" / "plugin"
SERVER = (str(Path(sys.executable).with_name("memoryd")), "mcp")
PATH = "/usr/bin:/bin"
CONTENT = "The charging dock is behind the kitchen door."
PROMPT = "Is the charging dock really behind the kitchen door, as they say?"
# Other tests run beside these.
BUDGETS = {"MEMORYD_HOOK_BUDGETS": "session-start=4,prompt=2.5,tool=1.5,stop=2.5,session-end=2.5"}


@pytest.fixture(scope="module", autouse=True)
def _installed() -> None:
    """Once; whatever keeps it from being installed fails these tests."""
    done = subprocess.run([str(ROOT / "scripts" / "clients")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def try_out(home: Home, command: list[str]) -> None:
    """The client finds the daemon of a shell, lists, stores and searches; no other is started."""
    pid = home.serve("shell")
    done = subprocess.run(
        [*command, *SERVER],
        env=home.environment("shell"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert {"store_memory", "search_memories"} <= set(told["tools"])
    assert (told["stored"], told["found"]) == (CONTENT, [CONTENT])
    assert told["pid"] == pid
    assert [known.pid for known in home.listening()] == [pid]


AGENTS = {
    "claude-code": (("claude", "mcp", "list"), r"memoryd: (.+) mcp - . Connected"),
    "codex": (("codex", "mcp", "list"), r"memoryd  +(\S+) +mcp .* enabled"),
    "gemini": (("gemini", "mcp", "list"), r". memoryd: (.+) mcp \(stdio\) - Connected"),
}
OWN_WAY = {
    "claude-code": ("claude", "mcp", "add", "--scope", "user", "memoryd", "--", *SERVER),
    "codex": ("codex", "mcp", "add", "memoryd", "--", *SERVER),
    "gemini": ("gemini", "mcp", "add", "--scope", "user", "memoryd", *SERVER),
}


def run_agent(home: Home, words: tuple[str, ...], **variables: str) -> str:
    """What the agent says, with nothing of ours on its PATH, in a folder that it trusts."""
    if shutil.which("npm") is None:
        pytest.skip("NOT TESTED: there is no npm here to install the agents with")
    folder = INSTALLED / "agents" / "node_modules" / ".bin"
    work = home.path / "work"
    work.mkdir(exist_ok=True)
    quiet = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    trust = {"GEMINI_CLI_TRUST_WORKSPACE": "true", "NO_COLOR": "1"}
    done = subprocess.run(
        [str(folder / words[0]), *words[1:]],
        env=home.environment("sdk") | {"PATH": f"{folder}:{PATH}"} | quiet | trust | variables,
        cwd=work,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout + done.stderr  # Gemini lists on stderr


@pytest.mark.parametrize("client", AGENTS)
def test_an_agent_has_memoryd_after_setup(home: Home, client: str) -> None:
    """The real program says so; and after --remove that it has not."""
    home.run("shell", "setup", client)
    ask, expected = AGENTS[client]
    found = re.search(expected, run_agent(home, ask))
    assert found is not None
    assert found[1] == SERVER[0]
    home.run("shell", "setup", client, "--remove")
    assert re.search(expected, run_agent(home, ask)) is None


@pytest.mark.parametrize("client", AGENTS)
def test_setup_writes_what_the_agent_itself_would(home: Home, client: str) -> None:
    """So there is nothing to do once the agent's own command has added it."""
    run_agent(home, OWN_WAY[client])
    change = home.json("shell", "setup", client)["changes"][0]
    assert (change["name"], change["action"]) == ("memoryd", "unchanged")


def prompt_words(client: str, api: MessagesApi) -> tuple[str, ...]:
    """What gives an agent one prompt, to be answered by the scripted model."""
    trusted = ("--skip-git-repo-check", "--dangerously-bypass-hook-trust")
    return {
        "claude-code": ("claude", "-p", PROMPT),
        "codex": ("codex", "exec", *trusted, *api.codex_flags, PROMPT),
        "gemini": ("gemini", "-m", "gemini-2.5-flash", "-p", PROMPT),
    }[client]


def talk(home: Home, client: str, reads: str = "") -> list[str]:
    """A session of one prompt; what was sent to the model."""
    with messages_api() as api:
        api.reads = reads
        assert ANSWER in run_agent(home, prompt_words(client, api), **api.variables, **BUDGETS)
    return api.sent


def set_up_with_key(home: Home, client: str) -> None:
    """Set a client up that has a login already: Gemini CLI takes it from its settings only."""
    settings = home.path / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}')
    home.run("shell", "store", CONTENT, "--shared")
    home.run("shell", "setup", client)


@pytest.mark.parametrize("event", ["session-start", "prompt"])
@pytest.mark.parametrize("client", AGENTS)
async def test_the_hooks_that_setup_wrote_reach_the_model(
    home: Home, client: str, event: str
) -> None:
    """The real program runs them: what was stored before is in its request, what was said is taken
    in, and the end of the session closes it. After --remove nothing of it is left."""
    if event == "prompt":  # else it has all from the start
        home.config.write_text(home.config.read_text() + "hooks:\n  session_tokens: 0\n")
    set_up_with_key(home, client)
    assert any(CONTENT in sent for sent in talk(home, client))
    [push] = home.json("shell", "pushes")["pushes"]
    assert push["event"] == event
    await until(lambda: bool(home.json("shell", "sessions")["sessions"][0]["closed_at"]))
    [session] = home.json("shell", "sessions")["sessions"]
    assert (session["session_id"], session["turns"]) == (push["session_id"], 2)
    assert session["archives"] == 1  # of its end
    home.run("shell", "setup", client, "--remove")
    assert not any(CONTENT in sent for sent in talk(home, client))


def test_a_file_that_claude_code_reads_brings_its_note(home: Home) -> None:
    """By the hook after a tool, which has the least time."""
    (home.path / "work").mkdir()
    file = home.path / "work" / "deploy.sh"
    file.write_text("#!/bin/sh\n")
    note = "deploy.sh hangs without the VPN"
    known = {"kind": "gotcha", "related_files": ["deploy.sh"], "scope": "work_unit"}
    flags = [
        word for key, value in known.items() for word in ("--meta", f"{key}={json.dumps(value)}")
    ]
    home.run("shell", "store", note, "--shared", *flags)
    home.run("shell", "setup", "claude-code")
    first, second = talk(home, "claude-code", str(file))
    assert note not in first
    assert "PostToolUse" in second
    assert note in second


@pytest.mark.parametrize(
    "words",
    [("--strict", str(PLUGIN)), ("--strict", str(ROOT)), ("--profile", "directory", str(PLUGIN))],
)
def test_claude_code_validates_the_plugin(home: Home, words: tuple[str, ...]) -> None:
    """The plugin and this folder as its marketplace without a warning, and the plugin as the public
    directory wants it."""
    assert "Validation passed" in run_agent(home, ("claude", "plugin", "validate", *words))


def install_plugin(home: Home) -> str:
    """Add the marketplace of the package, and install from it; the PATH for what follows."""
    folder = home.run("shell", "plugin").stdout.strip()
    run_agent(home, ("claude", "plugin", "marketplace", "add", folder))
    run_agent(home, ("claude", "plugin", "install", "memoryd@memoryd"))
    agents = INSTALLED / "agents" / "node_modules" / ".bin"
    return f"{agents}:{Path(SERVER[0]).parent}:{PATH}"


def test_claude_code_has_memoryd_by_the_plugin(home: Home) -> None:
    """Its server starts, and its parts are there."""
    path = install_plugin(home)
    listed = run_agent(home, ("claude", "mcp", "list"), PATH=path)
    assert re.search(r"plugin:memoryd:memoryd: memoryd mcp .* - . Connected", listed)
    parts = run_agent(home, ("claude", "plugin", "details", "memoryd@memoryd"))
    for part in ("remember", "recall", "forget", "memories", "memory", "SessionStart"):
        assert re.search(rf"\b{part}\b", parts), part


def test_a_session_with_the_plugin_begins_with_memories(home: Home) -> None:
    """The real program runs the hooks: what was stored before reaches the model, and a command is
    known by its name."""
    home.run("shell", "store", CONTENT, "--shared")
    path = install_plugin(home)
    with messages_api() as api:
        words = ("claude", "-p", "/memoryd:recall the parrot")
        answer = run_agent(home, words, PATH=path, **api.variables, **BUDGETS)
    assert ANSWER in answer
    assert any(CONTENT in sent and "SessionStart" in sent for sent in api.sent)
    assert any(
        "Search the memory with search_memories for: the parrot" in sent for sent in api.sent
    )
    assert "session-start" in [push["event"] for push in home.json("shell", "pushes")["pushes"]]


def test_fastmcp(home: Home) -> None:
    try_out(home, [str(INSTALLED / "bin" / "python"), str(HERE / "fastmcp_client.py")])


@pytest.mark.parametrize("package", ["@modelcontextprotocol/sdk", "@modelcontextprotocol/client"])
def test_the_typescript_sdk(home: Home, package: str) -> None:
    """The package that most clients are built with, and the one that follows it."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        pytest.skip("NOT TESTED: there is no node and npm here to run the TypeScript clients with")
    script = str(HERE / "typescript_client.cjs")
    try_out(home, [node, script, str(INSTALLED / "node"), package])
