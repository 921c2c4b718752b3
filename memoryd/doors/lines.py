"""One connection: newline-delimited JSON-RPC on a byte stream, served by the MCP server.

The protocol library's own stdio transport drops malformed lines silently and has no limits, so
the framing is ours. Malformed JSON gets an error and the connection stays open; an over-long line
gets an error and is skipped; when too many calls are in flight, nothing more is read; and a client
that does not read its answers is disconnected. So memory is bounded whatever a peer does.

A call is in flight until its own answer is written, or until it has ended after the client
cancelled it. Nothing else that a client sends ends it: no second call with its id, no refusal.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import mcp.types as types
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from pydantic import ValidationError

from memoryd.doors.limits import RATE_LIMITED, Rate, refusal, too_fast
from memoryd.doors.rights import ALL, Rights
from memoryd.doors.sessions import PEER, Peer
from memoryd.engine.checks import label
from memoryd.engine.windows import new_session_id
from memoryd.errors import InvalidInput, OutOfMemory, WrongDaemon
from memoryd.fair import CALLER
from memoryd.places import hung_up

CHUNK, SMALL_CHUNK = 65_536, 2048  # bytes read at a time; the small one if memory is short
DISCONNECTED = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)
SESSION = "notifications/memoryd/session"  # sent by the shim, see `shim.lines`
TOOLS = "notifications/memoryd/tools"  # the toolsets that a client asks for
MAX_VALUES = 130_000  # in one message: each costs time on the loop; an import batch has fewer
TOO_MANY_VALUES = f"A message may hold at most {MAX_VALUES} values."
JSON_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"')
ID_IN_USE = "A call with this id is in flight. Use another id, or wait for its answer."
UPGRADE = "memoryd/upgrade"  # asked by the shim, see `launch.upgrade`
EXPECT = "notifications/memoryd/expect"
PROJECT = "notifications/memoryd/project"
ROOTS_CHANGED = "notifications/roots/list_changed"
WRONG_DAEMON = -32000  # the same code as for a daemon that cannot be reached


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection may use."""

    line_bytes: int = 4 << 20
    calls: int = 64  # in flight at a time
    calls_per_second: float = 0.0  # 0: no limit
    send_seconds: float = 60.0  # a client that reads nothing for so long is disconnected
    drain_seconds: float = 30.0  # for answers after the client closed its sending half


class Refusal(SessionMessage):
    """An answer to a line that never became a call; its id may be that of a call in flight."""


