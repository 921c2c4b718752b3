"""Starting on a data directory: finish what was interrupted, open, look, repair, migrate.

Chroma opens its files late and dies of a broken index in every operation, so the first look is
ours: a cheap one after an orderly end, at every row after any other. What the database still
holds is rebuilt into a fresh store without a human; a database that has lost rows is refused.

Only evidence counts against a store: files that do not belong together, an error of SQLite or
Chroma, a crash of the reader. How long an opening takes says nothing about the store, so it is
waited for, however slow the machine is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from memoryd.adapters.chroma import rows as rows
from memoryd.adapters.chroma import swap
from memoryd.adapters.chroma.collection import PAGE, SCHEMA, Collection, identity_of
from memoryd.adapters.chroma.disk_errors import (
    FAULT,
    FULL,
    check_access,
    denied,
    disk_refuses,
    disk_trouble,
    translated,
)
from memoryd.adapters.chroma.hnsw_files import is_torn
from memoryd.adapters.chroma.open import newer, open_embedded
from memoryd.adapters.chroma.open_files import gone
from memoryd.adapters.chroma.other_collections import other_collections, salvaged
from memoryd.adapters.chroma.remodel import is_for_another, remodel
from memoryd.adapters.chroma.rewrite import Fresh, close
from memoryd.adapters.chroma.rows import SCHEMA_KEY, Row
from memoryd.adapters.chroma.sqlite_read import (
    DATABASE,
    Unreadable,
    check_files,
    collection_facts,
    is_sound,
    salvage,
)
from memoryd.adapters.chroma.swap import CLEAN, LIVE, OLD
from memoryd.errors import StoreError
from memoryd.ports import Identity, Progress
from memoryd.settings import StoreSettings

NO_ROOM = "Free some space and start again: a start needs a little of it. Nothing is lost."
OPENING, CHECKING = "opening", "checking"  # the stages in which Chroma reads what is there
CRASHES = 2  # of the reader in a row: the files are to blame, not chance
Say = Callable[[Progress], None]  # told what takes its time, and how far it is
# What turns a row of one schema into a row of the next. Schema 1 is the first.
MIGRATIONS: dict[int, Callable[[Row], Row]] = {}


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
    crashes: int = 0,
) -> Collection:
    """The collection, open and seen to work. Raises StoreError where that is not possible.
    `keep_old`: leave the store that it replaced for one start more. `remodelling`: a store of
    another model is rewritten for this one. `reopening`: one that is gone is not made anew.
    `crashes`: how many workers in a row crashed while they opened it."""
    try:
        swap.settle(data_dir)
        if reopening and not (data_dir / LIVE / DATABASE).exists():
            raise gone(data_dir / LIVE)
        if remodelling and is_for_another(data_dir / LIVE, settings.collection, identity):
            remodel(settings, data_dir, identity, say)
        replaced = (data_dir / OLD).exists()
        collection = _open(settings, data_dir, identity, say, crashes)
        if replaced and not keep_old:
            swap.drop_old(data_dir)
        if not swap.mark(data_dir / LIVE):
            swap.write_mark(data_dir / LIVE, "made")
    except OSError as exc:
        trouble = denied(exc) or translated(exc, data_dir)
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


def _open(
    settings: StoreSettings, data_dir: Path, identity: Identity, say: Say, crashes: int
) -> Collection:
    folder = data_dir / LIVE
    if not folder.exists():
        folder.mkdir(parents=True, mode=0o700)
    try:
        return _open_well(settings, data_dir, identity, say, crashes)
    except (Broken, Unreadable) as exc:
        if swap.undo(data_dir):
            return _open_well(settings, data_dir, identity, say)
        sys.stderr.write(f"store worker: repairing ({type(exc.__cause__ or exc).__name__})\n")
        _repair(settings, data_dir, say, exc)
    try:
        return _open_well(settings, data_dir, identity, say)
    except Broken as exc:
        why = f"The store in {folder} does not work even after it was rebuilt."
        raise _refused(why) from exc


def _open_well(
    settings: StoreSettings, data_dir: Path, identity: Identity, say: Say, crashes: int = 0
) -> Collection:
    """Open and look; raises Broken or Unreadable where it does not work."""
    folder = data_dir / LIVE
    check_access(folder)
    check_files(folder)
    was_clean = (folder / CLEAN).exists() or not (folder / DATABASE).exists()
    if not was_clean and not is_sound(folder):
        raise Broken
    schema = collection_facts(folder, settings.collection).get(rows.SCHEMA_KEY)
    if isinstance(schema, int) and schema > SCHEMA:  # before Chroma writes to it
        raise newer(str(folder / DATABASE), schema)
    if is_older(folder, settings.collection):
        migrate(settings, data_dir, say)
    if crashes >= CRASHES or is_torn(folder):
        raise Broken
    say(Progress(OPENING))
    try:
        collection = open_embedded(settings, folder, identity)
    except StoreError as exc:
        if exc.code != "store_corrupt":
            raise
        raise _judged(exc, data_dir) from exc
    try:
        collection.probe()
        if not was_clean:
            _look_at_all(collection, say)
    except Exception as exc:
        close(collection, folder)
        raise _judged(exc, data_dir) from exc
    (folder / CLEAN).unlink(missing_ok=True)
    return collection


def _judged(exc: Exception, data_dir: Path) -> Exception:
    """What a failed opening says about the store: Broken, unless disk or RAM are to blame."""
    if isinstance(exc, MemoryError) or isinstance(exc.__cause__, MemoryError):
        return StoreError(
            f"There is not enough memory to open the store in {data_dir / LIVE}.",
            code="store_memory",
            hint="Free some memory and try again. Nothing was changed.",
        )
    return disk_trouble(exc) or disk_refuses(data_dir) or Broken()


def _look_at_all(collection: Collection, say: Say) -> None:
    """Meet every row with its vector: one that the index has lost fails the call."""
    count = collection.row_count()
    for start in range(0, count, PAGE):
        say(Progress(CHECKING, start, count))
        collection.page(start, PAGE)


def _repair(settings: StoreSettings, data_dir: Path, say: Say, found: Exception) -> None:
    """Rebuild the store from its database. Vectors that only the index had are made again by
    the engine, in the background. If rows are lost, the fault that was `found` first is told."""
    say(Progress("repairing"))
    path = data_dir / LIVE / DATABASE
    try:
        others = other_collections(data_dir / LIVE, settings.collection)
        facts, rows_found = salvage(data_dir / LIVE, settings.collection)
        records, _ = rows.to_records(rows_found)
        beside = [salvaged(data_dir / LIVE, it) for it in others if it.made_here]
    except Unreadable as exc:
        raise _refused(found.message if isinstance(found, Unreadable) else exc.message) from exc
    except (KeyError, ValueError) as exc:
        raise _refused(f"The store's database {path} has lost parts of memories.") from exc
    if facts.get(rows.SCHEMA_KEY) != SCHEMA:
        schema = facts.get(rows.SCHEMA_KEY)
        raise _refused(f"The store {path} of schema {schema} does not open and is not rebuilt.")
    identity = identity_of(facts)
    fresh = Fresh(settings, data_dir, identity, others)
    for start in range(0, len(records), PAGE):
        say(Progress("repairing", start, len(records)))
        fresh.add(rows.plain_rows(records[start : start + PAGE], identity.dimension))
    for other in beside:
        fresh.keep_other(*other)
    fresh.close(fresh.ids)
    fresh.finish("repair", aside=swap.dated(swap.BROKEN))


def _refused(message: str) -> StoreError:
    """The daemon's end of the worker knows the backups, and adds how to restore."""
    return StoreError(f"{message} Nothing was changed.", code="store_corrupt", hint="")


