"""Every command, program and entry that the documents show is run, as a reader would run it.

Each document has a home and a folder of its own, and its blocks are run in their order: shell by
bash, Python by Python, YAML as the user's configuration. An entry of an MCP client is started and
greeted. What cannot be run here is named below with the reason, and fails once it is gone.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from memoryd.cli.options import UsageError
from memoryd.cli.verbs import parser
from tests.daemons import INITIALIZE
from tests.processes import environment, free_port

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ENTRIES = sorted(
    path for path in (ROOT / "config" / "clients").iterdir() if path.suffix in (".json", ".toml")
)
BIN = Path(sys.executable).parent
SECONDS = 300.0

CLIENT = "a foreign client, to be installed from the network; its entry is started instead"
PLUGIN = "tests/test_clients.py does it with the real program"
LONG = "a measurement that takes minutes, or data that is not part of the project"
INSTALL = "scripts/install_check does it, with a wheel of this folder, in clean environments"
NOT_RUN = {
    "pip install .": INSTALL,
    "pipx install .": INSTALL,
    "uv tool install .": INSTALL,
    "scripts/test": "this is it",
    "claude mcp add --scope user memoryd -- memoryd mcp": CLIENT,
    "claude mcp list": CLIENT,
    "claude mcp remove --scope user memoryd": CLIENT,
    "claude mcp add --scope user --transport http memoryd http://127.0.0.1:8765/mcp "
    '--header "Authorization: Bearer $token"': CLIENT,
    "codex mcp add memoryd -- memoryd mcp": CLIENT,
    'claude plugin marketplace add "$(memoryd plugin)"': PLUGIN,
    "claude plugin install memoryd@memoryd": PLUGIN,
    "ollama pull nomic-embed-text": "a foreign server; tests/model_server.py is used instead",
    "gemini mcp add --scope user memoryd memoryd mcp": CLIENT,
    """code --add-mcp '{"name": "memoryd", "command": "memoryd", "args": ["mcp"]}'""": CLIENT,
    ".venv-parity/bin/python -m scripts.bench.embed": LONG,
    ".venv/bin/python -m scripts.bench.store": LONG,
    ".venv/bin/python -m scripts.bench.startup --runs 15": LONG,
    ".venv/bin/python -m scripts.bench.fairness": LONG,
    ".venv/bin/python -m scripts.bench.imports [--words 8 30] [--hash]": LONG,
    ".venv/bin/python -m scripts.bench.retrieval [FILE ...] [--data DIR] [--mixed] [--model NAME] "
    "[--rerank DIR] [--json]": LONG,
    ".venv/bin/pip install tantivy; .venv/bin/python -m scripts.bench.lexical": LONG,
    ".venv/bin/python -m scripts.bench.latency": LONG,
    ".venv/bin/python -m scripts.bench.through": LONG,
    ".venv/bin/python -m scripts.bench.recall": LONG,
    ".venv/bin/python -m scripts.bench.churn": LONG,
    ".venv/bin/python -m scripts.bench.start": LONG,
    ".venv/bin/python -m scripts.bench.crash --rounds 200": LONG,
    ".venv/bin/python -m scripts.bench.soak --minutes 3": LONG,
    ".venv/bin/python -m scripts.bench.statements": LONG,
    ".venv/bin/python -m scripts.bench.projects [POOL ...] [--projects N] [--weights W,W]": LONG,
}
# Blocks that are nothing to run: how many of them a document has.
PICTURES = {
    "docs/architecture.md": 1,
    "docs/ask.md": 1,
    "docs/cluster.md": 3,
    "docs/export.md": 3,
    "docs/memory-tool.md": 1,
    "docs/mirror.md": 2,
    "docs/tools.md": 12,
}
GENERATED = {"docs/cli.md"}  # help texts; test_docs.py compares them with the code
# What a document's commands must have said somewhere, beside exiting with 0.
SAID = {
    "README.md": ["Ann prefers tea", "Forgot drink of Ann", "No faults found."],
    "docs/clients.md": ['"structuredContent"', '"health":', "Ann prefers tea"],
}


@dataclass(frozen=True)
class Block:
    """What stands between two fences."""

    document: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def blocks(path: Path) -> list[Block]:
    text, name = path.read_text(), str(path.relative_to(ROOT))
    assert len(re.findall(r"^\s*(?:```|~~~)", text, re.M)) % 2 == 0, f"{name}: an open fence"
    found = re.finditer(r"^\s*(?:```|~~~)([^\n]*)\n(.*?)^\s*(?:```|~~~)", text, re.M | re.S)
    return [Block(name, text.count("\n", 0, m.start()) + 1, m[1].strip(), m[2]) for m in found]


def commands(block: Block) -> list[str]:
    """One command each, without comments; one that goes on in the next line is one. A quote that
    is open at the end of a line goes on, too."""
    found: list[str] = []
    pending = ""
    for line in block.text.splitlines():
        pending += re.sub(r"(?:^|\s+)#\s.*$", "", line)
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        if pending.count("'") % 2 or pending.count('"') % 2:
            pending += "\n"
            continue
        found += [pending.strip()] if pending.strip() else []
        pending = ""
    assert not pending, f"{block}: the last command does not end"
    return found


BLOCKS = [block for path in DOCUMENTS for block in blocks(path)]


class Reader:
    """Somebody who follows a document, in a home and a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.scratch = folder / "scratch"
        self.home.mkdir()
        self.scratch.mkdir()
        self.said = ""
        kept = {"PATH": f"{BIN}:/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home)}
        outside = environment()
        pip = {k: v for k, v in outside.items() if k.lower().endswith("_proxy") or "PIP_" in k}
        self.env = {**kept, **pip, "LANG": "C.UTF-8", "EDITOR": "true"}
        # A port of the documents may be taken on this machine.
        self._ports = {"8765": str(free_port()), "8766": str(free_port())}

    def follow(self, block: Block) -> None:
        match block.language:
            case "sh":
                # One script, for a variable may be set by one line and used by the next.
                kept = [command for command in commands(block) if command not in NOT_RUN]
                script = "\n".join(f"{command} || exit" for command in kept)
                self._run(block, ["bash", "-uo", "pipefail", "-c", script])
            case "python":
                self._run(block, [sys.executable, "-c", block.text])
            case "json" | "toml":
                read = json.loads if block.language == "json" else tomllib.loads
                self.greet_all(read(block.text))
            case "yaml":
                self._configure(block)

    def greet_all(self, entry: Any) -> None:
        """Start every server that an entry names, and greet it over MCP."""
        keys = ("mcpServers", "servers", "mcp_servers")
        [servers] = [entry[key] for key in keys if key in entry]
        assert servers
        for server in servers.values():
            words = [server["command"], *server.get("args", [])]
            hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
            answer = json.loads(self._asked(words, json.dumps(hello)))
            assert answer["result"]["serverInfo"]["name"] == "memoryd"

    def _asked(self, words: list[str], line: str) -> str:
        """The line that a program answers with. Its input stays open until then, as that of a
        client that stays: the first one waits while the daemon starts."""
        pipe: Any = subprocess.PIPE
        with subprocess.Popen(
            words, stdin=pipe, stdout=pipe, text=True, env=self.env, cwd=self.scratch
        ) as process:
            late = threading.Timer(SECONDS, process.kill)
            late.start()
            assert process.stdin is not None
            assert process.stdout is not None
            print(line, file=process.stdin, flush=True)
            answer = process.stdout.readline()
            process.stdin.close()
            assert process.wait(SECONDS) == 0
            late.cancel()
        return answer

    def leave(self) -> None:
        self._start(["memoryd", "stop"])
        if list(self.home.rglob("memoryd-demo")):  # which has a daemon of its own
            self._start(["memoryd", "demo", "--remove"])

    def _run(self, block: Block, words: list[str]) -> None:
        ended = self._ended([self._ported(word) for word in words])
        self.said += ended.stdout
        assert ended.returncode == 0, f"{block}: {words[-1]}\n{ended.stdout}{ended.stderr}"

    def _configure(self, block: Block) -> None:
        file = self.home / ".config" / "memoryd" / "config.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self._ported(block.text))
        assert isinstance(yaml.safe_load(file.read_text()), dict), str(block)

    def _ported(self, text: str) -> str:
        for shown, used in self._ports.items():
            text = text.replace(shown, used)
        return text

    def _start(self, words: list[str], said: str = "") -> str:
        ended = self._ended(words, said)
        assert ended.returncode == 0, f"{words}: {ended.stderr}"
        return ended.stdout

    def _ended(self, words: list[str], said: str = "") -> subprocess.CompletedProcess[str]:
        # What belongs to the project is run at its top, all else where it can leave files.
        of_project = words[-1].startswith("scripts/")
        return subprocess.run(
            words,
            input=said,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env=self.env,
            cwd=ROOT if of_project else self.scratch,
        )


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    found = Reader(tmp_path)
    yield found
    found.leave()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_what_a_document_shows_works(path: Path, reader: Reader) -> None:
    name = str(path.relative_to(ROOT))
    if name == "docs/clients.md":  # which searches for what the README stores
        reader._start(["memoryd", "store", "Ann prefers tea"])
    for block in blocks(path):
        reader.follow(block)
    for sentence in SAID.get(name, []):
        assert sentence in reader.said


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.name)
def test_every_entry_of_a_client_connects(path: Path, reader: Reader) -> None:
    read = json.loads if path.suffix == ".json" else tomllib.loads
    reader.greet_all(read(path.read_text()))


