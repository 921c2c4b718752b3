"""`memoryd export` and `memoryd import`: memories into a file of JSON lines, and back.

An export is written under another name and renamed when it is complete, so one that is killed
leaves no partial file. An import reads its file twice: once to verify it, then to send it; stdin is
copied to an unnamed file first. Ids are kept, so an import that was killed continues when it is run
again: what is already stored is skipped.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from memoryd import files
from memoryd.cli import jsonl
from memoryd.cli.forget import connect
from memoryd.cli.jsonl import Writer
from memoryd.cli.options import selection
from memoryd.cli.output import clean, counted, note, say, say_json
from memoryd.cli.progress import Progress
from memoryd.cli.store import require_store
from memoryd.client.owner import ImportResult, OwnerClient
from memoryd.errors import InvalidInput, MemorydError

BATCH_MEMORIES, BATCH_BYTES = 64, 256_000  # of one call; the daemon limits the size of a message
MAX_REPORTED = 20  # lines that are reported one by one
BATCH_TIMEOUT = 600.0  # seconds for a batch: long texts have many passages to embed
NEW_VECTORS = (
    "Every vector is computed again. For an export of your own, --trust-vectors skips this."
)
OUTCOMES = ("added", "replaced", "known", "kept", "expired", "refused")


def export(options: argparse.Namespace) -> int:
    """Write the memories that match, by default all; say how many."""
    require_store(options)
    if options.file == "-":
        count = asyncio.run(_export(options, sys.stdout.buffer))
        sys.stdout.buffer.flush()
        note(f"Exported {counted(count)}.")
        return 0
    path = Path(options.file)
    if os.path.lexists(path) and not (path.is_file() or path.is_symlink()):
        raise InvalidInput(
            f"{path} is not a file.", code="file_special", hint="Name a file, or - for stdout."
        )
    if os.path.lexists(path) and not options.overwrite:
        raise InvalidInput(
            f"{path} already exists.", code="file_exists", hint="Add --overwrite to replace it."
        )
    with _replacing(path) as file:
        count = asyncio.run(_export(options, file))
    if options.json:
        say_json({"exported": count, "file": str(path), "bytes": path.stat().st_size})
    else:
        say(f"Exported {counted(count)} to {clean(str(path))}.")
    return 0


async def _export(options: argparse.Namespace, file: IO[bytes]) -> int:
    writer = Writer(file)
    async with connect(options) as daemon:
        chosen = selection(options) | {"embeddings": options.embeddings}
        page = await daemon.export_page(None, **chosen)
        total = page["total"] or 0
        writer.head(total, page["model"], page["dimension"], options.embeddings)
        with Progress("Exporting", total) as progress:
            while True:
                for fields in page["memories"]:
                    writer.memory(fields)
                progress.at(writer.count)
                if page["after"] is None:
                    break
                page = await daemon.export_page(page["after"], **chosen)
    writer.end()
    return writer.count


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A private file that replaces `path` once it is complete and on the disk. MemorydError if it
    cannot be written."""
    try:
        with files.replacing(path) as file:
            yield file
    except OSError as exc:
        raise MemorydError(
            f"{path} cannot be written: {exc.strerror or exc}.",
            code="file_unwritable",
            hint="Choose another file, or check the folder and its disk.",
        ) from exc


@dataclass(slots=True)
class Report:
    """How many memories had each outcome, and the lines that the user should look at."""

    counts: Counter[str] = field(default_factory=Counter)
    lines: list[dict[str, Any]] = field(default_factory=list)
    masked: int = 0

    def take(self, number: int, memory: dict[str, Any], arrived: ImportResult) -> None:
        self.counts[arrived["outcome"]] += 1
        self.masked += arrived.get("masked", False)
        if arrived["outcome"] in ("kept", "refused") or arrived.get("masked"):
            found = {"line": number, "id": memory["id"], **arrived}
            self.lines.append(found)


def take_in(options: argparse.Namespace) -> int:
    """Import a file; exit code 1 if a memory of it was refused."""
    with _opened(options.file) as file:
        header = jsonl.verified(file)
        if header.embeddings and not options.trust_vectors:
            note(NEW_VECTORS)
        report = asyncio.run(_import(options, file, header))
    if options.json:
        counts = {outcome: report.counts[outcome] for outcome in OUTCOMES}
        say_json(counts | {"masked": report.masked, "lines": report.lines})
    else:
        _tell(report)
    return 1 if report.counts["refused"] else 0


async def _import(options: argparse.Namespace, file: IO[bytes], header: jsonl.Header) -> Report:
    report, done = Report(), 0
    async with connect(options, timeout=BATCH_TIMEOUT) as daemon:
        with Progress("Importing", header.count) as progress:
            for batch in _batches(file, vectors=options.trust_vectors):
                memories = [memory for _, memory in batch]
                arrived = await _send(daemon, memories, header, options)
                for (number, memory), outcome in zip(batch, arrived, strict=True):
                    report.take(number, memory, outcome)
                done += len(batch)
                progress.at(done)
    return report


async def _send(
    daemon: OwnerClient,
    memories: list[dict[str, Any]],
    header: jsonl.Header,
    options: argparse.Namespace,
) -> list[ImportResult]:
    return await daemon.import_batch(
        memories,
        model=header.model,
        overwrite=options.overwrite,
        trust_vectors=options.trust_vectors,
    )


def _batches(file: IO[bytes], *, vectors: bool) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    batch: list[tuple[int, dict[str, Any]]] = []
    size = 0
    for number, memory, length in jsonl.memories(file):
        if batch and (len(batch) >= BATCH_MEMORIES or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        if not vectors:
            memory.pop("passages", None)
        batch.append((number, memory))
        size += length
    if batch:
        yield batch


@contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    """The file, or a copy of stdin that can be read twice."""
    if name == "-":
        with tempfile.TemporaryFile(prefix="memoryd-import-") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
            yield copy
        return
    try:
        file = Path(name).open("rb")
    except OSError as exc:
        raise InvalidInput(
            f"{name} cannot be read: {exc.strerror or exc}.",
            code="file_unreadable",
            hint="Check the path and the mode of the file.",
        ) from exc
    with file:
        yield file


def _tell(report: Report) -> None:
    for found in report.lines[:MAX_REPORTED]:
        note(f"Line {found['line']}: {clean(_why(found))}")
    if (more := len(report.lines) - MAX_REPORTED) > 0:
        note(f"{more} more lines like these; --json shows them all.")
    counts = [f"{report.counts[o]} {o}" for o in OUTCOMES if report.counts[o] or o == "added"]
    say(f"Imported: {', '.join(counts)}.")
    if report.masked:
        say(f"What looked like a secret was removed from {report.masked} of them.")


def _why(found: dict[str, Any]) -> str:
    if found["outcome"] == "refused":
        return f"refused. {found['error']['message']}"
    if found.get("masked"):
        return "what looked like a secret was removed before storing."
    if found["rival"] == found["id"]:
        same = f"memory {found['id']} differs from the stored one, which was kept"
        return f"{same}; --overwrite replaces it."
    return (
        f"memory {found['id']} was not imported: {found['rival']} has its name or says the same; "
        "--overwrite replaces that one."
    )
