"""Owner operations that import what a person drops onto a page: first seen, then done.

The content arrives in the call, or in pieces before it, and is kept in a private folder of the data
directory until the call has ended. It is read on a thread, by the same readers as `memoryd import`.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio.from_thread
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream

from memoryd.doors import render
from memoryd.doors.owner import import_memories, import_rows
from memoryd.doors.uploads import Uploads, content_of, decoded, file_name, upload_id_of
from memoryd.engine import checks
from memoryd.engine.engine import Engine
from memoryd.engine.transfer import memory_from
from memoryd.errors import InvalidInput
from memoryd.export_file import PASSAGES, open_export
from memoryd.fields import KIND, PROJECT
from memoryd.formats import IMPORT_FORMATS, claude_md
from memoryd.formats.source import Source
from memoryd.imports.in_flight import in_flight
from memoryd.imports.recognise import CHROMA, FORMATS, Recognised, recognised
from memoryd.imports.report import (
    BATCH_CHARS,
    BATCH_ROWS,
    OUTCOMES,
    Batch,
    Preview,
    Report,
    batches,
    once,
    why,
)
from memoryd.imports.rows import Row
from memoryd.model import DAY
from memoryd.tasks import task_group

Item = TypeVar("Item")
Arguments = dict[str, Any]
OwnBatch = list[tuple[int, Arguments]]  # numbers of lines, and memories
SHOWN = 20  # memories in a preview
MAX_ROWS = 200  # that are reported one by one
TEXT = 200  # characters of a memory in a preview
CONTENT = {"name", "text", "content_base64", "upload_id", "format", "keep"}


class Importing:
    """The operations `upload_piece`, `import_preview` and `import_upload`."""

    def __init__(self, data_dir: Path, conversation_days: float) -> None:
        self._uploads = Uploads(data_dir)
        self._lifetime = conversation_days * DAY
        self.calls: dict[str, Callable[[Engine, Arguments], Awaitable[Arguments]]] = {
            "upload_piece": self._upload_piece,
            "import_preview": self._preview,
            "import_upload": self._upload,
        }
        self.arguments = {
            "upload_piece": {"upload_id", "content_base64"},
            "import_preview": CONTENT,
            "import_upload": CONTENT | {"overwrite"},
        }

    async def _upload_piece(self, engine: Engine, given: Arguments) -> Arguments:
        data = decoded(given.get("content_base64", ""))
        id = upload_id_of(given)
        made, size = await anyio.to_thread.run_sync(self._uploads.add, id, data)
        return {"upload_id": made, "bytes": size}

    async def _preview(self, engine: Engine, given: Arguments) -> Arguments:
        """What would be imported. Nothing is written."""
        keep = checks.flag(given.get("keep", False), "keep")
        look = partial(
            _previewed,
            lifetime=None if keep else self._lifetime,
            max_bytes=engine.max_content_bytes,
            is_here=engine.has,
        )
        async with self._opened(given) as opened:
            found = await anyio.to_thread.run_sync(look, opened)
        for one in found["first"]:
            at = one["created_at"]
            one["created_at"] = None if at is None else render.moment(at, engine.zone)
        return found

    async def _upload(self, engine: Engine, given: Arguments) -> Arguments:
        """Import it; an upload is removed then."""
        overwrite = checks.flag(given.get("overwrite", False), "overwrite")
        keep = checks.flag(given.get("keep", False), "keep")
        async with self._opened(given) as opened:
            if opened.source is not None:
                done = await _import_own(engine, opened, overwrite)
            else:
                done = await _import_foreign(engine, opened, overwrite, keep)
        if (id := upload_id_of(given)) is not None:
            self._uploads.remove(id)
        return done

    @asynccontextmanager
    async def _opened(self, given: Arguments) -> AsyncIterator[Opened]:
        """The content as a recognised file. Raises InvalidInput."""
        name, format = file_name(given.get("name")), _format(given.get("format"))
        data, id = content_of(given), upload_id_of(given)
        with contextlib.ExitStack() as stack:
            context = self._uploads.named(name, data, id)
            path = await anyio.to_thread.run_sync(stack.enter_context, context)
            try:
                opened = await anyio.to_thread.run_sync(_recognised, path, name, format)
                with opened.closing:
                    yield opened
            except InvalidInput as exc:
                text = exc.message.replace(f"{path.parent}/", "")
                raise type(exc)(text, code=exc.code, hint=exc.hint) from exc


@dataclass(frozen=True, slots=True)
class Opened:
    """A file to import: one of memoryd's own formats, or that of another program."""

    name: str
    source: Source | None = None
    product: Recognised | None = None
    closing: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @property
    def about(self) -> Arguments:
        if self.product is not None:
            return {"format": self.product.format, "title": self.product.title}
        assert self.source is not None
        return {"format": self.source.format, "title": OWN_TITLES[self.source.format]}

    def rows(self) -> Iterator[Any]:
        """The rows of another program."""
        assert self.product is not None
        return once(FORMATS[self.product.format].read(self.product.path))


