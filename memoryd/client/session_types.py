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


class SessionRecord(TypedDict):
    """What is known of a session. `turns`: how many messages it ever had; `closed_at` None: it is
    open; `last_consolidated`: when its messages were last summarised."""

    session_id: str
    title: str | None
    identity: str | None
    created_at: str
    closed_at: str | None
    last_at: str | None
    last_consolidated: str | None
    turns: int
    archives: int


class ListedSession(SessionRecord):
    """A session in a list. `messages`: how many are still there."""

    messages: int


class SessionList(TypedDict):
    """Sessions, the latest first. `total`: how many there are."""

    sessions: list[ListedSession]
    total: int


class ReadSession(SessionRecord):
    """A session with a page of its messages, oldest first, and its archives."""

    notice: str
    messages: list[Message]
    markers: list[Marker]
    hint: NotRequired[str]


class LearnedFact(TypedDict):
    """A fact that was taken from a session. `how`: added, refreshed or superseded."""

    id: str
    content: str
    how: str


class Compacted(TypedDict):
    """How many messages went into an archive, and how many the session still shows. `archive_name`
    None: there was nothing to archive; `facts`: what was kept of the messages."""

    session_id: str
    archived: int
    archive_name: str | None
    summary_by: str | None
    kept: int
    facts: list[LearnedFact]
    warnings: list[str]
    hint: NotRequired[str]


class Slept(Compacted):
    """A session that was closed, and what became of it."""

    closed_at: str


class Renamed(TypedDict):
    """A session and its title now."""

    session_id: str
    title: str


class WorkingMemory(TypedDict):
    """The working memory of an identity. `sections`: by title; `updated_at` None: there is none."""

    notice: str
    identity: str
    content: str
    sections: dict[str, str]
    updated_at: str | None
    changed: bool
    warnings: list[str]


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
    of this session alone; `count_use` False: what is recalled does not count as used; `phase`: of
    the work, such as implement."""

    scope: str | None
    identity: str | None
    max_turns: int | None
    count_use: bool | None
    phase: str | None
