"""A short real run of the engine: store, search, expire, forget, and remember after a restart.

Everything is real (ChromaDB in its worker, MiniLM through ONNX Runtime) except the clock, which
is moved forward to let memories expire. Data goes to a throw-away directory.
"""

from __future__ import annotations

import tempfile
import time
from datetime import datetime
from pathlib import Path

import anyio

from memoryd.engine.engine import Engine
from memoryd.model import DAY
from memoryd.observe import log_to_stderr
from memoryd.settings import Config, MemorySettings
from memoryd.wiring import open_engine


class Clock:
    """The system's time, and the days we add to it."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def until(end: float | None) -> str:
    return f"until {datetime.fromtimestamp(end):%d %b %H:%M}" if end else "kept"


async def remember(engine: Engine) -> str:
    print("\nStore")
    fact = await engine.remember_fact("The robot's charging dock is behind the kitchen door.")
    said = await engine.remember_conversation("Could you water the tomatoes while I am away?")
    today = await engine.set_context("location", "second floor, near the lift")
    for stored in (fact, said, today):
        memory = stored.memory
        print(f"  {memory.type:12} {until(memory.expires_at):20} {memory.content}")
    again = await engine.remember_fact(fact.memory.content)
    print(f"  the same fact again: duplicate={again.duplicate}, {engine.count} memories in all")
    return fact.memory.id


async def ask(engine: Engine, *questions: str) -> None:
    print("\nSearch, by meaning")
    for question in questions:
        page = await engine.search(question, limit=1)
        answer = [f"{hit.score:.2f}  {hit.memory.content}" for hit in page.hits] or ["nothing"]
        print(f"  {question}\n     -> {answer[0]}")


async def main(folder: Path) -> None:
    config, clock = Config(memory=MemorySettings(path=folder)), Clock()
    async with open_engine(config, clock) as engine:
        fact = await remember(engine)
        await ask(engine, "where can it recharge its battery?", "who takes care of the garden?")
        print("\nExpire")
        for days in (1, 31):
            clock.ahead = days * DAY
            gone = await engine.cleanup_expired()
            print(f"  after {days} day(s): {gone} expired, {engine.count} left")
        await ask(engine, "who takes care of the garden?")
    async with open_engine(config, clock) as engine:
        print(f"\nAfter a restart: {engine.count} memory")
        await ask(engine, "where can it recharge its battery?")
        print("\nForget")
        for _ in range(2):
            print(f"  forget {fact}: success={(await engine.forget(fact)).success}")
        await ask(engine, "where can it recharge its battery?")


if __name__ == "__main__":
    log_to_stderr()
    with tempfile.TemporaryDirectory(prefix="memoryd-demo-") as folder:
        anyio.run(main, Path(folder))
