"""The tools of the toolset `manage`: list, update, walk a chain, review, and forget by filter.

Forgetting by filter takes two calls. The first says what matches; the second must confirm that
number, so that an agent cannot delete what it has not looked at.
"""

from __future__ import annotations

from typing import Any

from memoryd.doors import render
from memoryd.doors.rights import Rights
from memoryd.engine import checks
from memoryd.engine.bulk_forget import BulkForgetResult
from memoryd.engine.engine import Engine
from memoryd.engine.filters import Filter
from memoryd.engine.lifecycle.review import REJECT
from memoryd.errors import InvalidInput
from memoryd.fields import KIND, NEEDS_REVIEW, SOURCE, TAGS

Arguments = dict[str, Any]
MAX_HANDLE = 1000  # characters of an id or name; longer ones cannot exist
NARROWING = {"kind": KIND, "source": SOURCE, "tag": TAGS}  # arguments, and the keys they filter by
FILTERS = {*NARROWING, NEEDS_REVIEW, "pinned"}
FORGET_BATCH = 5000  # memories that one call deletes: well within a client's timeout


async def list_memories(engine: Engine, given: Arguments) -> Arguments:
    return render.listed(await engine.list_memories(**with_filters(given)), engine.zone)


def with_filters(given: Arguments) -> Arguments:
    """The arguments with the filters of `NARROWING` as conditions on metadata. Raises
    InvalidInput."""
    wanted: Arguments = {}
    for argument, key in NARROWING.items():
        if argument in given:
            wanted[key] = given[argument]
    if NEEDS_REVIEW in given:
        flagged = checks.flag(given[NEEDS_REVIEW], NEEDS_REVIEW)
        wanted[NEEDS_REVIEW] = True if flagged else {"$ne": True}
    for key, value in wanted.items():
        if not isinstance(value, str) and key != NEEDS_REVIEW:
            raise InvalidInput(f"{key} must be text.", code="filter_invalid")
    rest = {key: value for key, value in given.items() if key not in FILTERS or key == "pinned"}
    if not wanted:
        return rest
    asked = rest.get("metadata")
    return rest | {"metadata": {"$and": [asked, wanted]} if asked else wanted}


async def update_memory(engine: Engine, given: Arguments) -> Arguments:
    id = memory_id(given, "update_memory", "change")
    done = await engine.update_memory(id, **given)
    how = {"changed": done.changed, "warnings": list(done.warnings)}
    return render.memory(done.memory, engine.zone) | how


async def memory_chain(engine: Engine, given: Arguments) -> Arguments:
    id = memory_id(given, "memory_chain", "begin at")
    return render.chain(await engine.chain(id), engine.zone)


async def review_memory(engine: Engine, given: Arguments, rights: Rights) -> Arguments:
    id = memory_id(given, "review_memory", "review")
    if given.get("action") == REJECT:
        rights.check_forgets(1)
    return render.reviewed(await engine.review(id, given.pop("action", ""), **given), engine.zone)


async def forget_memories(engine: Engine, given: Arguments, rights: Rights) -> Arguments:
    confirmed = given.pop("confirm", None)
    filter = engine.selection(**given)
    if filter == Filter():
        raise InvalidInput(
            "The filter is empty.",
            code="filter_empty",
            hint="Give memory_type, session_id, metadata, since, until or older_than.",
        )
    found = await engine.forget_where(filter, dry_run=True)
    if confirmed is None:
        hint = (
            f"Nothing is forgotten yet. To forget these, call again with confirm {found.matched}."
        )
        return bulk_forget_answer(found, engine) | ({"hint": hint} if found.matched else {})
    if isinstance(confirmed, bool) or confirmed != found.matched:
        raise InvalidInput(
            f"{found.matched} memories match now, not {str(confirmed)[:20]}; none was forgotten.",
            code="confirm_mismatch",
            hint="Call without confirm first, then confirm the number of matched memories.",
        )
    count = min(found.matched, FORGET_BATCH)
    rights.check_forgets(count)
    return bulk_forget_answer(await engine.forget_where(filter, limit=count), engine)


def bulk_forget_answer(done: BulkForgetResult, engine: Engine) -> Arguments:
    """The answer to a forget by filter."""
    return {
        "matched": done.matched,
        "forgotten": done.forgotten,
        "types": dict(done.types),
        "first": [render.memory(memory, engine.zone) for memory in done.shown],
    }


def memory_id(given: Arguments, tool: str, verb: str) -> str:
    """Take the `memory_id` out of the arguments. Raises InvalidInput."""
    id = given.pop("memory_id", None)
    if isinstance(id, str) and id.strip() and len(id) <= MAX_HANDLE:
        return id
    too_long = isinstance(id, str) and len(id) > MAX_HANDLE
    raise InvalidInput(
        f"A memory_id has at most {MAX_HANDLE} characters."
        if too_long
        else f"{tool} needs the memory_id of the memory to {verb}.",
        code="memory_id_missing" if id is None else "memory_id_invalid",
        hint="Find it with search_memories, then pass its id or name as memory_id.",
    )
