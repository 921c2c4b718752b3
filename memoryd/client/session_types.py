"""The JSON shapes of answers about sessions, and their options. Times are ISO 8601."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from memoryd.client.types import Message


class Marker(TypedDict):
    """The older messages of a session became an archive. `upto`: the order of the last of them."""

    archive_id: str
    archive_name: str
    archived_at: str
    messages: int
    upto: int


class SessionFacts(TypedDict):
    """A session and how much it has. `closed_at` None: it is open."""

    session_id: str
    title: str | None
    identity: str | None
    created_at: str
    closed_at: str | None
    last_consolidated: int
    messages: int
    archives: int
    last_at: str | None


class SessionList(TypedDict):
    """Sessions, the latest first. `total`: how many there are."""

    sessions: list[SessionFacts]
    total: int


class SessionMessages(TypedDict):
    """A page of a session, oldest message first. `turns`: how many messages it has in all."""

    session_id: str
    title: str | None
    created_at: str
    turns: int
    messages: list[Message]
    markers: list[Marker]
    notice: NotRequired[str]


class LearnedFact(TypedDict):
    """A fact that was taken from a session. `how`: added, refreshed or superseded."""

    id: str
    content: str
    how: str


class Slept(TypedDict):
    """A session was closed. `archive`: the name of its summary, None if it had nothing new."""

    session_id: str
    closed_at: str
    archive: str | None
    facts: list[LearnedFact]
    summary_by: str | None
    warnings: list[str]


class Compacted(TypedDict):
    """How many messages went into an archive, and how many the session still shows."""

    session_id: str
    archived: int
    archive_name: str | None
    summary_by: str | None
    kept: int
    warnings: list[str]


class Renamed(TypedDict):
    """A session and its title now."""

    session_id: str
    title: str


class WorkingMemory(TypedDict):
    """The working memory of an identity. `updated_at` None: nothing was ever written."""

    identity: str
    content: str
    sections: dict[str, str]
    updated_at: str | None
    changed: bool


class TurnDetails(TypedDict, total=False):
    """What a message may have beside role and content; None means not given. `source`: where it
    came from; `tool`: the tool that it calls (role assistant) or that it is the result of (role
    tool)."""

    source: str | None
    tool: str | None
    tools_used: list[str] | None
    metadata: dict[str, Any] | None


class RecallOptions(TypedDict, total=False):
    """Further options of `recall`; None means not given. `scope`: `all`, or `session` for moments
    of this session alone; `count_use` False: what is recalled does not count as used."""

    scope: str | None
    identity: str | None
    max_turns: int | None
    count_use: bool | None
