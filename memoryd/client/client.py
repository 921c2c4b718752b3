"""A typed client of the daemon, for agents and robots. Standard library only.

    async with Client() as memory:
        await memory.store("The charging dock is behind the kitchen door.")
        page = await memory.search("where can it recharge?")

When the connection is lost, running calls fail; the next call connects again. To the daemon a
new connection is a new session, so the client has its own session id and sends it with every
call: the context window outlives a restart. `SyncClient` is the same without async.
"""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack, cast
from urllib.parse import quote

from memoryd.client.connection import Connection, RemoteDoor
from memoryd.client.errors import DaemonLost
from memoryd.client.notes import Notes
from memoryd.client.projects import Projects
from memoryd.client.recalled import Brief, Recalled
from memoryd.client.session_types import RecallOptions, TurnDetails, WorkingMemory
from memoryd.client.sessions import Sessions
from memoryd.client.types import (
    Chain,
    Cleared,
    Forgotten,
    Listed,
    ListOptions,
    Page,
    Reviewed,
    SearchOptions,
    Shown,
    Status,
    Stored,
    StoreOptions,
    Turn,
    Updated,
    UpdateOptions,
    Window,
)
from memoryd.errors import InvalidInput, NotFound
from memoryd.launch.start import Finder
from memoryd.launch.target import Target
from memoryd.model import CONTEXT_NAME
from memoryd.places import absolute
from memoryd.project_folder import VARIABLE
from memoryd.settings import variable


