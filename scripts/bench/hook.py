"""What a hook costs an agent: from spawn to exit, beside a bare interpreter.

Ours with the daemon up, down and hanging, as the quickest command line (`hook.command`) and as the
command `memoryd`; all in one run, interleaved, medians, as a ratio to `python -c pass`. The goal is
at most 1.5 times a bare interpreter for the start of a hook.

Peers: `--plugin NAME=FOLDER`, where FOLDER is an unpacked Claude Code plugin with hooks/hooks.json
(such as `npm pack claude-mem`). Its own commands are run as Claude Code would run them. A hook that
is a command, such as `mempalace hook run`, is given by `--peer NAME=COMMAND`.

Run: .venv/bin/python -m scripts.bench.hook [--runs 21] [--plugin NAME=FOLDER ...]
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
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from memoryd.client import SyncClient
from memoryd.daemon_record import read
from memoryd.hook.command import hook_command

BARE = "bare interpreter (python -c pass)"
GOAL = 1.5
EVENTS = {"session-start": "SessionStart", "prompt": "UserPromptSubmit", "tool": "PostToolUse"}
LIMIT = 120.0  # seconds for one run of a peer


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
    found.append(Way("memoryd, prompt, daemon down", [*hook_command(str(down)), "prompt"]))
    found.append(Way("memoryd, prompt, daemon hangs", [*hook_command(str(hanging)), "prompt"]))
    script = Path(sys.executable).with_name("memoryd")
    if script.exists():
        plain = [str(script), "hook", "prompt", "--data-dir", str(up)]
        found.append(Way("the command memoryd hook prompt", plain))
    return found


def plugin_ways(name: str, folder: Path) -> list[Way]:
    """The hooks of a plugin, as Claude Code would run them."""
    hooks = json.loads((folder / "hooks" / "hooks.json").read_text())["hooks"]
    found = []
    for event, groups in hooks.items():
        if event not in EVENTS.values():
            continue
        commands = [hook["command"] for group in groups for hook in group["hooks"]]
        for number, command in enumerate(commands, 1):
            of = f" {number} of {len(commands)}" if len(commands) > 1 else ""
            env = {"CLAUDE_PLUGIN_ROOT": str(folder)}
            found.append(Way(f"{name}, {event}{of}", ["bash", "-c", command], event, env))
    return found


def tell(found: list[Way]) -> bool:
    """Print a row for each; whether the goal is met."""
    bare = statistics.median(found[0].seconds)
    for way in found:
        middle = statistics.median(way.seconds)
        told = f"{1000 * middle:8.1f} ms {middle / bare:7.2f}  {way.printed:6} bytes"
        print(f"{way.name:44}{told}" + (f"  exit code {way.code}" if way.code else ""))
    start = statistics.median(found[4].seconds) / bare  # nothing but the start
    print(f"start of a hook: {start:.2f} times a bare interpreter; the goal is {GOAL}")
    return start <= GOAL


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--runs", type=int, default=21)
    options.add_argument("--plugin", action="append", default=[], metavar="NAME=FOLDER")
    options.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    with ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memoryd-hook-")))
        up, down, hanging = (top / name for name in ("up", "down", "hanging"))
        stack.enter_context(daemon(up))
        os.kill(stack.enter_context(daemon(hanging)), signal.SIGSTOP)
        found = ways(up, down, hanging)
        for named in given.plugin:
            name, _, folder = named.partition("=")
            found += plugin_ways(name, Path(folder).absolute())
        for named in given.peer:
            name, _, command = named.partition("=")
            found.append(Way(name, ["bash", "-c", command], "SessionStart"))
        for _ in range(given.runs):
            for way in found:
                way.run(top)
    if given.json:
        print(json.dumps({way.name: way.seconds for way in found}))
        return 0
    return 0 if tell(found) else 1


if __name__ == "__main__":
    sys.exit(main())
