"""A model that stops answering: no call waits for it, nothing is lost, it comes back by itself."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import islice
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.models import outage
from memoryd.engine.models.outage import backoff
from memoryd.errors import ModelUnavailable, TextRefused
from tests.engine.conftest import Start
from tests.engine.search.test_search import contents
from tests.processes import until

DOWN = "The model server is down."


class Server(HashEncoder):
    """An encoder that can be down, hang until it is let go, or refuse some texts."""

    def __init__(self) -> None:
        super().__init__()
        self.down = False
        self.calls = 0
        self.gate = threading.Event()
        self.gate.set()
        self.refused = ""

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Any:
        self.calls += 1
        self.gate.wait(60)
        if self.down:
            raise ModelUnavailable(DOWN)
        if self.refused and any(self.refused in text for text in texts):
            raise TextRefused("The model server refuses what was sent.")
        return super().encode(texts)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "FIRST", 0.01)
    monkeypatch.setattr(outage, "LONGEST", 0.05)


def pending(engine: Engine) -> int:
    count: int = engine.state()["pending_vectors"]
    return count


async def test_what_is_stored_and_sought_meanwhile_goes_by_words(
    start: Start, server: Server
) -> None:
    async with start(server) as engine:
        await engine.store("the robot charges in the hall")
        server.down = True
        stored = await engine.store("the kettle is in the kitchen")
        assert DOWN in stored.warnings[0]
        assert "words only" in stored.warnings[0]
        page = await engine.search("where is the kettle?")
        assert contents(page) == ["the kettle is in the kitchen"]
        assert page.warnings == (f"{DOWN} Results are by words only.",)
        assert engine.state()["model_trouble"] == DOWN
        updated = await engine.update_memory(
            stored.memory.id, content="the kettle is in the cellar"
        )
        assert updated.memory.content.endswith("cellar")
        assert pending(engine) == 1

        server.down = False
        await until(lambda: not pending(engine))
        page = await engine.search("where is the kettle?")
        assert page.warnings == ()
        assert page.hits[0].memory.content == "the kettle is in the cellar"
        assert engine.state()["model_trouble"] is None


async def test_only_the_first_call_finds_out(
    start: Start, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """During an outage no call reaches the server but the attempts in the background."""
    monkeypatch.setattr(outage, "FIRST", 1000.0)
    monkeypatch.setattr(outage, "LONGEST", 1000.0)
    async with start(server) as engine:
        await engine.search("known before")
        server.down = True
        await engine.store("one")
        calls = server.calls
        for n in range(20):
            await engine.store(f"text {n}")
            assert (await engine.search(f"query {n}")).warnings
        assert server.calls == calls
        assert (await engine.search("known before")).warnings == (
            "21 memories have no vector yet: found by words only.",
        )  # its vector is cached


async def test_calls_that_wait_when_it_begins_are_let_go(
    start: Start, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for what is running, not for a timeout of its own."""
    monkeypatch.setattr(outage, "FIRST", 1000.0)
    monkeypatch.setattr(outage, "LONGEST", 1000.0)
    async with start(server) as engine:
        server.gate.clear()
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for n in range(30):
                    tasks.start_soon(engine.search, f"query {n} " * 40)
                await until(lambda: server.calls > 0)
                server.down = True
                server.gate.set()
        assert server.calls < 10


async def test_a_text_that_is_refused_is_stored_and_hurts_no_other(
    start: Start, server: Server
) -> None:
    server.refused = "poison"
    async with start(server) as engine:
        answers = {}

        async def store(text: str) -> None:
            answers[text] = await engine.store(text)

        async with anyio.create_task_group() as tasks:
            for text in ("tea", "poison", "coffee"):
                tasks.start_soon(store, text)
        assert {text: bool(done.warnings) for text, done in answers.items()} == {
            "tea": False,
            "poison": True,
            "coffee": False,
        }
        assert "does not accept this text" in answers["poison"].warnings[0]
        assert engine.state()["model_trouble"] is None
        assert pending(engine) == 1
        await engine.embed_all_pending()
        assert pending(engine) == 1


class Ranks:
    """A reranker that likes one word, and can be down."""

    model = "ranks"

    def __init__(self) -> None:
        self.down = False
        self.calls = 0

    def marks(self, query: str, texts: Sequence[str]) -> list[float]:
        self.calls += 1
        if self.down:
            raise ModelUnavailable("The rerank server is down.")
        return [1.0 if "liked" in text else 0.0 for text in texts]


async def test_a_reranker_that_is_down_is_left_out_until_it_is_back(engine: Engine) -> None:
    await engine.store("the robot charges in the hall")
    await engine.store("the robot in the hall is liked")
    ranks = Ranks()
    engine.attach_reranker(ranks)
    ranks.down = True
    page = await engine.search("the robot charges in the hall")
    assert page.warnings == ("The rerank server is down. Results are not reranked.",)
    assert contents(page)[0] == "the robot charges in the hall"
    ranks.down = False
    with anyio.fail_after(60):
        while page.warnings:
            await anyio.lowlevel.checkpoint()
            page = await engine.search("the robot charges in the hall")
    assert contents(page)[0] == "the robot in the hall is liked"


def test_pauses_double_up_to_the_longest() -> None:
    assert list(islice(backoff(1.0, 5.0), 5)) == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert list(islice(backoff(9.0, 5.0), 2)) == [5.0, 5.0]
