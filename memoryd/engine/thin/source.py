"""The source of a daemon without an index: what an operation needs is read from the stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeGuard

from memoryd.audience import is_private
from memoryd.engine.filters import Filter
from memoryd.engine.index.index import Index
from memoryd.engine.memories import LONGEST_ADDRESS
from memoryd.engine.parts import Parts
from memoryd.engine.source import ListNeed, SearchNeed, Source
from memoryd.engine.thin.conditions import conditions_of
from memoryd.engine.thin.search import CandidateSearch
from memoryd.engine.thin.working_set import WorkingSet
from memoryd.errors import NeedsFullIndex, StoreOffline
from memoryd.fields import (
    ALIASES,
    AUDIENCE,
    IN_PROJECT,
    PRIVATE,
    PROJECT,
    handles_of,
    related_ids,
)
from memoryd.labels import normal_name
from memoryd.model import Memory, MemoryType
from memoryd.queries import Conditions, Place, Queries, failures

MAX_NAMED = 50  # memories with one name; more are leftovers of interrupted writes
MAX_TWINS = 200  # facts that may be identical
PART = 100  # characters of both ends of a fact, by which identical ones are found
SPARE_MESSAGES = 20  # of a session, besides those of a window
MAX_FACTS = 200  # of a session: its record is one of them
MAX_NAMING = 500  # memories that name one in a relation
AT_ONCE = 20  # conditions that are asked for at once; ids in one for those that name them
COUNTED = 1000  # memories up to which a list says how many match
SPARE, MORE = 40, 2  # memories read for a page: this many more, and this many times as many
MAX_READ = 5000  # memories that are read for one page


class ThinSource(Source):
    """Reads from the stores; see `Source`."""

    finds_here = True

    def __init__(
        self,
        parts: Parts,
        queries: Queries,
        working_set: WorkingSet,
        search: CandidateSearch,
        drop_window: Callable[[str], None],
    ) -> None:
        """`drop_window`: makes the window of a session be built again."""
        self._parts, self._queries, self._working_set = parts, queries, working_set
        self._search, self._drop_window = search, drop_window

    def operation(self) -> AbstractAsyncContextManager[object]:
        return self._working_set.operation()

    async def handle(self, id_or_name: object) -> None:
        await self.handles([id_or_name])

    async def handles(self, ids_or_names: Iterable[object], *, only_here: bool = False) -> None:
        """Raises StoreOffline if what is not found may be on a server that cannot be reached."""
        wanted = {one for one in ids_or_names if _can_be_handle(one)}
        async with self._working_set.operation():
            failed = len(failures())
            await self._address(wanted, only_here)
            if not all(map(self._is_known, wanted)):
                _check_all_asked(failed)

    async def place(self, name: object, metadata: Mapping[str, Any]) -> None:
        wanted = set(filter(_can_be_handle, [name]))
        async with self._working_set.operation():
            failed = len(failures())
            await self._load_named(wanted, only_here=True)
            if not self._is_for_me(metadata, any(map(self._means_private, wanted))):
                await self._load_named(wanted)
                _check_all_asked(failed)

    def _is_for_me(self, metadata: Mapping[str, Any], replaces_private: bool) -> bool:
        """Whether a memory that is stored with this metadata is private."""
        if (given := metadata.get(AUDIENCE)) is not None:
            return bool(given == PRIVATE)
        default = self._parts.audiences.default
        is_nobodys = default == IN_PROJECT and metadata.get(PROJECT) is None
        return replaces_private or default == PRIVATE or is_nobodys

    def _before(self, memory: Memory) -> Memory | None:
        """The memory that it replaces, of those that were read."""
        rules, name, index = self._parts.audiences, memory.name, self._parts.index
        if (before := index.get(memory.id)) is None and name:
            return rules.place(memory, index.all_named(name))
        return before

    def _stays_here(self, memory: Memory) -> bool:
        """Whether it is, and was, private: then the server has nothing to do with it."""
        return self._parts.audiences.stays_here(memory, self._before(memory))

    def _becomes_private(self, memory: Memory) -> bool:
        """Then only private memories can have its name or be the same, and the server must not know
        what it says."""
        return is_private(self._parts.audiences.settled(memory, self._before(memory)))

    def _is_known(self, id_or_name: str) -> bool:
        return bool(self._meant(id_or_name))

    def _means_private(self, id_or_name: str) -> bool:
        return any(map(is_private, self._meant(id_or_name)))

    def _meant(self, id_or_name: str) -> list[Memory]:
        """What is in the index with this id, or else with this name."""
        index, name = self._parts.index, normal_name(id_or_name)
        if (memory := index.get(id_or_name)) is not None:
            return [memory]
        return index.all_named(name) if name else []

    async def _address(self, ids_or_names: Iterable[str], only_here: bool) -> None:
        """Read what these ids or names mean, as far as it can be found. They mean private memories
        first, so the server is not asked for what is found here."""
        async with self._working_set.operation() as running:
            wanted = set(ids_or_names) - running.known - running.looked_up
            await self._load_named(wanted, only_here=True)
            if only_here:
                return
            failed = len(failures())
            await self._load_named({one for one in wanted if not self._means_private(one)})
            if len(failures()) == failed:  # else the next look-up asks again
                running.looked_up |= wanted

    async def _load_named(self, names: Iterable[str], *, only_here: bool = False) -> None:
        """Read all memories with these names, or with one of them as their id."""
        wanted = set(names)
        await self._working_set.load(wanted, only_here=only_here)
        normal = sorted({normal_name(one) for one in wanted})
        asked = [one for name in normal if name and "\0" not in name for one in _having(name)]
        await self._working_set.load(await self._found(asked, MAX_NAMED, only_here=only_here))

    async def _found(
        self, asked: Sequence[Conditions], limit: int, *, only_here: bool = False
    ) -> set[str]:
        """The ids of memories that meet one of the conditions. A few are asked for at a time, so
        that others need not wait for all of them."""
        found: set[str] = set()
        for start in range(0, len(asked), AT_ONCE):
            part = asked[start : start + AT_ONCE]
            found |= set(await self._queries.find(*part, limit=limit, only_here=only_here))
        return found

    async def before_write(self, wanted: Callable[[], Memory]) -> None:
        memory, index = wanted(), self._parts.index
        async with self._working_set.operation():
            failed = len(failures())
            await self._load_named(handles_of(memory), only_here=self._becomes_private(memory))
            memory = wanted()  # as it is to become with what was found
            only_here = self._becomes_private(memory)
            twins = await self._found(_twins(memory), MAX_TWINS, only_here=only_here)
            related = related_ids(memory)
            await self._working_set.load(related | twins)
            if not self._stays_here(memory) or any(index.get(id) is None for id in related):
                _check_all_asked(failed)

    async def before_import(self, memories: Sequence[Memory]) -> None:
        async with self._working_set.operation():
            failed = len(failures())
            await self._working_set.load([memory.id for memory in memories], only_here=True)
            parts: dict[bool, list[Memory]] = {True: [], False: []}
            for memory in memories:
                parts[self._becomes_private(memory)].append(memory)
            for only_here, part in parts.items():
                names = [name for memory in part for name in handles_of(memory)]
                await self._load_named(names, only_here=only_here)
                twins = [one for memory in part for one in _twins(memory)]
                found = await self._found(twins, MAX_TWINS, only_here=only_here)
                await self._working_set.load(found.union(*map(related_ids, part)))
                await self._load_naming([memory.id for memory in part], only_here=only_here)
            if parts[False]:
                _check_all_asked(failed)

    async def before_drop(self, ids: Sequence[str]) -> None:
        async with self._working_set.operation():
            failed = len(failures())
            await self._load_naming(ids)
            index = self._parts.index
            if not all((known := index.get(id)) and self._stays_here(known) for id in ids):
                _check_all_asked(failed)

    async def _load_naming(self, ids: Sequence[str], *, only_here: bool = False) -> None:
        """Read these memories and those whose relations name one of them."""
        known = tuple(id for id in ids if "\0" not in id)
        some = [known[at : at + AT_ONCE] for at in range(0, len(known), AT_ONCE)]
        asked = [Conditions(naming=part) for part in some]
        await self._working_set.load(ids, only_here=only_here)
        await self._working_set.load(await self._found(asked, MAX_NAMING, only_here=only_here))

    async def session(self, session_id: str) -> None:
        async with self._working_set.operation():
            await self.messages(
                session_id, 2 * self._parts.memory.context_window_size + SPARE_MESSAGES
            )
            self._drop_window(session_id)

    async def load(self, ids: Iterable[str]) -> None:
        """Read these memories."""
        await self._working_set.load(ids)

    async def messages(self, session_id: str, count: int) -> None:
        """Read the last messages of a session, and its record."""
        said = Conditions(MemoryType.CONVERSATION, session_id)
        async with self._working_set.operation():
            newest = await self._queries.newest(said, self._parts.clock(), None, count)
            facts = Conditions(MemoryType.FACT, session_id)
            found = await self._queries.find(facts, limit=MAX_FACTS)
            await self._working_set.load([*found, *(id for _, id in newest)])

    @asynccontextmanager
    async def searched(self, index: Index, need: SearchNeed) -> AsyncIterator[Index]:
        made = await self._search.index(need)
        try:
            yield made
        finally:
            made.close()

    async def listed(self, index: Index, need: ListNeed) -> tuple[Index, int | None]:
        if need.order != "newest":
            raise NeedsFullIndex(f"Lists in the order {need.order!r} need all memories in RAM.")
        asked = conditions_of(need.filter)
        after = None if need.after is None else (-need.after[0][0], need.after[1])
        found = Index(self._search.dimension, keep_vectors=False)
        last = await self._read_page(found, need, asked, after)
        total = await self._queries.find(asked, limit=COUNTED)
        return found, max(len(total), last)

    async def _read_page(
        self, found: Index, need: ListNeed, asked: Conditions, after: Place | None
    ) -> int:
        """Read memories into an index until those that match fill the page; how many match."""
        now, filter, matching = need.now, need.filter, 0
        while matching <= need.limit:
            size = MORE * need.limit + SPARE
            places = await self._queries.newest(asked, now, after, size)
            for record in await self._queries.get([id for _, id in places]):
                found.put(record)
            await self._search.add_superseding(found)
            matching = _count(found, filter, now)
            if len(places) < size:
                break
            if len(found) > MAX_READ:
                raise NeedsFullIndex(
                    "Too few of the newest memories pass this filter, which the server cannot test."
                )
            after = places[-1]
        return matching


def _check_all_asked(failed: int) -> None:
    """Raise StoreOffline if the server did not answer a query of this operation after the first
    `failed` that it did not answer."""
    if noted := failures()[failed:]:
        raise StoreOffline(noted[-1])


def _can_be_handle(given: object) -> TypeGuard[str]:
    return isinstance(given, str) and 0 < len(given) <= LONGEST_ADDRESS


def _having(name: str) -> tuple[Conditions, ...]:
    """What finds the memories that have a name, and notes that have it as an alias."""
    return Conditions(name=name), Conditions(MemoryType.FACT, having=((ALIASES, (name,)),))


def _twins(memory: Memory) -> list[Conditions]:
    """What finds the facts that may be identical with a fact."""
    text = memory.content.strip().partition("\0")[0]
    if not text or memory.type is not MemoryType.FACT:
        return []
    ends = tuple(dict.fromkeys((text[:PART], text[-PART:])))
    return [Conditions(MemoryType.FACT, memory.session_id, contains=ends)]


def _count(index: Index, filter: Filter, now: float) -> int:
    return int(index.selection(filter, now).mask().sum())
