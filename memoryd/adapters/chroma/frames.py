"""Frames on the pipes between the daemon and its store worker: a length, then a pickled message.

Pickle, because both ends run the same code and vectors stay binary. The worker reads and writes
with blocking calls, the daemon on its event loop.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import struct
from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, BinaryIO

from memoryd.model import Memory
from memoryd.ports import Passage, Record

if TYPE_CHECKING:
    from anyio.streams.buffered import BufferedByteReceiveStream

Reducer = Callable[[Any], tuple[Callable[..., Any], tuple[Any, ...]]]
HEADER = struct.Struct("!Q")  # the length of the body in bytes


def _by_arguments(kind: type[Any]) -> Reducer:
    values = attrgetter(*(field.name for field in fields(kind)))
    return lambda one: (kind, values(one))


# What a frame has most of. A frozen dataclass with slots is otherwise written and read field by
# field in Python, which takes twice as long.
REDUCERS: dict[type, Any] = {kind: _by_arguments(kind) for kind in (Memory, Passage, Record)}
REDUCERS |= copyreg.dispatch_table


def encode_frame(message: object) -> bytes:
    """Header and body in one piece. Raises whatever the pickling of the message's types raises."""
    frame = io.BytesIO()
    frame.write(bytes(HEADER.size))
    pickler = pickle.Pickler(frame, protocol=5)
    pickler.dispatch_table = REDUCERS
    pickler.dump(message)
    frame.seek(0)
    frame.write(HEADER.pack(frame.getbuffer().nbytes - HEADER.size))
    return frame.getvalue()


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
