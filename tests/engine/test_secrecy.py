"""No secret reaches the store or the model, unless it is allowed to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.run import run_engine
from memoryd.errors import InvalidInput
from memoryd.settings import Config
from tests.engine.conftest import Clock
from tests.ramstore import RamStore

SECRET = "Tulip" + "-1987"
TOKEN = "ghp" + "_" + "A1b2C3d4E5" * 4
SAID = f"my password is {SECRET}"
MASKED = "my password is [secret removed: password]"
WARNING = "What looked like a secret was removed before storing: password."


@asynccontextmanager
async def running(
    config: Config, store: RamStore, clock: Clock, policy: Literal["mask", "refuse", "allow"]
) -> AsyncIterator[Engine]:
    config = replace(config, memory=replace(config.memory, secrets=policy))
    async with run_engine(config, store, HashEncoder(), 384, clock) as engine:
        yield engine


async def test_a_secret_is_masked_before_it_is_stored(engine: Engine, store: RamStore) -> None:
    stored = await engine.store(
        SAID,
        metadata={"a": [{"token": TOKEN}], "password": SECRET},
        name=f"login {TOKEN}",
    )
    assert stored.memory.content == MASKED
    assert stored.memory.name == "login [secret removed: GitHub token]"
    assert stored.memory.metadata == {
        "a": [{"token": "[secret removed: GitHub token]"}],
        "password": "[secret removed: password]",
    }
    assert stored.warnings == (WARNING.replace("password", "password, GitHub token"),)
    kept = repr(store.records)
    assert SECRET not in kept
    assert TOKEN not in kept


async def test_a_secret_never_reaches_the_model(
    config: Config, store: RamStore, clock: Clock
) -> None:
    seen: list[str] = []

    class Listening(HashEncoder):
        def encode(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
            seen.extend(texts)
            return super().encode(texts, query=query)

    async with run_engine(config, store, Listening(), 384, clock) as engine:
        stored = await engine.store(SAID)
        await engine.update_memory(stored.memory.id, content=f"now {SAID}")
    assert seen == [MASKED, f"now {MASKED}"]


async def test_an_update_is_masked_too(engine: Engine, store: RamStore) -> None:
    await engine.store("nothing yet", name="login")
    after = await engine.update_memory("login", content=SAID, metadata={"pwd": SECRET})
    assert after.memory.content == MASKED
    assert after.memory.metadata == {"pwd": "[secret removed: password]"}
    assert "password" in after.warnings[0]
    assert SECRET not in repr(store.records)


async def test_a_turn_is_masked_too_and_says_so(engine: Engine) -> None:
    done = await engine.add_turn("user", SAID, "s")
    assert done.warnings == (WARNING,)
    window = await engine.context_window("s")
    assert [memory.content for memory in window.messages] == [MASKED]


async def test_without_a_secret_there_is_no_warning(engine: Engine) -> None:
    assert (await engine.store("the password policy requires 12 characters")).warnings == ()


async def test_a_secret_is_refused_where_that_is_set(
    config: Config, store: RamStore, clock: Clock
) -> None:
    async with running(config, store, clock, "refuse") as engine:
        kept = await engine.store("harmless", name="n")
        for call in (
            engine.store(SAID),
            engine.store("x", metadata={"password": SECRET}),
            engine.store("x", name=TOKEN),
            engine.add_turn("user", SAID, "s"),
            engine.update_memory("n", content=SAID),
        ):
            with pytest.raises(InvalidInput) as refused:
                await call
            assert refused.value.code == "secret_refused"
            assert refused.value.hint
            assert SECRET not in refused.value.message
        assert await engine.get("n") == kept.memory
        assert engine.count == 1


async def test_a_secret_is_kept_where_that_is_set(
    config: Config, store: RamStore, clock: Clock
) -> None:
    async with running(config, store, clock, "allow") as engine:
        stored = await engine.store(SAID, metadata={"password": SECRET})
        assert (stored.memory.content, stored.warnings) == (SAID, ())
        assert stored.memory.metadata == {"password": SECRET}


@pytest.mark.parametrize("policy", ["mask", "refuse"])
async def test_a_session_id_that_looks_like_a_secret_is_refused(
    config: Config, store: RamStore, clock: Clock, policy: Literal["mask", "refuse"]
) -> None:
    """Masked, the sessions of two tokens would be one."""
    async with running(config, store, clock, policy) as engine:
        await engine.store("harmless", name="n", session_id="123e4567-e89b-12d3-a456-426614174000")
        for call in (
            engine.store("x", session_id=TOKEN),
            engine.add_turn("user", "x", TOKEN),
        ):
            with pytest.raises(InvalidInput) as refused:
                await call
            assert refused.value.code == "secret_refused"
            assert "session_id" in refused.value.message
            assert TOKEN not in refused.value.message
        assert TOKEN not in repr(store.records)
        assert engine.count == 1


async def test_an_imported_session_id_that_looks_like_a_secret_is_refused(
    engine: Engine, store: RamStore
) -> None:
    memory = (await engine.store("x", name="n")).memory
    await engine.forget("n")
    with pytest.raises(InvalidInput, match="session_id"):
        await engine.import_memory(replace(memory, session_id=TOKEN))
    assert TOKEN not in repr(store.records)


async def test_a_masked_text_is_never_longer_than_a_text_may_be(
    config: Config, store: RamStore, clock: Clock
) -> None:
    """A marker is longer than a short secret: the limit holds for what is stored."""
    config = replace(config, memory=replace(config.memory, max_content_bytes=1000))
    said = " ".join(["PIN: 4821."] * 80)
    async with running(config, store, clock, "mask") as engine:
        kept = await engine.store(said[:300], name="n")
        assert len(kept.memory.content) <= 1000
        for call, code in (
            (engine.store(said), "content_too_long"),
            (engine.update_memory("n", content=said), "content_too_long"),
            (engine.store("x", name=said[:190]), "name_invalid"),
            (engine.store("x", metadata={"x": said * 15}), "metadata_invalid"),
        ):
            with pytest.raises(InvalidInput) as refused:
                await call
            assert refused.value.code == code
            assert "markers" in refused.value.message
        assert engine.count == 1
