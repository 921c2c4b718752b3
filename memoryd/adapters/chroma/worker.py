"""The store worker: the only process that opens ChromaDB.

A process of its own because Chroma's writes hold the interpreter lock for up to seconds,
and because a native crash then costs a restart and not the daemon. It speaks frames on its
standard input and output, holds the lock itself, and ends when its input does: so it never
outlives its daemon by more than the call it is in, and no second process opens the store.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import signal
import struct
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, BinaryIO

from memoryd import files
from memoryd.adapters.chroma.disk_errors import translated
from memoryd.adapters.chroma.open_files import gone
from memoryd.adapters.chroma.start import Say
from memoryd.adapters.chroma.swap import LIVE
from memoryd.adapters.chroma.worker_store import Vault
from memoryd.errors import MemorydError, StoreBusy, StoreError
from memoryd.places import forbid_core_dumps, is_alive, try_lock
from memoryd.uncaught import tell_only_types

HEADER = struct.Struct("!Q")
_gone = threading.Event()
POLL = 0.05
SHUTTING_DOWN = 2.0  # a living owner may be on its way out
_held: list[int] = []  # descriptors stay open, hence locked, for the life of the process


def write_frame(stream: BinaryIO, message: object) -> None:
    """One length-prefixed pickle."""
    body = pickle.dumps(message, protocol=5)
    stream.write(HEADER.pack(len(body)) + body)
    stream.flush()


def read_frame(stream: BinaryIO) -> Any:
    """The next message; EOFError when the other side is gone."""
    (length,) = HEADER.unpack(_exactly(stream, HEADER.size))
    return pickle.loads(_exactly(stream, length))


def _exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if data is None or len(data) < count:
        raise EOFError
    return data


def main() -> None:
    """Serve calls until the input ends."""
    os.umask(0o077)  # whoever started it: the store's files are their owner's alone
    forbid_core_dumps()
    wire_in, wire_out = _take_wire()
    tell_only_types(lambda kind, at: _say(f"{kind} at {at}"))
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)  # the daemon decides when its worker ends
    with contextlib.suppress(EOFError, BrokenPipeError):  # the daemon died meanwhile
        opening = read_frame(wire_in)
        try:
            vault = _open(opening, lambda so_far: write_frame(wire_out, (0, None, so_far)))
            facts = vault.facts() | {"made_for": vault.made_for}
        except Exception as exc:
            write_frame(wire_out, (0, False, _failure(exc)))
            return
        write_frame(wire_out, (0, True, facts))
        _serve(vault, wire_in, wire_out)


def _take_wire() -> tuple[BinaryIO, BinaryIO]:
    """Private copies of the pipes; whatever prints to stdout by mistake goes to stderr."""
    wire_in, wire_out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    os.dup2(2, 1)
    return wire_in, wire_out


def _open(opening: dict[str, Any], say: Say) -> Vault:
    settings, data_dir = opening["settings"], opening["data_dir"]
    reopening = opening["reopening"]
    if settings.mode == "embedded":
        if reopening and not data_dir.exists():
            raise gone(data_dir / LIVE)
        take_lock(data_dir, opening["owner"], settings.lock_wait)
    asked, remodelling = opening["restore"], opening["remodelling"]
    return Vault(
        settings,
        data_dir,
        opening["identity"],
        say,
        asked,
        remodelling=remodelling,
        reopening=reopening,
        crashes=opening["crashes"],
    )


def _serve(vault: Vault, wire_in: BinaryIO, wire_out: BinaryIO) -> None:
    calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(wire_in, calls), daemon=True).start()
    while (call := calls.get()) is not None:
        number, name, args = call
        try:
            answer = (number, True, vault.method(name)(*args))
        except Exception as exc:
            error = vault.explained(exc)
            if vault.is_lost:
                # No answer: the daemon starts another worker, which repairs, and asks it again.
                sys.stderr.write(f"store worker: giving up ({type(exc).__name__})\n")
                os._exit(1)
            answer = (number, False, _failure(exc, error))
        try:
            write_frame(wire_out, answer)
        except OSError:
            break
        if _gone.is_set():
            break
    with contextlib.suppress(Exception):  # only a hint for the next start
        vault.close()
    os._exit(0)  # nothing to unwind: what was acknowledged is committed


def _listen(wire_in: BinaryIO, calls: queue.SimpleQueue[Any]) -> None:
    """Queue calls as they come, so that the end of the input is seen during a long one."""
    try:
        while True:
            calls.put(read_frame(wire_in))
    except (EOFError, OSError):
        return
    finally:  # the daemon is gone, or sent what nobody can read: either way this is the end
        _gone.set()
        calls.put(None)


def _say(what: str) -> None:
    sys.stderr.write(f"store worker: {what}\n")


def _failure(exc: Exception, error: MemorydError | None = None) -> dict[str, str]:
    """An exception as words of ours. Its own are neither answered nor logged: they can quote
    a memory."""
    if not isinstance(exc, MemorydError):
        where = "".join(traceback.format_tb(exc.__traceback__))
        sys.stderr.write(f"store worker: {type(exc).__name__}\n{where}")
    error = error or translated(exc)
    return {
        "kind": type(error).__name__,
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
    }


def take_lock(data_dir: Path, owner: int, wait: float) -> None:
    """Hold `<data_dir>/lock` until this process dies; StoreBusy if another keeps it.

    A worker whose daemon was killed finishes its call and goes: it is waited for up to
    `wait` seconds. One whose daemon lives is there to stay: that is refused soon.
    """
    handle = _open_lock(data_dir / "lock")
    started = time.monotonic()
    while not try_lock(handle):
        holder = _holder(handle)
        patience = min(wait, SHUTTING_DOWN) if is_alive(holder.get("owner", 0)) else wait
        if time.monotonic() - started >= patience:
            os.close(handle)
            who = f" by process {holder['owner']}" if "owner" in holder else ""
            raise StoreBusy(f"The memories in {data_dir} are already open{who}.")
        time.sleep(POLL)
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps({"owner": owner, "worker": os.getpid()}).encode(), 0)
    _held.append(handle)


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


def _holder(handle: int) -> dict[str, int]:
    try:
        found = json.loads(os.pread(handle, 200, 0))
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: pid for key, pid in found.items() if isinstance(pid, int)}


if __name__ == "__main__":
    main()