class LineBuffer:
    """Splits bytes into lines. A line over the limit, or too long for the free memory, is yielded
    once as None; the rest of it is skipped."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[bytes | bytearray | None]:
        for piece in _pieces(data):
            whole = piece.endswith(b"\n")
            if not self._skipping and not self._add(piece):
                self._skipping = True
                self._pending.clear()
                yield None
            if whole:
                line, self._pending = self._pending, bytearray()
                if not self._skipping and not line.isspace():
                    yield line
                self._skipping = False

    def _add(self, piece: bytes) -> bool:
        with contextlib.suppress(MemoryError):
            self._pending += piece
            return len(self._pending) <= self._limit
        return False


def _pieces(data: bytes) -> list[bytes]:
    """Whole lines with their newline, and the incomplete rest."""
    parts = data.split(b"\n")
    ended = [part + b"\n" for part in parts[:-1]]
    return ended + ([parts[-1]] if parts[-1] else [])


Retire = Callable[[str], bool]  # ends the daemon for this version if it is idle; whether it does


def never(version: str) -> bool:
    return False


class Connection:
    """Both directions of one client, and its calls. `data_dir`, `retire`: see `LineDoor`."""

    def __init__(
        self,
        stream: ByteStream,
        limits: Limits,
        data_dir: Path | None = None,
        rights: Rights = ALL,
        retire: Retire = never,
    ) -> None:
        self._stream = stream
        self._retire = retire
        self._limits = limits
        # As the protocol library compares ids: 1, "1" and "01" are the same.
        self._in_flight: set[str | int] = set()
        self._changed = anyio.Event()
        is_near = data_dir is not None
        self._peer = Peer(new_session_id(), is_near, rights, is_near=is_near)
        self._rate = Rate(limits.calls_per_second)
        self._expectation = Expectation(data_dir)

    async def serve(self, server: Server[Any]) -> None:
        """Serve until the client disconnects."""
        incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        PEER.set(self._peer)
        CALLER.set(self)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, incoming[0], outgoing[0].clone())
            tasks.start_soon(self._write, outgoing[1], tasks.cancel_scope)
            await server.run(incoming[1], outgoing[0], server.create_initialization_options())
            tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await self._stream.aclose()

    async def _read(
        self,
        messages: MemoryObjectSendStream[SessionMessage | Exception],
        answers: MemoryObjectSendStream[SessionMessage],
    ) -> None:
        lines = LineBuffer(self._limits.line_bytes)
        async with messages, answers:
            try:
                async for data in _chunks(self._stream):
                    for line in lines.feed(data):
                        await self._handle(line, messages, answers)
                await self._drain()
            except DISCONNECTED:
                return

    async def _handle(
        self,
        line: bytes | bytearray | None,
        messages: MemoryObjectSendStream[SessionMessage | Exception],
        answers: MemoryObjectSendStream[SessionMessage],
    ) -> None:
        try:
            message = parse(line, self._limits.line_bytes)
        except BadLine as exc:
            await answers.send(Refusal(exc.answer))
            return
        if isinstance(message, types.JSONRPCRequest):
            if message.method == UPGRADE and self._peer.local:
                await answers.send(Refusal(self._upgraded(message)))
                return
            if refused := self._refusal(message.id):
                await answers.send(Refusal(refused))
                return
            await messages.send(await self._started(message))
            return
        if isinstance(message, types.JSONRPCNotification):
            if message.method == SESSION:
                self._resume((message.params or {}).get("session_id"))
                return
            if message.method == TOOLS:
                self._peer.tools = (message.params or {}).get("tools")
                return
            if message.method == EXPECT:
                self._expectation.note(message.params)
                return
            if message.method == PROJECT:
                told = message.params or {}
                self._peer.project, self._peer.project_given = told.get("project"), "given" in told
                return
            if message.method == ROOTS_CHANGED:
                self._peer.roots_asked = False
        await messages.send(SessionMessage(message))

    def _upgraded(self, call: types.JSONRPCRequest) -> types.JSONRPCResponse:
        """The answer to a newer shim, which starts a daemon of its version once we have ended."""
        version = (call.params or {}).get("version")
        ending = isinstance(version, str) and self._retire(version)
        return types.JSONRPCResponse(jsonrpc="2.0", id=call.id, result={"ending": ending})

    async def _started(self, call: types.JSONRPCRequest) -> SessionMessage:
        """The call, counted as in flight; waits while there are too many."""
        await self._until(lambda: len(self._in_flight) < self._limits.calls)
        self._in_flight.add(coerce_request_id(call.id))

        async def ended() -> None:  # cancelled: no answer follows
            self._done(call.id)

        return SessionMessage(call, ServerMessageMetadata(on_request_unanswered=ended))

    async def _write(
        self, answers: MemoryObjectReceiveStream[SessionMessage], connection: anyio.CancelScope
    ) -> None:
        async with answers:
            async for answer in answers:
                text = text_of(answer.message)
                try:
                    with anyio.fail_after(self._limits.send_seconds):
                        await self._stream.send(text.encode() + b"\n")
                except (TimeoutError, *DISCONNECTED):
                    connection.cancel()  # the client reads no answers: end its calls
                    return
                if isinstance(answer, Refusal):
                    continue
                if isinstance(answer.message, types.JSONRPCResponse | types.JSONRPCError):
                    self._done(answer.message.id)

    def _refusal(self, id: str | int) -> types.JSONRPCError | None:
        if coerce_request_id(id) in self._in_flight:
            return BadLine(types.INVALID_REQUEST, ID_IN_USE, id).answer
        if self._rate.allows():
            return self._expectation.refusal(id)
        return refusal(RATE_LIMITED, too_fast(self._limits.calls_per_second), id)

    def _resume(self, session_id: object) -> None:
        """Continue the session that the shim's client had before a restart. An agent is behind the
        shim, so the connection loses the owner's rights: a poisoned memory could misuse them."""
        self._peer.local = False
        try:
            self._peer.session_id = label(session_id, "session_id") or self._peer.session_id
        except InvalidInput:
            return  # keep the session of the connection

    def _done(self, id: str | int | None) -> None:
        if id is not None:
            self._in_flight.discard(coerce_request_id(id))
        self._changed.set()

    async def _until(self, condition: Any) -> None:
        while not condition():
            self._changed = anyio.Event()
            await self._changed.wait()

    async def _drain(self) -> None:
        """Handle the end of the input. A client that only closed its sending half still gets its
        answers; for one that has disconnected there is nothing to wait for."""
        if not hung_up(self._stream.extra(SocketAttribute.raw_socket, None)):
            with anyio.move_on_after(self._limits.drain_seconds):
                await self._until(lambda: not self._in_flight)


