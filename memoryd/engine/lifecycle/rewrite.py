"""Changes by the upkeep: to many memories, each under its lock and as it is then.

Nothing that a model reads changes, so the vectors stay, and `updated_at` stays too: it is the time
of the last change by a caller.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

import anyio.lowlevel
import structlog

from memoryd.engine import commits
from memoryd.engine.lock_keys import id_key
from memoryd.engine.parts import Parts
from memoryd.errors import MemorydError, StoreUnavailable
from memoryd.model import Memory, identical
from memoryd.ports import Record

log = structlog.get_logger()
AT_ONCE = 32  # memories in one commit

Change = Callable[[Memory], Memory]


async def rewrite(parts: Parts, ids: Sequence[str], change: Change) -> int:
    """Change these memories in commits of a few; how many were changed."""
    return sum([changed async for _, changed in rewrite_groups(parts, ids, change)])


async def rewrite_groups(
    parts: Parts, ids: Sequence[str], change: Change
) -> AsyncIterator[tuple[Sequence[str], int]]:
    """The same; yields the ids of each group when it is committed, and how many of them changed.
    One that cannot be written does not block the others; raises if none of a group can be."""
    for start in range(0, len(ids), AT_ONCE):
        group = ids[start : start + AT_ONCE]
        await anyio.lowlevel.checkpoint()  # a commit is shielded: without this, nothing cancels it
        try:
            yield group, await _rewrite(parts, group, change)
        except StoreUnavailable:
            raise
        except MemorydError:
            async for done in _one_by_one(parts, group, change):
                yield done


async def _one_by_one(
    parts: Parts, ids: Sequence[str], change: Change
) -> AsyncIterator[tuple[Sequence[str], int]]:
    failed: dict[str, MemorydError] = {}
    for id in ids:
        try:
            yield [id], await _rewrite(parts, [id], change)
        except StoreUnavailable:
            raise
        except MemorydError as exc:
            failed[id] = exc
    if len(failed) == len(ids):
        raise failed[ids[0]]  # the fault is not in the memories
    for id, error in failed.items():
        log.warning("memory_not_rewritten", id=id, code=error.code)


async def _rewrite(parts: Parts, ids: Sequence[str], change: Change) -> int:
    async with parts.gate.passing(), parts.locks.hold(map(id_key, ids)):
        found = [memory for id in ids if (memory := parts.index.get(id))]
        pairs = [(before, change(before)) for before in found]
        changed = [after for before, after in pairs if not identical(after, before)]
        if changed:
            records = [Record(memory, await commits.passages(parts, memory)) for memory in changed]
            await commits.commit(parts, *records)
    return len(changed)
