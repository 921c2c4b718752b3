"""What is packed for others: the plugin, the bundle and the entry of the MCP registry agree with
the code. The real Claude Code tries the plugin in test_clients.py."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from memoryd.cli.verbs import parser
from memoryd.doors.schemas import BY_TOOLSET
from memoryd.fields import HALF_LIVES
from memoryd.hook_events import CLAUDE_CODE, hooks_block
from memoryd.toolsets import parse_toolsets
from scripts.bundle import LAUNCHER, build, manifest
from tests.homes import ASK, Home

ROOT = Path(__file__).parent.parent
PLUGIN = ROOT / "memoryd" / "data" / "plugin"
COMMANDS = {"remember", "recall", "forget", "memories"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MEMORYD = Path(sys.executable).with_name("memoryd")


def read(*parts: str) -> Any:
    return json.loads(ROOT.joinpath(*parts).read_text())


def test_the_plugin_has_every_hook() -> None:
    hooks = json.loads((PLUGIN / "hooks" / "hooks.json").read_text())
    assert hooks == hooks_block(CLAUDE_CODE, ["memoryd", "hook"])


def test_the_plugin_names_only_tools_that_its_server_has() -> None:
    """In the names that Claude Code gives to the tools of a plugin, and in its texts."""
    servers = json.loads((PLUGIN / ".mcp.json").read_text())["mcpServers"]
    assert set(servers) == {"memoryd"}
    given = parser().parse_args(servers["memoryd"]["args"])
    tools = {tool.name for name in parse_toolsets(given.tools) for tool in BY_TOOLSET[name]}
    texts = {file: file.read_text() for file in PLUGIN.rglob("*.md")}
    assert {file.stem for file in texts if file.parent.name == "commands"} == COMMANDS
    for file, text in texts.items():
        named = set(re.findall(r"mcp__plugin_memoryd_memoryd__(\w+)", text))
        named |= set(re.findall(r"\b((?:search|store|forget|list)_\w+)", text))
        assert named <= tools, file


def test_commands_may_delete_nothing_unasked() -> None:
    """What a command allows runs without a question of the client."""
    for file in (PLUGIN / "commands").iterdir():
        [allowed] = re.findall(r"^allowed-tools: (.+)$", file.read_text(), re.M)
        tools = {tool.name: tool for tool in (*BY_TOOLSET["core"], *BY_TOOLSET["manage"])}
        names = {name.rpartition("__")[2] for name in allowed.split(", ")}
        assert names
        assert all(name == "store_memory" or _reads_only(tools[name]) for name in names), file


def _reads_only(tool: Any) -> bool:
    return bool(tool.annotations.read_only_hint)


def test_the_skill_knows_the_kinds() -> None:
    text = (PLUGIN / "skills" / "memory" / "SKILL.md").read_text()
    rows = [row for row in text.splitlines() if row.startswith("| ") and "`kind`" not in row]
    kinds = [
        kind for row in rows for kind in re.findall(r"`(\w+)`", row.split("|")[3].split("with")[0])
    ]
    assert len(kinds) > 8
    assert set(kinds) <= set(HALF_LIVES)


def test_versions_names_and_licences_agree() -> None:
    plugin = json.loads((PLUGIN / ".claude-plugin" / "plugin.json").read_text())
    marketplace = read(".claude-plugin", "marketplace.json")
    [listed] = marketplace["plugins"]
    names = {plugin["name"], marketplace["name"], listed["name"], manifest()["name"]}
    assert names == {PROJECT["name"]}
    assert plugin["version"] == manifest()["version"] == PROJECT["version"]
    assert "version" not in listed  # the plugin says it
    assert (ROOT / listed["source"]).resolve() == PLUGIN
    packaged = read("memoryd", "data", ".claude-plugin", "marketplace.json")
    assert (PLUGIN.parent / packaged["plugins"][0].pop("source")).resolve() == PLUGIN
    del listed["source"]
    assert packaged == marketplace
    assert (PLUGIN / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_the_wheel_has_the_whole_plugin() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    package = ROOT / "memoryd"
    packed = {
        file for pattern in patterns["package-data"]["memoryd"] for file in package.glob(pattern)
    }
    assert {file for file in PLUGIN.parent.rglob("*") if file.is_file()} <= packed


def test_the_entry_of_the_registry_is_that_of_the_package() -> None:
    entry = read("server.json")
    [package] = entry["packages"]
    assert entry["name"].rpartition("/")[2] == package["identifier"] == PROJECT["name"]
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert entry["version"] == package["version"] == PROJECT["version"]
    assert entry["description"] == PROJECT["description"]
    assert len(entry["description"]) <= 100  # of the registry
    words = [argument["value"] for argument in package["packageArguments"]]
    assert parser().parse_args(words).verb.endswith(":mcp")
    assert f"<!-- mcp-name: {entry['name']} -->" in (ROOT / "README.md").read_text()
    assert ("repository" in entry) == ("urls" in PROJECT)


@pytest.fixture
def packed(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A bundle that scripts/bundle built, unpacked, and what it says."""
    if shutil.which("npm") is None:
        pytest.skip("NOT TESTED: there is no npm here to install the tool that packs bundles with")
    done = subprocess.run(
        [str(ROOT / "scripts" / "bundle"), str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(done.stdout.splitlines()[-1]) as file:
        file.extractall(folder)
    return folder, json.loads((folder / "manifest.json").read_text())


def launch(home: Home, folder: Path, said: dict[str, Any], chosen: str = "") -> Any:
    """Start the command of a bundle as its manifest says. Its PATH has no memoryd."""
    node = shutil.which("node")
    assert node is not None
    server = said["server"]["mcp_config"]
    assert server["command"] == "node"
    variables = {
        name: value.replace("${user_config.command}", chosen) if chosen else value
        for name, value in server["env"].items()
    }
    return subprocess.Popen(
        [node, *(word.replace("${__dirname}", str(folder)) for word in server["args"])],
        env=home.environment("sdk") | {"PATH": "/usr/bin:/bin"} | variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def greet(launched: Any) -> list[Any]:
    """The answers to the handshake and to a question; the launcher ends with its client."""
    with launched:
        launched.stdin.write(ASK)
        launched.stdin.flush()
        answers = [json.loads(launched.stdout.readline()) for _ in range(2)]
        launched.stdin.close()
        assert launched.wait(timeout=60) == 0
    return answers


@pytest.mark.slow
def test_the_packed_bundle_starts_the_installed_command(
    home: Home, packed: tuple[Path, dict[str, Any]]
) -> None:
    """Where pipx and uv put it, which is not on the PATH of a desktop; or where a person says."""
    folder, said = packed
    assert said == manifest()
    hello, _ = greet(launch(home, folder, said, chosen=str(MEMORYD)))
    assert hello["result"]["serverInfo"]["name"] == "memoryd"
    installed = home.path / ".local" / "bin" / "memoryd"
    installed.parent.mkdir(parents=True)
    installed.symlink_to(MEMORYD)
    hello, status = greet(launch(home, folder, said))
    assert hello["result"]["serverInfo"]["name"] == "memoryd"
    told = json.loads(status["result"]["contents"][0]["text"])
    assert [known.pid for known in home.listening()] == [told["pid"]]


def test_a_bundle_without_the_command_says_what_to_do(home: Home, tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("NOT TESTED: there is no node here to start the bundle with")
    build(tmp_path / "bundle")
    assert (tmp_path / "bundle" / LAUNCHER).exists()
    for chosen, sentence in (("", "was not found"), (str(tmp_path / "none"), "cannot be started")):
        launched = launch(home, tmp_path / "bundle", manifest(), chosen)
        answer, complaint = launched.communicate(ASK, timeout=60)
        assert (launched.returncode, answer) == (1, "")
        assert re.search(f"Error: .*{sentence}.*\nTry: install memoryd", complaint)
