"""Frames on the worker's pipes: both readers read what the writer wrote, and notice its end."""

from __future__ import annotations

import io
import os
import threading

import anyio
import numpy as np
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from memoryd.adapters.chroma.frames import encode_frame, read_frame, receive_frame, write_frame

MESSAGES = [(1, "get", (["a", "b"],)), (2, None, {"text": "grüße 🎉"}), ()]


def test_what_is_written_is_read_in_order() -> None:
    stream = io.BytesIO()
    for message in MESSAGES:
        write_frame(stream, message)
    stream.seek(0)
    assert [read_frame(stream) for _ in MESSAGES] == MESSAGES
    with pytest.raises(EOFError):
        read_frame(stream)


def test_messages_of_several_threads_are_written_one_after_the_other() -> None:
    """Answers of the main thread and events of any other, through a pipe that is often full."""
    source, sink = os.pipe()
    with os.fdopen(source, "rb") as read, os.fdopen(sink, "wb") as write:
        sent = [[(number, "x" * 40_000)] * 20 for number in range(4)]

        def send(messages: list[tuple[int, str]]) -> None:
            for message in messages:
                write_frame(write, message)

        threads = [threading.Thread(target=send, args=(messages,)) for messages in sent]
        for thread in threads:
            thread.start()
        found = [read_frame(read) for messages in sent for _ in messages]
        for thread in threads:
            thread.join()
    assert sorted(found) == [message for messages in sent for message in messages]


def test_vectors_keep_every_bit() -> None:
    vector = np.random.default_rng(0).normal(size=384).astype(np.float32)
    found = read_frame(io.BytesIO(encode_frame(vector)))
    assert found.dtype == vector.dtype
    np.testing.assert_array_equal(found, vector)


@pytest.mark.parametrize("length", [3, 8, 20])
def test_a_truncated_frame_is_the_end_of_the_pipe(length: int) -> None:
    with pytest.raises(EOFError):
        read_frame(io.BytesIO(encode_frame("x" * 100)[:length]))


async def test_the_event_loop_reads_frames_however_they_are_cut() -> None:
    data = b"".join(encode_frame(message) for message in MESSAGES)
    send, receive = anyio.create_memory_object_stream[bytes](len(data))
    for start in range(0, len(data), 7):
        await send.send(data[start : start + 7])
    await send.send(encode_frame("half")[:-1])
    await send.aclose()
    async with BufferedByteReceiveStream(receive) as stream:
        assert [await receive_frame(stream) for _ in MESSAGES] == MESSAGES
        with pytest.raises(anyio.IncompleteRead):
            await receive_frame(stream)
