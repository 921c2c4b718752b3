"""MCP clients of others, from their registries, start the shim as their users would.

Their stdio transports pass next to nothing of the environment on, while the daemon was started
from a shell that has more. `scripts/clients` installs them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.homes import Home

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
INSTALLED = ROOT / ".venv-clients"
HERE = Path(__file__).parent / "clients"
SERVER = (str(Path(sys.executable).with_name("memoryd")), "mcp")
CONTENT = "The charging dock is behind the kitchen door."


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