def test_no_block_is_left_out() -> None:
    """A block of a kind that nobody runs is a picture, and pictures are counted."""
    unread = [b for b in BLOCKS if b.language not in ("sh", "python", "json", "toml", "yaml")]
    pictures = [b.document for b in unread if b.document not in GENERATED]
    assert {name: pictures.count(name) for name in pictures} == PICTURES
    assert {block.language for block in unread} == {""}


def test_the_list_of_what_is_not_run_is_not_stale() -> None:
    shown = {word for block in BLOCKS if block.language == "sh" for word in commands(block)}
    assert NOT_RUN.keys() - shown == set()


def test_ci_installs_in_every_way_that_is_shown() -> None:
    check = (ROOT / "scripts" / "install_check").read_text()
    ways = [command.split()[0] for command, why in NOT_RUN.items() if why == INSTALL]
    assert [way for way in ways if f'echo "== {way}"\n' in check] == ["pip", "pipx", "uv"]
    assert "scripts/install_check" in (ROOT / ".ci" / "run").read_text()


def test_commands_are_read_whole() -> None:
    """The reading of blocks is itself right."""
    text = "one # a comment\n# none\ntwo \\\n  three\nfour '{\n  5}' # x\nsix#7\n"
    found = commands(Block("x", 1, "sh", text))
    assert found == ["one", "two   three", "four '{\n  5}'", "six#7"]


