"""Start on a data directory: finish an interrupted swap, open the store, check, repair, migrate.

Chroma opens its files late and fails every operation if its index is broken, so the store is
checked first: one row if it was closed in order, every row if not. In a large store the rows are
checked while calls are served already (`row_check`). A store that fails is rebuilt from its
database automatically; a database that has lost rows is refused.

Only evidence counts against a store: index files that do not belong together, an error of SQLite
or Chroma, a crash of the reader. The duration of an opening is no evidence, so it has no limit.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from memoryd.adapters.chroma import rows as rows
from memoryd.adapters.chroma import swap
from memoryd.adapters.chroma.allocator import without_blanking
from memoryd.adapters.chroma.collection import PAGE, SCHEMA, Collection, identity_of
from memoryd.adapters.chroma.disk_errors import (
    FULL,
    IO_ERROR,
    check_access,
    disk_error,
    permission_error,
    probe_disk,
    to_memoryd_error,
)
from memoryd.adapters.chroma.hnsw_files import index_bytes, is_torn
from memoryd.adapters.chroma.new_store import NewStore, close
from memoryd.adapters.chroma.open import (
    ANY_MODEL,
    has_other_model,
    newer_schema_error,
    open_embedded,
)
from memoryd.adapters.chroma.open_files import store_gone_error
from memoryd.adapters.chroma.other_collections import other_collections, read_other
from memoryd.adapters.chroma.rows import SCHEMA_KEY, Row
from memoryd.adapters.chroma.sqlite_read import (
    DATABASE,
    Unreadable,
    check_files,
    collection_facts,
    passes_quick_check,
    salvage,
)
from memoryd.adapters.chroma.store_facts import Tell, facts_in
from memoryd.adapters.chroma.swap import CLEAN, LIVE, OLD
from memoryd.adapters.chroma.worker_events import send_event, stage
from memoryd.errors import StoreError
from memoryd.ports import Identity, Progress, ReportProgress
from memoryd.settings import StoreSettings

FULL_HINT = "Free some space and start again: a start needs a little of it. Nothing is lost."
OPENING, CHECKING = "opening", "checking"  # the stages in which Chroma reads what is there
MAX_CRASHES = 2  # of workers in a row while they read the store: then its files are broken
FEW_ROWS = 5_000  # that are checked before any call is served: they take half a second
# By schema, the function that turns a row into one of the next schema. Schema 1 is the first.
MIGRATIONS: dict[int, Callable[[Row], Row]] = {}


class StoreBroken(Exception):
    """The store does not work, but may be rebuilt from its database."""


class OpeningAbandoned(BaseException):
    """Nothing waits for this opening any more. Raised by a progress report, where the store may be
    left as it is; not an Exception, because it says nothing about the store."""


def start(
    settings: StoreSettings,
    data_dir: Path,
    identity: Identity,
    progress: ReportProgress,
    *,
    keep_old: bool = False,
    any_model: bool = False,
    reopening: bool = False,
    crashes: int = 0,
    careful: bool = False,
    tell: Tell | None = None,
    saved_index: str = "",
) -> Collection:
    """The collection, open and checked. Raises StoreError if that is not possible.
    `keep_old`: keep the store that this one replaced until the next start. `any_model`: open a
    store of another model as it is. `reopening`: raise `store_gone` instead of making a new store.
    `crashes`: how many workers in a row crashed while they opened it. `careful`: check every row
    first, because a worker failed. `tell`: called, if possible, before ChromaDB opens the store; a
    fault found after that raises StoreBroken. `saved_index`: see `store_facts.facts_in`."""
    try:
        swap.recover(data_dir)
        if reopening and not (data_dir / LIVE / DATABASE).exists():
            raise store_gone_error(data_dir / LIVE)
        if any_model and _holds_other_model(data_dir / LIVE, settings.collection, identity):
            identity = ANY_MODEL
        replaced = (data_dir / OLD).exists()
        opening = _Opening(settings, data_dir, identity, progress)
        if not replaced and _tell(opening, tell, saved_index):
            collection = _open_checked(opening, has_quick_check=True)
        else:
            # The daemon reads the revisions once, when it starts.
            revisions = not reopening
            collection = _open_or_repair(opening, crashes, revisions, careful=careful)
        if replaced and not keep_old:
            swap.drop_old(data_dir)
        if not swap.read_mark(data_dir / LIVE):
            swap.write_mark(data_dir / LIVE, "made")
        swap.note_made(data_dir)
    except OSError as exc:
        error = permission_error(exc) or to_memoryd_error(exc, data_dir)
        hint = FULL_HINT if error.code == FULL.code else error.hint
        raise StoreError(error.message, code=error.code, hint=hint) from exc
    except StoreError as exc:
        if exc.code not in (IO_ERROR.code, FULL.code):
            raise
        found = probe_disk(data_dir) or exc
        if found.code == FULL.code:
            raise StoreError(found.message, code=FULL.code, hint=FULL_HINT) from exc
        raise found from exc
    return collection


def _holds_other_model(folder: Path, collection: str, identity: Identity) -> bool:
    try:
        return has_other_model(folder, collection, identity)
    except (Unreadable, StoreError):  # opening it finds and reports the fault
        return False


def _tell(opening: _Opening, tell: Tell | None, saved_index: str) -> bool:
    """Tell what is in the store, unless it has a fault; whether that was possible."""
    if tell is None:
        return False
    folder = opening.data_dir / LIVE
    try:
        check_access(folder)
        check_files(folder)
        if is_torn(folder) or not ((folder / CLEAN).exists() or _passes_quick_check(folder)):
            return False
        with stage("facts"):
            collection = opening.settings.collection
            facts = facts_in(folder, collection, opening.identity, saved_index)
    except (StoreError, OSError):  # opening it finds and reports the fault
        return False
    if facts is not None:
        tell(facts)
    return facts is not None


def _passes_quick_check(folder: Path) -> bool:
    with stage("quick_check"):
        return passes_quick_check(folder)


class _Opening(NamedTuple):
    """What is opened, and who is told how far it is."""

    settings: StoreSettings
    data_dir: Path
    identity: Identity
    progress: ReportProgress


def _open_or_repair(
    opening: _Opening, crashes: int, with_revisions: bool, *, careful: bool
) -> Collection:
    folder = opening.data_dir / LIVE
    if message := swap.missing_store(opening.data_dir):
        raise _corrupt_error(message)
    if not folder.exists():
        folder.mkdir(parents=True, mode=0o700)
    try:
        return _open_checked(opening, crashes, with_revisions, careful=careful)
    except (StoreBroken, Unreadable) as exc:
        if swap.undo_swap(opening.data_dir):
            return _open_checked(opening, 0, with_revisions, careful=True)
        send_event("warning", "repair", reason=type(exc.__cause__ or exc).__name__)
        with stage("repair"):
            _repair(opening.settings, opening.data_dir, opening.progress, exc)
    try:
        return _open_checked(opening, 0, with_revisions, careful=True)
    except StoreBroken as exc:
        message = f"The store in {folder} does not work even after it was rebuilt."
        raise _corrupt_error(message) from exc


def _open_checked(
    opening: _Opening,
    crashes: int = 0,
    with_revisions: bool = False,
    *,
    careful: bool = False,
    has_quick_check: bool = False,
) -> Collection:
    """Open the store and check it; raises StoreBroken or Unreadable if it does not work.
    `careful`: every row. `has_quick_check`: SQLite has just checked the database."""
    settings, data_dir, identity, progress = opening
    folder = data_dir / LIVE
    with stage("files"):
        check_access(folder)
        check_files(folder)
        was_clean = (folder / CLEAN).exists() or not (folder / DATABASE).exists()
        if not (was_clean or has_quick_check or _passes_quick_check(folder)):
            raise StoreBroken
    schema = collection_facts(folder, settings.collection).get(rows.SCHEMA_KEY)
    if isinstance(schema, int) and schema > SCHEMA:  # before Chroma writes to it
        raise newer_schema_error(str(folder / DATABASE), schema)
    if is_older(folder, settings.collection):
        with stage("migrate"):
            migrate(settings, data_dir, progress)
    if crashes >= MAX_CRASHES or is_torn(folder):
        raise StoreBroken
    progress(Progress(OPENING))
    try:
        with stage("open"):
            collection = open_embedded(settings, folder, identity, with_revisions)
    except StoreError as exc:
        if exc.code != "store_corrupt":
            raise
        raise open_error(exc, data_dir) from exc
    rows_now = 0 if was_clean and not careful else collection.row_count()
    collection.needs_check = rows_now > FEW_ROWS and not careful
    try:
        with stage("check") as facts:
            facts["rows"] = 1 if collection.needs_check else max(1, rows_now)
            with without_blanking(index_bytes(folder)):
                collection.load_index()
            collection.probe()
            if rows_now and not collection.needs_check:
                _check_all_rows(collection, progress)
    except OpeningAbandoned:
        close(collection, folder)
        raise
    except Exception as exc:
        close(collection, folder)
        raise open_error(exc, data_dir) from exc
    (folder / CLEAN).unlink(missing_ok=True)
    return collection


def open_error(exc: Exception, data_dir: Path) -> Exception:
    """The error for a failed opening or check: StoreBroken, unless the disk or too little RAM
    caused it."""
    if isinstance(exc, MemoryError) or isinstance(exc.__cause__, MemoryError):
        return StoreError(
            f"There is not enough memory to open the store in {data_dir / LIVE}.",
            code="store_memory",
            hint="Free some memory and try again. Nothing was changed.",
        )
    return disk_error(exc) or probe_disk(data_dir) or StoreBroken()


def _check_all_rows(collection: Collection, progress: ReportProgress) -> None:
    """Read every row with its vector: the call fails if the index has lost one."""
    count, done = collection.row_count(), 0
    for ids in collection.id_pages():
        for start in range(0, len(ids), PAGE):
            progress(Progress(CHECKING, done + start, count))
            collection.read_vectors(ids[start : start + PAGE])
        done += len(ids)


def _repair(
    settings: StoreSettings, data_dir: Path, progress: ReportProgress, fault: Exception
) -> None:
    """Rebuild the store from its database. The engine makes vectors that only the index had again,
    in the background. If rows are lost, the error has the message of `fault` first."""
    progress(Progress("repairing"))
    path = data_dir / LIVE / DATABASE
    try:
        others = other_collections(data_dir / LIVE, settings.collection)
        facts, rows_found = salvage(data_dir / LIVE, settings.collection)
        records = rows.to_records(rows_found).records
        other_rows = [read_other(data_dir / LIVE, it) for it in others if it.made_here]
    except Unreadable as exc:
        raise _corrupt_error(
            fault.message if isinstance(fault, Unreadable) else exc.message
        ) from exc
    except (KeyError, ValueError) as exc:
        raise _corrupt_error(f"The store's database {path} has lost parts of memories.") from exc
    if facts.get(rows.SCHEMA_KEY) != SCHEMA:
        schema = facts.get(rows.SCHEMA_KEY)
        raise _corrupt_error(f"The store {path} of schema {schema} cannot be opened or rebuilt.")
    identity = identity_of(facts)
    new_store = NewStore(settings, data_dir, identity, others)
    for start in range(0, len(records), PAGE):
        progress(Progress("repairing", start, len(records)))
        new_store.add(rows.plain_rows(records[start : start + PAGE], identity.dimension))
    for other in other_rows:
        new_store.add_other(*other)
    new_store.close()
    new_store.finish("repair", aside=swap.dated_name(swap.BROKEN))


def _corrupt_error(message: str) -> StoreError:
    """Without a hint: the worker client knows the backups, and adds how to restore one."""
    return StoreError(f"{message} Nothing was changed.", code="store_corrupt", hint="")


def is_older(folder: Path, collection: str) -> bool:
    """Whether the store has an older schema that can be migrated to this one."""
    schema = collection_facts(folder, collection).get(SCHEMA_KEY)
    if not isinstance(schema, int) or schema >= SCHEMA:
        return False
    return all(number in MIGRATIONS for number in range(schema, SCHEMA))


def migrate(settings: StoreSettings, data_dir: Path, progress: ReportProgress) -> None:
    """Rewrite every row for this schema. The older store stays unchanged until all are written."""
    folder = data_dir / swap.LIVE
    schema = int(collection_facts(folder, settings.collection)[SCHEMA_KEY])
    source = open_embedded(settings, folder, identity=None)
    new_store = NewStore(settings, data_dir, source.made_for, source.others)
    ids = source.ids()
    for start in range(0, len(ids), PAGE):
        progress(Progress("migrating", start, len(ids)))
        new_store.add([_migrated(row, schema) for row in source.fetch(ids[start : start + PAGE])])
    for _ in new_store.copy_others(source):
        progress(Progress("migrating", len(ids), len(ids)))
    new_store.close(len(ids))
    close(source, folder)
    new_store.finish("migrate", aside=swap.dated_name(f"{swap.OLDER}{schema}-"))


def _migrated(row: Row, schema: int) -> Row:
    for number in range(schema, SCHEMA):
        row = MIGRATIONS[number](row)
    return row
