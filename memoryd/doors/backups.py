"""Owner operations on backups: list them, see what one would bring back, and restore it.

To add, what is missing is imported, and nothing that is here changes. To replace, the daemon makes
a backup of what is here, closes the store, restores the other one by the way that `memoryd restore`
takes, and opens it again; calls wait meanwhile. A kill at any moment leaves the old store or the
restored one, whole.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from memoryd.doors import render
from memoryd.doors.detail import short
from memoryd.doors.imports import reading
from memoryd.doors.owner import backup_facts, import_memories
from memoryd.doors.readiness import Readiness
from memoryd.engine import checks
from memoryd.engine.engine import Engine
from memoryd.engine.transfer import memory_from, same
from memoryd.errors import InvalidInput, MemorydError, NotFound, StoreError
from memoryd.export_file import PASSAGES, Header, open_reader
from memoryd.imports.in_flight import in_flight
from memoryd.imports.report import BATCH_ROWS, OUTCOMES
from memoryd.model import Memory, is_expired

Arguments = dict[str, Any]
Restorer = Callable[[Path], Awaitable[int]]  # replaces the store by a backup; how many memories
ADD, REPLACE = MODES = ("add", "replace")
SHOWN = 20  # memories that are named
COPY = "restoring.jsonl.gz"  # in the data directory: the backup while it is restored


@dataclass(slots=True)
class Restoring:
    """A restore that the daemon was asked for, and how it ended."""

    path: Path
    count: int = 0  # of memories that were restored
    error: MemorydError | None = None
    done: anyio.Event = field(default_factory=anyio.Event)

    def end(self, error: MemorydError | None = None) -> None:
        """The memories are open again, or cannot be opened."""
        self.error = self.error or error
        self.done.set()

    async def outcome(self) -> int:
        """Wait for the end; how many memories were restored. Raises what prevented it."""
        await self.done.wait()
        if self.error is not None:
            raise self.error
        return self.count


class Backups:
    """The operations `backups`, `restore_preview` and `restore`."""

    def __init__(self, readiness: Readiness, data_dir: Path, restorer: Restorer | None) -> None:
        """`restorer` None: a store that cannot be replaced from here."""
        self._readiness = readiness
        self._copy = data_dir / COPY
        self._copy.unlink(missing_ok=True)  # of a restore that was killed
        self._restorer = restorer
        self.calls: dict[str, Callable[[Arguments], Awaitable[Arguments]]] = {
            "backups": self._backups,
            "restore_preview": self._preview,
            "restore": self._restore,
        }
        self.arguments: dict[str, set[str]] = {
            "backups": set(),
            "restore_preview": {"path"},
            "restore": {"path", "confirm", "mode"},
        }

    async def _backups(self, given: Arguments) -> Arguments:
        """The backups, newest first. Each was verified when it was made."""
        engine = await self._readiness.engine()
        folder, found = await engine.all_backups()
        return {
            "folder": str(folder),
            "every_hours": engine.backup_hours,
            "keep": engine.backups_kept,
            "backups": [
                backup_facts(one, engine) | {"name": Path(one.path).name, "verified": one.readable}
                for one in found
            ],
        }

    async def _preview(self, given: Arguments) -> Arguments:
        """What a restore would bring back and lose. The whole file is verified; nothing changes."""
        engine, path = await self._readiness.engine(), _path(given)
        compare = partial(_compared, path, engine.all_memories(), engine.now())
        found = await anyio.to_thread.run_sync(compare, engine.max_content_bytes)
        return {"path": str(path)} | found.facts(engine.zone)

    async def _restore(self, given: Arguments) -> Arguments:
        path, mode = _path(given), given.get("mode", ADD)
        if mode not in MODES:
            message = f"There is no mode {str(mode)[:50]!r}."
            raise InvalidInput(message, code="mode_unknown", hint=f"Use {' or '.join(MODES)}.")
        if given.get("confirm") is not True:
            raise InvalidInput(
                "A restore must be confirmed; nothing was changed.",
                code="confirm_missing",
                hint="See restore_preview first, then call restore with confirm true.",
            )
        engine = await self._readiness.engine()
        header = await anyio.to_thread.run_sync(_verified, path)
        if mode == ADD:
            return {"mode": mode, "path": str(path)} | await _added(engine, path, header)
        return {"mode": mode, "path": str(path)} | await self._replaced(engine, path)

    async def _replaced(self, engine: Engine, path: Path) -> Arguments:
        if self._restorer is None:
            raise StoreError("A Chroma server cannot be restored from here.", code="not_embedded")
        with self._kept(path) as copy:
            made = await engine.backup()
            count = await self._restorer(copy)
        return {"memories": count, "safety_backup": made.path}

    @contextmanager
    def _kept(self, path: Path) -> Iterator[Path]:
        """The backup under another name: the one that is made first may rotate it away."""
        self._copy.unlink(missing_ok=True)
        try:
            os.link(path, self._copy)
        except OSError:  # on another disk
            shutil.copyfile(path, self._copy)
            self._copy.chmod(0o600)
        try:
            yield self._copy
        finally:
            self._copy.unlink(missing_ok=True)


async def _added(engine: Engine, path: Path, header: Header) -> Arguments:
    """Import what is missing."""
    counts: Counter[str] = Counter()
    asked: Arguments = {"model": header.model, "trust_vectors": True}

    async def send(batch: list[Arguments]) -> Arguments:
        # A backup is of private memories; one that is older than audiences does not say so.
        return await import_memories(engine, asked | {"memories": batch}, unasked=True)

    def take(batch: list[Arguments], answer: Arguments) -> None:
        counts.update(one["outcome"] for one in answer["outcomes"])

    async with reading(partial(_batches, path)) as batches, in_flight(send, take) as put:
        async for batch in batches:
            await put(batch)
    told = {outcome: counts[outcome] for outcome in OUTCOMES if outcome != "replaced"}
    return told | {"memories": engine.count, "safety_backup": None}


def _batches(path: Path) -> Iterator[list[Arguments]]:
    batch: list[Arguments] = []
    with open_reader(path) as reader:
        for _, fields, _ in reader.memories():
            batch.append(fields)
            if len(batch) == BATCH_ROWS:
                yield batch
                batch = []
    if batch:
        yield batch


@dataclass(slots=True)
class Comparison:
    """A backup beside the memories that are here now."""

    header: Header
    types: Counter[str] = field(default_factory=Counter)
    types_now: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    returned: list[Memory] = field(default_factory=list)
    lost: list[Memory] = field(default_factory=list)

    def facts(self, zone: tzinfo | None) -> Arguments:
        at = self.header.created_at
        return {
            "created_at": None if at is None else render.moment(at, zone),
            "model": self.header.model,
            "memories": self.types.total(),
            "by_type": dict(self.types),
            "now": {"memories": self.types_now.total(), "by_type": dict(self.types_now)},
            "would_return": self.counts["returned"],
            "would_be_lost": self.counts["lost"],
            "differ": self.counts["differ"],
            "same": self.counts["same"],
            "expired": self.counts["expired"],
            "refused": self.counts["refused"],
            "first_returned": [short(memory, zone) for memory in self.returned],
            "first_lost": [short(memory, zone) for memory in self.lost],
        }


def _compared(path: Path, memories: Iterable[Memory], now: float, max_bytes: int) -> Comparison:
    """Raises FileDamaged. Runs on a thread."""
    here = {memory.id: memory for memory in memories if not is_expired(memory, now)}
    header = _verified(path)
    found = Comparison(header, types_now=Counter(str(memory.type) for memory in here.values()))
    for fields in (one for batch in _batches(path) for one in batch):
        found.types[str(fields["type"])] += 1
        other = here.pop(fields["id"], None)
        what, memory = _judged(fields, other, now, max_bytes)
        found.counts[what] += 1
        if what == "returned" and memory and len(found.returned) < SHOWN:
            found.returned.append(memory)
    found.counts["lost"] = len(here)
    found.lost = sorted(here.values(), key=lambda memory: -memory.created_at)[:SHOWN]
    return found


def _judged(
    fields: Mapping[str, Any], other: Memory | None, now: float, max_bytes: int
) -> tuple[str, Memory | None]:
    try:
        plain = {key: value for key, value in fields.items() if key != PASSAGES}
        memory = memory_from(plain, max_bytes)
    except InvalidInput:
        return "refused", None
    if is_expired(memory, now):
        return "expired", memory
    if other is None:
        return "returned", memory
    return ("same" if same(memory, other) else "differ"), memory


def _verified(path: Path) -> Header:
    """Read the whole file; its first line. Raises FileDamaged, or `not_a_backup`."""
    with open_reader(path) as reader:
        header = reader.header()
        if not header.is_backup:
            raise InvalidInput(
                f"{path.name} is an export, not a backup.",
                code="not_a_backup",
                hint="Import it instead.",
            )
        reader.verify()
        return header


def _path(given: Arguments) -> Path:
    """Raises InvalidInput or NotFound."""
    named = checks.path_text(given.get("path"), "path")
    path = Path(named)
    if not path.is_absolute():
        hint = "Take a path from backups."
        raise InvalidInput("path must be an absolute path.", code="path_invalid", hint=hint)
    if not path.is_file():
        raise NotFound(f"There is no backup {named!r}.", hint="Call backups to see them.")
    return path