OWN_TITLES = {
    "jsonl": "an export of memoryd",
    "json": "an export of memoryd (JSON)",
    "md": "Markdown, each list item a fact",
    "claude-md": "the block of a CLAUDE.md",
    "text": "Markdown that a person wrote",
}


def _recognised(path: Path, name: str, format: str | None) -> Opened:
    """Raises InvalidInput. Runs on a thread."""
    if format not in IMPORT_FORMATS:
        found = recognised(path, format)
        if found is not None and (found.format == CHROMA or found.collection is not None):
            raise InvalidInput(
                f"{name} belongs to {found.title}, which only another process reads.",
                code="format_needs_command",
                hint="Run on this machine: memoryd import PATH",
            )
        if found is not None:
            return Opened(name, product=found)
    closing = contextlib.ExitStack()
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open_export(path))
        source = Source(file, name, format)
        closing = stack.pop_all()
    return Opened(name, source=source, closing=closing)


def _previewed(
    opened: Opened,
    lifetime: float | None,
    max_bytes: int,
    is_here: Callable[[str], bool],
) -> Arguments:
    """The counts and the first memories. Runs on a thread."""
    report, first, known = Report(), list[Arguments](), 0
    preview = Preview(None if opened.source is not None else lifetime)
    if opened.source is not None:
        for line, memory, _ in opened.source.memories():
            memory = {key: value for key, value in memory.items() if key != PASSAGES}
            try:
                memory_from(memory, max_bytes)
            except InvalidInput as exc:
                report.faults.append({"where": f"line {line}", "message": exc.message})
                continue
            if preview.take_exported(memory):
                known += is_here(memory["id"])
                _show(first, memory["type"], memory["content"], memory, memory["created_at"])
    else:
        for row in opened.rows():
            if not isinstance(row, Row):
                report.skip(row)
            elif preview.take(row.type, row.metadata, at := row.created_at or row.file_time):
                known += is_here(row.id)
                _show(first, row.type, row.text, {"metadata": row.metadata}, at)
    skipped = dict(report.skipped)
    if opened.source is not None and opened.source.skipped:
        skipped["lines that are no list items"] = opened.source.skipped
    told = {"first": first, "refused": report.faults[:MAX_ROWS], "skipped": skipped}
    return opened.about | preview.facts() | {"known": known} | told


def _show(
    first: list[Arguments], type: str, text: str, fields: Mapping[str, Any], at: float | None
) -> None:
    if len(first) < SHOWN:
        metadata = fields["metadata"]
        line = " ".join(text[: 4 * TEXT].split())
        first.append(
            {
                "type": type,
                "text": line[:TEXT],
                "kind": metadata.get(KIND),
                "project": metadata.get(PROJECT),
                "created_at": at,
            }
        )


