"""The context window of each session: its last turns, kept in RAM.

A window holds ids, not texts, so a memory that is forgotten, changed or expired is so in the window
too. Every message is stored as a conversation memory with its role and order. A window that left
RAM (least recently used first, or by a restart) is rebuilt from the index. `clear` marks the
messages of the window, and a rebuilt window begins after the last mark.
"""

from __future__ import annotations

import contextlib
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memoryd.engine import checks
from memoryd.engine.memories import Memories
from memoryd.engine.parts import Parts
from memoryd.engine.project_rules import pushable
from memoryd.engine.sessions.records import find_record, last_consolidated
from memoryd.engine.turn_keys import CLEARED, ORDER, ROLES, is_message, user_metadata
from memoryd.engine.updates import Updates
from memoryd.errors import InvalidInput, NotFound
from memoryd.fields import MAX_ITEMS, PROJECT, SOURCE, TOOL, TOOLS_USED
from memoryd.model import ROLE, SPEAKER, Memory, MemoryType, Stored, is_expired
from memoryd.tasks import task_group


@dataclass(slots=True)
class _Window:
    ids: deque[str]
    next_order: int


@dataclass(frozen=True, slots=True)
class Window:
    """The messages in the window of a session, oldest first."""

    session_id: str
    messages: tuple[Memory, ...] = field(default=())
    hidden: int = 0  # messages that may not be pushed, such as those of another project


def new_session_id() -> str:
    """An id for a session without one."""
    return f"s-{secrets.token_hex(8)}"


