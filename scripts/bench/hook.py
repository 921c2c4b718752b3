"""What a hook costs an agent: from spawn to exit, beside a bare interpreter.

Ours with the daemon up, down and hanging, as the quickest command line (`hook.command`) and as the
command `memoryd`; all in one run, interleaved, medians, as a ratio to `python -c pass`. The goal is
at most 1.5 times a bare interpreter for the start of a hook.

Peers: `--peers` installs those that have hooks and come from a registry into .venv-peers, an
environment of their own, and runs their hooks as Claude Code would: mempalace by its command, and
claude-mem by its hooks.json with bun. One that does not install is named and left out. Others:
`--plugin NAME=FOLDER` for an unpacked Claude Code plugin, `--peer NAME=COMMAND` for a command that
answers a session start.

Run: .venv/bin/python -m scripts.bench.hook [--runs 21] [--peers] [--plugin NAME=FOLDER ...]
[--peer NAME=COMMAND ...] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from memoryd.client import SyncClient
from memoryd.daemon_record import read
from memoryd.hook.command import hook_command

BARE = "bare interpreter (python -c pass)"
GOAL = 1.5
START = "memoryd, prompt, daemon down"  # nothing but the start
EVENTS = {
    "session-start": "SessionStart",
    "prompt": "UserPromptSubmit",
    "tool": "PostToolUse",
    "stop": "Stop",
}
LIMIT = 120.0  # seconds for one run of a peer
PEERS = Path(__file__).parents[2] / ".venv-peers"
MEMPALACE, CLAUDE_MEM, BUN = "mempalace==3.11.0", "claude-mem@13.25.3", "bun@1.4.4"


@dataclass(slots=True)
class Way:
    """One way to run a hook, and what was measured."""

    name: str
    command: list[str]
    event: str = "UserPromptSubmit"
    env: dict[str, str] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    code: int = 0
    printed: int = 0

    def run(self, folder: Path) -> None:
        payload = {
            "session_id": f"{self.name}, run {len(self.seconds)}",
            "cwd": str(folder),
            "hook_event_name": self.event,
            "source": "startup",
            "prompt": "Where do we keep the invoices of the billing service?",
            "tool_name": "Read",
            "tool_input": {"file_path": str(folder / "a.py")},
            "tool_response": {},
        }
        kept = {k: v for k, v in os.environ.items() if not k.startswith("MEMORYD_")}
        started = time.perf_counter()
        done = subprocess.run(
            self.command,
            input=json.dumps(payload).encode(),
            capture_output=True,
            cwd=folder,
            env=kept | {"HOME": str(folder), "MEMORYD_PROJECT": ""} | self.env,
            timeout=LIMIT,
            check=False,
        )
        self.seconds.append(time.perf_counter() - started)
        self.code, self.printed = done.returncode, len(done.stdout)


@contextmanager
def daemon(data: Path) -> Iterator[int]:
    """A daemon with something to push, without a model; its process."""
    flags = ["--data-dir", str(data)]
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MEMORYD_")}
    env = kept | {"MEMORYD_EMBEDDING_BACKEND": "hash"}
    process = subprocess.Popen(
        [sys.executable, "-m", "memoryd", *flags, "serve"], env=env, stderr=subprocess.DEVNULL
    )
    while (known := read(data)) is None or not known.socket:
        time.sleep(0.05)
    with SyncClient(data_dir=str(data)) as client:
        client.store("We keep the invoices of the billing service in PostgreSQL")
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(30)


def ways(up: Path, down: Path, hanging: Path) -> list[Way]:
    found = [Way(BARE, [sys.executable, "-c", "pass"])]
    for event, name in EVENTS.items():
        command = [*hook_command(str(up)), event]
        found.append(Way(f"memoryd, {event}", command, name))
    found.append(Way(START, [*hook_command(str(down)), "prompt"]))
    found.append(Way("memoryd, prompt, daemon hangs", [*hook_command(str(hanging)), "prompt"]))
    script = Path(sys.executable).with_name("memoryd")
    if script.exists():
        plain = [str(script), "hook", "prompt", "--data-dir", str(up)]
        found.append(Way("the command memoryd hook prompt", plain))
    return found


def peer_ways() -> list[Way]:
    """The hooks of the peers that install here; of the others it is said why not."""
    found: list[Way] = []
    for name, install in (("mempalace", mempalace_ways), ("claude-mem", claude_mem_ways)):
        try:
            found += install(PEERS / name)
        except (OSError, subprocess.CalledProcessError, StopIteration) as exc:
            print(f"NOT MEASURED: {name} did not install: {exc}", file=sys.stderr)
    return found


def mempalace_ways(folder: Path) -> list[Way]:
    command = folder / "bin" / "mempalace"
    if not command.exists():
        venv.create(folder, with_pip=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--quiet", "install"]
        subprocess.run([*pip, MEMPALACE], check=True)
    words = [str(command), "hook", "run", "--harness", "claude-code", "--hook"]
    events = {"session-start": "SessionStart", "stop": "Stop"}
    name = MEMPALACE.replace("==", " ")
    return [Way(f"{name}, {ours}", [*words, ours], event) for ours, event in events.items()]


def claude_mem_ways(folder: Path) -> list[Way]:
    """Its package is unpacked, and what its plugin needs is installed, as its own set-up does."""
    plugin = folder / "package" / "plugin"
    if not plugin.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text("{}")
        npm = ["npm", "--silent", "--prefix", str(folder)]
        subprocess.run([*npm, "install", BUN], cwd=folder, check=True)
        subprocess.run(["npm", "--silent", "pack", CLAUDE_MEM], cwd=folder, check=True)
        with tarfile.open(next(folder.glob("claude-mem-*.tgz"))) as file:
            file.extractall(folder, filter="data")
        needs = ["install", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(["npm", "--silent", *needs], cwd=plugin, check=True)
    bun = folder / "node_modules" / ".bin"
    env = {"PATH": f"{bun}:{os.environ['PATH']}"}
    return plugin_ways(CLAUDE_MEM.replace("@", " "), plugin, env)


def end_leftovers(home: Path) -> None:
    """End what hooks of peers have left running: it has the home of this run."""
    wanted = f"HOME={home}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:  # it has ended, or is not ours
            continue


def plugin_ways(name: str, folder: Path, more: dict[str, str] | None = None) -> list[Way]:
    """The hooks of a plugin, as Claude Code would run them."""
    hooks = json.loads((folder / "hooks" / "hooks.json").read_text())["hooks"]
    found = []
    for event, groups in hooks.items():
        if event not in EVENTS.values():
            continue
        commands = [hook["command"] for group in groups for hook in group["hooks"]]
        for number, command in enumerate(commands, 1):
            of = f" {number} of {len(commands)}" if len(commands) > 1 else ""
            env = {"CLAUDE_PLUGIN_ROOT": str(folder), **(more or {})}
            found.append(Way(f"{name}, {event}{of}", ["bash", "-c", command], event, env))
    return found


def tell(found: list[Way]) -> bool:
    """Print a row for each; whether the goal is met."""
    bare = statistics.median(found[0].seconds)
    for way in found:
        middle = statistics.median(way.seconds)
        told = f"{1000 * middle:8.1f} ms {middle / bare:7.2f}  {way.printed:6} bytes"
        print(f"{way.name:44}{told}" + (f"  exit code {way.code}" if way.code else ""))
    [start_way] = [way for way in found if way.name == START]
    start = statistics.median(start_way.seconds) / bare
    print(f"start of a hook: {start:.2f} times a bare interpreter; the goal is {GOAL}")
    return start <= GOAL


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--runs", type=int, default=21)
    options.add_argument("--peers", action="store_true", help="install peers and measure them")
    options.add_argument("--plugin", action="append", default=[], metavar="NAME=FOLDER")
    options.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    with ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memoryd-hook-")))
        up, down, hanging = (top / name for name in ("up", "down", "hanging"))
        stack.enter_context(daemon(up))
        os.kill(stack.enter_context(daemon(hanging)), signal.SIGSTOP)
        found = ways(up, down, hanging) + (peer_ways() if given.peers else [])
        for named in given.plugin:
            name, _, folder = named.partition("=")
            found += plugin_ways(name, Path(folder).absolute())
        for named in given.peer:
            name, _, command = named.partition("=")
            found.append(Way(name, ["bash", "-c", command], "SessionStart"))
        stack.callback(end_leftovers, top)
        for _ in range(given.runs):
            for way in found:
                way.run(top)
    if given.json:
        print(json.dumps({way.name: way.seconds for way in found}))
        return 0
    return 0 if tell(found) else 1


if __name__ == "__main__":
    sys.exit(main())
