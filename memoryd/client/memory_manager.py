"""The interface that a program expects of a memory of its own, served by the daemon.

    manager = MemoryManager(persist_path="~/robot/memory")
    await manager.remember_fact("The charging dock is behind the kitchen door.", room="kitchen")
    results = await manager.search("where can it recharge?")

The daemon of the directory is found or started, so several programs can use one directory. The
context window belongs to this object: it is in RAM, and nothing of it is stored.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypedDict

from memoryd.client import types
from memoryd.client.owner import OwnerClient
from memoryd.client.projects import Projects
from memoryd.errors import InvalidInput
from memoryd.model import MemoryType

MESSAGES_PER_TURN = 2  # what the user said, and the answer


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory. `expires_at` None: it does not expire. Times have a time zone."""

    id: str
    content: str
    memory_type: MemoryType
    created_at: datetime
    expires_at: datetime | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A memory that a search found, and how well it matches, 0..1. `deprecated`: little of its
    confidence is left."""

    memory: Memory
    score: float
    deprecated: bool = False


class ContextMessage(TypedDict):
    """One message of the context window."""

    role: str
    content: str
    timestamp: datetime


class MemoryManager:
    """Use it in `async with`, which connects at once and closes at the end, or as it is: the first
    call connects."""

    def __init__(
        self,
        persist_path: Path | str | None = None,
        context_window_size: int = 5,
        *,
        project: str | None = None,
    ) -> None:
        """`persist_path`: the data directory, by default the user's. `context_window_size`: how
        many turns, of two messages each, the context window keeps. `project`: see `Client`."""
        if context_window_size < 1:
            raise InvalidInput(
                "context_window_size must be at least 1.", code="context_window_size_invalid"
            )
        self._project = project
        self._path = None if persist_path is None else Path(persist_path).expanduser()
        self._messages: deque[ContextMessage] = deque(
            maxlen=MESSAGES_PER_TURN * context_window_size
        )
        self._opened: tuple[asyncio.AbstractEventLoop, OwnerClient] | None = None

    async def __aenter__(self) -> Self:
        await self._client().__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; the next call opens another. The daemon goes on."""
        opened, self._opened = self._opened, None
        if opened is not None and opened[0] is asyncio.get_running_loop():
            await opened[1].__aexit__(None, None, None)

    async def store(
        self,
        content: str,
        memory_type: MemoryType | str,
        metadata: dict[str, Any] | None = None,
    ) -> Memory:
        """Remember something: a fact, a conversation or a context."""
        return _memory(await self._client().store(content, str(memory_type), metadata))

    async def search(
        self,
        query: str,
        memory_type: MemoryType | str | None = None,
        limit: int = 5,
        min_score: float = 0.3,
    ) -> list[SearchResult]:
        """The memories that match the query, best first."""
        wanted = None if memory_type is None else str(memory_type)
        page = await self._client().search(query, wanted, limit, min_score)
        return [
            SearchResult(_memory(hit), hit["score"], hit.get("deprecated", False))
            for hit in page["results"]
        ]

    async def forget(self, memory_id: str) -> bool:
        """Delete one memory for good; false if there was none."""
        return bool(await self._client().forget(memory_id))

    async def review(
        self, memory_id: str, action: str, content: str | None = None, reason: str | None = None
    ) -> Memory | None:
        """Confirm, correct, reject or flag a memory; as it is then, None if it was rejected."""
        done = await self._client().review(memory_id, action, content, reason)
        return _memory(done["memory"]) if "memory" in done else None

    async def cleanup_expired(self) -> int:
        """Delete expired memories now instead of within the hour; how many there were."""
        return await self._client().sweep()

    async def remember_fact(self, content: str, **metadata: Any) -> Memory:
        """Store a fact: kept until forgotten."""
        return await self.store(content, MemoryType.FACT, metadata)

    async def remember_conversation(self, content: str, **metadata: Any) -> Memory:
        """Store something that was said: kept for 30 days, unless configured otherwise."""
        return await self.store(content, MemoryType.CONVERSATION, metadata)

    async def set_context(self, key: str, value: str) -> Memory:
        """Store `value` under `key` until the end of the day, in place of the previous value."""
        return _memory(await self._client().set_context(key, value))

    async def get_context(self, key: str) -> str | None:
        """The value of `key`; None if it was not set today, or was forgotten."""
        return await self._client().get_context(key)

    @property
    def projects(self) -> Projects:
        """List, rename, merge and forget projects. Inside a running event loop."""
        return self._client().projects

    def add_to_context_window(self, role: str, content: str) -> None:
        """Append a message; the oldest one leaves when the window is full."""
        self._messages.append(
            {"role": role, "content": content, "timestamp": datetime.now(UTC).astimezone()}
        )

    def get_context_window(self) -> list[ContextMessage]:
        """The last messages, oldest first."""
        return [message.copy() for message in self._messages]

    def clear_context_window(self) -> None:
        """Empty the window."""
        self._messages.clear()

    def _client(self) -> OwnerClient:
        """The client of the running event loop. A connection cannot move to another loop, so a
        program that calls `asyncio.run` again gets a new one."""
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened[0] is not loop:
            client = OwnerClient(data_dir=self._path, start=True, project=self._project)
            self._opened = (loop, client)
        return self._opened[1]


def _memory(answer: types.Memory) -> Memory:
    expires_at = answer["expires_at"]
    return Memory(
        id=answer["id"],
        content=answer["content"],
        memory_type=MemoryType(answer["type"]),
        created_at=datetime.fromisoformat(answer["created_at"]),
        expires_at=None if expires_at is None else datetime.fromisoformat(expires_at),
        metadata=answer["metadata"],
    )
