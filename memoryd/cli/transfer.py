"""`memoryd export` and `memoryd import`: memories into a file of JSON lines, and back.

`memoryd.export_file` has the format. It is that of backups too, so these can be imported as well.
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
from memoryd.cli.forget import connect
from memoryd.cli.options import selection
from memoryd.cli.output import clean, counted, note, say, say_json
from memoryd.cli.progress import Progress
from memoryd.cli.store import require_store
from memoryd.client.owner import ImportResult
from memoryd.errors import InvalidInput, MemorydError
from memoryd.export_file import PASSAGES, Header, Reader, Writer, open_reader

BATCH_MEMORIES, BATCH_BYTES = 64, 256_000  # of one call; the daemon limits the size of a message
MAX_REPORTED = 20  # lines that are reported one by one
BATCH_TIMEOUT = 600.0  # seconds for a batch: long texts have many passages to embed
NEW_VECTORS = "Every vector is computed again. For a file of your own, --trust-vectors skips this."
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
    async with connect(options) as daemon:
        chosen = selection(options) | {"embeddings": options.embeddings}
        page = await daemon.export_page(None, **chosen)
        total = page["total"] or 0
        writer = Writer(file, Header(page["model"], page["dimension"], options.embeddings, total))
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


def import_memories(options: argparse.Namespace) -> int:
    """Import a file, or a Chroma directory; exit code 1 if a memory of it was refused."""
    if options.chroma is not None:
        from memoryd.cli.takeover import import_chroma

        return import_chroma(options)
    if options.file is None or options.collection is not None:
        raise InvalidInput(
            "Nothing to import was named."
            if options.file is None
            else "--collection needs --chroma.",
            code="usage",
            hint="Run: memoryd import FILE, or: memoryd import --chroma DIR",
        )
    with _opened(options.file) as reader:
        header, count = reader.header(), reader.verify()
        if header.embeddings and not options.trust_vectors:
            note(NEW_VECTORS)
        report = asyncio.run(_import(options, reader, header.model, count))
    if options.json:
        counts = {outcome: report.counts[outcome] for outcome in OUTCOMES}
        say_json(counts | {"masked": report.masked, "lines": report.lines})
    else:
        _tell(report)
    return 1 if report.counts["refused"] else 0


async def _import(
    options: argparse.Namespace, reader: Reader, model: str | None, count: int
) -> Report:
    report, done = Report(), 0
    async with connect(options, timeout=BATCH_TIMEOUT) as daemon:
        with Progress("Importing", count) as progress:
            for batch in _batches(reader, vectors=options.trust_vectors):
                arrived = await daemon.import_batch(
                    [memory for _, memory in batch],
                    model=model,
                    overwrite=options.overwrite,
                    trust_vectors=options.trust_vectors,
                )
                for (number, memory), outcome in zip(batch, arrived, strict=True):
                    report.take(number, memory, outcome)
                done += len(batch)
                progress.at(done)
    return report


def _batches(reader: Reader, *, vectors: bool) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    batch: list[tuple[int, dict[str, Any]]] = []
    size = 0
    for number, memory, length in reader.memories():
        if batch and (len(batch) >= BATCH_MEMORIES or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        if not vectors:
            memory.pop(PASSAGES, None)
        batch.append((number, memory))
        size += length
    if batch:
        yield batch


@contextmanager
def _opened(name: str) -> Iterator[Reader]:
    """A reader of the file, or of a copy of stdin, because it is read twice."""
    if name != "-":
        with open_reader(Path(name)) as reader:
            yield reader
        return
    with tempfile.TemporaryFile(prefix="memoryd-import-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        yield Reader(copy, "stdin")


def _tell(report: Report) -> None:
    for found in report.lines[:MAX_REPORTED]:
        note(f"Line {found['line']}: {clean(_why(found))}")
    if (more := len(report.lines) - MAX_REPORTED) > 0:
        note(f"{more} more lines like these; --json shows them all.")
    counts = [f"{report.counts[o]} {o}" for o in OUTCOMES if report.counts[o] or o == "added"]
    say(f"Imported: {', '.join(counts)}.")
    if report.masked:
        say(f"What looked like a secret was removed from {report.masked} of them.")


def _why(answer: dict[str, Any]) -> str:
    if answer["outcome"] == "refused":
        return f"refused. {answer['error']['message']}"
    if answer.get("masked"):
        return "what looked like a secret was removed before storing."
    if answer["rival"] == answer["id"]:
        same = f"memory {answer['id']} differs from the stored one, which was kept"
        return f"{same}; --overwrite replaces it."
    return (
        f"memory {answer['id']} was not imported: {answer['rival']} has its name or says the same; "
        "--overwrite replaces that one."
    )
