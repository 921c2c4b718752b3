"""The sessions of a client: `woken = await client.sessions.wake("robot")`."""

from __future__ import annotations

from typing import Any, cast

from memoryd.client.calls import Run, Tool
from memoryd.client.recalled import Woken
from memoryd.client.session_types import Compacted, ReadSession, Renamed, SessionList, Slept


class Sessions:
    """Open, close, compact, list and read sessions. Without a `session_id` the client's own
    session, `current`, is meant."""

    def __init__(self, tool: Tool, session_id: str) -> None:
        self._tool = tool
        self.current = session_id

    async def wake(
        self,
        identity: str | None = None,
        *,
        session_id: str | None = None,
        hint: str | None = None,
        max_tokens: int | None = None,
    ) -> Woken:
        """Open a new session, or the named one again, and return its first recall. It becomes the
        client's own session."""
        given = {"identity": identity, "session_id": session_id}
        answer = await self._tool("wake_session", {**given, "hint": hint, "max_tokens": max_tokens})
        woken = Woken.from_answer(answer)
        self.current = woken.session_id
        return woken

    async def sleep(self, session_id: str | None = None) -> Slept:
        """Close a session: summarise what is new in it and keep the lasting facts."""
        return cast(Slept, await self._call("sleep_session", session_id))

    async def compact(self, session_id: str | None = None, keep: int | None = None) -> Compacted:
        """Move the older messages of a session into an archive; `keep`: how many stay."""
        return cast(Compacted, await self._call("compact_session", session_id, keep=keep))

    async def list(self, limit: int | None = None, identity: str | None = None) -> SessionList:
        """The sessions, the latest first; only those of an identity, if one is given."""
        given = {"limit": limit, "identity": identity}
        return cast(SessionList, await self._tool("list_sessions", given))

    async def read(
        self, session_id: str | None = None, limit: int | None = None, before: int | None = None
    ) -> ReadSession:
        """The last messages of a session, also archived ones. `before`: the order of the first
        message of the page after."""
        found = await self._call("read_session", session_id, limit=limit, before=before)
        return cast(ReadSession, found)

    async def rename(self, title: str, session_id: str | None = None) -> Renamed:
        """Give a session a title."""
        return cast(Renamed, await self._call("rename_session", session_id, title=title))

    async def _call(self, name: str, session_id: str | None, **given: Any) -> dict[str, Any]:
        return await self._tool(name, {"session_id": session_id or self.current, **given})


class SyncSessions:
    """The same without async."""

    def __init__(self, sessions: Sessions, run: Run) -> None:
        self._sessions = sessions
        self._run = run

    @property
    def current(self) -> str:
        return self._sessions.current

    def wake(
        self,
        identity: str | None = None,
        *,
        session_id: str | None = None,
        hint: str | None = None,
        max_tokens: int | None = None,
    ) -> Woken:
        return self._run(
            self._sessions.wake, identity, session_id=session_id, hint=hint, max_tokens=max_tokens
        )

    def sleep(self, session_id: str | None = None) -> Slept:
        return self._run(self._sessions.sleep, session_id)

    def compact(self, session_id: str | None = None, keep: int | None = None) -> Compacted:
        return self._run(self._sessions.compact, session_id, keep)

    def list(self, limit: int | None = None, identity: str | None = None) -> SessionList:
        return self._run(self._sessions.list, limit, identity)

    def read(
        self, session_id: str | None = None, limit: int | None = None, before: int | None = None
    ) -> ReadSession:
        return self._run(self._sessions.read, session_id, limit, before)

    def rename(self, title: str, session_id: str | None = None) -> Renamed:
        return self._run(self._sessions.rename, title, session_id)
