"""Real daemons for tests: started, spoken to in raw lines or by the MCP client, ended."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import anyio
import mcp.types as types
from mcp.shared.message import SessionMessage

from tests import fork_server
from tests.processes import environment

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class Process(Protocol):
    """What tests use of `subprocess.Popen`."""

    pid: int
    returncode: Any

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def kill(self) -> None: ...


class Daemon:
    """`memoryd serve` on a directory of its own. Sockets have short paths: theirs are limited."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.socket = Path(tempfile.mkdtemp(prefix="memoryd-test-")) / "s"
        self.settings = {"MEMORYD_EMBEDDING_BACKEND": "hash", **settings}
        self.log = folder.parent / f"{folder.name}.log"
        self.process: Process | None = None

    @property
    def flags(self) -> list[str]:
        return ["--data-dir", str(self.folder), "--socket", str(self.socket)]

    def spawn(self, start: Sequence[str] = ("-m", "memoryd")) -> Process:
        """Start the process; it may not listen yet."""
        with open(self.log, "ab") as log:
            return subprocess.Popen(
                [sys.executable, *start, *self.flags, "serve"],
                stderr=log,
                env=environment(**self.settings),
            )

    def start(self) -> Daemon:
        """Start it and wait until its memories are open."""
        self.process = self.spawn()
        self.call("tools/call", name="forget_memory", arguments={"memory_id": "nobody"})
        return self

    def connect(self, seconds: float = 60) -> socket.socket:
        """A raw connection, once it listens."""
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(seconds)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                sock.connect(str(self.socket))
                return sock
            except (FileNotFoundError, ConnectionRefusedError):
                assert self.process is None or self.process.poll() is None, self.log.read_text()
                time.sleep(0.01)
        raise AssertionError(f"nobody listens: {self.log.read_text()}")

    def call(self, method: str, /, **params: Any) -> Any:
        """The result of one request on a connection of its own; the error if it is one."""
        with Lines(self.connect()) as lines:
            lines.open()
            return lines.call(method, **params)

    def tool(self, name: str, /, **arguments: Any) -> Any:
        """The structured answer of a tool."""
        return self.call("tools/call", name=name, arguments=arguments)["structuredContent"]

    def store_brief(self, content: str) -> None:
        """Store a memory that expires as soon as a machine this busy lets it be stored at all."""
        seconds = 0.5
        while self._refuses_expiry(content, time.time() + seconds):
            seconds *= 2

    def _refuses_expiry(self, content: str, at: float) -> bool:
        arguments = {"content": content, "expires_at": at}
        return bool(
            self.call("tools/call", name="store_memory", arguments=arguments).get("isError")
        )

    def status(self) -> Any:
        return json.loads(self.call("resources/read", uri="memory://status")["contents"][0]["text"])

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(60)


class ForkedDaemon(Daemon):
    """A daemon that is quick to start, for tests of what it serves (see `fork_server`)."""

    def spawn(self, start: Sequence[str] = ()) -> Process:
        if start or not fork_server.SUPPORTED:
            return super().spawn(start or ("-m", "memoryd"))
        worker = {fork_server.WORKER: json.dumps(fork_server.worker_command())}
        with open(self.log, "ab") as log:
            return fork_server.server("daemon").spawn(
                ["memoryd", *self.flags, "serve"],
                environment(**self.settings, **worker),
                log.fileno(),
            )


class Lines:
    """A raw client: one JSON document a line."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._file = sock.makefile("rb")
        self._id = 0

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()
        self.sock.close()

    def open(self, tools: object = None) -> Any:
        """The handshake; before it, the wish for toolsets."""
        if tools is not None:
            self.send(asking_for(tools))
        answer = self.call("initialize", **INITIALIZE)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def send(self, message: object) -> None:
        data = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        self.sock.sendall(data)

    def request(self, method: str, /, **params: Any) -> int:
        self._id += 1
        self.send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        return self._id

    def read(self) -> Any:
        line = self._file.readline()
        return json.loads(line) if line else None

    def call(self, method: str, /, **params: Any) -> Any:
        id = self.request(method, **params)
        while (answer := self.read()) is not None:
            if answer.get("id") == id:
                return answer.get("result", answer.get("error"))
        raise ConnectionError("the daemon closed the connection")

    def tool(self, name: str, /, **arguments: Any) -> Any:
        return self.call("tools/call", name=name, arguments=arguments)


def asking_for(tools: object) -> dict[str, Any]:
    """The notification by which a client asks for toolsets."""
    method = "notifications/memoryd/tools"
    return {"jsonrpc": "2.0", "method": method, "params": {"tools": tools}}


@asynccontextmanager
async def unix_transport(path: Path, tools: object = None) -> AsyncIterator[tuple[Any, Any]]:
    """The transport that the MCP client needs to use a Unix socket; it may ask for toolsets."""
    incoming = anyio.create_memory_object_stream[Any](0)
    outgoing = anyio.create_memory_object_stream[Any](0)
    async with await anyio.connect_unix(path) as stream, anyio.create_task_group() as tasks:

        async def read() -> None:
            buffer = b""
            async with incoming[0]:
                async for data in stream:
                    *lines, buffer = (buffer + data).split(b"\n")
                    for line in lines:
                        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                        await incoming[0].send(SessionMessage(message))

        async def write() -> None:
            async with outgoing[1]:
                async for item in outgoing[1]:
                    text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await stream.send(text.encode() + b"\n")

        if tools is not None:
            await stream.send(json.dumps(asking_for(tools)).encode() + b"\n")
        tasks.start_soon(read)
        tasks.start_soon(write)
        yield incoming[1], outgoing[0]
        tasks.cancel_scope.cancel()
