"""Operations for the owner of the memories, called by the `memoryd` command, never advertised.

Every listed tool costs room in each agent's prompt, and agents should not use these, so none of
them is listed. A call is served only on the local socket, which only the owner can reach, and not
if it came through the shim, because an agent is behind it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any

import anyio.lowlevel
import numpy as np

from memoryd.doors import render
from memoryd.doors.manage import (
    FILTERS,
    FORGET_BATCH,
    bulk_forget_answer,
    memory_id,
    with_filters,
)
from memoryd.engine import checks
from memoryd.engine.bulk_import import BURST
from memoryd.engine.engine import Engine
from memoryd.engine.mirror.edits import Edit
from memoryd.engine.takeover import Taken, foreign_row
from memoryd.engine.transfer import Arrival, memory_from
from memoryd.errors import InvalidInput, NotFound
from memoryd.export_file import PASSAGES, fields_of, fields_with_vectors, vector_from
from memoryd.ports import Backup, Passage, Record
from memoryd.sanitize import as_data

Arguments = dict[str, Any]
IMPORT_BATCH = 256  # memories of one call
MOVE_BATCH = 2000  # memories that one call moves to another project
LENGTH_TOLERANCE = 1e-3  # of a unit vector
SELECTION = {"memory_type", "session_id", "metadata", "since", "until", "older_than", "pinned"}
ARGUMENTS = {
    "forget_where": SELECTION | FILTERS | {"dry_run", "everything", "purge"},
    "export_memories": SELECTION | {"after", "embeddings"},
    "read_memory": {"memory_id"},
    "import_memories": {"memories", "model", "overwrite", "trust_vectors"},
    "import_rows": {"rows", "separate", "overwrite"},
    "sweep": {"clock_is_right"},
    "rescue": {"folder"},
    "rename_project": {"project", "to"},
    "merge_projects": {"project", "into"},
    "move_memories": {"memory_ids", "to"},
    "mirror": {"run", "confirm", "keep", "block", "no_block", "project"},
}


async def _forget_where(engine: Engine, given: Arguments) -> Arguments:
    given = with_filters(given)
    chosen = {key: value for key, value in given.items() if key in SELECTION}
    how = {key: value for key, value in given.items() if key not in SELECTION}
    done = await engine.forget_where(engine.selection(**chosen), limit=FORGET_BATCH, **how)
    if how.get("everything") and not how.get("dry_run"):
        await engine.cleanup_expired()  # expired memories are hidden, but still there
    return bulk_forget_answer(done, engine)


async def _export_memories(engine: Engine, given: Arguments) -> Arguments:
    chosen = {key: value for key, value in given.items() if key in SELECTION}
    page = await engine.export_page(given.get("after"), engine.selection(**chosen))
    vectors = checks.flag(given.get("embeddings", False), "embeddings")
    return {
        "memories": [
            fields_with_vectors(record) if vectors else fields_of(record.memory)
            for record in page.records
        ],
        "after": page.after,
        "total": page.total,
        "model": page.model,
        "dimension": page.dimension,
    }


async def _read_memory(engine: Engine, given: Arguments) -> Arguments:
    """One memory to the letter, for an editor; what is recalled elsewhere is sanitized."""
    wanted = memory_id(given, "read_memory", "read")
    if (found := await engine.get(wanted)) is None:
        raise NotFound(f"There is no memory {wanted!r}.")
    return fields_of(found)


async def import_memories(engine: Engine, given: Arguments, *, unasked: bool = False) -> Arguments:
    """Import a batch; a refused memory does not stop the others. `unasked`: see the engine's
    `import_memories`."""
    memories = given.get("memories")
    if not isinstance(memories, list) or len(memories) > IMPORT_BATCH:
        raise InvalidInput(
            f"memories must be a list of at most {IMPORT_BATCH}.", code="memories_invalid"
        )
    overwrite = checks.flag(given.get("overwrite", False), "overwrite")
    trust = checks.flag(given.get("trust_vectors", False), "trust_vectors")
    outcomes: list[Arguments] = [{} for _ in memories]
    records: dict[int, Record] = {}
    for place, fields in enumerate(memories):
        try:
            records[place] = record_from(fields, given.get("model"), engine, trust_vectors=trust)
        except InvalidInput as exc:
            outcomes[place] = _arrival_facts(exc)
        if (place + 1) % BURST == 0:
            await anyio.lowlevel.checkpoint()
    arrived = await engine.import_memories(records.values(), overwrite=overwrite, unasked=unasked)
    for place, one in zip(records, arrived, strict=True):
        outcomes[place] = _arrival_facts(one)
    return {"outcomes": outcomes}


def _arrival_facts(arrived: Arrival | InvalidInput) -> Arguments:
    if isinstance(arrived, InvalidInput):
        return {"outcome": "refused", "error": render.error(arrived)}
    told = {"masked": True} if arrived.masked else {}
    return {"outcome": str(arrived.outcome), "rival": arrived.rival} | told


async def import_rows(engine: Engine, given: Arguments) -> Arguments:
    """Import rows of another program; see `engine.takeover`."""
    rows = given.get("rows")
    if not isinstance(rows, list) or len(rows) > IMPORT_BATCH:
        raise InvalidInput(f"rows must be a list of at most {IMPORT_BATCH}.", code="rows_invalid")
    separate = checks.flag(given.get("separate", True), "separate")
    overwrite = checks.flag(given.get("overwrite", False), "overwrite")
    taken = await engine.import_rows(
        [foreign_row(row) for row in rows], embed=True, separate=separate, overwrite=overwrite
    )
    return {"outcomes": [_taken_facts(one) for one in taken]}


def _taken_facts(taken: Taken) -> Arguments:
    """What became of a row, without what is false or empty."""
    error = render.error(taken.error) if taken.error else None
    facts = {"notes": list(taken.notes), "masked": taken.masked, "error": error}
    facts |= {"reused_vector": taken.reused_vector, "twin": taken.twin}
    told = {key: value for key, value in facts.items() if value}
    return {"id": taken.id, "outcome": taken.outcome} | told


async def _backup(engine: Engine, given: Arguments) -> Arguments:
    return backup_facts(await engine.backup(), engine)


async def _rescue(engine: Engine, given: Arguments) -> Arguments:
    return backup_facts(await engine.rescue(given.get("folder")), engine)


def backup_facts(backup: Backup, engine: Engine) -> Arguments:
    """A backup as clients read it."""
    at = render.moment(backup.created_at, engine.zone)
    return {
        "path": backup.path,
        "memories": backup.memories,
        "bytes": backup.size,
        "created_at": at,
    }


async def _sweep(engine: Engine, given: Arguments) -> Arguments:
    clock_is_right = checks.flag(given.get("clock_is_right", False), "clock_is_right")
    return {"deleted": await engine.sweep(clock_is_right=clock_is_right)}


async def _purge(engine: Engine, given: Arguments) -> Arguments:
    await engine.purge()
    return {"purged": True}


async def _rename_project(engine: Engine, given: Arguments) -> Arguments:
    project, to = given.get("project", ""), given.get("to", "")
    return asdict(await engine.projects.rename(project, to, MOVE_BATCH))


async def _merge_projects(engine: Engine, given: Arguments) -> Arguments:
    project, into = given.get("project", ""), given.get("into", "")
    return asdict(await engine.projects.merge(project, into, MOVE_BATCH))


async def _move_memories(engine: Engine, given: Arguments) -> Arguments:
    return asdict(await engine.projects.move(given.get("memory_ids", []), given.get("to")))


async def _mirror(engine: Engine, given: Arguments) -> Arguments:
    """The state of the files for people; first `run`, `confirm` or `keep` what is held, or add the
    `block` of a file, or take it out (`no_block`)."""
    wanted = [key for key in ("run", "confirm", "keep") if checks.flag(given.get(key, False), key)]
    wanted += [key for key in ("block", "no_block") if given.get(key)]
    if len(wanted) > 1:
        message = "run, confirm, keep, block and no_block exclude each other."
        raise InvalidInput(message, code="mirror_invalid")
    edits = await _mirror_action(engine, wanted[0] if wanted else "", given)
    return {
        "mirror": render.mirror(engine.mirror.state(), engine.zone),
        "blocks": [render.written(block, engine.zone) for block in engine.blocks.state()],
        "edits": [asdict(edit) for edit in edits],
        "recent": [asdict(edit) for edit in engine.mirror.recent],
        "held": [{"id": m.id, "content": as_data(m.content)} for m in engine.mirror.held()],
    }


async def _mirror_action(engine: Engine, action: str, given: Arguments) -> list[Edit]:
    if action == "block":
        await engine.blocks.add(given["block"], given.get("project"))
    elif action == "no_block":
        await engine.blocks.remove(given["no_block"])
    elif action == "confirm":
        return await engine.mirror.confirm()
    elif action == "keep":
        await engine.mirror.keep()
    elif action == "run":
        await engine.blocks.sync()
        if engine.mirror.state() is not None or not engine.blocks.state():
            return await engine.mirror.sync()
    return []


async def _audit(engine: Engine, given: Arguments) -> Arguments:
    return await engine.audit()


CALLS: dict[str, Callable[[Engine, Arguments], Awaitable[Arguments]]] = {
    "forget_where": _forget_where,
    "export_memories": _export_memories,
    "read_memory": _read_memory,
    "import_memories": import_memories,
    "import_rows": import_rows,
    "backup": _backup,
    "rescue": _rescue,
    "sweep": _sweep,
    "purge": _purge,
    "audit": _audit,
    "mirror": _mirror,
    "rename_project": _rename_project,
    "merge_projects": _merge_projects,
    "move_memories": _move_memories,
}


def record_from(fields: object, model: object, engine: Engine, *, trust_vectors: bool) -> Record:
    """The memory, with its vectors if `trust_vectors` is set and they are of the model in use: only
    computing a vector again can tell whether it belongs to its text. Raises InvalidInput."""
    passages: object = None
    if isinstance(fields, Mapping):
        passages = fields.get(PASSAGES)
        fields = {key: value for key, value in fields.items() if key != PASSAGES}
    memory = memory_from(fields, engine.max_content_bytes)
    if not trust_vectors or passages is None or engine.model is None or engine.model[0] != model:
        return Record(memory)
    if not isinstance(passages, list):
        raise _refused("passages must be a list.")
    dimension, length = engine.model[1], len(memory.content)
    return Record(memory, tuple(_passage(item, dimension, length) for item in passages))


def _passage(item: object, dimension: int, length: int) -> Passage:
    span = item.get("span") if isinstance(item, Mapping) else None
    text = item.get("vector") if isinstance(item, Mapping) else None
    if not (isinstance(span, list) and len(span) == 2 and all(type(at) is int for at in span)):
        raise _refused("A passage needs a span of two whole numbers.")
    if not 0 <= span[0] < span[1] <= length:
        raise _refused("The span of a passage is outside of the content.")
    try:
        vector = vector_from(text if isinstance(text, str) else "")
    except ValueError as exc:
        raise _refused("A vector is not base64 of 32-bit floats.") from exc
    if len(vector) != dimension:
        raise _refused(f"Expected vectors of {dimension} numbers, got {len(vector)}.")
    if not np.isfinite(vector).all() or abs(float(np.linalg.norm(vector)) - 1) > LENGTH_TOLERANCE:
        raise _refused("A vector must have the length 1.")
    return Passage((span[0], span[1]), vector)


def _refused(message: str) -> InvalidInput:
    return InvalidInput(message, code="import_invalid")
