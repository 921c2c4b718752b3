"""The process that fills a new store: a copy of the live one that is being made.

Writing an index takes most of the time of a rewrite, and a process that does it answers nothing
else. So the store worker only reads, and this child of it writes. It ends when its input does, and
inherits the lock of the data directory: no other process opens the store before it has ended.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
from typing import Any, BinaryIO

from memoryd.adapters.chroma.frames import read_frame, write_frame
from memoryd.adapters.chroma.new_store import NewStore
from memoryd.adapters.chroma.pipes import error_fields, input_ended, read_calls, take_pipes
from memoryd.places import forbid_core_dumps
from memoryd.uncaught import tell_only_types

NICENESS = 5  # whoever waits for an answer goes first


def main() -> None:
    """Serve calls until the input ends."""
    os.umask(0o077)
    forbid_core_dumps()
    os.nice(NICENESS)
    pipe_in, pipe_out = take_pipes()
    tell_only_types(lambda kind, at: None)
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)  # the worker decides when it ends
    with contextlib.suppress(EOFError, BrokenPipeError):  # the worker has ended
        args, options = read_frame(pipe_in)
        calls = read_calls(pipe_in)
        try:
            store = NewStore(*args, **options)
            write_frame(pipe_out, (True, None))
        except Exception as exc:
            write_frame(pipe_out, (False, error_fields(exc)))
            os._exit(1)
        _serve(store, calls, pipe_out)
    os._exit(0)  # without unwinding: a thread may wait for input, which Python would abort at


def _serve(store: NewStore, calls: queue.SimpleQueue[Any], pipe_out: BinaryIO) -> None:
    while (call := calls.get()) is not None and not input_ended.is_set():
        name, args = call
        try:
            write_frame(pipe_out, (True, getattr(store, name)(*args)))
        except OSError:
            break
        except Exception as exc:
            write_frame(pipe_out, (False, error_fields(exc)))
        if name == "close":
            return
    with contextlib.suppress(Exception):  # it need not be closed in order: each row is compared
        store.suspend()


if __name__ == "__main__":
    main()
