"""The directories of a store, and the swap from one to the next.

`store` is live. A rewrite fills `store.new`, which counts only once its mark is written, and
replaces the live one by two renames. After a kill at any moment either the old or the new store is
whole, and `recover` finishes or undoes the swap. A copy of the live store that was interrupted is
kept if it says why it was begun: a later run goes on with it. `store.next` may be filled over many
starts; when it is complete, it becomes `store.new`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from memoryd import files, places

LIVE, NEW, OLD, TRASH = "store", "store.new", "store.old", "store.trash"
NEXT = "store.next"  # the data directory of a store that is filled while the live one is served
ASIDE = "backups"  # where replaced stores are kept that a person may want back
KEPT_ASIDE = 3
MARK = "rewritten.json"  # written when a store is complete: when and why it was made
COPYING = "copying"  # in a copy that a later run may finish: why it was begun
MADE = "store.made"  # next to the store: one was made here, so it must not be missing
CLEAN = "clean"  # closed in order: the next start need not check every row; may hold `Closed`
BROKEN, OLDER = "store.broken-", "store.schema-"


class Closed(NamedTuple):
    """What is known of a store that was closed in order."""

    saved_index: str = ""  # the name of an index that has all memories of the collection
    collection: str = ""
    written: int = -1  # rows that were ever written; more: another program has written since


def note_closed(folder: Path, closed: Closed) -> None:
    """Mark a store as closed in order."""
    try:
        with files.replacing(folder / CLEAN) as file:
            file.write(json.dumps(closed._asdict()).encode())
    except OSError:  # a full disk still has room for an empty file
        files.touch(folder / CLEAN)


def read_closed(folder: Path) -> Closed:
    """What the mark says."""
    try:
        found = json.loads(files.read_text(folder / CLEAN))
        return Closed(str(found["saved_index"]), str(found["collection"]), int(found["written"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Closed()


def recover(data_dir: Path) -> None:
    """Finish or undo a swap that a kill interrupted; then `store` is whole, or does not exist."""
    live, new, old = data_dir / LIVE, data_dir / NEW, data_dir / OLD
    _remove(data_dir / TRASH)
    if read_mark(new):
        _swap(data_dir)
    elif not copy_reason(data_dir):
        _remove(new)
    if not live.exists() and old.exists():
        _rename(old, live)


def begin(data_dir: Path, reason: str = "") -> None:
    """Make the empty directory of a new store; `reason`: a later run may finish it."""
    new = data_dir / NEW
    _remove(new)
    new.mkdir(mode=0o700)
    if reason:
        with files.replacing(new / COPYING) as file:
            file.write(reason.encode())


def copy_reason(data_dir: Path) -> str:
    """Why an unfinished copy was begun; empty if there is none that may be finished."""
    new = data_dir / NEW
    try:
        return "" if read_mark(new) else files.read_text(new / COPYING)
    except (OSError, ValueError):
        return ""


def drop_unfinished(data_dir: Path) -> None:
    """Remove a new store that is not complete."""
    if not read_mark(data_dir / NEW):
        _remove(data_dir / NEW)


def complete(data_dir: Path, reason: str, aside: str | None = None) -> None:
    """Replace the live store by the new one, which is filled and closed. The replaced store is
    moved to `backups/<aside>`, or kept until the new one was opened successfully."""
    _mark_complete(data_dir / NEW, reason, aside)
    _swap(data_dir)


def complete_next(data_dir: Path, reason: str) -> None:
    """The same with the next store as the new one."""
    next_store = data_dir / NEXT / LIVE
    _mark_complete(next_store, reason)
    _remove(data_dir / NEW)
    _rename(next_store, data_dir / NEW)
    _swap(data_dir)
    drop_next(data_dir)


def drop_next(data_dir: Path) -> None:
    """Delete the next store, if there is one."""
    _drop(data_dir, NEXT)


def _mark_complete(folder: Path, reason: str, aside: str | None = None) -> None:
    files.touch(folder / CLEAN)
    sync_tree(folder)
    write_mark(folder, reason, aside)
    (folder / COPYING).unlink(missing_ok=True)


def write_mark(folder: Path, reason: str, aside: str | None = None) -> None:
    """Record when and why this store was made; the file is replaced as a whole."""
    text = json.dumps({"reason": reason, "at": time.time(), "aside": aside})
    with files.replacing(folder / MARK) as file:
        file.write(text.encode())
    _sync_folder(folder)


def read_mark(folder: Path) -> dict[str, Any]:
    """When and why this store was made; empty without a mark."""
    try:
        found = json.loads(files.read_text(folder / MARK))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def note_made(data_dir: Path) -> None:
    """Record that the directory has a store. Call it once the store was opened successfully."""
    files.touch(data_dir / MADE)


def missing_store(data_dir: Path) -> str:
    """What to say if the store was deleted or moved away; "" if it is there or there was none."""
    if (data_dir / LIVE).exists() or not (data_dir / MADE).exists():
        return ""
    return (
        f"The store {data_dir / LIVE} is missing. To start with an empty one, delete "
        f"{data_dir / MADE}."
    )


def drop_old(data_dir: Path) -> None:
    """Delete the replaced store. Call it once the live one was opened successfully."""
    _drop(data_dir, OLD)


def undo_swap(data_dir: Path) -> bool:
    """Put the replaced store back, for a live one that does not open; whether there was one."""
    live, old = data_dir / LIVE, data_dir / OLD
    if not old.exists():
        return False
    _rename(live, _free_aside_path(data_dir, dated_name(BROKEN)))
    _rename(old, live)
    return True


def command(data_dir: Path, *words: str) -> str:
    """A memoryd command line for this data directory, for a hint."""
    place = [] if data_dir == places.data_dir() else ["--data-dir", str(data_dir)]
    return shlex.join(["memoryd", *words, *place])


def dated_name(kind: str) -> str:
    """A name for a store that is set aside."""
    return f"{kind}{time.strftime('%Y%m%d-%H%M%S')}"


def set_aside(data_dir: Path) -> list[str]:
    """The replaced stores that were kept, oldest first."""
    with contextlib.suppress(OSError):
        return sorted(
            f"{ASIDE}/{entry.name}"
            for entry in (data_dir / ASIDE).iterdir()
            if entry.name.startswith((BROKEN, OLDER)) and entry.is_dir()
        )
    return []


def size_of(folder: Path) -> int:
    """Bytes of all its files."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _swap(data_dir: Path) -> None:
    live, new, old = data_dir / LIVE, data_dir / NEW, data_dir / OLD
    if live.exists():
        if name := read_mark(new).get("aside"):
            _rename(live, _free_aside_path(data_dir, str(name)))
        else:
            _remove(old)
            _rename(live, old)
    _rename(new, live)


