"""One connection: newline-delimited JSON-RPC on a byte stream, served by the MCP server.

The protocol library's own stdio transport drops malformed lines silently and has no limits, so
the framing is ours. Malformed JSON is answered and the connection lives; an over-long line is
answered and skipped; so many calls may be under way, then nothing more is read; and a client
that does not take its answers is dropped. So memory is bounded whatever a peer does.

A call is under way until its own answer is written, or until it has ended after the client
cancelled it. Nothing else that a client sends ends it: no second call with its id, no refusal.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import mcp.types as types
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
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

CHUNK, SMALL = 65_536, 2048  # bytes read at a time; and while there is no memory for that
GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)
SESSION = "notifications/memoryd/session"  # ours alone, see `shim_lines`
MAX_VALUES = 130_000  # in one message, each costs time on the loop; a batch of an import has less
TOO_MANY_VALUES = f"A message may hold at most {MAX_VALUES} values."
STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"')
ID_IN_USE = "A call with this id is under way. Use another id, or wait for its answer."
EXPECT = "notifications/memoryd/expect"
WRONG_DAEMON = -32000  # as for a daemon that cannot be reached


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection may use."""

    line_bytes: int = 4 << 20
    calls: int = 64  # under way at a time
    calls_per_second: float = 0.0  # 0: as many as come
    send_seconds: float = 60.0  # a client that takes nothing for so long is gone
    drain_seconds: float = 30.0  # for answers after the client closed its sending half


class Refusal(SessionMessage):
    """Our answer to what never became a call, whatever id it has."""


class LineBuffer:
    """Bytes to lines. A line over the limit, or beyond what memory there is, comes out once, as
    None; the rest of it is skipped."""

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
    """Whole lines with their newline, and what is left over."""
    parts = data.split(b"\n")
    ended = [part + b"\n" for part in parts[:-1]]
    return ended + ([parts[-1]] if parts[-1] else [])


