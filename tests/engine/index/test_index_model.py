"""After any mix of store, update, forget, expiry, kill and restart the index is the collection.

Hypothesis drives a real engine on the real ChromaDB and compares it with a dictionary: the model,
the store as read back row by row, the index, and what an index made anew from the store finds.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from memoryd.engine.engine import Engine
from memoryd.engine.filters import Filter
from memoryd.engine.index import snapshot
from memoryd.engine.index.index import Index
from memoryd.engine.index.terms import terms
from memoryd.engine.search.rank import fuse
from memoryd.lead import DEFAULT, lead_of
from memoryd.model import Memory, is_expired
from memoryd.ports import Record
from memoryd.settings import (
    Config,
    EmbeddingSettings,
    MemorySettings,
    SearchSettings,
    StoreSettings,
)
from memoryd.wiring.engine import open_engine

pytestmark = pytest.mark.slow

START = 1_800_000_000.0
TEXTS = st.one_of(
    st.sampled_from(
        ["the robot charges in the hall", "Anna likes green tea", "see max_line_bytes"]
    ),
    st.lists(
        st.sampled_from("robot tea hall Anna 東京 winter v1.2".split()), min_size=1, max_size=9
    ).map(" ".join),
    st.integers(1, 3).map(lambda n: f"a long story {n} " * (90 * n)),
)
SESSIONS = st.sampled_from([None, "s", "t"])
QUERIES = ("robot hall", "green tea for Anna", "東京", "max_line_bytes", "long story")


class Host:
    """One engine in a loop on a thread of its own, that can be stopped, killed and started."""

    def __init__(self, folder: Path) -> None:
        self.now = START
        self._config = Config(
            memory=MemorySettings(path=folder, cleanup_interval=1e6, timezone="UTC"),
            embedding=EmbeddingSettings(backend="hash"),
            store=StoreSettings(sync_threshold=5),
        )
        self._portal_scope: AbstractContextManager[BlockingPortal] = start_blocking_portal()
        self._portal = self._portal_scope.__enter__()
        self._start()

    def _start(self) -> None:
        opened = open_engine(self._config, lambda: self.now)
        self._scope = self._portal.wrap_async_context_manager(opened)
        self.engine: Engine = self._scope.__enter__()

    def call(self, what: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return self._portal.call(lambda: what(*args, **options))

    def restart(self, *, saving: bool) -> None:
        if not saving:  # as a kill would: the snapshot stays what it was
            self.engine._parts.snapshots._saved = self.engine._parts.index.changes
            # Whatever the index does from now on is not saved either.
        self._scope.__exit__(None, None, None)
        self._start()

    def kill_worker(self) -> None:
        pid = self.call(self.engine.store_status)["pid"]
        os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        self._scope.__exit__(None, None, None)
        self._portal_scope.__exit__(None, None, None)

    def stored(self) -> dict[str, Record]:
        async def read() -> dict[str, Record]:
            return {r.memory.id: r async for page in self.engine._parts.store.scan() for r in page}

        found: dict[str, Record] = self._portal.call(read)
        return found


class Mix(RuleBasedStateMachine):
    """What is done to the engine, and what must hold after each step."""

    host: ClassVar[Host]
    ids = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[str, Memory] = {}

    @property
    def engine(self) -> Engine:
        return self.host.engine

    @initialize()
    def empty(self) -> None:
        for id in [memory.id for memory in self.engine._parts.index]:
            self.host.call(self.engine.forget, id)

    @rule(
        target=ids,
        text=TEXTS,
        type=st.sampled_from(["fact", "conversation", "context"]),
        session=SESSIONS,
        name=st.sampled_from([None, None, "one", "two"]),
        lives=st.sampled_from([None, 50.0, 5_000.0]),
    )
    def store(
        self,
        text: str,
        type: str,
        session: str | None,
        name: str | None,
        lives: float | None,
    ) -> str:
        stored = self.host.call(
            self.engine.store,
            text,
            type,
            session_id=session,
            name=name,
            expires_at=None if lives is None else self.host.now + lives,
        )
        self.model[stored.memory.id] = stored.memory
        found: str = stored.memory.id
        return found

    @rule(
        target=ids,
        text=TEXTS,
        role=st.sampled_from(["user", "assistant"]),
        speaker=st.sampled_from([None, "Anna", "Tom"]),
    )
    def say(self, text: str, role: str, speaker: str | None) -> str:
        said = self.host.call(self.engine.add_turn, role, text, "s", speaker).memory
        self.model[said.id] = said
        found: str = said.id
        return found

    @rule(id=ids, text=TEXTS)
    def change(self, id: str, text: str) -> None:
        if self.alive(id):
            self.model[id] = self.host.call(self.engine.update_memory, id, content=text).memory

    @rule(id=ids, pinned=st.booleans(), tag=st.integers(0, 2))
    def relabel(self, id: str, pinned: bool, tag: int) -> None:
        if self.alive(id):
            changed = self.host.call(
                self.engine.update_memory,
                id,
                pinned=pinned,
                metadata={"tag": tag, "tags": [f"t{tag}"]},
            )
            self.model[id] = changed.memory

    @rule(target=ids, id=consumes(ids))
    def forget(self, id: str) -> Any:
        gone = self.host.call(self.engine.forget, id)
        assert bool(gone) is self.alive(id)
        self.model.pop(id, None)
        return multiple()

    @rule(seconds=st.sampled_from([1.0, 60.0, 6_000.0]), sweep=st.booleans())
    def wait(self, seconds: float, sweep: bool) -> None:
        self.host.now += seconds
        if sweep:
            due = {id for id, memory in self.model.items() if is_expired(memory, self.host.now)}
            assert self.host.call(self.engine.cleanup_expired) == len(due)
            for id in due:
                del self.model[id]

    @rule()
    def kill_the_worker(self) -> None:
        self.host.kill_worker()

    @rule()
    def save(self) -> None:
        """A snapshot, from whose files the index reads from then on."""
        self.host.call(self.engine._parts.snapshots.save)

    @rule(saving=st.booleans())
    def restart(self, saving: bool) -> None:
        self.host.restart(saving=saving)
        # A start sweeps.
        for id in [id for id in self.model if not self.alive(id)]:
            del self.model[id]
        self.host.call(self.engine.cleanup_expired)
        self.host.call(self.engine.embed_all_pending)

    def alive(self, id: str) -> bool:
        return id in self.model and not is_expired(self.model[id], self.host.now)

    @invariant()
    def the_index_is_the_collection(self) -> None:
        index, stored = self.engine._parts.index, self.host.stored()
        assert {id: record.memory for id, record in stored.items()} == self.model
        assert {memory.id: memory for memory in index} == self.model
        for id, record in stored.items():
            mine = index.record(id)
            assert mine is not None
            if not record.passages:  # a kill inside the flush: repaired, and embedded at a start
                assert record.revision == 0
                continue
            assert mine.revision == record.revision
            assert [p.span for p in mine.passages] == [p.span for p in record.passages]
            for one, other in zip(mine.passages, record.passages, strict=True):
                expected = self.vector(record.memory, one.span)
                np.testing.assert_allclose(other.vector, expected, atol=1e-5)  # the store's
                np.testing.assert_allclose(one.vector, expected, atol=1e-5)  # the index's

    def vector(self, memory: Memory, span: tuple[int, int]) -> Any:
        """What the passage is embedded as."""
        encoder = self.engine._parts.embedding.encoder
        assert encoder is not None
        return encoder.encode([lead_of(memory, DEFAULT) + memory.content[slice(*span)]])[0]

    @invariant()
    def it_finds_what_a_new_index_finds(self) -> None:
        fresh = Index(384)
        for memory in self.engine._parts.index:
            record = self.engine._parts.index.record(memory.id)
            assert record is not None
            fresh.put(record)
        for query in QUERIES:
            ours, expected = (self.ranks(i, query) for i in (self.engine._parts.index, fresh))
            assert ours == pytest.approx(expected, abs=1e-4)  # sums in another order
        assert self.engine._parts.index.tables[1].vocabulary == fresh.tables[1].vocabulary

    def ranks(self, index: Index, query: str) -> dict[str, float]:
        """The key of every memory that is alive; ties may come in any order."""
        encoder = self.engine._parts.embedding.encoder
        assert encoder is not None
        view = index.view(terms(query), Filter(), self.host.now, 0.2)
        signals = view.signals(encoder.encode([query], query=True)[0])
        ranked = fuse(view, signals, replace(SearchSettings(), limit=1000), 1000)
        entries = index.entries()
        found = {}
        for slot, key in zip(ranked.slots, ranked.keys, strict=True):
            entry = entries[int(slot)]
            assert entry is not None
            found[entry.memory.id] = float(key)
        return found


@pytest.mark.parametrize("snapshots", [True, False])
def test_the_index_is_the_collection_after_anything(
    snapshots: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if snapshots:
        monkeypatch.setattr(snapshot, "MIN_MEMORIES", 1)
    with tempfile.TemporaryDirectory() as folder:
        Mix.host = Host(Path(folder))
        try:
            run_state_machine_as_test(
                Mix,
                settings=settings(
                    max_examples=5,
                    stateful_step_count=20,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            Mix.host.close()
