"""A home directory for daemons and their clients, with the environments that they really get."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path
from typing import Any

from memoryd import daemon_record
from tests.daemons import INITIALIZE
from tests.processes import is_running

MEMORYD = (sys.executable, "-m", "memoryd")
ASK = "".join(
    json.dumps({"jsonrpc": "2.0", **message}) + "\n"
    for message in (
        {"id": 1, "method": "initialize", "params": INITIALIZE},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "resources/read", "params": {"uri": "memory://status"}},
    )
)
LIBRARY = (
    "from memoryd.client import SyncClient\n"
    "with SyncClient({}) as memory: print(memory.status()['pid'])"
)


class Home:
    """A home directory with short paths, and the daemons that are started in it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="memoryd-test-"))
        self.config = self.path / ".config" / "memoryd" / "config.yaml"
        self.data = self.path / ".local" / "share" / "memoryd"
        self.foreground: list[subprocess.Popen[bytes]] = []
        self.configure()

    def configure(self, data: Path | None = None, file: Path | None = None) -> Path:
        """Write a configuration file, the user's own unless another is named."""
        file = file or self.config
        file.parent.mkdir(parents=True, exist_ok=True)
        memory = f"memory:\n  path: {data}\n" if data else ""
        file.write_text(f"{memory}embedding:\n  backend: hash\n")
        return file

    def environment(self, kind: str) -> dict[str, str]:
        """What a process gets: from an SDK next to nothing, from a login shell more."""
        names = {"HOME": str(self.path), "PATH": os.environ["PATH"], "TERM": "dumb"}
        if kind == "sdk":
            return names
        shell = {"XDG_RUNTIME_DIR": self.path / "run", "XDG_STATE_HOME": self.path / "state"}
        return names | {name: str(path) for name, path in shell.items()}

    def run(
        self, kind: str, *words: str, given: str = "", fails: int | None = 0, **variables: Any
    ) -> subprocess.CompletedProcess[str]:
        """A verb in such an environment. `fails`: the exit code, None if it may be any."""
        done = subprocess.run(
            [*MEMORYD, *words],
            env=self.environment(kind) | variables,
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert fails in (None, done.returncode), (done.stdout, done.stderr)
        return done

    def json(self, kind: str, *words: str, **variables: Any) -> Any:
        return json.loads(self.run(kind, *words, "--json", **variables).stdout)

    def ask(self, kind: str, *words: str, **variables: Any) -> list[Any]:
        """What a client of the shim is answered to the handshake and to a question. It closes its
        end only then: the shim does not wait long for a client that has left."""
        shim = subprocess.Popen(
            [*MEMORYD, "mcp", *words],
            env=self.environment(kind) | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        asked = sum('"id"' in line for line in ASK.splitlines())
        guard = threading.Timer(60, shim.kill)
        guard.start()
        with shim:
            assert shim.stdin is not None
            assert shim.stdout is not None
            shim.stdin.write(ASK)
            shim.stdin.flush()
            answers = [json.loads(line) for line in islice(shim.stdout, asked)]
        guard.cancel()
        return answers

    def shim_status(self, kind: str, *words: str, **variables: Any) -> Any:
        answers = {answer["id"]: answer for answer in self.ask(kind, *words, **variables)}
        assert set(answers) == {1, 2}, answers
        answer = answers[2]  # the daemon may answer in any order
        assert "result" in answer, answer
        return json.loads(answer["result"]["contents"][0]["text"])

    def pids(self, kind: str, *words: str) -> set[int]:
        """The daemon, as shim, command line and library find it."""
        library = "config=" + repr(words[1]) if words else ""
        found = subprocess.run(
            [sys.executable, "-c", LIBRARY.format(library)],
            env=self.environment(kind),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert found.returncode == 0, found.stderr
        shim, verb = self.shim_status(kind, *words), self.json(kind, "status", *words)
        return {shim["pid"], verb["pid"], int(found.stdout)}

    def serve(self, kind: str, *words: str) -> int:
        """A daemon in the foreground; its process, once it listens."""
        process = subprocess.Popen(
            [*MEMORYD, "serve", *words], env=self.environment(kind), stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + 60
        while not any(known.pid == process.pid for known in self.listening()):
            assert time.monotonic() < end
            assert process.poll() is None
            time.sleep(0.02)
        self.foreground.append(process)
        return process.pid

    def listening(self) -> list[daemon_record.Record]:
        """Every daemon that says it listens."""
        folders = [path.parent for path in self.path.rglob(daemon_record.NAME)]
        found = [known for folder in folders if (known := daemon_record.read(folder))]
        return [known for known in found if known.state == daemon_record.LISTENING]

    def close(self) -> None:
        for known in self.listening():
            if is_running(known.pid):
                os.kill(known.pid, signal.SIGKILL)
        for process in self.foreground:
            process.wait(60)
        shutil.rmtree(self.path, ignore_errors=True)
