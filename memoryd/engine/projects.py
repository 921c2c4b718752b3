"""List, rename and merge projects, and move memories between them.

A project has no record of its own: it exists as long as a memory names it. So renaming one rewrites
its memories, in batches. A kill leaves each memory in the old or in the new project, and the rest
can be moved later. What a project means is in `project_rules`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import anyio.lowlevel

from memoryd.engine import checks, commits
from memoryd.engine.lock_keys import id_key
from memoryd.engine.parts import Parts
from memoryd.errors import InvalidInput, NotFound
from memoryd.fields import PROJECT, project_of
from memoryd.labels import normal_name
from memoryd.model import Memory, is_expired
from memoryd.ports import Record

BATCH = 50  # memories that one commit moves
STRIDE = 2000  # memories looked at before the event loop runs other tasks
MAX_IDS = 1000  # of one move

Holds = Callable[[Memory], bool]
Ids = list[str]  # inside the class `list` is a method


@dataclass(slots=True)
class ProjectFacts:
    """The living memories of a project. `name` None: the shared ones."""

    name: str | None
    memories: int = 0
    types: Counter[str] = field(default_factory=Counter)
    newest: float = 0.0  # when the newest was created


@dataclass(frozen=True, slots=True)
class Moved:
    """How many memories a call moved; how many are left to move; ids that do not exist."""

    moved: int
    left: int = 0
    missing: tuple[str, ...] = ()


class Projects:
    """List, rename and merge projects, and move memories between them."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def list(self) -> tuple[ProjectFacts, ...]:
        """Every project that has living memories, and the shared ones; the largest first."""
        found: dict[str | None, ProjectFacts] = {}
        now = self._parts.clock()
        async for memory in self._all():
            if is_expired(memory, now):
                continue
            name = project_of(memory)
            facts = found.setdefault(name, ProjectFacts(name))
            facts.memories += 1
            facts.types[str(memory.type)] += 1
            facts.newest = max(facts.newest, memory.created_at)
        by_size = sorted(found.values(), key=lambda facts: (-facts.memories, facts.name or ""))
        return tuple(by_size)

    async def rename(self, project: str, to: str, limit: int | None = None) -> Moved:
        """Give a project another name, which no project has yet. At most `limit` memories are
        moved; `merge` moves the rest. Raises NotFound and InvalidInput."""
        name, other = _name(project), _name(to)
        ids = await self._existing(name)
        _check_differ(name, other)
        if await self._ids(other):
            raise InvalidInput(
                f"The project {other!r} has memories already.",
                code="project_exists",
                hint=f"To join the two, or to finish a rename: merge {name} into {other}.",
            )
        return await self._move_some(ids, other, limit, lambda memory: _is_in(memory, name))

    async def merge(self, project: str, into: str, limit: int | None = None) -> Moved:
        """Move all memories of a project, at most `limit`, into another that has memories. Raises
        NotFound and InvalidInput."""
        name, other = _name(project), _name(into)
        ids = await self._existing(name)
        _check_differ(name, other)
        await self._existing(other)
        return await self._move_some(ids, other, limit, lambda memory: _is_in(memory, name))

    async def move(self, memory_ids: Sequence[str], to: str | None) -> Moved:
        """Move memories, by id or name, into a project; None: make them shared. Raises
        InvalidInput."""
        is_list = isinstance(memory_ids, list | tuple) and len(memory_ids) <= MAX_IDS
        if not is_list or not all(isinstance(id, str) for id in memory_ids):
            raise InvalidInput(
                f"memory_ids must be a list of at most {MAX_IDS} ids or names.",
                code="memory_ids_invalid",
            )
        other = None if to is None else _name(to)
        found = {wanted: self._alive(wanted) for wanted in memory_ids}
        # Once each: a memory may be named by its id and by its name.
        ids = [*dict.fromkeys(memory.id for memory in found.values() if memory)]
        done = await self._move_some(ids, other, None, lambda memory: True)
        return replace(done, missing=tuple(id for id, memory in found.items() if not memory))

    def _alive(self, id_or_name: str) -> Memory | None:
        index = self._parts.index
        memory = index.get(id_or_name) or index.named(normal_name(id_or_name[: checks.MAX_NAME]))
        return memory if memory and not is_expired(memory, self._parts.clock()) else None

    async def _existing(self, name: str) -> Ids:
        """The ids of its memories. Raises NotFound if there are none."""
        if ids := await self._ids(name):
            return ids
        raise NotFound(f"There is no project {name!r}.", hint="Run: memoryd projects")

    async def _ids(self, name: str) -> Ids:
        # Expired ones too: after a leap of the clock they may be alive again.
        return [memory.id async for memory in self._all() if _is_in(memory, name)]

    async def _all(self) -> AsyncIterator[Memory]:
        memories = iter(tuple(self._parts.index))
        while some := tuple(islice(memories, STRIDE)):
            for memory in some:
                yield memory
            await anyio.lowlevel.checkpoint()

    async def _move_some(self, ids: Ids, to: str | None, limit: int | None, holds: Holds) -> Moved:
        moved, chosen = 0, ids[:limit]
        for start in range(0, len(chosen), BATCH):
            moved += await self._move_batch(chosen[start : start + BATCH], to, holds)
        return Moved(moved, len(ids) - len(chosen))

    async def _move_batch(self, ids: Ids, to: str | None, holds: Holds) -> int:
        """Write those for which `holds` is still true, in one commit; how many have changed."""
        parts = self._parts
        async with parts.gate.passing(), parts.locks.hold(map(id_key, ids)):
            found = (parts.index.get(id) for id in ids)
            due = [memory for memory in found if memory and holds(memory)]
            due = [memory for memory in due if parts.audiences.may_place(memory)]
            changed = [
                _put_into(memory, to) for memory in due if memory.metadata.get(PROJECT) != to
            ]
            records = [Record(memory, await commits.passages(parts, memory)) for memory in changed]
            if records:
                await commits.commit(parts, *records)
        return len(records)


def _put_into(memory: Memory, project: str | None) -> Memory:
    """The memory in another project. Its `updated_at` stays: what it says has not changed."""
    kept = {key: value for key, value in memory.metadata.items() if key != PROJECT}
    return replace(memory, metadata=kept | ({PROJECT: project} if project else {}))


def _is_in(memory: Memory, name: str) -> bool:
    """Whether it belongs to the project. An import may have brought a name that is not in its
    normal form."""
    project = project_of(memory)
    return project is not None and (project == name or normal_name(project) == name)


def _name(value: object) -> str:
    name = checks.label(value, PROJECT)
    if name is None:
        raise InvalidInput("A project needs a name.", code="project_invalid")
    return name


def _check_differ(name: str, other: str) -> None:
    if name == other:
        raise InvalidInput(
            f"Both names are {name!r}.", code="project_invalid", hint="Give two different names."
        )
