"""`memoryd` for crash runs: its clock is ahead by the seconds that a file names, and a snapshot of
its index is kept from the first memory on, so that it can be damaged; one that shares its store
compares all memories often."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from memoryd.engine import following
from memoryd.engine.index import snapshot

CLOCK_VARIABLE = "CRASH_RUN_CLOCK"
real_time = time.time


def leaping_time() -> float:
    try:
        ahead = float(Path(os.environ[CLOCK_VARIABLE]).read_text() or 0)
    except FileNotFoundError:
        ahead = 0.0
    return real_time() + ahead


if __name__ == "__main__":
    time.time = leaping_time
    snapshot.MIN_MEMORIES = 1
    following.COMPARE = 10.0
    from memoryd.__main__ import main

    sys.exit(main())
