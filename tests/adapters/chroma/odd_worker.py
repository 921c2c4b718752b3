"""The store worker, delayed or crashed if a file in a control folder says so; run as a program."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from memoryd.adapters.chroma import start, worker
from memoryd.adapters.chroma.collection import Collection
from memoryd.adapters.chroma.open import open_embedded
from memoryd.adapters.chroma.row_check import RowCheck
from memoryd.adapters.chroma.worker_store import WorkerStore
from memoryd.errors import StoreError

HOLD, CRASHES, BUSY, NO_RAM = "hold", "crashes", "busy", "no-ram"
HOLD_PAGE, PAGES = "hold-page", "pages"
CHECK_LATER, HOLD_CHECK = "check-later", "hold-check"


def opening(control: Path) -> list[int]:
    """The workers that have begun to open ChromaDB."""
    return [int(path.name.partition("-")[2]) for path in control.glob("opening-*")]


def main(control: Path) -> None:
    def open_oddly(*args: Any) -> Any:
        (control / f"opening-{os.getpid()}").touch()
        if (control / CRASHES).exists() and (left := int((control / CRASHES).read_text())):
            (control / CRASHES).write_text(str(left - 1))
            os.kill(os.getpid(), signal.SIGSEGV)
        if (control / NO_RAM).exists():  # as Chroma's errors are told
            raise StoreError("It does not open.", code="store_corrupt") from MemoryError()
        while (control / HOLD).exists():
            time.sleep(0.01)
        return open_embedded(*args)

    def read_page(collection: Collection, ids: list[str]) -> None:
        with (control / PAGES).open("a") as pages:
            pages.write(f"{ids[0]}\n")
        while (control / HOLD_PAGE).exists():
            time.sleep(0.01)
        read_vectors(collection, ids)

    def check(rows: RowCheck) -> bool:
        return True if (control / HOLD_CHECK).exists() else step(rows)

    read_vectors, step = Collection.read_vectors, RowCheck.step
    few_rows = 0 if (control / CHECK_LATER).exists() else start.FEW_ROWS

    def work_long(store: WorkerStore) -> bool:
        while (control / BUSY).exists():
            pass
        return False

    def time_is_over(seconds: int) -> int:
        """A machine that is so slow that every alarm fires before the work is done."""
        if seconds:
            os.kill(os.getpid(), signal.SIGALRM)
        return 0

    oddities: list[tuple[Any, str, Any]] = [
        (start, "open_embedded", open_oddly),
        (start, "PAGE", 5),
        (start, "FEW_ROWS", few_rows),
        (RowCheck, "step", check),
        (Collection, "read_vectors", read_page),
        (WorkerStore, "is_stale", work_long),
        (signal, "alarm", time_is_over),
    ]
    for owner, name, odd in oddities:
        setattr(owner, name, odd)
    worker.main()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
