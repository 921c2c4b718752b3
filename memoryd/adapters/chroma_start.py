"""Starting on a data directory: finish what was interrupted, open, look, repair, migrate.

Chroma opens its files late and dies of a broken index in every operation, so the first look is
ours: a cheap one after an orderly end, at every row after any other. What the database still
holds is rebuilt into a fresh store without a human; a database that has lost rows is refused.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

from memoryd import files
from memoryd.adapters import chroma_rows as rows
from memoryd.adapters import store_swap
from memoryd.adapters.chroma_collection import PAGE, SCHEMA, Collection, identity_of
from memoryd.adapters.chroma_files import gone
from memoryd.adapters.chroma_fresh import Fresh, close
from memoryd.adapters.chroma_index import is_torn
from memoryd.adapters.chroma_migrate import is_older, migrate
from memoryd.adapters.chroma_open import open_embedded
from memoryd.adapters.chroma_others import other_collections, salvaged
from memoryd.adapters.chroma_remodel import is_for_another, remodel
from memoryd.adapters.chroma_salvage import (
    DATABASE,
    Unreadable,
    check_files,
    is_sound,
    salvage,
)
from memoryd.adapters.chroma_trouble import FAULT, FULL, disk_refuses, disk_trouble, translated
from memoryd.adapters.store_swap import CLEAN, LIVE, OLD
from memoryd.errors import StoreError
from memoryd.ports import Identity, Progress
from memoryd.settings import StoreSettings

NO_ROOM = "Free some space and start again: a start needs a little of it. Nothing is lost."
OPENING = "opening"  # counts the attempts of which no end was seen
CRASHES = 2
OPEN_LIMIT = 30  # seconds for Chroma to open its files, or to read a page
Say = Callable[[Progress], None]  # told what takes its time, and how far it is


class Broken(Exception):
    """The store does not work; what can be read of it may still be rebuilt."""


def start(
    settings: StoreSettings,
    data_dir: Path,
    identity: Identity,
    say: Say,
    *,
    keep_old: bool = False,
    remodelling: bool = False,
    reopening: bool = False,
) -> Collection:
    """The collection, open and seen to work. Raises StoreError where that is not possible.
    `keep_old`: leave the store that it replaced for one start more. `remodelling`: a store of
    another model is rewritten for this one. `reopening`: one that is gone is not made anew."""
    try:
        store_swap.settle(data_dir)
        if reopening and not (data_dir / LIVE / DATABASE).exists():
            raise gone(data_dir / LIVE)
        if remodelling and is_for_another(data_dir / LIVE, settings.collection, identity):
            remodel(settings, data_dir, identity, say)
        replaced = (data_dir / OLD).exists()
        collection = _open(settings, data_dir, identity, say)
        if replaced and not keep_old:
            store_swap.drop_old(data_dir)
        if not store_swap.mark(data_dir / LIVE):
            store_swap.write_mark(data_dir / LIVE, "made")
    except OSError as exc:
        trouble = translated(exc, data_dir)
        hint = NO_ROOM if trouble.code == FULL.code else trouble.hint
        raise StoreError(trouble.message, code=trouble.code, hint=hint) from exc
    except StoreError as exc:
        if exc.code not in (FAULT.code, FULL.code):
            raise
        trouble = disk_refuses(data_dir) or exc
        if trouble.code == FULL.code:
            raise StoreError(trouble.message, code=FULL.code, hint=NO_ROOM) from exc
        raise trouble from exc
    return collection


def _open(settings: StoreSettings, data_dir: Path, identity: Identity, say: Say) -> Collection:
    folder = data_dir / LIVE
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        return _open_well(settings, data_dir, identity, say)
    except (Broken, Unreadable) as exc:
        if store_swap.undo(data_dir):
            return _open_well(settings, data_dir, identity, say)
        sys.stderr.write(f"store worker: repairing ({type(exc.__cause__ or exc).__name__})\n")
        _repair(settings, data_dir, say)
    try:
        return _open_well(settings, data_dir, identity, say)
    except Broken as exc:
        raise _refused(data_dir, "The store does not work even after it was rebuilt.") from exc


def _open_well(settings: StoreSettings, data_dir: Path, identity: Identity, say: Say) -> Collection:
    """Open and look; raises Broken or Unreadable where it does not work."""
    folder = data_dir / LIVE
    check_files(folder)
    was_clean = (folder / CLEAN).exists() or not (folder / DATABASE).exists()
    if not was_clean and not is_sound(folder):
        raise Broken
    if is_older(folder, settings.collection):
        migrate(settings, data_dir, say)
    crashes = _crashes(folder)
    if crashes >= CRASHES or is_torn(folder):
        raise Broken
    with files.replacing(folder / OPENING, durable=False) as file:
        file.write(str(crashes + 1).encode())
    _limit(OPEN_LIMIT)
    try:
        collection = open_embedded(settings, folder, identity)
    except StoreError as exc:
        _limit(0)
        (folder / OPENING).unlink()
        if exc.code != "store_corrupt":
            raise
        if trouble := disk_trouble(exc) or disk_refuses(data_dir):
            raise trouble from exc
        raise Broken from exc
    try:
        collection.probe()
        if not was_clean:
            _look_at_all(collection, say)
        _limit(0)
    except Exception as exc:
        _limit(0)
        close(collection, folder)
        (folder / OPENING).unlink()
        if trouble := disk_trouble(exc) or disk_refuses(data_dir):
            raise trouble from exc
        raise Broken from exc
    for name in (CLEAN, OPENING):
        (folder / name).unlink(missing_ok=True)
    return collection


def _limit(seconds: int) -> None:
    """Have the system end this process after so long: a torn index can send its reader round
    in circles, where no other thread of ours gets to run."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


