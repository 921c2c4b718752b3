"""The rules of names as a state machine: whatever is done, at once or with kills in between, no
name that a note has means anything else."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.run import run_engine
from memoryd.errors import MemorydError
from memoryd.fields import aliases_of, handles_of, is_note, seq_of
from memoryd.labels import folded_name, normal_name
from memoryd.model import Memory
from memoryd.ports import Record
from memoryd.settings import Config, EmbeddingSettings, MemorySettings
from tests.one_task import in_one_task
from tests.ramstore import RamStore

# Some differ only in case, accents or spaces.
NAMES = st.sampled_from(
    ["Caf\u00e9", "cafe", "CAFE\u0301", "Tea", "tea ", "plan", "pl\u00e1n b", "Plan  B", "last"]
)
CONFIG = Config(
    memory=MemorySettings(path=Path("unused"), timezone="UTC", cleanup_interval=10_000),
    embedding=EmbeddingSettings(backend="hash"),
)
Call = Callable[[Engine], Coroutine[Any, Any, Any]]


class Killed(Exception):
    """The process ended here."""


class DyingStore(RamStore):
    """A store whose process can be killed at a write."""

    dies: str | None = None  # before or after the write

    async def put(self, record: Record, *, new: bool = False) -> None:
        dies, self.dies = self.dies, None
        if dies == "before":
            raise Killed
        await super().put(record, new=new)
        if dies == "after":
            raise Killed
        await asyncio.sleep(0)  # others may come in between


@dataclass
class Expected:
    """What a note should be."""

    name: str
    content: str
    aliases: list[str] = field(default_factory=list)

    @property
    def handles(self) -> set[str]:
        return {folded_name(handle) for handle in (self.name, *self.aliases)}


def name_calls() -> st.SearchStrategy[Call]:
    """Any call that gives or takes a name."""
    two = st.tuples(NAMES, NAMES)
    return st.one_of(
        two.map(lambda given: lambda e: e.notes.add_note(given[0], "x", aliases=[given[1]])),
        two.map(lambda given: lambda e: e.notes.rename_note(*given)),
        two.map(lambda given: lambda e: e.notes.rename_note(*given, keep_alias=True)),
        two.map(lambda given: lambda e: e.notes.alias_note(*given)),
        two.map(lambda given: lambda e: e.update_memory(given[0].strip(), name=given[1])),
        NAMES.map(lambda name: lambda e: e.notes.unalias_note(name)),
        NAMES.map(lambda name: lambda e: e.notes.remove_note(name)),
        NAMES.map(lambda name: lambda e: e.store("plain", name=name)),
        NAMES.map(lambda name: lambda e: e.forget(name)),
    )


class NoteNames(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.store = DyingStore()
        self.notes: list[Expected] = []
        self.last_seq = 0
        self._start()

    def _start(self) -> None:
        running = run_engine(CONFIG, self.store, HashEncoder(), 384, lambda: 1e9)
        self._held = in_one_task(running)
        self.engine = self.runner.run(self._held.__aenter__())

    def _stop(self) -> None:
        self.runner.run(self._held.__aexit__(None, None, None))

    def teardown(self) -> None:
        self._stop()
        self.runner.close()

    def call(self, call: Call) -> Any:
        """The answer, or the code of the error."""

        async def done() -> Any:
            try:
                return await call(self.engine)
            except MemorydError as exc:
                return exc.code

        return self.runner.run(done())

    def owner(self, name: str) -> Expected | None:
        return next((note for note in self.notes if folded_name(name) in note.handles), None)

    def is_free(self, *names: str) -> bool:
        """Whether no memory at all has one of the names."""
        wanted = {folded_name(name) for name in names}
        taken = {folded_name(h) for memory in self.memories() for h in handles_of(memory)}
        return wanted.isdisjoint(taken)

    def memories(self) -> list[Memory]:
        return [record.memory for record in self.store.records.values()]

    def relearn(self) -> None:
        """After calls whose order is not known."""
        found = sorted(filter(is_note, self.memories()), key=seq_of)
        self.notes = [Expected(str(n.name), n.content, aliases_of(n)) for n in found]
        self.last_seq = max([self.last_seq, *map(seq_of, found)])

    @rule(
        name=NAMES, aliases=st.lists(NAMES, max_size=2), kind=st.sampled_from(["note", "archive"])
    )
    def add(self, name: str, aliases: list[str], kind: str) -> None:
        is_free = self.is_free(name, *aliases)
        done = self.call(lambda e: e.notes.add_note(name, f"on {name}", aliases=aliases, kind=kind))
        if not is_free:
            assert done == "name_taken"
            return
        assert done.memory.metadata["kind"] == kind
        assert seq_of(done.memory) > self.last_seq
        self.relearn()
        assert self.owner(name) is not None

    @rule(name=NAMES, new=NAMES, keep=st.booleans())
    def rename(self, name: str, new: str, keep: bool) -> None:
        note = self.owner(name)
        is_own = note is not None and folded_name(new) in note.handles
        is_free = is_own or self.is_free(new)
        done = self.call(lambda e: e.notes.rename_note(name, new, keep_alias=keep))
        if note is None or not is_free:
            assert done == ("not_found" if note is None else "name_taken")
            return
        old, note.name = note.name, normal_name(new)
        note.aliases = [alias for alias in note.aliases if folded_name(alias) != folded_name(new)]
        if keep and folded_name(old) != folded_name(new):
            note.aliases.append(old)
        self.check(note, done.memory)

    @rule(name=NAMES, alias=NAMES)
    def alias(self, name: str, alias: str) -> None:
        note = self.owner(name)
        has_it = note is not None and folded_name(alias) in note.handles
        is_free = self.is_free(alias)
        done = self.call(lambda e: e.notes.alias_note(name, alias))
        if note is None or not (has_it or is_free):
            assert done == ("not_found" if note is None else "name_taken")
            return
        assert done.changed == (not has_it)
        note.aliases += [] if has_it else [done.memory.metadata["aliases"][-1]]
        self.check(note, done.memory)

    @rule(alias=NAMES)
    def unalias(self, alias: str) -> None:
        note = self.owner(alias)
        done = self.call(lambda e: e.notes.unalias_note(alias))
        if note is None or folded_name(alias) == folded_name(note.name):
            assert done == ("not_found" if note is None else "alias_invalid")
            return
        note.aliases = [known for known in note.aliases if folded_name(known) != folded_name(alias)]
        self.check(note, done.memory)

    @rule(name=NAMES, content=st.sampled_from(["one", "two"]), by_store=st.booleans())
    def write(self, name: str, content: str, by_store: bool) -> None:
        """Storing under a name or alias of a note is the same; else it is a plain memory."""
        note = self.owner(name)
        if by_store:
            done = self.call(lambda e: e.store(content, name=name))
        else:
            done = self.call(lambda e: e.notes.write_note(name, content))
        if note is not None:
            note.content = content
            self.check(note, done.memory)
        elif not by_store:
            assert done == "not_found"

    @rule(name=NAMES, by_forget=st.booleans())
    def remove(self, name: str, by_forget: bool) -> None:
        note = self.owner(name)
        done = self.call(lambda e: e.forget(name) if by_forget else e.notes.remove_note(name))
        if note is not None:
            self.notes.remove(note)
            assert done.success
        elif not by_forget:
            assert done == "not_found"

    @rule(calls=st.lists(name_calls(), min_size=2, max_size=4))
    def at_once(self, calls: list[Call]) -> None:
        async def together() -> None:
            done = await asyncio.gather(*(c(self.engine) for c in calls), return_exceptions=True)
            wrong = [e for e in done if isinstance(e, BaseException) and not _is_ours(e)]
            assert wrong == []

        self.runner.run(together())
        self.relearn()

    @rule(
        wanted=st.sampled_from([("Caf\u00e9", "cafe", "CAFE\u0301"), ("Tea", "tea", "T\u00c9A")]),
        how=st.lists(st.sampled_from(["add", "alias", "rename", "store"]), min_size=3, max_size=3),
    )
    def race(self, wanted: tuple[str, ...], how: list[str]) -> None:
        """Several calls want one name, each in its own spelling."""
        held = [note.name for note in self.notes]

        def call(place: int) -> Call:
            name, of = wanted[place], held[place % len(held)] if held else "nobody"
            calls: dict[str, Call] = {
                "add": lambda e: e.notes.add_note(name, "x"),
                "alias": lambda e: e.notes.alias_note(of, name),
                "rename": lambda e: e.notes.rename_note(of, name),
                "store": lambda e: e.store("plain", name=name),
            }
            return calls[how[place]]

        self.at_once([call(place) for place in range(3)])

    @rule(call=name_calls(), dies=st.sampled_from(["before", "after"]))
    def killed(self, call: Call, dies: str) -> None:
        """The process ends within a write, or right after it."""
        self.store.dies = dies

        async def until_killed() -> None:
            try:
                await call(self.engine)
            except (Killed, MemorydError):
                pass

        self.runner.run(until_killed())
        self.store.dies = None
        self.restart()
        self.relearn()

    @rule()
    def restart(self) -> None:
        self._stop()
        self._start()
        self.last_seq = max(map(seq_of, self.memories()), default=0)

    def check(self, note: Expected, memory: Memory) -> None:
        found = (memory.name, memory.content, aliases_of(memory))
        assert found == (note.name, note.content, note.aliases)

    @invariant()
    def no_name_has_two_owners(self) -> None:
        owners = Counter[str]()
        of_notes = set[str]()
        for memory in self.memories():
            handles = {folded_name(handle) for handle in handles_of(memory)}
            owners.update(handles)
            of_notes |= handles if is_note(memory) else set()
        assert {handle: owners[handle] for handle in of_notes if owners[handle] > 1} == {}

    @invariant()
    def every_handle_leads_to_its_note(self) -> None:
        for note in self.notes:
            for handle in (note.name, *note.aliases, note.name.upper()):
                self.check(note, self.call(_reading(handle)))
                self.check(note, self.call(_getting(handle)))

    @invariant()
    def the_list_is_in_order(self) -> None:
        listed = self.call(lambda e: e.notes.list_notes())
        assert [note.name for note in listed.notes] == [note.name for note in self.notes]
        numbers = [seq_of(note) for note in listed.notes]
        assert numbers == sorted(set(numbers))


def _reading(name: str) -> Call:
    return lambda e: e.notes.read_note(name)


def _getting(name: str) -> Call:
    return lambda e: e.get(name)


def _is_ours(exc: BaseException) -> bool:
    return isinstance(exc, MemorydError)


TestNoteNames = NoteNames.TestCase
TestNoteNames.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
