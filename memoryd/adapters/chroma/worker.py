"""The store worker: the only process that opens ChromaDB.

A process of its own because Chroma's writes hold the interpreter lock for up to seconds,
and because a native crash then costs a restart and not the daemon. It reads calls from its
standard input and writes answers to its standard output, as frames. It holds the lock itself and
ends when its input does, so it outlives its daemon by one call at most, and no second process
opens the store.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from memoryd import files
from memoryd.adapters.chroma.disk_errors import to_memoryd_error
from memoryd.adapters.chroma.frames import read_frame, write_frame
from memoryd.adapters.chroma.open_files import store_gone_error
from memoryd.adapters.chroma.start import OpeningAbandoned
from memoryd.adapters.chroma.swap import LIVE
from memoryd.adapters.chroma.worker_events import (
    Event,
    send_event,
    send_events,
    send_failure,
    stage,
)
from memoryd.adapters.chroma.worker_store import WorkerStore
from memoryd.errors import MemorydError, StoreBusy, StoreError
from memoryd.places import forbid_core_dumps, is_alive, try_lock
from memoryd.ports import Progress, ReportProgress
from memoryd.uncaught import tell_only_types

_input_ended = threading.Event()
LOCK_POLL = 0.05  # seconds between two attempts to take the lock
LIVE_OWNER_WAIT = 2.0  # seconds to wait for a running owner: it may be stopping
_lock_handles: list[int] = []  # descriptors stay open, hence locked, for the life of the process


def main() -> None:
    """Serve calls until the input ends."""
    os.umask(0o077)  # only the owner may read the store's files, whatever umask was inherited
    forbid_core_dumps()
    pipe_in, pipe_out = _take_pipes()
    send_events(lambda event: _send_event(pipe_out, event))
    tell_only_types(lambda kind, at: send_event("error", "uncaught", error=kind, at=at))
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)  # the daemon decides when its worker ends
    with contextlib.suppress(EOFError, BrokenPipeError):  # the daemon died meanwhile
        opening = read_frame(pipe_in)
        calls = _read_calls(pipe_in)
        try:
            store = _open_store(opening, lambda update: _report(pipe_out, update))
            facts = store.facts() | {"made_for": store.made_for}
        except OpeningAbandoned:
            _exit()
        except Exception as exc:
            write_frame(pipe_out, (0, False, _error_fields(exc)))
            _exit()
        with contextlib.suppress(OSError):  # if the daemon has ended, the store is closed in order
            write_frame(pipe_out, (0, True, facts))
        _serve(store, calls, pipe_out)


def _report(pipe_out: BinaryIO, update: Progress) -> None:
    """Report the progress of the opening; OpeningAbandoned if the daemon no longer wants it."""
    try:
        write_frame(pipe_out, (0, None, update))
    except OSError as exc:  # the daemon has ended
        raise OpeningAbandoned from exc
    if _input_ended.is_set():
        raise OpeningAbandoned


def _send_event(pipe_out: BinaryIO, event: Event) -> None:
    # RuntimeError: a finalizer that fails while this thread writes a frame.
    with contextlib.suppress(OSError, RuntimeError):
        write_frame(pipe_out, event)


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Private copies of the pipes. From then on, what a library prints to stdout goes to stderr."""
    pipe_in, pipe_out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    os.dup2(2, 1)
    return pipe_in, pipe_out


def _open_store(opening: dict[str, Any], progress: ReportProgress) -> WorkerStore:
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
    )


def _serve(store: WorkerStore, calls: queue.SimpleQueue[Any], pipe_out: BinaryIO) -> None:
    while (call := calls.get()) is not None:
        number, name, args = call
        try:
            answer = (number, True, store.method(name)(*args))
        except Exception as exc:
            error = store.to_error(exc)
            if store.needs_new_worker:
                # No answer: the daemon starts another worker and sends the call to that one.
                send_failure("worker_gives_up", exc)
                os._exit(1)
            answer = (number, False, _error_fields(exc, error))
        try:
            write_frame(pipe_out, answer)
        except OSError:
            break
        if _input_ended.is_set():
            break
    with contextlib.suppress(Exception):  # without the mark the next start only takes longer
        store.close()
    _exit()


def _exit() -> NoReturn:
    """End without unwinding: what was acknowledged is committed, and a thread may wait for input,
    which Python would abort at."""
    os._exit(0)


def _read_calls(pipe_in: BinaryIO) -> queue.SimpleQueue[Any]:
    """A queue of the calls as they arrive, so that the end of the input is noticed during a long
    call and during the opening; None at the end."""
    calls: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def read() -> None:
        try:
            while True:
                calls.put(read_frame(pipe_in))
        except (EOFError, OSError):
            return
        finally:  # the daemon has ended, or sent a frame that cannot be read: stop in both cases
            _input_ended.set()
            calls.put(None)

    threading.Thread(target=read, daemon=True).start()
    return calls


def _error_fields(exc: Exception, error: MemorydError | None = None) -> dict[str, str]:
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


def take_lock(data_dir: Path, owner: int, wait: float) -> None:
    """Hold `<data_dir>/lock` until this process dies; StoreBusy if another keeps it.

    A worker whose daemon was killed finishes its call and exits: wait up to `wait` seconds for
    it. A worker whose daemon runs keeps the lock: fail after `LIVE_OWNER_WAIT` seconds.
    """
    handle = _open_lock(data_dir / "lock")
    started = time.monotonic()
    while not try_lock(handle):
        holder = _lock_holder(handle)
        limit = min(wait, LIVE_OWNER_WAIT) if is_alive(holder.get("owner", 0)) else wait
        if time.monotonic() - started >= limit:
            os.close(handle)
            who = f" by process {holder['owner']}" if "owner" in holder else ""
            raise StoreBusy(f"The memories in {data_dir} are already open{who}.")
        time.sleep(LOCK_POLL)
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps({"owner": owner, "worker": os.getpid()}).encode(), 0)
    _lock_handles.append(handle)


def _open_lock(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return files.open_file(path, os.O_RDWR | os.O_CREAT)
    except OSError as exc:
        raise StoreError(
            f"The data directory {path.parent} cannot be used: {exc.strerror}.",
            code="store_unwritable",
            hint="Check that it exists, is yours and is writable, or set memory.path.",
        ) from exc


def _lock_holder(handle: int) -> dict[str, int]:
    try:
        found = json.loads(os.pread(handle, 200, 0))
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: pid for key, pid in found.items() if isinstance(pid, int)}


if __name__ == "__main__":
    main()
