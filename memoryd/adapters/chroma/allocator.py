"""The memory allocator of the store worker, which blanks memory that is freed or allocated.

Chroma's index files have unused space that is filled with memory which the process had freed,
texts of forgotten memories too: hence the blanking. It doubles the time that a large index takes
to load, so it pauses for that. Nothing leaks meanwhile: a large index is allocated as pages of its
own, which the system clears, and whatever is allocated afterwards is blanked again. A small index
may grow into memory that was freed before, so it is loaded with blanking.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_VARIABLE = "MALLOC_PERTURB_"
# One arena only: with an arena for each thread the process would grow with every rewrite.
ENVIRONMENT = {_VARIABLE: "85", "MallocPreScribble": "1", "MALLOC_ARENA_MAX": "1"}
LARGE = 1 << 26  # bytes; glibc allocates what is larger than half of it as pages of its own
_M_PERTURB = -6  # of glibc's mallopt


@contextmanager
def without_blanking(size: int) -> Iterator[None]:
    """Load an index of this size inside the block."""
    value = os.environ.get(_VARIABLE, "")
    if size < LARGE or sys.platform != "linux" or not value.isdigit():
        yield
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # not in every C library
    if mallopt is None:
        yield
        return
    mallopt(_M_PERTURB, 0)
    try:
        yield
    finally:
        mallopt(_M_PERTURB, int(value))
