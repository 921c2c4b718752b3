"""The official MCP conformance suite against the HTTP door of a real daemon.

Run: .venv/bin/python -m scripts.conformance

The suite (an npm package, with the Node.js it needs) is installed into a throw-away directory.
It can send no token, so a small relay adds it; everything else, Host included, passes as sent.
Scenarios that call fixtures of the suite's own sample server (tools named test_*, pictures,
sampling, elicitation, subscriptions) say nothing about a memory server and are listed as such.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = ["@modelcontextprotocol/conformance@0.1.16", "node@22"]
APPLY = [
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "prompts-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
]
WHY_NOT = {
    "logging-set-level": "logging is deprecated; logs go to the log file",
    "completion-complete": "no argument to complete",
    "tools-call-*": "calls tools named test_* of the suite's sample server",
    "json-schema-2020-12": "looks at a tool of the sample server",
    "elicitation-*": "the daemon asks its clients nothing",
    "server-sse-polling": "calls a tool of the sample server",
    "resources-read-*, resources-templates-read": "reads test:// resources of the sample server",
    "resources-subscribe, resources-unsubscribe": "nothing to subscribe to",
    "prompts-get-*": "gets prompts named test_* of the sample server",
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Relay:
    """Passes one request a connection on, with the token."""

    def __init__(self, port: int, target: int, token: str) -> None:
        self._port, self._target, self._token = port, target, token

    async def run(self) -> None:
        server = await asyncio.start_server(self._one, "127.0.0.1", self._port)
        async with server:
            await server.serve_forever()

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


async def scenario(work: Path, name: str, port: int) -> tuple[bool, str]:
    """Whether it passed, and what it printed."""
    modules = work / "node_modules"
    suite = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    process = await asyncio.create_subprocess_exec(
        modules / "node" / "bin" / "node",
        suite,
        "server",
        "--url",
        f"http://127.0.0.1:{port}/mcp",
        "--scenario",
        name,
        cwd=work,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output = (await process.communicate())[0].decode(errors="replace")
    return process.returncode == 0, output


async def run(work: Path) -> int:
    port, relay_port = free_port(), free_port()
    data = work / "data"
    settings = {"MEMORYD_DOORS_HTTP_PORT": str(port), "MEMORYD_EMBEDDING_BACKEND": "hash"}
    daemon = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "memoryd", "--data-dir", str(data), "serve"],
        env={**os.environ, **settings},
        stderr=subprocess.DEVNULL,
    )
    while not (data / "token").exists():  # noqa: ASYNC110 (made just before the door opens)
        await asyncio.sleep(0.05)
    relay = asyncio.create_task(Relay(relay_port, port, (data / "token").read_text().strip()).run())
    failed = 0
    try:
        for name in APPLY:
            passed, output = await scenario(work, name, relay_port)
            failed += not passed
            print(f"{'passed' if passed else 'FAILED':8} {name}")
            if not passed:
                print(output)
    finally:
        relay.cancel()
        daemon.send_signal(signal.SIGTERM)
        await daemon.wait()
    print("\nNot applicable:")
    for names, reason in WHY_NOT.items():
        print(f"  {names}: {reason}")
    print(f"\n{len(APPLY) - failed} passed, {failed} failed")
    return int(failed > 0)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="memoryd-conformance-") as folder:
        command = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", folder]
        subprocess.run([*command, *PACKAGES], check=True)
        return asyncio.run(run(Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
