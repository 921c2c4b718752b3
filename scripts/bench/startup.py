"""What one more client costs: from spawn to the answer of `tools/list`, and resident memory.

Ours (daemon up, daemon cold) beside other memory servers, each in a throw-away environment, all
in one run, interleaved, medians. `mempalace` can share a process too, if its user starts one, so
it is measured both ways. Its "hub up" row is a small proxy like ours: the one to be faster than,
but no whole Python server, so the goal of ten times leaves it out.

Run: .venv/bin/python -m scripts.bench.startup [--runs 7] [--work FOLDER] [--json]
FOLDER keeps what was installed for the next run.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

START_LIMIT = 120.0  # seconds until a server counts as failed
INSTALL_LIMIT = 900.0
MEGABYTE = 1_000_000
OURS, COLD = "memoryd mcp, daemon up", "memoryd mcp, daemon cold"
INITIALIZE = {
    "protocolVersion": "2024-11-05",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


@dataclass(frozen=True, slots=True)
class Server:
    """How to start one, and what it may be compared with."""

    name: str
    command: list[str]
    env: dict[str, str] = field(default_factory=dict)
    python: bool = False  # a whole server in Python: the goal is to be ten times faster
    fresh: bool = False  # each run on an empty data directory


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one start: seconds, and bytes of the process and of it with its children."""

    seconds: float
    resident: float
    tree: float


class Client:
    """The little of MCP that is needed to wait for a list of tools."""

    def __init__(self, server: Server, env: dict[str, str], errors: IO[bytes]) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("MEMORYD_")}
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            server.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=kept | server.env | env,
        )

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, key: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result. Lines that are no answer are skipped: some print greetings to stdout."""
        self.send({"id": key, "method": method, "params": params})
        assert self.process.stdout
        for line in self.process.stdout:
            if line.lstrip().startswith(b"{") and (message := json.loads(line)).get("id") == key:
                result: dict[str, Any] = message["result"]
                return result
        raise RuntimeError(f"ended with code {self.process.wait()}")

    def list_tools(self) -> float:
        """Seconds since the spawn."""
        self.ask(1, "initialize", INITIALIZE)
        self.send({"method": "notifications/initialized"})
        assert self.ask(2, "tools/list", {})["tools"]
        return time.perf_counter() - self.started

    def close(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@contextmanager
def running(server: Server, env: dict[str, str]) -> Iterator[Client]:
    """A client of a server; it is killed if it takes too long."""
    with tempfile.TemporaryFile() as errors:
        client = Client(server, env, errors)
        signal.signal(signal.SIGALRM, lambda *_: client.process.kill())
        signal.alarm(int(START_LIMIT))
        try:
            yield client
        except Exception as exc:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip().split("\n")[-1]
            raise RuntimeError(f"{exc}: {said}") from exc
        finally:
            signal.alarm(0)
            client.close()


def measure(server: Server) -> Cost:
    with ExitStack() as stack:
        env: dict[str, str] = {}
        if server.fresh:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="memoryd-bench-"))
            env = {"MEMORYD_DATA_DIR": folder}
        client = stack.enter_context(running(server, env))
        seconds = client.list_tools()
        tree = resident_tree(client.process.pid)
        if server.fresh:
            stop_daemon(client)
        return Cost(seconds, tree[0], sum(tree))


def resident_tree(pid: int) -> list[float]:
    """Resident bytes of a process, then of each of its descendants."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # ended meanwhile
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop(0)
        waiting += children.get(one, [])
        pages = int(Path(f"/proc/{one}/statm").read_text().split()[1])
        found.append(float(pages * os.sysconf("SC_PAGE_SIZE")))
    return found


def stop_daemon(client: Client) -> None:
    """End the daemon behind a shim, so that the next measurement is not disturbed."""
    status = client.ask(3, "resources/read", {"uri": "memory://status"})
    pid = int(json.loads(status["contents"][0]["text"])["pid"])
    watch = os.pidfd_open(pid)
    os.kill(pid, signal.SIGTERM)
    select.select([watch], [], [], 30)
    os.close(watch)


