"""The JSON shapes of answers and options. Times are ISO 8601."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict


class Memory(TypedDict):
    """One memory. `expires_at` None: it does not expire. `notice`: how to treat recalled text."""

    id: str
    content: str
    type: str
    created_at: str
    expires_at: str | None
    metadata: dict[str, Any]
    name: NotRequired[str]
    session_id: NotRequired[str]
    pinned: NotRequired[bool]
    updated_at: NotRequired[str]
    notice: NotRequired[str]


class Stored(Memory):
    """The memory as it is now. `duplicate`: an identical fact was already there; `replaced`: the
    text that had this name before was deleted."""

    duplicate: bool
    replaced: bool
    warnings: list[str]


class Hit(Memory):
    """A memory that a search found. `passage`: the part of a long content that matched; `cut`:
    the content was shortened to fit `max_tokens`; `similar`: ids of memories with the same
    content, which were folded into this one; `deprecated`: little of its confidence is left; `why`:
    the parts of the score, if asked for."""

    score: float
    passage: NotRequired[str]
    cut: NotRequired[bool]
    similar: NotRequired[list[str]]
    deprecated: NotRequired[bool]
    why: NotRequired[dict[str, float]]


class Page(TypedDict):
    """The hits, best first. `warnings`: sentences that say why results may be worse than usual;
    `timings`: milliseconds of each step of the search, with `explain`."""

    notice: str
    results: list[Hit]
    warnings: list[str]
    timings: NotRequired[dict[str, float]]


class Listed(TypedDict):
    """A page of a list. `total`: how many match in all; `cursor`: pass it, with the same filter and
    order, for the next page; None after the last."""

    notice: str
    memories: list[Memory]
    total: int
    cursor: str | None


class Chain(TypedDict):
    """Memories that supersede each other, oldest first; `id`: the one that was asked for."""

    notice: str
    id: str
    memories: list[Memory]


class Updated(Memory):
    """The memory as it is now. `changed`: something differs from before."""

    changed: bool
    warnings: list[str]


class Note(TypedDict):
    """A note. In a list without `content` and `metadata`, but with a `citation` of the content."""

    id: str
    name: str
    aliases: list[str]
    seq: int
    kind: str
    created_at: str
    updated_at: NotRequired[str]
    content: NotRequired[str]
    metadata: NotRequired[dict[str, Any]]
    citation: NotRequired[str]


class NoteList(TypedDict):
    """Notes in the order in which they were added. `total`: how many there are of the kind."""

    notice: str
    notes: list[Note]
    total: int


class EditedNote(TypedDict):
    """What an action did: the note as it is now, unless it was removed."""

    action: str
    changed: bool
    warnings: list[str]
    note: NotRequired[Note]


class Reviewed(TypedDict):
    """What a review did. `memory`: as it is now, unless it was rejected and is `forgotten`."""

    id: str
    action: str
    forgotten: bool
    warnings: list[str]
    memory: NotRequired[Memory]


class Forgotten(dict[str, Any]):
    """`{"success": ..., "id": ...}`. It is true only if the memory existed and is gone."""

    def __bool__(self) -> bool:
        return self["success"] is True


class Turn(Memory):
    """A recorded message: a conversation memory with its position in the session. `hint`: how to
    continue a session that was not named."""

    order: int
    warnings: list[str]
    hint: NotRequired[str]


class Message(TypedDict):
    """One message of a session. `source`: where it came from; `tool`: the tool that it calls, or
    that it is the result of; `tools_used`: the tools that were used for it."""

    id: str
    role: str
    content: str
    at: str
    order: int
    speaker: NotRequired[str]
    source: NotRequired[str]
    tool: NotRequired[str]
    tools_used: NotRequired[list[str]]
    metadata: NotRequired[dict[str, Any]]


class Window(TypedDict):
    """The last messages of a session, oldest first."""

    notice: str
    session_id: str
    messages: list[Message]
    hint: NotRequired[str]


class Cleared(TypedDict):
    """How many messages the window held; the memories remain."""

    session_id: str
    cleared: int
    hint: NotRequired[str]


class Progress(TypedDict):
    """The progress of a long operation; `total` 0: not known."""

    what: str
    done: int
    total: int
    seconds: NotRequired[float]  # since it began


class ClockDoubt(TypedDict):
    """The clock leapt, so nothing expired is deleted: the last time that was trusted, and how
    long the clock still has to be steady."""

    believed: str
    seconds_left: int


class ModelChange(TypedDict):
    """A change to the model `to`: how many memories have its vector; why it waits, or empty."""

    to: str
    done: int
    total: int
    trouble: str


class CallFigures(TypedDict):
    """The calls of a tool since the start, and percentiles of the latest ones."""

    calls: int
    errors: int
    p50_ms: float
    p99_ms: float
    steps_p50_ms: NotRequired[dict[str, float]]  # of a search, by step


class MirrorState(TypedDict):
    """The files for people: how much they hold, and how many edits of a person were taken in since
    the daemon started. `held`: memories whose items are missing, and which are not forgotten."""

    path: str
    facts: int
    archives: int
    written_at: str | None
    edits: dict[str, int]
    held: int
    trouble: dict[str, Any] | None


class BlockState(TypedDict):
    """The block that memoryd keeps in a file: of which project, and how many facts it has."""

    path: str
    project: str | None
    facts: int
    written_at: str | None
    trouble: dict[str, Any] | None


class Status(TypedDict):
    """The state of the daemon. The counts are present once the store is open."""

    health: str
    version: str
    pid: int
    uptime_seconds: float
    data_dir: str
    socket: str
    resident_bytes: int
    disk_bytes: int
    disk_free_bytes: int
    progress: NotRequired[Progress]
    memories: NotRequired[dict[str, int]]
    next_expiry: NotRequired[str | None]
    clock_doubt: NotRequired[ClockDoubt | None]
    sessions: NotRequired[int]
    pending_vectors: NotRequired[int]
    embedding_backend: NotRequired[str]
    model: NotRequired[str | None]
    model_trouble: NotRequired[str | None]
    model_change: NotRequired[ModelChange | None]
    llm: NotRequired[str | None]
    llm_trouble: NotRequired[str | None]
    takeover: NotRequired[dict[str, Any] | None]
    mirror: NotRequired[MirrorState | None]
    blocks: NotRequired[list[BlockState]]
    store: NotRequired[dict[str, Any]]
    calls: NotRequired[dict[str, CallFigures]]


class StoreOptions(TypedDict, total=False):
    """Further options of `store`; None means not given."""

    name: str | None
    session_id: str | None
    expires_at: str | float | None
    pinned: bool | None
    shared: bool | None
    audience: str | None


class SearchOptions(TypedDict, total=False):
    """Further options of `search`; None means not given. `count_use` False: the results do not
    count as used."""

    session_id: str | None
    metadata: dict[str, Any] | None
    since: str | float | None
    until: str | float | None
    max_tokens: int | None
    explain: bool | None
    include_superseded: bool | None
    project: str | None
    mode: str | None
    count_use: bool | None


class ListOptions(TypedDict, total=False):
    """Options of `list_memories`; None means not given."""

    memory_type: str | None
    session_id: str | None
    metadata: dict[str, Any] | None
    since: str | float | None
    until: str | float | None
    project: str | None
    order: str | None
    limit: int | None
    cursor: str | None


class UpdateOptions(TypedDict, total=False):
    """Options of `update_memory`; None means not given."""

    content: str | None
    memory_type: str | None
    name: str | None
    metadata: dict[str, Any] | None
    replace_metadata: bool | None
    pinned: bool | None
    expires_at: str | float | None
    clear: list[str] | None
    audience: str | None


class ClientOptions(TypedDict, total=False):
    """Options of `SyncClient`; see `Client`."""

    data_dir: Path | str | None
    config: Path | str | None
    serves: Path | str | None
    tcp: tuple[str, int] | None
    token: str | None
    start: bool
    settings: Mapping[str, str] | None
    session_id: str | None
    project: str | None
    timeout: float
