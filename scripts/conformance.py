"""The official MCP conformance suite against the HTTP door of a real daemon, in both eras.

Run: .venv/bin/python -m scripts.conformance

The suite (an npm package, with the Node.js it needs) is installed into a throw-away directory. It
can send no token, so a small relay adds it; everything else, Host included, passes as sent.

Every scenario that a revision requires is run. Many of them call fixtures of the suite's own sample
server. A failed check is excused only if it failed for the reason that is written here: by the
words of its failure, and where a capability is not offered, by what the daemon says it offers.
A reason that excuses nothing any more is a failure too.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUITE = "@modelcontextprotocol/conformance"
VERSION = "0.2.0-alpha.12"  # the newest, which knows the era of 2026-07-28
PACKAGES = [f"{SUITE}@{VERSION}", "node@22"]
CLIENT = {"name": "conformance", "version": "1"}
META = "io.modelcontextprotocol/"
HELLO: dict[str, tuple[str, dict[str, Any]]] = {
    "2025-11-25": (
        "initialize",
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT},
    ),
    "2026-07-28": (
        "server/discover",
        {
            "_meta": {
                f"{META}protocolVersion": "2026-07-28",
                f"{META}clientInfo": CLIENT,
                f"{META}clientCapabilities": {},
            }
        },
    ),
}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a check does not apply. `lacks`: the capability that the daemon must not claim."""

    text: str
    scenario: str
    failure: str
    lacks: str = ""

    def excuses(self, scenario: str, failure: str) -> bool:
        return bool(re.match(self.scenario, scenario) and re.search(self.failure, failure))