def _drop(data_dir: Path, name: str) -> None:
    if (data_dir / name).exists():
        # Renamed first: a half-deleted directory must not be taken for a store.
        _remove(data_dir / TRASH)
        _rename(data_dir / name, data_dir / TRASH)
    _remove(data_dir / TRASH)


def _free_aside_path(data_dir: Path, name: str) -> Path:
    """An unused path with this name; deletes all but the newest stores of its kind."""
    folder = data_dir / ASIDE
    folder.mkdir(mode=0o700, exist_ok=True)
    kind = BROKEN if name.startswith(BROKEN) else OLDER
    older = sorted(entry for entry in folder.iterdir() if entry.name.startswith(kind))
    for entry in older[: max(0, len(older) - KEPT_ASIDE + 1)]:
        _remove(entry)
    place, number = folder / name, 1
    while place.exists():
        number += 1
        place = folder / f"{name}-{number}"
    return place


def _rename(source: Path, target: Path) -> None:
    os.rename(source, target)
    for folder in {source.parent, target.parent}:
        _sync_folder(folder)


def _remove(folder: Path) -> None:
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)
    else:  # a file or a link is in its place
        folder.unlink(missing_ok=True)


def sync_tree(folder: Path) -> None:
    """Write all its files to the disk; none may be open."""
    for root, _, names in os.walk(folder):
        for name in names:
            handle = files.open_file(Path(root) / name, os.O_RDWR)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        _sync_folder(Path(root))


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":  # Windows cannot open a directory
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
