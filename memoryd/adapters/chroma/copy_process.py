"""A new store that a process of its own fills, or this one: the same calls in both cases.

Calls are sent without waiting for their answers, which come in the same order. So the store worker
goes on serving others while rows are being written.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
import threading
from collections import deque
from typing import Any, BinaryIO, Protocol, cast

from memoryd import errors
from memoryd.adapters.chroma import lock
from memoryd.adapters.chroma.frames import read_frame, write_frame
from memoryd.adapters.chroma.new_store import NewStore
from memoryd.adapters.chroma.pipes import JOB_LOST
from memoryd.errors import MemorydError, StoreError

# -P: modules in the working directory must not be imported.
COPIER = [sys.executable, "-P", "-m", "memoryd.adapters.chroma.copier"]
MAX_AHEAD = 4_000  # rows that are sent and not yet written
END_WAIT = 3.0  # seconds that a process which is filling the store may take to end
CAN_INHERIT = sys.platform != "win32"  # the lock, which such a process must hold


class NewStoreCalls(Protocol):
    """Calls of a `NewStore`."""

    def send(self, name: str, *args: Any, rows: int = 0) -> None:
        """Call a method; it may be done later. Raises the error of an earlier call. `rows`: that
        are sent with it."""

    def is_full(self) -> bool:
        """Whether enough rows wait to be written. Raises the error of an earlier call."""

    def is_idle(self) -> bool:
        """Whether all calls are done; then `result` is that of the last one. Raises the error of
        an earlier call."""

    @property
    def result(self) -> Any: ...

    def call(self, name: str, *args: Any) -> Any:
        """Wait for the result of a call."""

    def end(self) -> None:
        """Call it when the store is closed."""

    def suspend(self) -> None:
        """Keep what is written for a later run."""

    def abandon(self) -> None:
        """Stop; its files are of no use any more."""


class InProcess:
    """A new store in this process: for a small one, which takes no longer than the start of a
    process."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._store = NewStore(*args, **options, bulk=False)
        self.result: Any = None

    def send(self, name: str, *args: Any, rows: int = 0) -> None:
        self.result = getattr(self._store, name)(*args)

    def is_full(self) -> bool:
        return False

    def is_idle(self) -> bool:
        return True

    def call(self, name: str, *args: Any) -> Any:
        self.send(name, *args)
        return self.result

    def end(self) -> None: ...

    def suspend(self) -> None:
        self._store.suspend()

    def abandon(self) -> None:
        self._store.suspend()


class CopyProcess:
    """A new store in a process of its own. Raises `job_lost` if that ends too early."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._process = subprocess.Popen(
            COPIER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=lock.held
        )
        self._rows = deque[int]([0])  # of each call that is not done; the first is the opening
        self._outgoing: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.result: Any = None
        self.has_opened = False
        self._outgoing.put((args, options))
        # On threads: a pipe holds little, and the other side reads nothing while it writes rows.
        for work in (self._write_calls, self._read_answers):
            threading.Thread(target=work, daemon=True).start()

    def send(self, name: str, *args: Any, rows: int = 0) -> None:
        self._take_answers()
        self._rows.append(rows)
        self._outgoing.put((name, args))

    def is_full(self) -> bool:
        self._take_answers()
        return sum(self._rows) >= MAX_AHEAD

    def is_idle(self) -> bool:
        self._take_answers()
        return not self._rows

    def call(self, name: str, *args: Any) -> Any:
        self.send(name, *args)
        while self._rows:
            self._take(self._answers.get())
        return self.result

    def end(self) -> None:
        self.suspend()

    def suspend(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._outgoing.get_nowait()
        self._outgoing.put(None)
        with contextlib.suppress(subprocess.TimeoutExpired):  # it ends once its call is done
            self._process.wait(END_WAIT)

    def abandon(self) -> None:
        self._process.kill()
        self._process.wait()

    def _take_answers(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._take(self._answers.get_nowait())

    def _take(self, answer: tuple[bool, Any] | None) -> None:
        if answer is None:
            self._answers.put(None)  # for whoever asks next
            raise StoreError(
                "The process that copies the store ended too early; no memory is lost.",
                code=JOB_LOST,
                hint="Try again.",
            )
        ok, self.result = answer
        self.has_opened = True
        self._rows.popleft()
        if not ok:
            raise _to_error(self.result)

    def _write_calls(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended
            while (call := self._outgoing.get()) is not None:
                write_frame(cast(BinaryIO, self._process.stdin), call)
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        try:
            while True:
                self._answers.put(read_frame(cast(BinaryIO, self._process.stdout)))
        except (EOFError, OSError):
            self._answers.put(None)


def _to_error(fields: dict[str, str]) -> MemorydError:
    kind: type[MemorydError] = getattr(errors, fields["kind"], StoreError)
    return kind(fields["message"], code=fields["code"], hint=fields["hint"])
