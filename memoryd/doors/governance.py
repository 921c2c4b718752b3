"""What a person governs memories with, by the `memoryd` command: callable, never advertised.

An agent pays for every tool in its prompt and has no business here, so none of these is listed;
and a call is served only on the local socket, which nobody but the owner can reach, and there not
to what came by the shim, which speaks for an agent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from memoryd.doors import render, vectored
from memoryd.engine.checks import flag
from memoryd.engine.engine import Engine
from memoryd.errors import InvalidInput
from memoryd.tasks import task_group

Arguments = dict[str, Any]
AT_A_TIME = 5000  # memories that one call deletes: well within a client's patience
IMPORT_BATCH = 100  # memories of one call
SELECTION = {"memory_type", "session_id", "metadata", "since", "until", "older_than"}


async def _forget_where(engine: Engine, given: Arguments) -> Arguments:
    chosen = {key: value for key, value in given.items() if key in SELECTION}
    how = {key: value for key, value in given.items() if key not in SELECTION}
    done = await engine.forget_where(engine.selection(**chosen), limit=AT_A_TIME, **how)
    if how.get("everything") and not how.get("dry_run"):
        await engine.cleanup_expired()  # what nobody could see any more goes as well
    return {
        "matched": done.matched,
        "forgotten": done.forgotten,
        "types": dict(done.types),
        "first": [render.memory(memory, engine.zone) for memory in done.shown],
    }


async def _export_memories(engine: Engine, given: Arguments) -> Arguments:
    page = await engine.export_page(given.get("after"))
    vectors = flag(given.get("embeddings", False), "embeddings")
    return {
        "memories": [vectored.written(record, vectors) for record in page.records],
        "after": page.after,
        "total": page.total,
        "model": page.model,
        "dimension": page.dimension,
    }


async def _import_memories(engine: Engine, given: Arguments) -> Arguments:
    """Each of a batch, side by side; one that is refused does not stop the others."""
    memories = given.get("memories")
    if not isinstance(memories, list) or len(memories) > IMPORT_BATCH:
        raise InvalidInput(
            f"memories must be a list of at most {IMPORT_BATCH}.", code="memories_invalid"
        )
    overwrite = flag(given.get("overwrite", False), "overwrite")
    trust = flag(given.get("trust_vectors", False), "trust_vectors")
    outcomes: list[Arguments] = [{} for _ in memories]

    async def take(place: int) -> None:
        try:
            model = given.get("model")
            record = vectored.read(memories[place], model, engine, trust_vectors=trust)
            done = await engine.take_in(record.memory, record.passages, overwrite=overwrite)
        except InvalidInput as exc:
            outcomes[place] = {"outcome": "refused", "error": render.error(exc)}
        else:
            told = {"masked": True} if done.masked else {}
            outcomes[place] = {"outcome": str(done.outcome), "rival": done.rival} | told

    async with task_group() as tasks:
        for place in range(len(memories)):
            tasks.start_soon(take, place)
    return {"outcomes": outcomes}


CALLS: dict[str, Callable[[Engine, Arguments], Awaitable[Arguments]]] = {
    "forget_where": _forget_where,
    "export_memories": _export_memories,
    "import_memories": _import_memories,
}
ARGUMENTS = {
    "forget_where": SELECTION | {"dry_run", "everything", "purge"},
    "export_memories": {"after", "embeddings"},
    "import_memories": {"memories", "model", "overwrite", "trust_vectors"},
}
