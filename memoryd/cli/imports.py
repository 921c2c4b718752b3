"""`memoryd import` of what another program keeps: memories, notes, transcripts and data exports.

`memoryd.imports` recognises and reads; here the rows are sent in batches, or with --dry-run only
counted. Ids are those of the other program or derived from it, so an import that was killed
continues when it is run again, and a second one adds nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from memoryd.cli.forget import connect
from memoryd.cli.import_preview import lines
from memoryd.cli.output import clean, counted, note, say, say_json
from memoryd.cli.progress import Progress
from memoryd.cli.target import settings
from memoryd.client.errors import DaemonLost
from memoryd.errors import InvalidInput
from memoryd.imports import mempalace
from memoryd.imports.in_flight import in_flight
from memoryd.imports.recognise import CHROMA, FORMATS, Recognised, is_unknown, recognised
from memoryd.imports.report import Batch, Preview, Report, batches, once
from memoryd.imports.rows import Found, Row

BATCH_TIMEOUT = 600.0  # seconds for a batch: long texts have many passages to embed
MAX_NAMED = 20  # rows that are named one by one
DAY = 86_400.0
SAID = {
    "replaced": "replaced",
    "known": "already here",
    "kept": "different here and left so",
    "expired": "expired and left out",
    "refused": "refused",
}
NOTES = {
    "no_time": "had no time of creation and got the present one",
    "new_id": "got another id (the old one is in the metadata, original_id)",
    "renamed_metadata": "had metadata that memoryd reserves or refuses (now original_...)",
    "masked": "contained what looked like a secret, which was removed",
}
Source = Callable[[], Found]  # reads the rows from the beginning, each time it is called


def import_product(options: argparse.Namespace) -> int | None:
    """Import the file or folder if another program wrote it; the exit code, 1 if something was
    damaged or refused. None if it is none of the known formats."""
    path = Path(options.file).expanduser()
    found = recognised(path, options.format)
    if found is None:
        if path.is_dir() or (options.format is None and is_unknown(path)):
            raise _unknown(path)
        return None
    if options.trust_vectors:
        message = "--trust-vectors is only for an export of memoryd."
        raise InvalidInput(message, code="usage", hint="Leave it out.")
    if found.format == CHROMA:
        from memoryd.cli.takeover import import_chroma

        options.file, options.chroma = None, str(found.path)
        return import_chroma(options)
    return asyncio.run(_run(options, found))


def _unknown(path: Path) -> InvalidInput:
    return InvalidInput(
        f"Nothing that can be imported was recognised in {path}.",
        code="format_unknown",
        hint=("Name a file in it. " if path.is_dir() else "")
        + f"Known are exports of memoryd, lists in Markdown, and: {', '.join(FORMATS)}.",
    )


async def _run(options: argparse.Namespace, found: Recognised) -> int:
    async with _opened(found) as source:
        if options.dry_run:
            return _show(options, found, source)
        report = Report()
        try:
            await _send(options, source, report)
        except DaemonLost as exc:
            again = "Run the same command again: it continues, and adds nothing twice."
            raise DaemonLost("The daemon ended during the import.", hint=again) from exc
    if options.json:
        say_json(_facts(found, report))
    else:
        _tell(found, report)
    return 1 if report.counts["refused"] or report.faults else 0


@asynccontextmanager
async def _opened(found: Recognised) -> AsyncIterator[Source]:
    """What reads the rows. Those of a collection in ChromaDB are copied first, because only another
    process opens ChromaDB."""
    if found.collection is None:
        yield lambda: once(FORMATS[found.format].read(found.path))
        return
    from memoryd.wiring.takeover import read_foreign

    with tempfile.TemporaryDirectory(prefix="memoryd-import-") as folder:
        rows = await read_foreign(found.path.absolute(), found.collection, Path(folder))
        yield lambda: once(mempalace.from_row(row) for row, _ in rows)


def _facts(found: Recognised, report: Report) -> dict[str, Any]:
    """The report for a program."""
    about = {"format": found.format, "source": str(found.path)}
    counts = {name: report.counts[name] for name in ("added", *SAID, *NOTES)}
    listed = {"skipped": dict(report.skipped), "faults": report.faults, "rows": report.rows}
    return about | counts | listed


async def _send(options: argparse.Namespace, source: Source, report: Report) -> None:
    """Import every row."""
    total = sum(isinstance(row, Row) for row in source()) if sys.stderr.isatty() else 0
    done = 0
    async with connect(options, timeout=BATCH_TIMEOUT) as daemon:

        async def send(batch: Batch) -> list[dict[str, Any]]:
            rows = [fields for _, fields in batch]
            return await daemon.import_rows(rows, separate=False, overwrite=options.overwrite)

        def take(batch: Batch, outcomes: list[dict[str, Any]]) -> None:
            nonlocal done
            for (row, _), outcome in zip(batch, outcomes, strict=True):
                report.take(row, outcome)
            done += len(batch)
            progress.at(done)

        with Progress("Importing", total) as progress:
            async with in_flight(send, take) as put:
                for batch in batches(source(), report.skip, keep=options.keep):
                    await put(batch)


def _tell(found: Recognised, report: Report) -> None:
    for fault in report.faults[:MAX_NAMED]:
        note(f"{clean(fault['where'])}: {clean(fault['message'])}. It was left out.")
    for row in report.rows[:MAX_NAMED]:
        note(f"{clean(row['where'] or row['id'])}: {row['outcome']}. {clean(row['message'])}")
    more = max(0, len(report.faults) - MAX_NAMED) + max(0, len(report.rows) - MAX_NAMED)
    if more:
        note(f"{more} more like these; --json shows them all.")
    counts = [f"{report.counts[key]} {text}" for key, text in SAID.items() if report.counts[key]]
    others = f" ({', '.join(counts)})" if counts else ""
    where = f"{found.title}, {clean(str(found.path))}"
    say(f"Imported {counted(report.counts['added'])} from {where}{others}.")
    for key, text in NOTES.items():
        if report.counts[key]:
            say(f"{report.counts[key]} {text}.")
    if report.counts["expired"]:
        say("Conversations expire some time after they were held; --keep imports them for good.")
    for line in left_out(report.skipped, len(report.faults)):
        say(line)


def left_out(skipped: Counter[str], faults: int) -> Iterator[str]:
    """What was not taken, as a sentence."""
    parts = [f"{count} {clean(reason)}" for reason, count in skipped.most_common()]
    parts += [f"{faults} damaged"] if faults else []
    if parts:
        yield f"Left out: {', '.join(parts)}."


def _show(options: argparse.Namespace, found: Recognised, source: Source) -> int:
    """What would be imported."""
    days = settings(options).memory.conversation_days
    preview, report = Preview(None if options.keep else days * DAY, clean), Report()
    for row in source():
        if isinstance(row, Row):
            preview.take(row.type, row.metadata, row.created_at or row.file_time)
        else:
            report.skip(row)
    if options.json:
        about = {"format": found.format, "source": str(found.path)}
        say_json(about | preview.facts() | {"skipped": report.skipped, "faults": report.faults})
        return 1 if report.faults else 0
    for fault in report.faults[:MAX_NAMED]:
        note(f"{clean(fault['where'])}: {clean(fault['message'])}. It would be left out.")
    say(f"Found: {found.title}, {clean(str(found.path))}. Nothing was imported.")
    for line in (*lines(preview), *left_out(report.skipped, len(report.faults))):
        say(line)
    return 1 if report.faults else 0
