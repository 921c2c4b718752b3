"""Memory of the store worker is blanked, except while a large index is loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from memoryd.adapters.chroma.allocator import ENVIRONMENT, LARGE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator: NOT TESTED")

SCRIPT = """
import ctypes
from memoryd.adapters.chroma.allocator import without_blanking

c = ctypes.CDLL(None)
c.malloc.restype, c.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
SIZE = 100_000

def allocated():
    '''Whether memory that was freed is blank when it is allocated again.'''
    place = c.malloc(SIZE)
    ctypes.memset(place, 7, SIZE)
    c.free(place)
    again = c.malloc(SIZE)
    data = ctypes.string_at(again, SIZE)
    c.free(again)
    return 7 not in data

print(allocated())
with without_blanking({size}):
    print(allocated())
print(allocated())
"""


@pytest.mark.parametrize(
    ("size", "environment", "expected"),
    [
        pytest.param(LARGE, ENVIRONMENT, [True, False, True], id="large"),
        pytest.param(LARGE - 1, ENVIRONMENT, [True, True, True], id="small"),
        pytest.param(LARGE, {}, [False, False, False], id="never-blanked"),
    ],
)
def test_blanking_pauses_for_a_large_index_only(
    size: int, environment: dict[str, str], expected: list[bool]
) -> None:
    script = SCRIPT.replace("{size}", str(size))
    env = {key: value for key, value in os.environ.items() if key not in ENVIRONMENT}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=env | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == list(map(str, expected))
