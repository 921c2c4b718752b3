"""How a store worker is started, and the one that is started before the daemon is imported.

Starting Python, importing ChromaDB and opening the store take most of a start. An early worker does
that while the daemon imports its own modules; the first opening takes it over if it asks for the
same (`worker_process`). It ends with the daemon, because its input ends.

Imports little: it is used before the daemon is imported.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from memoryd.adapters.chroma import allocator
from memoryd.adapters.chroma.frames import encode_frame
from memoryd.ports import Identity
from memoryd.settings import StoreSettings

if TYPE_CHECKING:
    from memoryd.adapters.chroma.backup import Restore

# -P: modules in the working directory must not be imported.
WORKER = [sys.executable, "-P", "-m", "memoryd.adapters.chroma.worker"]
# Precedes the data directory in the arguments of a worker that imports ChromaDB while it waits for
# what it is to open.
EARLY = "--early"
Opening = dict[str, Any]


class EarlyWorker(NamedTuple):
    """A worker, and the opening that it was sent, if it was."""

    process: subprocess.Popen[bytes]
    opening: Opening | None


_early: EarlyWorker | None = None


class How(TypedDict, total=False):
    """How a store on this machine is to be opened."""

    any_model: bool  # one of another model as it is
    tell_first: bool  # tell what it holds before ChromaDB opens it, if possible (`store_facts`)
    saved_index: str  # the name of the saved index: it has all memories if the store knows the name


def opening_of(
    settings: StoreSettings,
    data_dir: Path,
    identity: Identity,
    restore: Restore | None = None,
    **how: Unpack[How],
) -> Opening:
    """The first message to a worker: what it is to open."""
    return {
        "settings": settings,
        "data_dir": data_dir,
        "identity": identity,
        "owner": os.getpid(),
        "restore": restore,
        "any_model": False,
        "tell_first": False,
        "saved_index": "",
        "reopening": False,
        "crashes": 0,
        "careful": False,
        **how,
    }


def environment() -> dict[str, str]:
    """Our environment without the variables that configure Chroma."""
    ours = {k: v for k, v in os.environ.items() if not k.upper().startswith("CHROMA_")}
    return ours | allocator.ENVIRONMENT


def start_early(data_dir: Path, opening: Opening | None) -> None:
    """Start a worker that opens the store; without an `opening` it imports ChromaDB and waits for
    one. Not on Windows, where the event loop cannot use pipes that it did not make."""
    global _early
    if sys.platform == "win32":
        return
    # A failure is not lost: the next start of a worker meets it, too, and reports it.
    with contextlib.suppress(OSError):
        process = subprocess.Popen(
            [*WORKER] if opening else [*WORKER, EARLY, str(data_dir)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
        )
        _early = EarlyWorker(process, opening)
        assert process.stdin is not None
        if opening is not None:
            process.stdin.write(encode_frame(opening))


def take_early() -> EarlyWorker | None:
    """The worker that was started early, once; None if there is none, or it has ended."""
    global _early
    found, _early = _early, None
    if found is None or found.process.poll() is None:
        return found
    for pipe in (found.process.stdin, found.process.stdout):
        if pipe is not None:
            pipe.close()
    return None