async def _import_own(engine: Engine, opened: Opened, overwrite: bool) -> Arguments:
    source = opened.source
    assert source is not None
    counts: Counter[str] = Counter()
    rows: list[Arguments] = []
    known = await engine.known_facts() if source.written else set()

    async def send(batch: OwnBatch) -> list[Arguments]:
        asked = {"memories": [memory for _, memory in batch], "overwrite": overwrite}
        outcomes: list[Arguments] = (await import_memories(engine, asked))["outcomes"]
        return outcomes

    def take(batch: OwnBatch, outcomes: list[Arguments]) -> None:
        for (line, memory), arrived in zip(batch, outcomes, strict=True):
            counts.update([arrived["outcome"]])
            counts["masked"] += arrived.get("masked", False)
            if arrived["outcome"] in ("kept", "refused"):
                told = {"where": f"line {line}", "id": memory["id"], "outcome": arrived["outcome"]}
                rows.append(told | {"message": why(memory["id"], arrived)})

    async with reading(partial(_own_batches, source)) as found, in_flight(send, take) as put:
        async for batch in found:
            new = [
                (line, memory)
                for line, memory in batch
                if memory["id"] not in source.written or not claude_md.is_known(memory, known)
            ]
            counts["known"] += len(batch) - len(new)
            await put(new)
    return _done(opened, counts, rows, {}, [])


def _own_batches(source: Source) -> Iterator[OwnBatch]:
    batch: OwnBatch = []
    size = 0
    for line, memory, length in source.memories():
        if batch and (len(batch) >= BATCH_ROWS or size + length > BATCH_CHARS):
            yield batch
            batch, size = [], 0
        batch.append((line, {key: value for key, value in memory.items() if key != PASSAGES}))
        size += length
    if batch:
        yield batch


async def _import_foreign(engine: Engine, opened: Opened, overwrite: bool, keep: bool) -> Arguments:
    report = Report()
    read = partial(batches, skip=report.skip, keep=keep)

    async def send(batch: Batch) -> list[Arguments]:
        rows = [fields for _, fields in batch]
        asked = {"rows": rows, "separate": False, "overwrite": overwrite}
        outcomes: list[Arguments] = (await import_rows(engine, asked))["outcomes"]
        return outcomes

    def take(batch: Batch, outcomes: list[Arguments]) -> None:
        for (row, _), outcome in zip(batch, outcomes, strict=True):
            report.take(row, outcome)

    async with reading(lambda: read(opened.rows())) as found, in_flight(send, take) as put:
        async for batch in found:
            await put(batch)
    return _done(opened, report.counts, report.rows, dict(report.skipped), report.faults)


def _done(
    opened: Opened,
    counts: Mapping[str, int],
    rows: list[Any],
    skipped: Arguments,
    faults: list[Any],
) -> Arguments:
    told = {name: counts.get(name, 0) for name in (*OUTCOMES, "masked")}
    listed = {"rows": rows[:MAX_ROWS], "skipped": skipped, "faults": faults[:MAX_ROWS]}
    return {"format": opened.about["format"]} | told | listed


@asynccontextmanager
async def reading(
    read: Callable[[], Iterator[Item]],
) -> AsyncIterator[MemoryObjectReceiveStream[Item]]:
    """The items of an iterator that runs on a thread, one ahead at most: some readers keep a
    database open, which belongs to one thread."""
    send, receive = anyio.create_memory_object_stream[Item](0)

    def produce() -> None:
        with contextlib.suppress(anyio.BrokenResourceError):  # the import failed
            for item in read():
                anyio.from_thread.run(send.send, item)

    async def run() -> None:
        async with send:
            await anyio.to_thread.run_sync(produce)

    async with task_group() as tasks:
        tasks.start_soon(run)
        async with receive:
            yield receive


def _format(value: object) -> str | None:
    known = (*IMPORT_FORMATS, *FORMATS)
    if value is None or value in known:
        return None if value is None else str(value)
    raise InvalidInput(
        f"There is no format {str(value)[:50]!r}.",
        code="format_unknown",
        hint=f"Leave it out, or use {', '.join(known)}.",
    )