class Windows:
    """The windows of all sessions; the least recently used leave RAM first."""

    def __init__(
        self,
        parts: Parts,
        memories: Memories,
        updates: Updates,
        after_turn: Callable[[str, int], None] = lambda session_id, order: None,
    ) -> None:
        """`after_turn`: called with each new message's session and order."""
        self._parts = parts
        self._memories = memories
        self._updates = updates
        self._after_turn = after_turn
        self._windows: OrderedDict[str, _Window] = OrderedDict()

    def __len__(self) -> int:
        return len(self._windows)

    async def add_turn(
        self,
        role: str,
        content: str,
        session_id: str,
        speaker: str | None = None,
        own_project: str | None = None,
        *,
        source: str | None = None,
        tool: str | None = None,
        tools_used: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Stored:
        """Store a message as a conversation memory and add it to the window of its session.
        `source`: where it came from; `tool`: the tool that was called, or whose result it is.
        Raises InvalidInput."""
        marked = _marked(metadata, source, tool, tools_used) | {ROLE: _role(role)}
        if (name := checks.label(speaker, "speaker")) is not None:
            marked[SPEAKER] = name
        if (project := checks.label(own_project, PROJECT)) is not None:
            marked[PROJECT] = project
        session = session_label(session_id)
        async with self._parts.locks.hold([f"0:{session}"]):
            await self._parts.source.session(session)
            order = marked[ORDER] = self._window(session).next_order
            stored = await self._memories.remember_turn(content, marked, session)
            window = self._window(session)  # it may have left RAM meanwhile
            window.next_order = max(window.next_order, order + 1)
            if stored.memory.id not in window.ids:
                window.ids.append(stored.memory.id)
        self._after_turn(session, order)
        return stored

    async def window(
        self, session_id: str, max_turns: int | None = None, own_project: str | None = None
    ) -> Window:
        """The last messages of a session that may be pushed into a prompt of `own_project`. A turn
        counts as two messages: user and assistant."""
        session, now = session_label(session_id), self._parts.clock()
        turns = self._parts.memory.context_window_size
        if max_turns is not None:
            turns = min(turns, checks.count(max_turns, "max_turns"))
        await self._parts.source.session(session)
        alive = self._alive(session, now)
        shown = pushable(alive, checks.label(own_project, PROJECT), self._parts.index, now)
        messages = tuple(memory.copy() for memory in shown[-2 * turns :])
        return Window(session, messages, hidden=len(alive) - len(shown))

    def held(self, session_id: str) -> set[str]:
        """The ids of the messages in the window of a session."""
        return {memory.id for memory in self._alive(session_label(session_id), self._parts.clock())}

    def _alive(self, session: str, now: float) -> list[Memory]:
        found = (self._parts.index.get(id) for id in self._window(session).ids)
        return [memory for memory in found if memory and not is_expired(memory, now)]

    async def clear(self, session_id: str) -> int:
        """Empty a window; its memories stay. How many messages it held."""
        session = session_label(session_id)
        async with self._parts.locks.hold([f"0:{session}"]):
            await self._parts.source.session(session)
            held = self._alive(session, self._parts.clock())
            # Mark all of them: some may be forgotten before the window is rebuilt.
            async with task_group() as tasks:
                for memory in held:
                    tasks.start_soon(self._mark, memory)
            self._window(session).ids.clear()
        return len(held)

    def drop(self, session_id: str) -> None:
        """Drop a window from RAM, because its messages were changed by an import."""
        self._windows.pop(session_id, None)

    async def _mark(self, memory: Memory) -> None:
        with contextlib.suppress(NotFound):  # forgotten or expired meanwhile
            await self._updates.mark(memory, {CLEARED: True})

    def _window(self, session: str) -> _Window:
        """The window in RAM, rebuilt if it is not there."""
        window = self._windows.get(session) or self._rebuilt(session)
        self._windows[session] = window
        self._windows.move_to_end(session)
        while len(self._windows) > self._parts.memory.max_sessions:
            self._windows.popitem(last=False)
        return window

    def _rebuilt(self, session: str) -> _Window:
        said = self._parts.index.of_session(session, MemoryType.CONVERSATION)
        turns = sorted((m for m in said if is_message(m)), key=lambda m: int(m.metadata[ORDER]))
        size = 2 * self._parts.memory.context_window_size
        ids: deque[str] = deque(maxlen=size)
        for memory in turns:
            ids.append(memory.id)
            if memory.metadata.get(CLEARED):
                ids.clear()
        last = int(turns[-1].metadata[ORDER]) if turns else -1
        # Archived messages may have expired: what follows is not counted among them.
        archived = last_consolidated(find_record(self._parts.index, session))
        return _Window(ids, max(last, archived) + 1)


def _marked(
    metadata: Mapping[str, Any] | None,
    source: str | None,
    tool: str | None,
    tools_used: Sequence[str] | None,
) -> dict[str, Any]:
    """The caller's own metadata of a message, with what it is marked with. Raises InvalidInput."""
    used = None if tools_used is None else _tool_names(tools_used)
    marks = {SOURCE: checks.label(source, SOURCE), TOOL: checks.label(tool, TOOL)}
    given = {key: value for key, value in marks.items() if value is not None}
    return user_metadata(dict(metadata or {}) | given) | ({TOOLS_USED: used} if used else {})


def _tool_names(value: object) -> list[str]:
    if not isinstance(value, list | tuple) or len(value) > MAX_ITEMS:
        raise InvalidInput(
            f"tools_used must be a list of at most {MAX_ITEMS} names.", code="tools_used_invalid"
        )
    return [name for item in value if (name := checks.label(item, "tool")) is not None]


def _role(value: object) -> str:
    given = value[:50] if isinstance(value, str) else type(value).__name__
    if isinstance(value, str) and given.strip().lower() in ROLES:
        return given.strip().lower()
    raise InvalidInput(
        f"There is no role {given!r}.", code="role_unknown", hint=f"Use one of {', '.join(ROLES)}."
    )


def session_label(value: object) -> str:
    """The checked id of a session. Raises InvalidInput."""
    session = checks.label(value, "session_id")
    if session is None:
        raise InvalidInput(
            "This needs a session_id.", code="session_id_missing", hint="Give a session_id."
        )
    return session
