"""The pipes of a child process that works on a store: its calls come in, its answers go out.

The store worker and the process that fills a new store both use them.
"""

from __future__ import annotations

import os
import queue
import threading
from typing import Any, BinaryIO

from memoryd.adapters.chroma.disk_errors import to_memoryd_error
from memoryd.adapters.chroma.frames import read_frame
from memoryd.adapters.chroma.worker_events import send_failure
from memoryd.errors import MemorydError

JOB_LOST = "job_lost"  # code of the error after which a long job is begun again
input_ended = threading.Event()  # the parent has ended, or closed the pipe


def take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Private copies of the pipes. From then on, what a library prints to stdout goes to stderr."""
    pipe_in, pipe_out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    os.dup2(2, 1)
    return pipe_in, pipe_out


def read_calls(pipe_in: BinaryIO) -> queue.SimpleQueue[Any]:
    """A queue of the calls as they arrive, so that the end of the input is noticed during a long
    call and during the opening; None at the end."""
    calls: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def read() -> None:
        try:
            while True:
                calls.put(read_frame(pipe_in))
        except (EOFError, OSError):
            return
        finally:  # the parent has ended, or sent a frame that cannot be read: stop in both cases
            input_ended.set()
            calls.put(None)

    threading.Thread(target=read, daemon=True).start()
    return calls


def error_fields(exc: Exception, error: MemorydError | None = None) -> dict[str, str]:
    """The fields of the error to answer with. The text of a foreign exception is neither sent nor
    logged: it can quote a memory."""
    if not isinstance(exc, MemorydError):
        send_failure("worker_call_failed", exc)
    error = error or to_memoryd_error(exc)
    return {
        "kind": type(error).__name__,
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
    }