def text_of(message: Any) -> str:
    """A message as JSON. Lone surrogates that a client sent and gets back are escaped."""
    try:
        return str(message.model_dump_json(by_alias=True, exclude_unset=True))
    except ValueError:
        return json.dumps(message.model_dump(by_alias=True, exclude_unset=True))


async def _chunks(stream: ByteStream) -> Any:
    while True:
        try:
            yield await stream.receive(CHUNK)
        except MemoryError:
            yield await stream.receive(SMALL_CHUNK)
        except anyio.EndOfStream:
            return


class BadLine(Exception):
    """A line that is not a message; `answer` is the error to send."""

    def __init__(self, code: int, text: str, id: str | int | None = None) -> None:
        super().__init__(text)
        error = types.ErrorData(code=code, message=text)
        self.answer = types.JSONRPCError(jsonrpc="2.0", id=id, error=error)


def values_in(line: bytes | bytearray) -> int:
    """About how many values a line of JSON holds, without parsing it."""
    upper_bound = _separators(line)
    if upper_bound <= MAX_VALUES:
        return upper_bound
    strings = (line.count(b'"') - line.count(b'\\"')) // 2
    if strings > 2 * MAX_VALUES:  # a lower bound is enough
        return strings // 2
    return _separators(JSON_STRING.sub(b"", line))  # commas inside texts do not count


def _separators(line: bytes | bytearray) -> int:
    return line.count(b",") + line.count(b"[") + line.count(b"{")


def parse(line: bytes | bytearray | None, limit: int) -> Any:
    """The message on a line; BadLine with the JSON-RPC error to send."""
    if line is None:
        text = f"A line may have at most {limit} bytes, and there must be memory for it."
        raise BadLine(types.INVALID_REQUEST, text)
    if values_in(line) > MAX_VALUES:
        raise BadLine(types.INVALID_REQUEST, TOO_MANY_VALUES)
    try:
        data = json.loads(line)
    except MemoryError as exc:
        raise BadLine(types.INTERNAL_ERROR, OutOfMemory().message) from exc
    except (ValueError, RecursionError) as exc:
        raise BadLine(types.PARSE_ERROR, "The line is not JSON.") from exc
    id = data.get("id") if isinstance(data, dict) else None
    has_id = isinstance(data, dict) and "id" in data
    if has_id and (isinstance(id, bool) or not isinstance(id, str | int)):
        raise BadLine(types.INVALID_REQUEST, "An id must be text or a whole number.")
    try:
        return types.jsonrpc_message_adapter.validate_python(data, by_name=False)
    except MemoryError as exc:
        raise BadLine(types.INTERNAL_ERROR, OutOfMemory().message, id) from exc
    except (ValidationError, RecursionError) as exc:
        raise BadLine(types.INVALID_REQUEST, "The line is not a JSON-RPC message.", id) from exc


class Expectation:
    """The data directory that a client expects, compared with ours; None: not compared."""

    def __init__(self, data_dir: Path | None) -> None:
        self._data_dir = data_dir
        self._wrong: WrongDaemon | None = None

    def note(self, params: dict[str, Any] | None) -> None:
        """Note the data directory that the client named."""
        named = (params or {}).get("data_dir")
        if self._data_dir is None or not isinstance(named, str) or _same(named, self._data_dir):
            return
        self._wrong = WrongDaemon(
            f"The daemon that answers serves {self._data_dir}, not {named}; nothing was done."
        )

    def refusal(self, id: str | int) -> types.JSONRPCError | None:
        """The error for a request that reached the wrong daemon; None if it did not."""
        return refusal(WRONG_DAEMON, self._wrong, id) if self._wrong else None


def _same(named: str, data_dir: Path) -> bool:
    try:
        return os.path.realpath(named) == os.path.realpath(data_dir)
    except ValueError:  # not a valid path
        return False
