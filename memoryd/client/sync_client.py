"""The client for code without async: the same calls, each of which waits for its answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from memoryd.client.calls import Answer, P
from memoryd.client.client import Client
from memoryd.client.notes import SyncNotes
from memoryd.client.projects import SyncProjects
from memoryd.client.recalled import Brief, Recalled
from memoryd.client.session_types import RecallOptions, TurnDetails, WorkingMemory
from memoryd.client.sessions import SyncSessions
from memoryd.client.types import (
    Chain,
    Cleared,
    ClientOptions,
    Forgotten,
    Listed,
    ListOptions,
    Memory,
    Page,
    Reviewed,
    SearchOptions,
    Status,
    Stored,
    StoreOptions,
    Turn,
    Updated,
    UpdateOptions,
    Window,
)
from memoryd.errors import MemorydError


class SyncClient:
    """The same for code without async; any thread may call it.

    Its event loop runs in a thread of its own, so a lost connection is noticed between calls.
    """

    def __init__(self, socket: Path | str | None = None, **options: Unpack[ClientOptions]) -> None:
        self._client = Client(socket, **options)
        self.projects = SyncProjects(self._client.projects, self._run)
        self.notes = SyncNotes(self._client.notes, self._run)
        self.sessions = SyncSessions(self._client.sessions, self._run)
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def session_id(self) -> str:
        return self._client.session_id

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self._run(self._client.__aenter__)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._run(self._client.__aexit__, kind, error, trace)
        finally:
            self._end()

    def store(
        self,
        content: str,
        memory_type: str = "fact",
        metadata: dict[str, Any] | None = None,
        **options: Unpack[StoreOptions],
    ) -> Stored:
        return self._run(self._client.store, content, memory_type, metadata, **options)

    def remember_fact(self, content: str, **metadata: Any) -> Stored:
        return self._run(self._client.remember_fact, content, **metadata)

    def remember_conversation(self, content: str, **metadata: Any) -> Stored:
        return self._run(self._client.remember_conversation, content, **metadata)

    def set_context(self, key: str, value: str) -> Stored:
        return self._run(self._client.set_context, key, value)

    def get_context(self, key: str) -> str | None:
        return self._run(self._client.get_context, key)

    def search(
        self,
        query: str = "",
        memory_type: str | None = None,
        limit: int | None = None,
        min_score: float | None = None,
        **options: Unpack[SearchOptions],
    ) -> Page:
        return self._run(self._client.search, query, memory_type, limit, min_score, **options)

    def get(self, id_or_name: str) -> Memory | None:
        return self._run(self._client.get, id_or_name)

    def list_memories(self, **options: Unpack[ListOptions]) -> Listed:
        return self._run(self._client.list_memories, **options)

    def update_memory(self, memory_id: str, **options: Unpack[UpdateOptions]) -> Updated:
        return self._run(self._client.update_memory, memory_id, **options)

    def chain(self, memory_id: str) -> Chain:
        return self._run(self._client.chain, memory_id)

    def review(
        self, memory_id: str, action: str, content: str | None = None, reason: str | None = None
    ) -> Reviewed:
        return self._run(self._client.review, memory_id, action, content, reason)

    def forget(self, id_or_name: str) -> Forgotten:
        return self._run(self._client.forget, id_or_name)

    def add_turn(
        self,
        role: str,
        content: str,
        session_id: str | None = None,
        speaker: str | None = None,
        **details: Unpack[TurnDetails],
    ) -> Turn:
        return self._run(self._client.add_turn, role, content, session_id, speaker, **details)

    def recall(
        self,
        session_id: str | None = None,
        hint: str | None = None,
        max_tokens: int | None = None,
        **options: Unpack[RecallOptions],
    ) -> Recalled:
        return self._run(self._client.recall, session_id, hint, max_tokens, **options)

    def brief(
        self,
        task: str,
        files: Sequence[str] = (),
        max_tokens: int | None = None,
        *,
        count_use: bool = True,
    ) -> Brief:
        return self._run(self._client.brief, task, files, max_tokens, count_use=count_use)

    def working_memory(self, identity: str | None = None) -> WorkingMemory:
        return self._run(self._client.working_memory, identity)

    def set_working_memory(
        self, content: str, identity: str | None = None, section: str | None = None
    ) -> WorkingMemory:
        return self._run(self._client.set_working_memory, content, identity, section)

    def context_window(self, session_id: str | None = None, max_turns: int | None = None) -> Window:
        return self._run(self._client.context_window, session_id, max_turns)

    def clear_context_window(self, session_id: str | None = None) -> Cleared:
        return self._run(self._client.clear_context_window, session_id)

    def status(self) -> Status:
        return self._run(self._client.status)

    def _run(
        self,
        call: Callable[P, Coroutine[Any, Any, Answer]],
        /,
        *given: P.args,
        **options: P.kwargs,
    ) -> Answer:
        """Run the call on the thread of the event loop and wait for its result. MemorydError if
        the client is not open."""
        if self._loop is None:
            raise MemorydError(
                "This client is not open.",
                code="client_closed",
                hint="Open it first: with SyncClient() as memory",
            )
        running = asyncio.run_coroutine_threadsafe(call(*given, **options), self._loop)
        try:
            return running.result()
        except BaseException:
            running.cancel()  # Ctrl-C in this thread must end the call on the loop's thread
            raise

    def _end(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()
