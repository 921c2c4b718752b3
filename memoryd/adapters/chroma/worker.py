"""The store worker: the only process that opens ChromaDB.

A process of its own because Chroma's writes hold the interpreter lock for up to seconds,
and because a native crash then costs a restart and not the daemon. It reads calls from its
standard input and writes answers to its standard output, as frames. It holds the lock itself and
ends when its input does, so it outlives its daemon by one call at most, and no second process
opens the store.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import queue
import signal
import sys
import threading
from typing import Any, BinaryIO, NoReturn

from memoryd.adapters.chroma.early_worker import EARLY
from memoryd.adapters.chroma.frames import read_frame, write_frame
from memoryd.adapters.chroma.lock import take_lock
from memoryd.adapters.chroma.open_files import store_gone_error
from memoryd.adapters.chroma.pipes import error_fields, input_ended, read_calls, take_pipes
from memoryd.adapters.chroma.start import OpeningAbandoned, StoreBroken
from memoryd.adapters.chroma.store_facts import StoreFacts, Tell
from memoryd.adapters.chroma.swap import LIVE
from memoryd.adapters.chroma.worker_events import (
    Event,
    send_event,
    send_events,
    send_failure,
    stage,
)
from memoryd.adapters.chroma.worker_store import WorkerStore
from memoryd.places import forbid_core_dumps
from memoryd.ports import Progress, ReportProgress
from memoryd.uncaught import tell_only_types

CHECK_PAUSE = 0.005  # seconds in which a call may come before more rows are checked


def main() -> None:
    """Serve calls until the input ends."""
    os.umask(0o077)  # only the owner may read the store's files, whatever umask was inherited
    forbid_core_dumps()
    pipe_in, pipe_out = take_pipes()
    send_events(lambda event: _send_event(pipe_out, event))
    tell_only_types(lambda kind, at: send_event("error", "uncaught", error=kind, at=at))
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)  # the daemon decides when its worker ends
    if sys.argv[-2:-1] == [EARLY]:
        _import_early(sys.argv[-1])
    with contextlib.suppress(EOFError, BrokenPipeError):  # the daemon died meanwhile
        opening = read_frame(pipe_in)
        calls = read_calls(pipe_in)
        telling = _Telling(pipe_out)
        try:
            store = _open_store(opening, lambda update: _report(pipe_out, update), telling.start)
            if not telling.has_begun:
                telling.start(store.store_facts())
        except OpeningAbandoned:
            _exit()
        except Exception as exc:
            if telling.has_begun:  # the next worker finds the fault again: it repairs or reports it
                telling.wait()
                send_failure("opening_failed", exc)
                os._exit(1)
            write_frame(pipe_out, (0, False, error_fields(exc)))
            _exit()
        _serve(store, calls, pipe_out)


class _Telling:
    """Tells the daemon what the store holds, after which it serves. On a thread: the daemon may
    still be importing its modules, and not read yet."""

    def __init__(self, pipe_out: BinaryIO) -> None:
        self._pipe_out = pipe_out
        self._thread: threading.Thread | None = None

    @property
    def has_begun(self) -> bool:
        return self._thread is not None

    def start(self, facts: StoreFacts) -> None:
        self._thread = threading.Thread(target=self._send, args=(facts,))
        self._thread.start()

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _send(self, facts: StoreFacts) -> None:
        with contextlib.suppress(OSError):  # if the daemon has ended, the store is closed in order
            write_frame(self._pipe_out, (0, True, facts))


def _import_early(data_dir: str) -> None:
    """Import ChromaDB before the store is opened. A failure is reported by the opening, which
    imports it again."""
    with contextlib.suppress(Exception):
        os.chdir(data_dir)  # importing chromadb reads ./.env of wherever the daemon was started
        with stage("import"):
            importlib.import_module("chromadb")


def _report(pipe_out: BinaryIO, update: Progress) -> None:
    """Report the progress of the opening; OpeningAbandoned if the daemon no longer wants it."""
    try:
        write_frame(pipe_out, (0, None, update))
    except OSError as exc:  # the daemon has ended
        raise OpeningAbandoned from exc
    if input_ended.is_set():
        raise OpeningAbandoned


def _send_event(pipe_out: BinaryIO, event: Event) -> None:
    # RuntimeError: a finalizer that fails while this thread writes a frame.
    with contextlib.suppress(OSError, RuntimeError):
        write_frame(pipe_out, event)


def _open_store(opening: dict[str, Any], progress: ReportProgress, tell: Tell) -> WorkerStore:
    settings, data_dir = opening["settings"], opening["data_dir"]
    reopening = opening["reopening"]
    if settings.mode == "embedded":
        if reopening and not data_dir.exists():
            raise store_gone_error(data_dir / LIVE)
        with stage("lock"):
            take_lock(data_dir, opening["owner"], settings.lock_wait)
    return WorkerStore(
        settings,
        data_dir,
        opening["identity"],
        progress,
        opening["restore"],
        any_model=opening["any_model"],
        reopening=reopening,
        crashes=opening["crashes"],
        careful=opening["careful"],
        tell=tell if opening["tell_first"] else None,
        saved_index=opening["saved_index"],
    )


def _serve(store: WorkerStore, calls: queue.SimpleQueue[Any], pipe_out: BinaryIO) -> None:
    while (call := _next_call(store, calls)) is not None:
        number, name, args = call
        try:
            answer = (number, True, store.method(name)(*args))
        except Exception as exc:
            error = store.to_error(exc)
            if store.needs_new_worker:
                # No answer: the daemon starts another worker and sends the call to that one.
                send_failure("worker_gives_up", exc)
                os._exit(1)
            answer = (number, False, error_fields(exc, error))
        try:
            write_frame(pipe_out, answer)
        except OSError:
            break
        if input_ended.is_set():
            break
    with contextlib.suppress(Exception):  # without the mark the next start only takes longer
        store.close()
    _exit()


def _next_call(store: WorkerStore, calls: queue.SimpleQueue[Any]) -> Any:
    """The next call. Until it comes, rows that the opening has not checked are checked."""
    while store.needs_check:
        with contextlib.suppress(queue.Empty):
            return calls.get(timeout=CHECK_PAUSE)
        try:
            store.check_some_rows()
        except StoreBroken as exc:
            # As after a call that finds a fault: the next worker repairs or refuses the store.
            send_failure("worker_gives_up", exc.__cause__ or exc)
            os._exit(1)
    return calls.get()


def _exit() -> NoReturn:
    """End without unwinding: what was acknowledged is committed, and a thread may wait for input,
    which Python would abort at."""
    os._exit(0)


if __name__ == "__main__":
    main()
