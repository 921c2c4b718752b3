"""`memoryd export` and `memoryd import`: memories into a file, and back.

`memoryd.export_file` has the default format, JSON lines. It is that of backups too, so these can be
imported as well; `memoryd.formats` has the others. An export is written under another name and
renamed when it is complete, so one that is killed leaves no partial file. An import reads its file
twice: once to verify it, then to send it; stdin is copied to an unnamed file first. Ids are kept,
so an import that was killed continues when it is run again: what is already stored is skipped.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from memoryd import files
from memoryd.cli.forget import connect
from memoryd.cli.import_preview import lines
from memoryd.cli.options import selection
from memoryd.cli.output import clean, counted, note, say, say_json
from memoryd.cli.progress import Progress
from memoryd.cli.store import require_store
from memoryd.client.owner import ExportPage, ImportResult, OwnerClient
from memoryd.errors import InvalidInput, MemorydError
from memoryd.export_file import PASSAGES, Header, Writer, is_export, open_export
from memoryd.formats import IMPORT_FORMATS, claude_md, markdown
from memoryd.formats.json_file import JsonWriter
from memoryd.formats.source import Source
from memoryd.imports.in_flight import in_flight
from memoryd.imports.report import OUTCOMES, Preview, why

Batch = list[tuple[int, dict[str, Any]]]  # numbers of lines, and memories
BATCH_MEMORIES, BATCH_BYTES = 256, 256_000  # of one call; the daemon limits the size of a message
MAX_REPORTED = 20  # lines that are reported one by one
BATCH_TIMEOUT = 600.0  # seconds for a batch: long texts have many passages to embed
LONG_BLOCK = 8_192  # bytes of facts in a CLAUDE.md from which a note says so
NEW_VECTORS = "Every vector is computed again. For a file of your own, --trust-vectors skips this."


def export(options: argparse.Namespace) -> int:
    """Write the memories that match, by default all; say how many."""
    name = _output(options)
    require_store(options)
    if name == "-":
        count = asyncio.run(_export(options, sys.stdout.buffer))
        sys.stdout.buffer.flush()
        note(f"Exported {counted(count)}.")
        return 0
    path = Path(name)
    if options.format == "claude-md":
        count = asyncio.run(_export_block(options, path))
    else:
        _check_writable(path, options)
        with _replacing(path) as file:
            count = asyncio.run(_export(options, file))
    if options.json:
        say_json({"exported": count, "file": str(path), "bytes": path.stat().st_size})
    else:
        say(f"Exported {counted(count)} to {clean(str(path))}.")
    return 0


def _output(options: argparse.Namespace) -> str:
    """The name of the file to write; - for stdout."""
    if options.file is not None and options.output is not None:
        raise InvalidInput("Two files are named.", code="usage", hint="Name one of them.")
    if options.embeddings and options.format not in ("jsonl", "json"):
        raise InvalidInput(
            f"The format {options.format} has no vectors.",
            code="usage",
            hint="Leave out --embeddings, or use --format jsonl.",
        )
    return str(options.file or options.output or "-")


def _check_writable(path: Path, options: argparse.Namespace) -> None:
    if os.path.lexists(path) and not (path.is_file() or path.is_symlink()):
        raise InvalidInput(
            f"{path} is not a file.", code="file_special", hint="Name a file, or - for stdout."
        )
    if os.path.lexists(path) and not options.overwrite:
        raise InvalidInput(
            f"{path} already exists.", code="file_exists", hint="Add --overwrite to replace it."
        )


async def _export(options: argparse.Namespace, file: IO[bytes]) -> int:
    """Write the memories that match, in the format that was asked for; how many."""
    if options.format == "claude-md":
        text, count = await _block(options)
        file.write(text.encode())
        return count
    if options.format == "md":
        return markdown.write(await _all(options), file)
    made: type[Writer] | type[JsonWriter] = Writer if options.format == "jsonl" else JsonWriter
    writer = None
    async for page in _pages(options):
        if writer is None:
            total = page["total"] or 0
            header = Header(page["model"], page["dimension"], options.embeddings, total)
            writer = made(file, header)
        for fields in page["memories"]:
            writer.memory(fields)
    assert writer is not None  # there is at least one page
    writer.end()
    return writer.count


async def _pages(options: argparse.Namespace) -> AsyncIterator[ExportPage]:
    """What matches, page by page."""
    async with connect(options) as daemon:
        chosen = selection(options) | {"embeddings": options.embeddings}
        page, done = await daemon.export_page(None, **chosen), 0
        with Progress("Exporting", page["total"] or 0) as progress:
            while True:
                yield page
                done += len(page["memories"])
                progress.at(done)
                if page["after"] is None:
                    return
                page = await daemon.export_page(page["after"], **chosen)


async def _all(options: argparse.Namespace) -> list[dict[str, Any]]:
    return [fields async for page in _pages(options) for fields in page["memories"]]


async def _block(options: argparse.Namespace) -> tuple[str, int]:
    """The block for a CLAUDE.md, and how many facts are in it."""
    text, count = claude_md.block(await _all(options))
    if (size := len(text.encode())) > LONG_BLOCK:
        note(f"The block has {size} bytes, and is part of every prompt. --kind, --tag and --filter "
             "choose fewer facts.")  # fmt: skip
    return text, count


async def _export_block(options: argparse.Namespace, path: Path) -> int:
    """Replace the block in a CLAUDE.md, or add one to it; how many facts are in it."""
    text, count = await _block(options)
    mode, existing = _existing(path)
    try:
        changed = claude_md.with_block(existing, text)
    except ValueError as exc:
        line, sentence = exc.args
        raise InvalidInput(
            f"{path}, line {line}: {sentence}.",
            code="block_damaged",
            hint="Repair or remove the markers. Nothing was changed.",
        ) from None
    if changed != existing:
        with _replacing(path) as file:
            if hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), mode)
            file.write(changed.encode())
    return count


def _existing(path: Path) -> tuple[int, str]:
    """The mode and the text of a file; private and empty if there is none. A link is refused:
    whoever made it chose the file that would be changed."""
    try:
        with os.fdopen(files.open_file(path, os.O_RDONLY), "rb") as file:
            return stat.S_IMODE(os.fstat(file.fileno()).st_mode), file.read().decode()
    except FileNotFoundError:
        return 0o600, ""
    except (OSError, UnicodeDecodeError) as exc:
        why = "it is not UTF-8 text" if isinstance(exc, UnicodeDecodeError) else exc.strerror
        raise InvalidInput(
            f"{path} cannot be updated: {why}.",
            code="file_unreadable",
            hint="Name a regular file of your own.",
        ) from exc


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
            hint="Run: memoryd import PATH, or: memoryd import --chroma DIR",
        )
    if _may_be_of_another_program(options):
        from memoryd.cli.imports import import_product

        if (code := import_product(options)) is not None:
            return code
    if options.keep or options.format not in (None, *IMPORT_FORMATS):
        raise InvalidInput(
            "--keep is only for conversations of another program."
            if options.keep
            else f"{options.format} cannot be read from stdin.",
            code="usage",
            hint="Name the file or folder that the program wrote.",
        )
    with _opened(options.file, options.format) as source:
        if source.header.embeddings and not options.trust_vectors:
            note(NEW_VECTORS)
        if options.dry_run:
            return _show(source, as_json=options.json)
        if source.skipped:
            lines = "1 line" if source.skipped == 1 else f"{source.skipped} lines"
            note(f"Only lists are imported; {lines} outside of them: left out.")
        report = asyncio.run(_import(options, source))
    if options.json:
        counts = {outcome: report.counts[outcome] for outcome in OUTCOMES}
        say_json(counts | {"masked": report.masked, "lines": report.lines})
    else:
        _tell(report, "Memory" if source.format == "json" else "Line")
    return 1 if report.counts["refused"] else 0


def _may_be_of_another_program(options: argparse.Namespace) -> bool:
    """Whether a reader of another program's files must be asked. Importing all of them takes longer
    than to look at how an export begins."""
    if options.file == "-" or options.format in IMPORT_FORMATS:
        return False
    return options.format is not None or not is_export(Path(options.file))


def _show(source: Source, *, as_json: bool) -> int:
    """What would be imported. Memories in these files say when they expire."""
    preview = Preview(None, clean)
    for _, memory, _ in source.memories():
        preview.take_exported(memory)
    if as_json:
        say_json({"format": source.format} | preview.facts())
    else:
        for line in lines(preview):
            say(line)
    return 0


async def _import(options: argparse.Namespace, source: Source) -> Report:
    report, done = Report(), 0
    async with connect(options, timeout=BATCH_TIMEOUT) as daemon:
        known = await _known_facts(daemon) if source.written else set()

        async def send(batch: Batch) -> list[ImportResult]:
            return await daemon.import_batch(
                [memory for _, memory in batch],
                model=source.header.model,
                overwrite=options.overwrite,
                trust_vectors=options.trust_vectors,
            )

        def take(batch: Batch, arrived: list[ImportResult]) -> None:
            nonlocal done
            for (number, memory), outcome in zip(batch, arrived, strict=True):
                report.take(number, memory, outcome)
            done += len(batch)
            progress.at(done)

        with Progress("Importing", source.count) as progress:
            async with in_flight(send, take) as put:
                for batch in _batches(source, vectors=options.trust_vectors):
                    new = [
                        (number, memory)
                        for number, memory in batch
                        if memory["id"] not in source.written
                        or not claude_md.is_known(memory, known)
                    ]
                    report.counts["known"] += len(batch) - len(new)
                    done += len(batch) - len(new)
                    await put(new)
    return report


async def _known_facts(daemon: OwnerClient) -> set[str]:
    """What all facts are known by, for `claude_md.is_known`."""
    known: set[str] = set()
    after: str | None = None
    while True:
        page = await daemon.export_page(after, memory_type="fact")
        for fact in page["memories"]:
            known |= claude_md.known_by(fact["id"], fact["content"])
        if (after := page["after"]) is None:
            return known


def _batches(source: Source, *, vectors: bool) -> Iterator[Batch]:
    batch: Batch = []
    size = 0
    for number, memory, length in source.memories():
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
def _opened(name: str, format: str | None) -> Iterator[Source]:
    """The file, or a copy of stdin, because it is read twice."""
    if name != "-":
        with open_export(Path(name)) as file:
            yield Source(file, name, format)
        return
    with tempfile.TemporaryFile(prefix="memoryd-import-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        yield Source(copy, "stdin", format)


def _tell(report: Report, unit: str) -> None:
    for found in report.lines[:MAX_REPORTED]:
        note(f"{unit} {found['line']}: {clean(why(found['id'], found))}")
    if (more := len(report.lines) - MAX_REPORTED) > 0:
        note(f"{more} more lines like these; --json shows them all.")
    counts = [f"{report.counts[o]} {o}" for o in OUTCOMES if report.counts[o] or o == "added"]
    say(f"Imported: {', '.join(counts)}.")
    if report.masked:
        say(f"What looked like a secret was removed from {report.masked} of them.")