REASONS = (
    Reason(
        "it calls a tool of the suite's sample server",
        r"(?!tasks-)",
        r"There is no tool '(test_\w+)'|Tool 'json_schema_2020_12_tool' not found"
        r"|server does not list the diagnostic tool 'test_\w+'",
    ),
    Reason("it gets a prompt of the suite's sample server", r"", r"There is no prompt 'test_\w+'"),
    Reason("it reads a resource of the suite's sample server", r"", r"nothing at test://"),
    Reason(
        "it needs a tool of the sample server that asks its client something: ours ask nothing",
        r"input-required-result-(multi-round|tampered-state)$",
        r"Expected InputRequiredResult|could not get initial InputRequiredResult",
    ),
    Reason(
        "no tool of ours has an argument that goes into a header (x-mcp-header)",
        r"http-custom-header-server-validation$",
        r"server exposes no tool with x-mcp-header annotations",
    ),
    Reason(
        "logging is not offered: the protocol deprecates it, and the log is a file",
        r"logging-set-level$|tools-call-with-logging$",
        r"Method not found",
        lacks="logging",
    ),
    Reason(
        "subscriptions are not offered: nothing notifies of changes",
        r"resources-(un)?subscribe$",
        r"Method not found",
        lacks="resources.subscribe",
    ),
    Reason(
        "the extension for tasks is not offered: every call is answered at once",
        r"tasks-",
        r"",
        lacks="extensions",
    ),
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Relay:
    """Passes one request a connection on, with the token."""

    def __init__(self, port: int, target: int, token: str) -> None:
        self._port, self._target, self._token = port, target, token
        self._open: set[asyncio.Task[None]] = set()  # a stream may stay open to the end

    async def run(self) -> None:
        server = await asyncio.start_server(self._take, "127.0.0.1", self._port)
        try:
            async with server:
                await server.serve_forever()
        finally:
            for task in self._open:
                task.cancel()

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._one(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = re.search(r"(?im)^content-length: *(\d+)", head)
            body = await reader.readexactly(int(length[1])) if length else b""
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
            far_writer.write(self._with_token(head).encode("latin-1") + body)
            while data := await far_reader.read(65_536):
                writer.write(data)
                await writer.drain()
            far_writer.close()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _with_token(self, head: str) -> str:
        head = re.sub(r"(?im)^connection:.*\r\n", "", head)
        own = rf"(?im)^(host|origin): *((?:http://)?(?:127\.0\.0\.1|localhost)):{self._port}\r$"
        head = re.sub(own, rf"\1: \2:{self._target}\r", head)
        extra = f"Connection: close\r\nAuthorization: Bearer {self._token}\r\n\r\n"
        return head.removesuffix("\r\n") + extra


async def checks_of(work: Path, revision: str, url: str) -> list[tuple[str, dict[str, Any]]]:
    """Every check of every scenario that a revision requires, with the scenario's name."""
    modules, results = work / "node_modules", work / revision
    suite = modules / SUITE / "dist" / "index.js"
    process = await asyncio.create_subprocess_exec(
        str(modules / "node" / "bin" / "node"),
        *[str(suite), "server", "--url", url, "--requirements", revision, "-o", str(results)],
        cwd=work,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    )
    await process.wait()
    return [
        (re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", file.parent.name), check)
        for file in sorted(results.glob("*/checks.json"))
        for check in json.loads(file.read_text())
    ]


def capabilities(revision: str, port: int, token: str) -> dict[str, Any]:
    """What the daemon says it offers."""
    method, params = HELLO[revision]
    hello = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {
        "Mcp-Protocol-Version": revision,
        "Mcp-Method": method,
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/mcp", json.dumps(hello).encode(), headers
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read().decode()
    data = next(line for line in text.splitlines() if '"capabilities"' in line)
    found: dict[str, Any] = json.loads(data.removeprefix("data: "))["result"]["capabilities"]
    return found


def offers(found: Any, path: str) -> bool:
    """Whether a capability, such as resources.subscribe, is claimed."""
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return bool(found) or found == {}


def report(
    revision: str,
    checks: list[tuple[str, dict[str, Any]]],
    offered: dict[str, Any],
    used: Counter[str],
) -> int:
    """Print what became of each scenario; how many checks failed without a reason."""
    scenarios: dict[str, list[dict[str, Any]]] = {}
    for name, check in checks:
        scenarios.setdefault(name, []).append(check)
    print(f"\n{revision}: {len(scenarios)} scenarios, {len(checks)} checks")
    failed = 0
    for name, of_it in scenarios.items():
        excuses: set[str] = set()
        for check in of_it:
            if check["status"] != "FAILURE":
                continue
            said = str(check.get("errorMessage") or check.get("description"))
            reason = next((r for r in REASONS if r.excuses(name, said)), None)
            if reason is None or (reason.lacks and offers(offered, reason.lacks)):
                failed += 1
                print(f"  FAILED  {name} {check['id']}: {said}")
            else:
                excuses.add(reason.text)
                used[reason.text] += 1
        held = sum(check["status"] == "SUCCESS" for check in of_it)
        print(f"  {held:3} held  {name}" + (f": {'; '.join(sorted(excuses))}" if excuses else ""))
        for check in of_it:
            if check["status"] == "WARNING":
                print(f"            advice: {check.get('errorMessage') or check['description']}")
    return failed


async def run(work: Path) -> int:
    port, relay_port = free_port(), free_port()
    data = work / "data"
    settings = {"MEMORYD_DOORS_HTTP_PORT": str(port), "MEMORYD_EMBEDDING_BACKEND": "hash"}
    daemon = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "memoryd", "--data-dir", str(data)],
        *["--socket", str(work / "s"), "serve"],
        env={**os.environ, **settings},
        stderr=subprocess.DEVNULL,
    )
    while not (data / "token").exists():  # noqa: ASYNC110 (made just before the door opens)
        await asyncio.sleep(0.05)
    token = (data / "token").read_text().strip()
    relay = asyncio.create_task(Relay(relay_port, port, token).run())
    failed, used = 0, Counter[str]()
    try:
        for revision in HELLO:
            checks = await checks_of(work, revision, f"http://127.0.0.1:{relay_port}/mcp")
            if not checks:
                print(f"{revision}: the suite ran nothing")
                failed += 1
            offered = await asyncio.to_thread(capabilities, revision, port, token)
            failed += report(revision, checks, offered, used)
    finally:
        relay.cancel()
        daemon.send_signal(signal.SIGTERM)
        await daemon.wait()
    for reason in REASONS:
        if not used[reason.text]:
            failed += 1
            print(f"This reason excuses nothing any more: {reason.text}")
    print(f"\n{failed} failed without a reason")
    return int(failed > 0)


def tell_of_newer() -> None:
    """A newer suite is worth a look; it does not change what was run."""
    command = ["npm", "view", SUITE, "versions", "--json"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    newest = json.loads(found.stdout)[-1] if found.returncode == 0 else VERSION
    print(f"{SUITE} {VERSION}" + (f" ({newest} is out)" if newest != VERSION else ", the newest"))


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="memoryd-conformance-") as folder:
        command = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", folder]
        subprocess.run([*command, *PACKAGES], check=True)
        tell_of_newer()
        return asyncio.run(run(Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