def is_older(folder: Path, collection: str) -> bool:
    """Whether the store has an older schema that can be brought to this one."""
    schema = collection_facts(folder, collection).get(SCHEMA_KEY)
    if not isinstance(schema, int) or schema >= SCHEMA:
        return False
    return all(number in MIGRATIONS for number in range(schema, SCHEMA))


def migrate(settings: StoreSettings, data_dir: Path, say: Callable[[Progress], None]) -> None:
    """Rewrite every row step by step; killed meanwhile, the older store is as it was."""
    folder = data_dir / swap.LIVE
    schema = int(collection_facts(folder, settings.collection)[SCHEMA_KEY])
    source = open_embedded(settings, folder, identity=None)
    fresh = Fresh(settings, data_dir, source.made_for, source.others)
    ids = source.ids()
    for start in range(0, len(ids), PAGE):
        say(Progress("migrating", start, len(ids)))
        fresh.add([_brought(row, schema) for row in source.fetch(ids[start : start + PAGE])])
    for _ in fresh.keep_others(source):
        say(Progress("migrating", len(ids), len(ids)))
    fresh.close(ids)
    close(source, folder)
    fresh.finish("migrate", aside=swap.dated(f"{swap.OLDER}{schema}-"))


def _brought(row: Row, schema: int) -> Row:
    for number in range(schema, SCHEMA):
        row = MIGRATIONS[number](row)
    return row