def inline() -> Iterator[tuple[str, str]]:
    for path in DOCUMENTS:
        for text in re.findall(r"`(memoryd [a-z][^`]*)`", path.read_text()):
            yield path.name, text


@pytest.mark.parametrize(("name", "text"), sorted(set(inline())))
def test_commands_within_sentences_exist(name: str, text: str) -> None:
    """Their verb and their options do; their words are placeholders."""
    _, verb, *words = shlex.split(text)
    known = parser().verbs()
    assert verb in known
    for word in words:
        if word.startswith("-"):
            try:
                known[verb]._refuse_unknown_options([word])
            except UsageError as exc:
                pytest.fail(f"{name}: {exc}")


def test_the_first_screen_of_the_readme_keeps_its_two_commands() -> None:
    first = blocks(ROOT / "README.md")[0]
    assert commands(first) == ["scripts/run", "scripts/test"]
    assert first.line < 15


@pytest.mark.parametrize(
    ("found", "named", "chosen"),
    [
        ({"python3": "3.12"}, "", "python3"),
        ({"python3": "3.10", "python3.11": "3.11"}, "", "python3.11"),
        ({"python3": "3.14", "python3.13": "3.13"}, "", "python3.13"),
        ({"python3": "3.12", "python3.11": "3.11"}, "python3.11", "python3.11"),
        ({"python3": "3.12"}, "python9", None),
        ({"python3": "3.12", "python3.14": "3.14"}, "python3.14", None),
        ({"python3": "3.10"}, "", None),
    ],
)
def test_the_scripts_choose_a_python_that_fits(
    found: dict[str, str], named: str, chosen: str | None, tmp_path: Path
) -> None:
    """The one that is named and no other; else the first of the versions that the README names."""
    for name, version in found.items():
        script = tmp_path / name
        major, minor = version.split(".")
        # The check of the scripts, answered for a version that need not be installed.
        check = f'import sys; sys.version_info = ({major}, {minor}); exec(\\"\\"\\"$2\\"\\"\\")'
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{check}"\n')
        script.chmod(0o755)
    for tool in ("dirname", "bash"):
        (tmp_path / tool).symlink_to(shutil.which(tool) or "")
    ended = subprocess.run(
        ["bash", "-c", f". {shlex.quote(str(ROOT / 'scripts' / 'setup.sh'))}; python_for_venv"],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": str(tmp_path), "PYTHON": named},
    )
    assert ended.stdout.strip() == (chosen or "")
    assert (ended.returncode == 0) == (chosen is not None)
    if chosen is None:
        assert "Error: Python 3.11, 3.12 or 3.13 is needed" in ended.stderr
