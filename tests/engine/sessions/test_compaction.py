"""Compaction: older messages become an archive, each once, and none is lost whatever happens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.run import run_engine
from memoryd.engine.sessions import compaction
from memoryd.engine.sessions.messages import messages_of
from memoryd.engine.sessions.records import find_record, last_consolidated, markers_of
from memoryd.errors import InvalidInput, MemorydError, StoreError
from memoryd.fields import ARCHIVED, FROM_SESSION, PROJECT, SUMMARY_BY, is_archive
from memoryd.model import DAY, Memory
from memoryd.ports import PromptFn, Record
from memoryd.settings import Config, EmbeddingSettings, MemorySettings, SessionSettings
from tests.engine.conftest import Clock, Start
from tests.model_server import SUMMARY
from tests.one_task import in_one_task
from tests.processes import until
from tests.ramstore import RamStore

LIMIT = 20.0  # seconds after which a test has failed


async def say(engine: Engine, count: int, session: str = "s", start: int = 0) -> list[str]:
    """Add messages, in turns of user and assistant; their ids."""
    ids = []
    for number in range(start, start + count):
        role = "user" if number % 2 == 0 else "assistant"
        text = f"Message number {number} is about the roof garden and plant {number % 5}."
        ids.append((await engine.add_turn(role, text, session)).memory.id)
    return ids


def archives(engine: Engine, session: str = "s") -> list[Memory]:
    """The archives of a session, oldest first."""
    found = [note for note in engine._parts.index.notes() if is_archive(note)]
    mine = [note for note in found if note.metadata.get(FROM_SESSION) == session]
    return sorted(mine, key=lambda note: int(note.metadata[ARCHIVED]["upto"]))


def alive(engine: Engine, session: str = "s") -> list[Memory]:
    return messages_of(engine._parts.index, session, engine._parts.clock())


async def test_the_older_part_becomes_an_archive_and_the_messages_stay(engine: Engine) -> None:
    ids = await say(engine, 30)
    done = await engine.compaction.compact("s", keep=10)
    assert (done.archived, done.kept, done.summary_by) == (20, 10, "extract")
    (archive,) = archives(engine)
    assert done.archive_name == archive.name
    assert archive.name is not None
    assert archive.name.startswith("2026-07-01 ")
    assert archive.content.startswith("[2026-07-01 12:00] 20 messages of user and assistant")
    assert archive.metadata[SUMMARY_BY] == "extract"
    facts = archive.metadata[ARCHIVED]
    assert (facts["messages"], facts["upto"]) == (20, 19)
    assert archive.expires_at is None
    assert [message.id for message in alive(engine)] == ids
    record = find_record(engine._parts.index, "s")
    (marker,) = markers_of(record)
    assert last_consolidated(record) == 19
    assert marker["archive_id"] == archive.id
    assert (marker["archive_name"], marker["messages"], marker["upto"]) == (archive.name, 20, 19)
    # It is found by name and by search.
    assert (await engine.notes.read_note(archive.name)).id == archive.id
    page = await engine.search("roof garden", "fact")
    assert archive.id in [hit.memory.id for hit in page.hits]


async def test_an_archive_outlives_its_messages(engine: Engine, clock: Clock) -> None:
    await say(engine, 6)
    await engine.compaction.consolidate("s")
    clock.now += 40 * DAY
    assert alive(engine) == []
    assert len(archives(engine)) == 1
    stored = await engine.add_turn("user", "I am back.", "s")
    assert stored.memory.metadata["order"] == 6
    assert (await engine.compaction.consolidate("s")).archived == 1


async def test_any_number_of_times_and_only_what_is_new(engine: Engine) -> None:
    for number in range(4):
        await say(engine, 12, start=12 * number)
        await engine.compaction.compact("s", keep=2)
    spans = [archive.metadata[ARCHIVED] for archive in archives(engine)]
    assert [(span["messages"], span["upto"]) for span in spans] == [
        (10, 9),
        (12, 21),
        (12, 33),
        (12, 45),
    ]
    again = await engine.compaction.compact("s", keep=2)
    assert (again.archived, again.archive_name, again.kept) == (0, None, 2)
    names = {archive.name for archive in archives(engine)}
    assert len(names) == 4
    assert [one["upto"] for one in markers_of(find_record(engine._parts.index, "s"))] == [
        9,
        21,
        33,
        45,
    ]


async def test_without_messages_nothing_is_written(engine: Engine) -> None:
    done = await engine.compaction.consolidate("nothing")
    assert (done.archived, done.archives, done.kept) == (0, (), 0)
    assert engine.count == 0


@pytest.mark.parametrize("keep", [-1, 1.5, "3", True])
async def test_a_wrong_number_to_keep_is_refused(engine: Engine, keep: Any) -> None:
    await say(engine, 3)
    with pytest.raises(InvalidInput, match="keep"):
        await engine.compaction.compact("s", keep=keep)
    with pytest.raises(InvalidInput):
        await engine.compaction.compact("", keep=1)


async def test_a_long_session_has_several_archives(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "MAX_AT_ONCE", 10)
    await say(engine, 34)
    done = await engine.compaction.consolidate("s")
    assert (done.archived, len(done.archives)) == (34, 4)
    assert [one.metadata[ARCHIVED]["upto"] for one in archives(engine)] == [9, 19, 29, 33]


async def test_the_project_of_all_messages_is_that_of_the_archive(engine: Engine) -> None:
    said: dict[str, list[str | None]]
    said = {"one": ["tea", "tea"], "two": ["tea", "milk"], "no": [None]}
    for session, projects in said.items():
        for project in projects:
            await engine.add_turn("user", "We talk about pots.", session, own_project=project)
        await engine.compaction.consolidate(session)
    found = [archives(engine, name)[0].metadata.get(PROJECT) for name in ("one", "two", "no")]
    assert found == ["tea", None, None]


async def test_sessions_at_the_same_time_get_archives_of_different_names(engine: Engine) -> None:
    for session in "abc":
        await say(engine, 4, session)
    async with anyio.create_task_group() as tasks:
        for session in "abcabc":  # each twice: the second finds nothing to do
            tasks.start_soon(engine.compaction.consolidate, session)
    names = [archives(engine, session)[0].name for session in "abc"]
    assert [len(archives(engine, session)) for session in "abc"] == [1, 1, 1]
    assert len(set(names)) == 3
    assert sorted(str(name)[-4:] for name in names)[:2] == [" (2)", " (3)"]


async def test_forgotten_messages_are_in_no_archive(engine: Engine) -> None:
    ids = await say(engine, 6)
    await engine.forget(ids[2])
    done = await engine.compaction.consolidate("s")
    assert done.archived == 5
    assert "number 2 " not in done.archives[0].content


def gathered(*windows: int) -> SessionSettings:
    memory_window, keep_count = windows
    return SessionSettings(memory_window=memory_window, keep_count=keep_count)


@pytest.fixture
async def short(config: Config, store: RamStore, clock: Clock) -> AsyncIterator[Engine]:
    """An engine that compacts sessions of more than 10 messages, and keeps 4."""
    running = run_engine(
        replace(config, sessions=gathered(10, 4)), store, HashEncoder(), 384, clock
    )
    async with in_one_task(running) as engine:
        yield engine


async def idle(engine: Engine) -> None:
    await until(lambda: not engine.compaction._busy)


async def test_a_session_that_grows_long_is_compacted_by_itself(short: Engine) -> None:
    await say(short, 10)
    await idle(short)
    assert archives(short) == []
    await say(short, 1, start=10)
    await idle(short)
    assert [one.metadata[ARCHIVED]["upto"] for one in archives(short)] == [6]
    await say(short, 30, start=11)
    await idle(short)
    spans = [one.metadata[ARCHIVED] for one in archives(short)]
    assert sum(span["messages"] for span in spans) == spans[-1]["upto"] + 1
    assert 4 <= 41 - sum(span["messages"] for span in spans) <= 10


async def test_it_can_be_turned_off(config: Config, store: RamStore, clock: Clock) -> None:
    off = replace(gathered(10, 4), auto_compact=False)
    async with run_engine(
        replace(config, sessions=off), store, HashEncoder(), 384, clock
    ) as engine:
        await say(engine, 20)
        assert not engine.compaction._busy


class Prompt:
    """A language model that answers when it is told to."""

    def __init__(self, answer: str = json.dumps(SUMMARY)) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.began, self.released = anyio.Event(), anyio.Event()

    async def __call__(self, text: str) -> str:
        self.asked.append(text)
        self.began.set()
        await self.released.wait()
        return self.answer


def engine_with(
    prompt: PromptFn, config: Config, store: RamStore, clock: Clock, **options: Any
) -> Any:
    chosen = replace(config, **options)
    return run_engine(chosen, store, HashEncoder(), 384, clock, prompt=prompt)


async def test_turns_and_searches_go_on_while_the_model_writes(
    config: Config, store: RamStore, clock: Clock
) -> None:
    prompt = Prompt()
    options = {"sessions": gathered(10, 4)}
    async with engine_with(prompt, config, store, clock, **options) as engine:
        with anyio.fail_after(LIMIT):
            await say(engine, 11)
            await prompt.began.wait()
            await say(engine, 5, start=11)
            assert (await engine.search("roof garden")).hits
            assert archives(engine) == []
            prompt.released.set()
            await idle(engine)
        (archive,) = archives(engine)
        assert archive.metadata[ARCHIVED]["upto"] == 6
        assert archive.metadata[SUMMARY_BY] == "llm"
        assert archive.name == "2026-07-01 Trip to Lisbon"
        assert len(prompt.asked) == 1


async def test_what_is_forgotten_while_the_model_writes_is_in_no_archive(
    config: Config, store: RamStore, clock: Clock
) -> None:
    prompt = Prompt(json.dumps({"history_entry": "They spoke of the private matter."}))
    async with engine_with(prompt, config, store, clock) as engine:
        ids = await say(engine, 4)
        private = (await engine.add_turn("user", "A private matter.", "s")).memory.id
        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(engine.compaction.consolidate, "s")
                await prompt.began.wait()
                await engine.forget(private)
                prompt.answer = json.dumps({"history_entry": "They spoke of the roof garden."})
                prompt.began = anyio.Event()
                prompt.released.set()
                await prompt.began.wait()
        (archive,) = archives(engine)
        assert archive.content.endswith("They spoke of the roof garden.")
        assert archive.metadata[ARCHIVED]["messages"] == len(ids)
        assert "private" not in prompt.asked[1]


@pytest.mark.parametrize("answer", ["I like turtles.", "", '{"history_entry": 1}'])
async def test_garbage_is_not_stored_and_not_asked_for_again(
    config: Config,
    store: RamStore,
    clock: Clock,
    answer: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compaction, "MAX_AT_ONCE", 5)
    prompt = Prompt(answer)
    prompt.released.set()
    async with engine_with(prompt, config, store, clock) as engine:
        await say(engine, 15)
        done = await engine.compaction.consolidate("s")
        assert (done.archived, len(done.archives), done.summary_by) == (15, 3, "extract")
        assert len(done.warnings) == 1
        assert len(prompt.asked) == 1


async def test_the_language_model_can_be_left_out(
    config: Config, store: RamStore, clock: Clock
) -> None:
    prompt = Prompt()
    async with engine_with(prompt, config, store, clock) as engine:
        await say(engine, 4)
        done = await engine.compaction.consolidate("s", ask=False)
        assert (done.archived, done.summary_by, done.warnings) == (4, "extract", ())
        assert prompt.asked == []


async def test_a_cut_archive_still_fits(config: Config, store: RamStore, clock: Clock) -> None:
    prompt = Prompt(json.dumps({"history_entry": "They spoke of Käse and tea. " * 50}))
    prompt.released.set()
    small = replace(config.memory, max_content_bytes=100)
    async with engine_with(prompt, config, store, clock, memory=small) as engine:
        await say(engine, 2)
        (archive,) = (await engine.compaction.consolidate("s")).archives
        assert len(archive.content.encode()) <= 100


async def test_secrets_of_a_model_are_masked_even_where_they_are_refused(
    config: Config, store: RamStore, clock: Clock
) -> None:
    key = "AKIA" + "Q3EGRDTIWVV5PXLB"
    wrote = {
        "history_entry": f"They used {key} for it.",
        "title": f"Key {key}",
        "memory_update": [{"text": f"The key is {key}.", "message": 1}],
    }
    prompt = Prompt(json.dumps(wrote))
    prompt.released.set()
    strict = replace(config.memory, secrets="refuse")
    async with engine_with(prompt, config, store, clock, memory=strict) as engine:
        await say(engine, 2)
        done = await engine.compaction.consolidate("s")
        assert (done.archived, len(done.facts), done.summary_by) == (2, 1, "llm")
        assert key not in str([record.memory for record in store.records.values()])


class Failing(RamStore):
    """A store in RAM of which one write fails, and then all that follow: a kill."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None  # writes that still succeed

    async def put(self, record: Record, *, new: bool = False) -> None:
        self._count()
        await super().put(record, new=new)

    async def put_all(self, records: Sequence[Record], *, new: bool = False) -> None:
        self._count()
        for record in records:
            await super().put(record)

    def _count(self) -> None:
        if self.left is not None:
            if self.left <= 0:
                raise StoreError("The store is gone.")
            self.left -= 1


