"""What a project means: which one a memory is put into, and what may be pushed.

A memory belongs to the project that its metadata names under `project`; without it, it is shared
memory of the machine. Pulling (search, list, get) sees every project. Pushing is strict: whatever
puts memories into a prompt that did not ask for them must use `pushable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from memoryd.engine import checks
from memoryd.engine.index.index import Index
from memoryd.errors import InvalidInput
from memoryd.fields import DEPRECATED_AT, KIND, PROJECT, kind_of
from memoryd.model import Memory, is_expired

PREFERENCE = "preference"  # the kind that is about the user


def pushable(
    memories: Iterable[Memory], project: str | None, index: Index, now: float
) -> list[Memory]:
    """Those of the memories that may be put into a prompt unasked: of the own project or shared,
    and neither expired nor superseded nor deprecated. `project` None: shared ones only."""
    return [memory for memory in memories if _may_push(memory, project, index, now)]


def _may_push(memory: Memory, project: str | None, index: Index, now: float) -> bool:
    return (
        # Not `project_of`: what an import brought under this key may be no text.
        memory.metadata.get(PROJECT) in (None, project)
        and not is_expired(memory, now)
        and memory.metadata.get(DEPRECATED_AT) is None
        and index.relations.superseded_until(memory.id) <= now
    )


def assigned(
    metadata: Mapping[str, Any], own_project: object, shared: bool, place: Memory | None
) -> dict[str, Any]:
    """The metadata of a memory to store, with its project: the one that it names, else that of the
    connection. Null means shared; so are preferences, which are about the user. `place`: the memory
    that has its name already. Raises InvalidInput."""
    made, own = dict(metadata), checks.label(own_project, PROJECT)
    if checks.flag(shared, "shared"):
        if made.get(PROJECT) is not None:
            raise InvalidInput(
                "A memory is shared or has a project, not both.",
                code="project_invalid",
                hint="Leave out shared, or project.",
            )
        return made | {PROJECT: None}
    kind = made.get(KIND) or (kind_of(place) if place else None)
    if PROJECT not in made and own is not None:
        made[PROJECT] = None if kind == PREFERENCE else own
    return made


def narrowed(metadata: Mapping[str, Any] | None, project: object) -> Mapping[str, Any] | None:
    """A filter on metadata that also asks for a project. Raises InvalidInput."""
    name = checks.label(project, PROJECT)
    if name is None:
        return metadata
    return {"$and": [metadata, {PROJECT: name}]} if metadata else {PROJECT: name}


def settled(memory: Memory) -> Memory:
    """The memory as it is stored: a null project, which means shared, is left out."""
    if memory.metadata.get(PROJECT, memory) is not None:
        return memory
    kept = {key: value for key, value in memory.metadata.items() if key != PROJECT}
    return replace(memory, metadata=kept)