class Connection:
    """The two directions of one client and its calls. `serves`: see `LineDoor`."""

    def __init__(
        self,
        stream: ByteStream,
        limits: Limits,
        serves: Path | None = None,
        rights: Rights = ALL,
    ) -> None:
        self._stream = stream
        self._limits = limits
        self._open: set[str] = set()  # ids as text: to the protocol library 1 and "1" are the same
        self._changed = anyio.Event()
        self._peer = Peer(new_session_id(), serves is not None, rights)
        self._rate = Rate(limits.calls_per_second)
        self._expectation = Expectation(serves)

    async def serve(self, server: Server[Any]) -> None:
        """Until the client is gone."""
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
                        await self._take(line, messages, answers)
                await self._drain()
            except GONE:
                return

    async def _take(
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
            if refused := self._refusal(message.id):
                await answers.send(Refusal(refused))
                return
            await messages.send(await self._opened(message))
            return
        if isinstance(message, types.JSONRPCNotification):
            if message.method == SESSION:
                self._resume((message.params or {}).get("session_id"))
                return
            if message.method == EXPECT:
                self._expectation.take(message.params)
                return
        await messages.send(SessionMessage(message))

    async def _opened(self, call: types.JSONRPCRequest) -> SessionMessage:
        """The call, counted as under way once there is room for it."""
        await self._until(lambda: len(self._open) < self._limits.calls)
        self._open.add(str(call.id))

        async def ended() -> None:  # cancelled: there will be no answer
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
                except (TimeoutError, *GONE):
                    connection.cancel()  # nobody takes the answers: no call is worth going on
                    return
                if isinstance(answer, Refusal):
                    continue
                if isinstance(answer.message, types.JSONRPCResponse | types.JSONRPCError):
                    self._done(answer.message.id)

    def _refusal(self, id: str | int) -> types.JSONRPCError | None:
        if str(id) in self._open:
            return BadLine(types.INVALID_REQUEST, ID_IN_USE, id).answer
        if self._rate.allows():
            return self._expectation.refusal(id)
        return refusal(RATE_LIMITED, too_fast(self._limits.calls_per_second), id)

    def _resume(self, session_id: object) -> None:
        """The shim goes on with the session that its client had before a restart. Behind it is an
        agent, who is not the owner, whatever a poisoned memory may talk it into."""
        self._peer.local = False
        try:
            self._peer.session_id = label(session_id, "session_id") or self._peer.session_id
        except InvalidInput:
            return  # then it keeps the one it has

    def _done(self, id: object) -> None:
        self._open.discard(str(id))
        self._changed.set()

    async def _until(self, holds: Any) -> None:
        while not holds():
            self._changed = anyio.Event()
            await self._changed.wait()

    async def _drain(self) -> None:
        """The input has ended. A client that only closed its sending half gets its answers; one
        that is gone altogether does not hold up anything."""
        if not hung_up(self._stream.extra(SocketAttribute.raw_socket, None)):
            with anyio.move_on_after(self._limits.drain_seconds):
                await self._until(lambda: not self._open)


def text_of(message: Any) -> str:
    """A message as JSON. Half characters that a client sent and gets back are escaped."""
    try:
        return str(message.model_dump_json(by_alias=True, exclude_unset=True))
    except ValueError:
        return json.dumps(message.model_dump(by_alias=True, exclude_unset=True))


async def _chunks(stream: ByteStream) -> Any:
    while True:
        try:
            yield await stream.receive(CHUNK)
        except MemoryError:
            yield await stream.receive(SMALL)
        except anyio.EndOfStream:
            return


class BadLine(Exception):
    """A line that is no message, with what to answer."""

    def __init__(self, code: int, text: str, id: str | int | None = None) -> None:
        super().__init__(text)
        error = types.ErrorData(code=code, message=text)
        self.answer = types.JSONRPCError(jsonrpc="2.0", id=id, error=error)


def values_in(line: bytes | bytearray) -> int:
    """About how many values a line of JSON holds, without reading it as JSON."""
    most = _marks(line)
    if most <= MAX_VALUES:
        return most
    strings = (line.count(b'"') - line.count(b'\\"')) // 2
    if strings > 2 * MAX_VALUES:  # at least: no need to look closer
        return strings // 2
    return _marks(STRING.sub(b"", line))  # texts have commas, too


def _marks(line: bytes | bytearray) -> int:
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
        raise BadLine(types.PARSE_ERROR, "That line is not JSON.") from exc
    id = data.get("id") if isinstance(data, dict) else None
    given = isinstance(data, dict) and "id" in data
    if given and (isinstance(id, bool) or not isinstance(id, str | int)):
        raise BadLine(types.INVALID_REQUEST, "An id must be text or a whole number.")
    try:
        return types.jsonrpc_message_adapter.validate_python(data, by_name=False)
    except MemoryError as exc:
        raise BadLine(types.INTERNAL_ERROR, OutOfMemory().message, id) from exc
    except (ValidationError, RecursionError) as exc:
        raise BadLine(types.INVALID_REQUEST, "That is not a JSON-RPC message.", id) from exc


class Expectation:
    """What one connection expects of a daemon that serves `serves`; None: it does not tell."""

    def __init__(self, serves: Path | None) -> None:
        self._serves = serves
        self._wrong: WrongDaemon | None = None

    def take(self, params: dict[str, Any] | None) -> None:
        """The client names a data directory."""
        named = (params or {}).get("data_dir")
        if self._serves is None or not isinstance(named, str) or _same(named, self._serves):
            return
        self._wrong = WrongDaemon(
            f"The daemon that answers serves {self._serves}, not {named}; nothing was done."
        )

    def refusal(self, id: str | int) -> types.JSONRPCError | None:
        """The answer to a request, if it came to the wrong daemon."""
        return refusal(WRONG_DAEMON, self._wrong, id) if self._wrong else None


def _same(named: str, serves: Path) -> bool:
    try:
        return os.path.realpath(named) == os.path.realpath(serves)
    except ValueError:  # not a path at all
        return False