class Client:
    """Every tool as a method; calls may run concurrently on one connection."""

    def __init__(
        self,
        socket: Path | str | None = None,
        *,
        data_dir: Path | str | None = None,
        config: Path | str | None = None,
        serves: Path | str | None = None,
        tcp: tuple[str, int] | None = None,
        token: str | None = None,
        start: bool = False,
        settings: Mapping[str, str] | None = None,
        session_id: str | None = None,
        project: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        """`socket` and `data_dir` mean the same as the flags of `memoryd serve`; or give `tcp` and
        its `token`. Raises WrongDaemon later if the daemon serves another directory than
        `data_dir` or `serves`. `start`: start a daemon if none runs, with `config` and
        `settings`, such as {"embedding.backend": "none"}, if given; one that runs keeps its own.
        `project`: what is stored goes into it, what it holds is found first; without it that of
        MEMORYD_PROJECT, "" for none. `timeout`: seconds for one call."""
        places = {"--data-dir": data_dir, "--socket": socket, "--config": config}
        given = {flag: str(path) for flag, path in places.items() if path is not None}
        variables = {variable(key): value for key, value in (settings or {}).items()}
        target = Target(given, absolute(serves) if serves is not None else None, variables)
        self._connection = Connection(
            RemoteDoor(*tcp, token) if tcp else Finder(target, start=start),
            os.environ.get(VARIABLE, "") if project is None else project,
        )
        self.projects = Projects(self._tool)
        self._timeout = timeout
        self.notes = Notes(self._tool)
        self.sessions = Sessions(self._tool, session_id or str(uuid.uuid4()))

    @property
    def session_id(self) -> str:
        """The client's own session."""
        return self.sessions.current

    async def __aenter__(self) -> Self:
        await self._connection.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._connection.close()

    async def store(
        self,
        content: str,
        memory_type: str = "fact",
        metadata: dict[str, Any] | None = None,
        **options: Unpack[StoreOptions],
    ) -> Stored:
        """Remember something: a fact, a conversation or a context."""
        given = {"content": content, "memory_type": memory_type, "metadata": metadata, **options}
        return cast(Stored, await self._tool("store_memory", given))

    async def remember_fact(self, content: str, **metadata: Any) -> Stored:
        """Store a fact: kept until forgotten."""
        return await self.store(content, "fact", metadata)

    async def remember_conversation(self, content: str, **metadata: Any) -> Stored:
        """Store something that was said: kept for 30 days, unless configured otherwise."""
        return await self.store(content, "conversation", metadata)

    async def set_context(self, key: str, value: str) -> Stored:
        """Store `value` under `key` until the end of the day, in place of the previous value."""
        return await self.store(value, "context", name=context_name(key))

    async def get_context(self, key: str) -> str | None:
        """The value of `key`; None if it was not set today, or was forgotten. For the messages of
        a session see `context_window`."""
        found = await self.get(context_name(key))
        return None if found is None else found["content"]

    async def search(
        self,
        query: str = "",
        memory_type: str | None = None,
        limit: int | None = None,
        min_score: float | None = None,
        **options: Unpack[SearchOptions],
    ) -> Page:
        """The memories that match the query, best first; without one, the newest that match the
        filter."""
        given = {"query": query, "memory_type": memory_type, "limit": limit, **options}
        return cast(Page, await self._tool("search_memories", {**given, "min_score": min_score}))

    async def get(self, id_or_name: str) -> Shown | None:
        """The memory with this id or name; None if there is none."""
        try:
            found = await self._resource(f"memory://memory/{quote(id_or_name, safe='')}")
        except NotFound:
            return None
        return cast(Shown, found)

    async def list_memories(self, **options: Unpack[ListOptions]) -> Listed:
        """A page of the memories that match, in an order."""
        return cast(Listed, await self._tool("list_memories", dict(options)))

    async def update_memory(self, memory_id: str, **options: Unpack[UpdateOptions]) -> Updated:
        """Change what is given and keep the rest. Raises NotFound."""
        given = {"memory_id": memory_id, **options}
        return cast(Updated, await self._tool("update_memory", given))

    async def chain(self, memory_id: str) -> Chain:
        """What a memory supersedes and what supersedes it, oldest first. Raises NotFound."""
        return cast(Chain, await self._tool("memory_chain", {"memory_id": memory_id}))

    async def review(
        self, memory_id: str, action: str, content: str | None = None, reason: str | None = None
    ) -> Reviewed:
        """Say whether a memory is right: `confirm`; `correct`, with the right `content`; `reject`,
        which deletes it; or `flag` it for a review, with a `reason`. Raises NotFound."""
        given = {"memory_id": memory_id, "action": action, "content": content, "reason": reason}
        return cast(Reviewed, await self._tool("review_memory", given))

    async def forget(self, id_or_name: str) -> Forgotten:
        """Delete one memory for good. The answer is true only if there was one."""
        return Forgotten(await self._tool("forget_memory", {"memory_id": id_or_name}))

    async def add_turn(
        self,
        role: str,
        content: str,
        session_id: str | None = None,
        speaker: str | None = None,
        **details: Unpack[TurnDetails],
    ) -> Turn:
        """Record one message of a conversation, by default this client's own."""
        given = {"role": role, "content": content, "speaker": speaker, **details}
        return cast(Turn, await self._session_tool("add_turn", session_id, given))

    async def recall(
        self,
        session_id: str | None = None,
        hint: str | None = None,
        max_tokens: int | None = None,
        **options: Unpack[RecallOptions],
    ) -> Recalled:
        """What should be in a prompt now: lasting facts, working memory, what the session was
        about, its last messages, and with a `hint` the past moments that have to do with it."""
        given = {"hint": hint, "max_tokens": max_tokens, **options}
        return Recalled.from_answer(await self._session_tool("get_context", session_id, given))

    async def brief(
        self,
        task: str,
        files: Sequence[str] = (),
        max_tokens: int | None = None,
        *,
        count_use: bool = True,
    ) -> Brief:
        """What a planner needs for a task: estimates, dead ends, dependencies, outcomes, recipes.
        `files`: that it is about; `count_use` False: what is found does not count as used."""
        given = {"task": task, "files": list(files) or None, "max_tokens": max_tokens}
        answer = await self._tool("brief", given | ({} if count_use else {"count_use": False}))
        return Brief.from_answer(answer)

    async def working_memory(self, identity: str | None = None) -> WorkingMemory:
        """The text that an identity keeps across sessions."""
        return cast(WorkingMemory, await self._tool("working_memory", {"identity": identity}))

    async def set_working_memory(
        self, content: str, identity: str | None = None, section: str | None = None
    ) -> WorkingMemory:
        """Replace the working memory of an identity, or one section of it."""
        given = {"identity": identity, "content": content, "section": section}
        return cast(WorkingMemory, await self._tool("working_memory", given))

    async def context_window(
        self, session_id: str | None = None, max_turns: int | None = None
    ) -> Window:
        """The last messages of a session, oldest first, and nothing else; see `recall`."""
        given = {"max_turns": max_turns, "window_only": True}
        return cast(Window, await self._session_tool("get_context", session_id, given))

    async def clear_context_window(self, session_id: str | None = None) -> Cleared:
        """Empty the window of a session; its memories remain."""
        return cast(Cleared, await self._session_tool("clear_context", session_id, {}))

    async def status(self) -> Status:
        """The state of the daemon and its store."""
        return cast(Status, await self._resource("memory://status"))

    async def _session_tool(
        self, name: str, session_id: str | None, given: dict[str, Any]
    ) -> dict[str, Any]:
        return await self._tool(name, {"session_id": session_id or self.session_id, **given})

    async def _tool(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        arguments = {key: value for key, value in given.items() if value is not None}
        result = await self._call("tools/call", {"name": name, "arguments": arguments})
        return cast(dict[str, Any], result["structuredContent"])

    async def _resource(self, uri: str) -> dict[str, Any]:
        result = await self._call("resources/read", {"uri": uri})
        return cast(dict[str, Any], json.loads(result["contents"][0]["text"]))

    async def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        opened = await self._connection.open()
        try:
            async with asyncio.timeout(self._timeout):
                return await opened.request(method, params)
        except TimeoutError as exc:
            raise DaemonLost(
                f"The daemon did not answer within {self._timeout:g} seconds; "
                "the call may or may not have been done."
            ) from exc


def context_name(key: str) -> str:
    """The name of the memory that holds the context of `key`. Raises InvalidInput."""
    if not isinstance(key, str) or not key.strip():
        raise InvalidInput("A context needs a key.", code="key_invalid", hint="Give a text.")
    return CONTEXT_NAME + key.strip()