def _crashes(folder: Path) -> int:
    """How many workers in a row ended while they opened this store: garbage in an index can
    crash its reader, and then nobody is left to say so."""
    try:
        return int(files.read_text(folder / OPENING) or 1)
    except (OSError, ValueError):
        return 0


def _look_at_all(collection: Collection, say: Say) -> None:
    """Meet every row with its vector: one that the index has lost fails the call."""
    count = collection.row_count()
    for start in range(0, count, PAGE):
        say(Progress("checking", start, count))
        _limit(OPEN_LIMIT)
        collection.page(start, PAGE)


def _repair(settings: StoreSettings, data_dir: Path, say: Say) -> None:
    """Rebuild the store from its database. Vectors that only the index had are made again by
    the engine, in the background."""
    say(Progress("repairing"))
    try:
        others = other_collections(data_dir / LIVE, settings.collection)
        facts, found = salvage(data_dir / LIVE, settings.collection)
        records, _ = rows.to_records(found)
        beside = [salvaged(data_dir / LIVE, it) for it in others if it.made_here]
    except Unreadable as exc:
        raise _refused(data_dir, exc.message) from exc
    except (KeyError, ValueError) as exc:
        raise _refused(data_dir, "The store's database has lost parts of memories.") from exc
    if facts.get(rows.SCHEMA_KEY) != SCHEMA:
        raise _refused(data_dir, f"The store of schema {facts.get(rows.SCHEMA_KEY)} is broken.")
    identity = identity_of(facts)
    fresh = Fresh(settings, data_dir, identity, others)
    for start in range(0, len(records), PAGE):
        say(Progress("repairing", start, len(records)))
        fresh.add(rows.plain_rows(records[start : start + PAGE], identity.dimension))
    for other in beside:
        fresh.keep_other(*other)
    fresh.close(fresh.ids)
    fresh.finish("repair", aside=store_swap.dated(store_swap.BROKEN))


def _refused(data_dir: Path, message: str) -> StoreError:
    hint = store_swap.restore_hint(data_dir)
    return StoreError(f"{message} Nothing was changed.", code="store_corrupt", hint=hint)
