"""`memoryd export`: all memories, page by page, into a file of JSON lines.

A file is written beside its place and moved there when it is whole, so an export that is killed
leaves no half of one; the next export begins anew.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from memoryd import files
from memoryd.cli.forget import connect
from memoryd.cli.jsonl import Writer
from memoryd.cli.output import clean, counted, note, say, say_json
from memoryd.cli.progress import Progress
from memoryd.cli.store import require_store
from memoryd.errors import InvalidInput, MemorydError


def export(options: argparse.Namespace) -> int:
    """Write every memory; say how many."""
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
            f"{path} is there already.", code="file_exists", hint="Add --overwrite to replace it."
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
        page = await daemon.export_page(None, embeddings=options.embeddings)
        writer.head(page["total"], page["model"], page["dimension"], options.embeddings)
        with Progress("Exporting", page["total"]) as progress:
            while True:
                for fields in page["memories"]:
                    writer.memory(fields)
                progress.at(writer.count)
                if page["after"] is None:
                    break
                page = await daemon.export_page(page["after"], embeddings=options.embeddings)
    writer.end()
    return writer.count


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes its place when it is whole and on the disk; only its owner reads it."""
    try:
        with files.replacing(path) as file:
            yield file
    except OSError as exc:
        raise MemorydError(
            f"{path} cannot be written: {exc.strerror or exc}.", code="file_unwritable"
        ) from exc
