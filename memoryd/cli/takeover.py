"""`memoryd import --chroma`: the memories that another program kept in ChromaDB; and the sentences
that `status` and `doctor` say about a take-over."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memoryd.cli.forget import connect
from memoryd.cli.output import clean, counted, note, say, say_json
from memoryd.cli.progress import Progress
from memoryd.errors import InvalidInput
from memoryd.imports.in_flight import in_flight

Row = dict[str, Any]
BATCH_ROWS, BATCH_CHARS = 64, 256_000  # of one call; the daemon limits the size of a message
BATCH_TIMEOUT = 600.0  # seconds for a batch: long texts have many passages to embed
COUNTED = {
    "known": "already here",
    "kept": "changed here since and left so",
    "expired": "expired and left out",
    "refused": "refused",
}
NOTES = {
    "no_time": "had no time of creation and got the present one",
    "new_id": "got another id (the old one is in the metadata, original_id)",
    "new_type": "had another type (it is in the metadata, original_type)",
    "renamed_metadata": "had metadata keys that memoryd reserves (now original_...)",
    "masked": "contained what looked like a secret, which was removed",
}


def import_chroma(options: argparse.Namespace) -> int:
    """Import a collection of a Chroma directory; exit code 1 if a row was refused."""
    from memoryd.wiring.takeover import COLLECTION

    if options.file is not None or options.overwrite or options.trust_vectors:
        raise InvalidInput(
            "--chroma takes a directory, and neither FILE, --overwrite nor --trust-vectors.",
            code="usage",
            hint="Run: memoryd import --chroma DIR [--collection NAME]",
        )
    collection = options.collection or COLLECTION
    source = Path(options.chroma).expanduser().absolute()
    if options.dry_run or options.keep:
        raise InvalidInput(
            "--dry-run and --keep are not for a directory of ChromaDB.",
            code="usage",
            hint=f"Run: memoryd import --chroma {shlex.quote(str(source))}",
        )
    facts = asyncio.run(_import(options, source, collection))
    if options.json:
        say_json(facts)
    else:
        for row in facts["rows"]:
            note(f"{clean(row['id'])}: {row['outcome']}. {clean(row['message'])}")
        for sentence in told(facts):
            say(clean(sentence))
    return 1 if facts["refused"] else 0


async def _import(options: argparse.Namespace, source: Path, collection: str) -> dict[str, Any]:
    from memoryd.wiring.takeover import Report, read_foreign

    report, done = Report(), 0
    with tempfile.TemporaryDirectory(prefix="memoryd-import-") as folder:
        rows = await read_foreign(source, collection, Path(folder))
        async with connect(options, timeout=BATCH_TIMEOUT) as daemon:

            def take(batch: list[Row], outcomes: list[Row]) -> None:
                nonlocal done
                for outcome in outcomes:
                    report.take(**outcome)
                done += len(batch)
                progress.at(done)

            with Progress("Importing", rows.count) as progress:
                async with in_flight(daemon.import_rows, take) as put:
                    for batch in rows.batches(BATCH_ROWS, BATCH_CHARS):
                        await put(batch)
    about = {"source": str(source), "collection": collection}
    return about | report.facts() | {"other_collections": rows.other_collections}


def told(facts: Mapping[str, Any]) -> Iterator[str]:
    """What became of the rows, as sentences."""
    counts = [f"{facts[key]} {text}" for key, text in COUNTED.items() if facts[key]]
    others = f" ({', '.join(counts)})" if counts else ""
    where = f"the collection {facts['collection']} in {facts['source']}"
    yield f"Took over {counted(facts['added'])} from {where}{others}."
    for key, text in NOTES.items():
        if facts[key]:
            yield f"{facts[key]} {text}."
    if facts["added"] > facts["reused_vectors"]:
        yield f"{facts['added'] - facts['reused_vectors']} get new vectors."
    if named := other_collections(facts):
        yield f"Not taken: {named}. To import one: memoryd import --chroma DIR --collection NAME"


def other_collections(facts: Mapping[str, Any]) -> str:
    """The other collections in the same directory."""
    found = facts["other_collections"].items()
    return ", ".join(f"the collection {name} ({rows} rows)" for name, rows in found)


def state_of(facts: Mapping[str, Any]) -> str:
    """A take-over in the words of `status`."""
    state, source = facts["state"], facts["source"]
    if state == "running":
        return f"the memories that another program kept in {source} are being imported"
    if state == "waiting":
        return f"the memories that another program kept in {source} are imported at the next start"
    if state == "failed":
        error = facts["error"]
        return f"failed: {error['message']} {error['hint']}".strip().removesuffix(".")
    changed = "; it was changed since: see memoryd doctor" if state == "changed" else ""
    return f"{' '.join(told(facts))} Done {facts['at']}; the original is unchanged{changed}"
