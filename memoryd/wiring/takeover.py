"""Takes over the memories that another program kept in ChromaDB, at the first start beside them.

A plain `chroma.sqlite3` in the data directory is not ours: our store is in `store/`. Its rows are
copied, read and imported in the background, while the daemon serves. `takeover.json` records that
it was done; until it is there, every start continues. The original is never written to.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio.to_thread
import structlog

from memoryd import files
from memoryd.adapters.chroma.foreign import COLLECTION, ForeignRows, read_foreign
from memoryd.adapters.chroma.sqlite_read import DATABASE
from memoryd.engine.engine import Engine
from memoryd.engine.takeover import Taken, foreign_row
from memoryd.errors import MemorydError
from memoryd.imports.in_flight import in_flight
from memoryd.ports import Progress, Watch

__all__ = ["COLLECTION", "Report", "look_at_takeover", "read_foreign", "take_over"]

log = structlog.get_logger()
RECORD, FOLDER = "takeover.json", "takeover.part"
BATCH_ROWS, BATCH_CHARS = 64, 256_000
MAX_NAMED = 20  # rows that are named in a report
COUNTS = ("added", "known", "kept", "expired", "refused")
NOTES = ("no_time", "new_id", "new_type", "renamed_metadata")
RUNNING, DONE, FAILED, WAITING, CHANGED = "running", "done", "failed", "waiting", "changed"


@dataclass(slots=True)
class Report:
    """What became of the rows."""

    counts: Counter[str] = field(default_factory=Counter)
    rows: list[dict[str, str]] = field(default_factory=list)  # refused or kept: id and reason

    def take(
        self,
        id: str,
        outcome: str,
        notes: tuple[str, ...] | list[str] = (),
        masked: bool = False,
        reused_vector: bool = False,
        error: Mapping[str, str] | None = None,
    ) -> None:
        """Count one row."""
        self.counts.update([outcome, *notes])
        self.counts["masked"] += masked
        self.counts["reused_vectors"] += reused_vector
        if outcome in ("refused", "kept"):
            why = error["message"] if error else "The memory was changed here, and stays."
            self.rows.append({"id": id, "outcome": outcome, "message": why})

    def facts(self) -> dict[str, Any]:
        """The counts, and the rows that need a look."""
        names = (*COUNTS, *NOTES, "masked", "reused_vectors")
        return {name: self.counts[name] for name in names} | {"rows": self.rows[:MAX_NAMED]}


async def take_over(
    engine: Engine,
    data_dir: Path,
    watch: Watch | None,
    model_tried: Callable[[], Awaitable[None]] | None,
) -> None:
    """Take over the store of another program in this directory, if there is one and it was not done
    before. A failure is told in log and status, and the next start tries again. `model_tried` waits
    for the model, whose vectors are compared with those of the other program."""
    engine.takeover = known = look_at_takeover(data_dir)
    if known is None or known["state"] == DONE:
        return
    if known["state"] == CHANGED:
        log.warning("takeover_outdated", source=known["source"], done=known["at"])
        return
    about = {"source": str(data_dir), "collection": COLLECTION}
    engine.takeover = about | {"state": RUNNING}
    log.info("takeover_begins", **about)
    if model_tried is not None:
        await model_tried()
    folder = data_dir / FOLDER
    try:
        facts = await _import_all(engine, data_dir, folder, watch)
        engine.takeover = about | facts | {"state": DONE}
        log.info("takeover", **about, **{key: v for key, v in facts.items() if key != "rows"})
        await engine.embed_all_pending()
    except MemorydError as exc:
        error = {"code": exc.code, "message": exc.message, "hint": exc.hint}
        _tell_failure(engine, about, error)
    except Exception as exc:  # the daemon serves all the same
        message = f"It failed with {type(exc).__name__}."
        _tell_failure(engine, about, {"code": "takeover_failed", "message": message, "hint": ""})
    finally:
        if watch is not None:
            watch(None)
        shutil.rmtree(folder, ignore_errors=True)


def _tell_failure(engine: Engine, about: dict[str, Any], error: dict[str, str]) -> None:
    if (engine.takeover or {}).get("state") == DONE:  # only vectors are missing: upkeep makes them
        log.warning("takeover_vectors_wait", code=error["code"])
        return
    engine.takeover = about | {"state": FAILED, "error": error}
    log.error("takeover_failed", **about, code=error["code"], error=error["message"])


async def _import_all(
    engine: Engine, data_dir: Path, folder: Path, watch: Watch | None
) -> dict[str, Any]:
    """Copy and import every row, then record that it is done; the facts."""
    if watch is not None:
        watch(Progress("taking over"))
    state = _state(data_dir)
    rows = await read_foreign(data_dir, COLLECTION, folder)
    report = await _import_rows(engine, rows, watch)
    facts = report.facts() | {
        "other_collections": rows.other_collections,
        "at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
    record = {"source": str(data_dir), "collection": COLLECTION, "file": state} | facts
    await anyio.to_thread.run_sync(_write_record, data_dir / RECORD, record)
    return facts


async def _import_rows(engine: Engine, rows: ForeignRows, watch: Watch | None) -> Report:
    report, done = Report(), 0

    async def send(batch: list[dict[str, Any]]) -> list[Taken]:
        given = [foreign_row(row) for row in batch]
        return await engine.import_rows(given, embed=False, unasked=True)

    def take(batch: list[dict[str, Any]], taken: list[Taken]) -> None:
        nonlocal done
        for one in taken:
            error = {"message": one.error.message} if one.error else None
            report.take(one.id, one.outcome, one.notes, one.masked, one.reused_vector, error)
        done += len(batch)
        if watch is not None:
            watch(Progress("taking over", done, rows.count))

    async with in_flight(send, take) as put:
        for batch in rows.batches(BATCH_ROWS, BATCH_CHARS):
            await put(batch)
    return report


def look_at_takeover(data_dir: Path) -> dict[str, Any] | None:
    """What is known of a store of another program in this directory; None if there is none."""
    if not os.path.isfile(data_dir / DATABASE):
        return None
    try:
        record = json.loads(files.read_text(data_dir / RECORD))
        state = record.pop("file")
    except (OSError, ValueError, KeyError, AttributeError):
        return {"state": WAITING, "source": str(data_dir), "collection": COLLECTION}
    return dict(record) | {"state": DONE if state == _state(data_dir) else CHANGED}


def _state(data_dir: Path) -> list[int]:
    """Size and time of the other program's database: they differ once it was written to."""
    found = (data_dir / DATABASE).stat()
    return [found.st_size, found.st_mtime_ns]


def _write_record(path: Path, record: dict[str, Any]) -> None:
    with files.replacing(path) as file:
        file.write(json.dumps(record, indent=1).encode() + b"\n")
