"""The worker's store without its worker: forked per step, so that it can be killed anywhere.

Run as a program it kills a rewrite, or the replacement by the next store, at every point that is
named, lets a new process recover and go on with the rewrite, and prints what it found, as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memoryd.adapters.chroma import rewrite as rewrite_module
from memoryd.adapters.chroma import swap, worker_store
from memoryd.adapters.chroma.copy_process import CopyProcess
from memoryd.adapters.chroma.lock import take_lock
from memoryd.adapters.chroma.new_store import NewStore
from memoryd.adapters.chroma.rows import to_records
from memoryd.adapters.chroma.worker_store import WorkerStore
from memoryd.ports import Identity
from memoryd.settings import StoreSettings
from tests.adapters.chroma.test_contract import IDENTITY, record

SETTINGS = StoreSettings(sync_threshold=10)
COUNT = 30
POINTS: list[tuple[Any, str, int]] = [
    (swap, "begin", 1),
    (NewStore, "add", 1),
    (NewStore, "differences", 1),
    (NewStore, "close", 1),
    (rewrite_module, "close", 1),
    (swap, "sync_tree", 1),
    (os, "replace", 1),
    (os, "replace", 2),
    (swap, "_swap", 1),
    (os, "rename", 1),
    (os, "rename", 2),
    (os, "rename", 3),
    (shutil, "rmtree", 1),
]
# The same with a process that fills the new store: only the worker is killed there.
PROCESS_POINTS: list[tuple[Any, str, int]] = [
    (CopyProcess, "send", 1),
    (CopyProcess, "send", 2),
    (CopyProcess, "is_idle", 5),
    (CopyProcess, "call", 1),
    (rewrite_module, "close", 1),
    (swap, "sync_tree", 1),
    (os, "rename", 1),
    (os, "rename", 2),
]
NEXT_POINTS: list[tuple[Any, str, int]] = [
    (worker_store, "finish_next", 1),
    (rewrite_module, "scrub", 1),
    (worker_store, "close", 1),
    (swap, "complete_next", 1),
    (swap, "sync_tree", 1),
    (os, "replace", 1),
    (os, "rename", 1),
    (swap, "_swap", 1),
    (os, "rename", 2),
    (os, "rename", 3),
    (swap, "drop_next", 1),
    (os, "rename", 4),
    (shutil, "rmtree", 1),
    (worker_store, "start", 1),
    (swap, "drop_old", 1),
    (shutil, "rmtree", 2),
]
NEXT_IDENTITY = Identity("next-model", IDENTITY.dimension)


def open_store(folder: Path, identity: Identity = IDENTITY) -> WorkerStore:
    return WorkerStore(SETTINGS, folder, identity, lambda stage: None, any_model=True)


def fill(folder: Path, identity: Identity = IDENTITY) -> None:
    made = open_store(folder, identity)
    made.write([record(f"m{n}", passages=1 + n % 3) for n in range(COUNT)], [], [])
    made.write([], [], [f"m{n}" for n in range(0, COUNT, 2)])
    made.close()


def fill_live(folder: Path) -> None:
    fill(folder)


def fill_both(folder: Path) -> None:
    fill(folder)
    fill(folder / swap.NEXT, NEXT_IDENTITY)


def rewrite(opened: WorkerStore) -> None:
    opened.begin("rewrite", "purge")
    while opened.step() is not None:
        pass
    opened.finish()


def rewrite_by_process(opened: WorkerStore) -> None:
    rewrite_module.SMALL = 0
    rewrite(opened)


def go_on(opened: WorkerStore) -> None:
    """Finish a rewrite that was interrupted, as a daemon does when it has started."""
    if reason := opened.due_rewrite():
        opened.begin("rewrite", reason, True)
        while opened.step() is not None:
            pass
        opened.finish()


def replace(opened: WorkerStore) -> None:
    opened.replace_by_next(NEXT_IDENTITY)


def contents(opened: WorkerStore) -> dict[str, str]:
    """Every memory of the store as text, with the number of its vectors."""
    ids, has_more = opened.method("ids_from")(0)
    assert not has_more
    found, orphans, unreadable = to_records(opened.method("fetch")(ids))
    assert (orphans, unreadable) == ([], {})
    return {r.memory.id: f"{r.memory.content} {len(r.passages)}" for r in found}


def in_child(work: Callable[[], object]) -> int:
    """Do it in a process of its own; its exit code, negative if a signal ended it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as exc:
            sys.stderr.write(f"{type(exc).__name__}: {exc}\n")
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def deadly(owner: Any, name: str, number: int) -> None:
    """From now on the process is killed just before the `number`th call of this function."""
    original, calls = getattr(owner, name), [0]

    def call(*args: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **options)

    setattr(owner, name, call)


def kill_everywhere(base: Path, what: str) -> list[dict[str, object]]:
    import chromadb  # noqa: F401 (once, before the forks)

    points, prepare, work = {
        "rewrite": (POINTS, fill_live, rewrite),
        "process": (PROCESS_POINTS, fill_live, rewrite_by_process),
        "replace": (NEXT_POINTS, fill_both, replace),
    }[what]
    results = []
    for place, (owner, name, number) in enumerate(points):
        folder, said = base / str(place), base / f"{place}.json"
        assert in_child(lambda folder=folder: prepare(folder)) == 0  # type: ignore[misc]

        def killed(folder: Path = folder, point: Any = (owner, name, number)) -> None:
            take_lock(folder, os.getpid(), 0.0)
            opened = open_store(folder)
            deadly(*point)
            work(opened)

        def recovered(folder: Path = folder, said: Path = said) -> None:
            take_lock(folder, os.getpid(), 60.0)  # the process that copies may still run
            opened = open_store(folder)
            found: dict[str, object] = {"found": contents(opened)}
            found |= {"model": opened.read_identity().model}
            go_on(opened)
            found |= {"rewritten": contents(opened), "since_by": opened.facts()["since_by"]}
            said.write_text(json.dumps(found))
            opened.close()

        end, start = in_child(killed), in_child(recovered)
        left = sorted(entry.name for entry in folder.iterdir() if entry.name != "lock")
        found = json.loads(said.read_text()) if start == 0 else {}
        facts = {"point": f"{name} {number}", "killed": end, "start": start, "left": left}
        results.append(facts | found)
    return results


if __name__ == "__main__":
    sys.stdout.write(json.dumps(kill_everywhere(Path(sys.argv[1]), sys.argv[2])))
