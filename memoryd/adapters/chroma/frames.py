"""Frames on the pipes between the daemon and its store worker: a length, then a pickled message.

Pickle, because both ends run the same code and vectors stay binary. The worker reads and writes
with blocking calls, the daemon on its event loop.
"""

from __future__ import annotations

import pickle
import struct
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from anyio.streams.buffered import BufferedByteReceiveStream

HEADER = struct.Struct("!Q")  # the length of the body in bytes


def encode_frame(message: object) -> bytes:
    """Header and body in one piece. Raises whatever the pickling of the message's types raises."""
    body = pickle.dumps(message, protocol=5)
    return HEADER.pack(len(body)) + body


def write_frame(stream: BinaryIO, message: object) -> None:
    """Write one message and flush it. Of any thread: a buffered stream locks itself, and one call
    writes the whole frame. OSError if the other side closed the pipe."""
    stream.write(encode_frame(message))
    stream.flush()


def read_frame(stream: BinaryIO) -> Any:
    """The next message; EOFError if the other side closed the pipe."""
    (length,) = HEADER.unpack(_read_exactly(stream, HEADER.size))
    return pickle.loads(_read_exactly(stream, length))


async def receive_frame(stream: BufferedByteReceiveStream) -> Any:
    """The next message; anyio's IncompleteRead or EndOfStream if the other side closed the pipe."""
    (length,) = HEADER.unpack(await stream.receive_exactly(HEADER.size))
    return pickle.loads(await stream.receive_exactly(length))


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if data is None or len(data) < count:
        raise EOFError
    return data
