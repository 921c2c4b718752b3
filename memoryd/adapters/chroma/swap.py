"""The directories of a store, and the swap from one to the next.

`store` is live. A rewrite fills `store.new`, which counts only once its mark is written, and
takes the live one's place by two renames. Whenever the process is killed, `settle` finds either
the old or the new store whole, and finishes or undoes the rest.
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
from typing import Any

from memoryd import files, places

LIVE, NEW, OLD, TRASH = "store", "store.new", "store.old", "store.trash"
ASIDE = "backups"  # where former stores that a person may want are kept
KEPT_ASIDE = 3
MARK = "rewritten.json"  # complete, since when and why
CLEAN = "clean"  # closed in order: the next start need not look at every row
BROKEN, OLDER = "store.broken-", "store.schema-"


def settle(data_dir: Path) -> None:
    """Finish or undo what a kill interrupted; afterwards `store` is whole, or there is none."""
    live, new, old = data_dir / LIVE, data_dir / NEW, data_dir / OLD
    _remove(data_dir / TRASH)
    if mark(new):
        _swap(data_dir)
    else:
        _remove(new)
    if not live.exists() and old.exists():
        _rename(old, live)


def begin(data_dir: Path) -> Path:
    """An empty directory to fill."""
    new = data_dir / NEW
    _remove(new)
    new.mkdir(mode=0o700)
    return new


def drop_unfinished(data_dir: Path) -> None:
    """Remove a new store that nobody fills any more. Not for one that is complete."""
    if not mark(data_dir / NEW):
        _remove(data_dir / NEW)


def complete(data_dir: Path, reason: str, aside: str | None = None) -> None:
    """The new store is filled and closed: from now on it is the one. The former is moved to
    `backups/<aside>`, or kept until the new one has opened well."""
    new = data_dir / NEW
    files.touch(new / CLEAN)
    _sync_tree(new)
    write_mark(new, reason, aside)
    _swap(data_dir)


def write_mark(folder: Path, reason: str, aside: str | None = None) -> None:
    """Say since when this store is, and why; whole or not at all."""
    text = json.dumps({"reason": reason, "at": time.time(), "aside": aside})
    with files.replacing(folder / MARK) as file:
        file.write(text.encode())
    _sync_folder(folder)


def mark(folder: Path) -> dict[str, Any]:
    """Since when and why; empty without a mark."""
    try:
        found = json.loads(files.read_text(folder / MARK))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def drop_old(data_dir: Path) -> None:
    """The live store has opened well: what it replaced goes for good."""
    old = data_dir / OLD
    if old.exists():
        # Renamed first: half a directory must never be taken for a store.
        _remove(data_dir / TRASH)
        _rename(old, data_dir / TRASH)
    _remove(data_dir / TRASH)


def undo(data_dir: Path) -> bool:
    """The live store does not open: the one it replaced takes its place again, if it is there."""
    live, old = data_dir / LIVE, data_dir / OLD
    if not old.exists():
        return False
    _rename(live, _aside(data_dir, dated(BROKEN)))
    _rename(old, live)
    return True


def command(data_dir: Path, *words: str) -> str:
    """A verb of ours as a person would type it, for this data directory."""
    place = [] if data_dir == places.data_dir() else ["--data-dir", str(data_dir)]
    return shlex.join(["memoryd", *words, *place])


def dated(kind: str) -> str:
    """A name for a store that is set aside."""
    return f"{kind}{time.strftime('%Y%m%d-%H%M%S')}"


def set_aside(data_dir: Path) -> list[str]:
    """Former stores that were kept, oldest first."""
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
        if name := mark(new).get("aside"):
            _rename(live, _aside(data_dir, str(name)))
        else:
            _remove(old)
            _rename(live, old)
    _rename(new, live)


def _aside(data_dir: Path, name: str) -> Path:
    """A free place of this name; of each kind only the newest few are kept."""
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
    else:  # somebody put a file or a link in its place
        folder.unlink(missing_ok=True)


def _sync_tree(folder: Path) -> None:
    for root, _, names in os.walk(folder):
        for name in names:
            handle = files.open_file(Path(root) / name, os.O_RDWR)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        _sync_folder(Path(root))


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":  # which cannot open a directory
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
