"""Frames on the pipes between the daemon and its store worker: a length, then a pickled message.

Pickle, because both ends run the same code and vectors stay binary. The worker reads and writes
with blocking calls, the daemon on its event loop.
"""

from __future__ import annotations

import pickle
import struct
import threading
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from anyio.streams.buffered import BufferedByteReceiveStream

HEADER = struct.Struct("!Q")  # the length of the body in bytes


def encode_frame(message: object) -> bytes:
    """Header and body in one piece. Raises whatever the pickling of the message's types raises."""
    body = pickle.dumps(message, protocol=5)
    return HEADER.pack(len(body)) + body


class FrameWriter:
    """Writes messages of any thread, one after the other."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        # Reentrant: a finalizer may run here, on the thread that writes, and report its failure.
        self._lock = threading.RLock()

    def write(self, message: object) -> None:
        """Write one message and flush it. OSError if the other side closed the pipe."""
        frame = encode_frame(message)
        with self._lock:
            self._stream.write(frame)
            self._stream.flush()


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
