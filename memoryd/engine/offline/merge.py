"""What becomes of a queued write when it reaches the server: pure rules.

| the memory on the server | what is sent |
|---|---|
| as this daemon knew it | the write |
| already as the write has it | nothing |
| changed by another daemon | the fields that the write changed, on top of that |
| forgotten, and the write only changed it | nothing: it stays forgotten |
| forgotten, and the write stored something | the write, as a new memory |
| the write was new, was perhaps sent before, and is forgotten | nothing: it stays forgotten |
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from memoryd.model import Memory, identical
from memoryd.ports import Passage, Record

PLAIN = tuple(f.name for f in fields(Memory) if f.name not in ("id", "metadata", "updated_at"))
Reads = Callable[[Memory], str]  # what a model reads of a memory


@dataclass(frozen=True, slots=True)
class Outcome:
    """What to do with one memory of a queued write."""

    send: Record | None = None
    is_other: bool = False  # the memory is not what this daemon shows: read it again
    is_rejected: bool = False  # nobody can say what came first


def resolve(
    record: Record,
    base: Memory | None,
    present: Record | None,
    reads: Reads,
    *,
    is_store: bool,
    was_sent: bool,
    is_noted: bool,
) -> Outcome:
    """What to do with `record`, which changed `base`, when the server has `present`. `is_noted`: a
    daemon has deleted it within the last day."""
    if present is None:
        if base is None:  # it was new
            is_gone = was_sent and is_noted
            return Outcome(is_other=True) if is_gone else Outcome(replace(record, replaces=0))
        if is_store and not was_sent:
            return Outcome(replace(record, replaces=0))
        return Outcome(is_other=True, is_rejected=is_store)
    if present.revision == record.revision:
        return Outcome()
    if record.replaces and present.revision == record.replaces:
        return Outcome(record)
    if base is None:  # it was sent, and another daemon has changed it; or that one has the id too
        return Outcome(is_other=True, is_rejected=not was_sent)
    merged = merge(base, record.memory, present.memory)
    if identical(merged, present.memory):
        return Outcome(is_other=True)
    made = Record(
        merged,
        _passages(merged, record, present, reads),
        revision=secrets.randbits(62) | 1,  # not the queued one: other texts need other numbers
        replaces=present.revision or None,
    )
    return Outcome(made, is_other=True)


def merge(base: Memory, mine: Memory, theirs: Memory) -> Memory:
    """`theirs` with every field and every key of the metadata that differs between `base` and
    `mine`."""
    changed = {
        name: getattr(mine, name) for name in PLAIN if getattr(mine, name) != getattr(base, name)
    }
    metadata: dict[str, Any] = dict(theirs.metadata)
    for key in {*base.metadata, *mine.metadata}:
        if key not in mine.metadata:
            metadata.pop(key, None)
        elif key not in base.metadata or base.metadata[key] != mine.metadata[key]:
            metadata[key] = mine.metadata[key]
    merged = replace(theirs, **changed, metadata=metadata)
    if identical(merged, theirs):
        return theirs
    times = [at for at in (mine.updated_at, theirs.updated_at) if at is not None]
    return replace(merged, updated_at=max(times, default=None))


def _passages(merged: Memory, mine: Record, theirs: Record, reads: Reads) -> tuple[Passage, ...]:
    """Those of the version that a model reads the same of; none: it is embedded later."""
    text = reads(merged)
    for version in (mine, theirs):
        if reads(version.memory) == text:
            return version.passages
    return ()