@pytest.mark.parametrize("writes", range(4))
async def test_a_kill_between_any_two_writes_is_repaired_by_a_repeat(
    config: Config, clock: Clock, writes: int
) -> None:
    """The writes of a compaction: a fact, the archive, and the record with its marker."""
    store = Failing()
    prompt = Prompt()
    prompt.released.set()

    def start() -> Any:
        return engine_with(prompt, config, store, clock)

    async with start() as engine:
        ids = await say(engine, 12)
        store.left = writes
        with pytest.raises(StoreError):
            await engine.compaction.compact("s", keep=4)
        store.left = 0
    store.left = None
    async with start() as engine:
        await engine.compaction.compact("s", keep=4)
        assert [message.id for message in alive(engine)] == ids
        (archive,) = archives(engine)
        (marker,) = markers_of(find_record(engine._parts.index, "s"))
        assert (marker["archive_id"], marker["upto"]) == (archive.id, 7)
        facts = [memory for memory in engine._parts.index if FROM_SESSION in memory.metadata]
        assert len(facts) == 2  # the archive, and one fact
        assert (await engine.compaction.compact("s", keep=4)).archived == 0


async def test_a_failure_in_the_background_is_logged_without_text_and_tried_again(
    config: Config, clock: Clock
) -> None:
    store = Failing()
    chosen = replace(config, sessions=gathered(10, 4))
    async with run_engine(chosen, store, HashEncoder(), 384, clock) as engine:
        await say(engine, 10)
        with capture_logs() as logs:
            store.left = 1  # the message, not the archive
            await say(engine, 1, start=10)
            await idle(engine)
        assert [one["event"] for one in logs if one["log_level"] == "warning"] == [
            "compaction_failed"
        ]
        assert "roof garden" not in str(logs)
        store.left = None
        await say(engine, 1, start=11)
        await idle(engine)
        assert len(archives(engine)) == 1


