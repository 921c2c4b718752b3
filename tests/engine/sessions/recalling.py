"""A recall on an engine, for the tests of its parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from memoryd.engine.engine import Engine
from memoryd.engine.parts import Parts
from memoryd.engine.sessions.durable import Durable
from memoryd.engine.sessions.recall import Recalled, said
from memoryd.engine.sessions.records import Records
from memoryd.engine.sessions.working_memory import WorkingMemories
from memoryd.engine.turn_keys import ORDER
from memoryd.fields import FROM_SESSION
from memoryd.model import Memory
from memoryd.recall_text import as_text
from memoryd.settings import Config
from memoryd.wiring.engine import open_engine


@dataclass
class Mind:
    """An engine with what a recall needs."""

    engine: Engine
    parts: Parts
    recall: Callable[..., Any]
    durable: Durable
    records: Records
    working_memories: WorkingMemories

    async def say(self, session: str, *texts: str, **more: Any) -> list[Memory]:
        """Messages of the user and the assistant, in turn."""
        roles = ("user", "assistant")
        return [
            (await self.engine.add_turn(roles[n % 2], text, session, **more)).memory
            for n, text in enumerate(texts)
        ]

    async def archive(self, session: str, name: str, text: str, upto: Memory | None) -> Memory:
        """An archive of a session up to one of its messages."""
        note = await self.engine.notes.add_note(
            name, text, kind="archive", own={FROM_SESSION: session}
        )
        marker = {"archive_id": note.memory.id, "archive_name": name}
        order = -1 if upto is None else upto.metadata[ORDER]
        await self.records.change(session, marker=marker | {"upto": order})
        return note.memory


def mind(engine: Engine) -> Mind:
    parts = engine._parts
    return Mind(
        engine, parts, engine.recall, Durable(parts), engine.records, engine.working_memories
    )


@asynccontextmanager
async def open_mind(config: Config, clock: Callable[[], float]) -> AsyncIterator[Mind]:
    """On real ChromaDB."""
    async with open_engine(config, clock) as engine:
        yield mind(engine)


def text_of(found: Recalled) -> str:
    """The recall as one text."""
    return as_text(found.parts, [said(message) for message in found.messages])


def part(found: Recalled, name: str) -> str:
    """The text of a part; empty if it is not there."""
    return next((part["text"] for part in found.parts if part["part"] == name), "")