def run_quietly(command: list[str]) -> None:
    """Install something; the last thing it says is the error."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT)
    if done.returncode:
        raise RuntimeError(f"install failed: {(done.stderr or done.stdout).strip()[-200:]}")


def npm_memory(work: Path, _: ExitStack) -> list[Server]:
    package = "@modelcontextprotocol/server-memory"
    place = work / "npm"
    if not (place / "node_modules" / package).exists():
        place.mkdir(exist_ok=True)
        run_quietly(["npm", "install", "--silent", "--prefix", str(place), package])
    home = place / "node_modules" / package
    script = next(iter(json.loads((home / "package.json").read_text())["bin"].values()))
    env = {"MEMORY_FILE_PATH": str(work / "memory.json")}
    return [Server("server-memory (npm)", ["node", str(home / script)], env)]


def venv(work: Path, name: str, *packages: str) -> Path:
    """The folder of the commands that the packages bring."""
    place = work / name
    if not (place / "installed").exists():
        run_quietly([sys.executable, "-m", "venv", "--clear", str(place)])
        run_quietly([str(place / "bin/python"), "-m", "pip", "install", "--quiet", *packages])
        (place / "installed").touch()
    return place / "bin"


def chroma_mcp(work: Path, _: ExitStack) -> list[Server]:
    # It pins an `mcp` that does not work with the latest pydantic, but does not say so.
    command = venv(work, "chroma-mcp", "chroma-mcp", "pydantic<2.12") / "chroma-mcp"
    flags = ["--client-type", "persistent", "--data-dir", str(work / "chroma-data")]
    return [Server("chroma-mcp", [str(command), *flags], {"HOME": str(work)}, python=True)]


def mempalace(work: Path, stack: ExitStack) -> list[Server]:
    place, env = venv(work, "mempalace", "mempalace"), {"HOME": str(work)}
    alone, shared = ([str(place / "mempalace-mcp"), "--palace", str(work / n)] for n in "ab")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    hub = subprocess.Popen(
        [str(place / "mempalace"), "serve", "--palace", str(work / "b"), "--port", str(port)],
        env=os.environ | env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    stack.callback(hub.wait)
    stack.callback(hub.terminate)
    end = time.monotonic() + START_LIMIT
    while hub.poll() is None and time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    return [
        Server("mempalace", alone, env, python=True),
        Server("mempalace, hub up", shared, env),
    ]


def memoryd(_: Path, stack: ExitStack) -> list[Server]:
    command = [str(Path(sys.executable).with_name("memoryd")), "mcp"]
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="memoryd-bench-"))
    warm = Server(OURS, command, {"MEMORYD_DATA_DIR": folder})
    keeper = stack.enter_context(running(warm, {}))
    keeper.list_tools()
    keeper.ask(9, "tools/call", {"name": "search_memories", "arguments": {"query": "x"}})
    signal.alarm(0)
    stack.callback(stop_daemon, keeper)
    return [warm, Server(COLD, command, fresh=True)]


def compare(work: Path, runs: int) -> tuple[dict[str, list[Cost]], dict[str, str], set[str]]:
    """Costs by name, failures by name, and which names are whole servers in Python."""
    makers: dict[str, Callable[[Path, ExitStack], list[Server]]] = {
        "memoryd": memoryd,
        "server-memory (npm)": npm_memory,
        "chroma-mcp": chroma_mcp,
        "mempalace": mempalace,
    }
    servers: list[Server] = []
    failures: dict[str, str] = {}
    costs: dict[str, list[Cost]] = {}
    with ExitStack() as stack:
        for name, make in makers.items():
            try:
                servers += make(work, stack)
            except Exception as exc:
                failures[name] = str(exc)
        for number in range(runs + 1):
            for server in [s for s in servers if s.name not in failures]:
                try:
                    cost = measure(server)
                except Exception as exc:
                    failures[server.name] = str(exc)
                    continue
                if number:  # the first round fills the caches of all alike
                    costs.setdefault(server.name, []).append(cost)
    return costs, failures, {server.name for server in servers if server.python}


def show(costs: dict[str, list[Cost]], failures: dict[str, str], python: set[str]) -> None:
    found = {name: medians(some) for name, some in costs.items()}
    ours = found.get(OURS)
    print(f"{'':28}{'seconds':>9}{'x ours':>8}{'MB':>8}{'MB with children':>18}")
    for name, cost in found.items():
        ratio = f"{cost.seconds / ours.seconds:8.1f}" if ours else f"{'-':>8}"
        memory = f"{cost.resident / MEGABYTE:8.1f}{cost.tree / MEGABYTE:18.1f}"
        print(f"{name:28}{cost.seconds:9.3f}{ratio}{memory}")
    for name, why in failures.items():
        print(f"{name:28}FAILED, NOT COMPARED: {why}")
    if ours is None:
        return
    others = {name: cost.seconds for name, cost in found.items() if name not in (OURS, COLD)}
    for goal, held in {
        "faster than every one": all(ours.seconds < other for other in others.values()),
        ">= 10x faster than the Python servers": all(
            10 * ours.seconds <= other for name, other in others.items() if name in python
        ),
        "<= 20 MB": ours.resident <= 20 * MEGABYTE,
    }.items():
        verdict = "MISSED" if not held else "held, BY THOSE THAT RAN" if failures else "held"
        print(f"goal: {goal:40}{verdict}")


def medians(costs: list[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.seconds for cost in costs),
        statistics.median(cost.resident for cost in costs),
        statistics.median(cost.tree for cost in costs),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--work", type=Path, help="keep the installed servers here")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as folder:
        work = (options.work or Path(folder)).absolute()
        work.mkdir(parents=True, exist_ok=True)
        costs, failures, python = compare(work, options.runs)
    if options.json:
        found = {name: asdict(medians(some)) for name, some in costs.items()}
        print(json.dumps({"medians": found, "failed": failures}))
    else:
        show(costs, failures, python)


if __name__ == "__main__":
    main()