step = st.one_of(
    st.tuples(st.just("say"), st.integers(1, 12)),
    st.tuples(st.just("compact"), st.integers(0, 6)),
    st.tuples(st.just("kill"), st.integers(0, 5)),
    st.tuples(st.just("forget"), st.integers(0, 30)),
    st.tuples(st.just("start again"), st.just(0)),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(step, max_size=12))
def test_no_message_is_lost_and_each_is_summarised_once(steps: list[tuple[str, int]]) -> None:
    anyio.run(_live, steps)


async def _live(steps: list[tuple[str, int]]) -> None:
    """Each message is in the span of exactly one archive, whatever happens in between."""
    store, said, forgotten = Failing(), list[str](), set[str]()
    memory = MemorySettings(timezone="UTC", cleanup_interval=10_000)
    config = Config(memory=memory, embedding=EmbeddingSettings(backend="hash"))
    config = replace(config, sessions=replace(gathered(10, 4), auto_compact=False))
    todo = [*steps, ("compact", 0)]
    while todo:
        store.left = None
        async with run_engine(config, store, HashEncoder(), 384, Clock()) as engine:
            while todo:
                what, number = todo.pop(0)
                if what == "start again":
                    break
                if what == "say":
                    said += await say(engine, number, start=len(said))
                elif what == "forget" and number < len(said):
                    await engine.forget(said[number])
                    forgotten.add(said[number])
                elif what == "compact":
                    await engine.compaction.compact("s", keep=number)
                elif what == "kill":
                    store.left = number
                    try:
                        await engine.compaction.consolidate("s")
                    except MemorydError:
                        store.left = 0
                        break
                    store.left = None
            _check(engine, said, forgotten, complete=not todo and store.left is None)


def _check(engine: Engine, said: list[str], forgotten: set[str], *, complete: bool) -> None:
    assert [message.id for message in alive(engine)] == [id for id in said if id not in forgotten]
    spans = [archive.metadata[ARCHIVED] for archive in archives(engine)]
    ends = [span["upto"] for span in spans]
    assert ends == sorted(set(ends))
    starts = [-1, *ends][: len(ends)]
    for span, start in zip(spans, starts, strict=True):
        assert span["messages"] <= span["upto"] - start
    if complete:
        left = [m for m in alive(engine) if m.metadata["order"] > max(ends, default=-1)]
        assert left == []


async def test_a_restart_continues_where_it_was(start: Start) -> None:
    async with start() as engine:
        await say(engine, 8)
        await engine.compaction.compact("s", keep=2)
    async with start() as engine:
        await say(engine, 4, start=8)
        await engine.compaction.compact("s", keep=0)
        spans = [one.metadata[ARCHIVED] for one in archives(engine)]
        assert [(span["messages"], span["upto"]) for span in spans] == [(6, 5), (6, 11)]
