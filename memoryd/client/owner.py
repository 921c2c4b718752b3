"""A client with the owner's calls too: those that only the local socket serves."""

from __future__ import annotations

import json
from typing import Any, NotRequired, TypedDict, cast

from memoryd.client.client import Client
from memoryd.client.types import BlockState, Memory, MirrorState


class ForgetResult(TypedDict):
    """How many memories a filter matched and how many are deleted now, and the first of them."""

    matched: int
    forgotten: int
    types: dict[str, int]
    first: list[Memory]


class ExportPage(TypedDict):
    """Memories as an export writes them. Pass `after` for the next page; None: this is the last."""

    memories: list[dict[str, Any]]
    after: str | None
    total: int | None  # how many match; None on later pages of an export with a filter
    model: str | None
    dimension: int | None


class ImportResult(TypedDict):
    """The outcome for one memory: added, replaced, known, kept, expired or refused."""

    outcome: str
    rival: NotRequired[str | None]
    masked: NotRequired[bool]
    error: NotRequired[dict[str, str]]


class BackupResult(TypedDict):
    """A backup file that was written and verified."""

    path: str
    memories: int
    bytes: int
    created_at: str


class MirrorEdit(TypedDict):
    """What a person changed in MEMORY.md: added, known, changed, removed, held or refused."""

    how: str
    id: str | None
    line: int | None
    why: str | None


class MirrorResult(TypedDict):
    """The mirror as it is now, None if there is none; the blocks in files; the edits of this call,
    the last ones of any call, and the memories that are held."""

    mirror: MirrorState | None
    blocks: list[BlockState]
    edits: list[MirrorEdit]
    recent: list[MirrorEdit]
    held: list[dict[str, str]]


class Candidate(TypedDict):
    """A memory that a prompt could get; `refused` says why it does not."""

    id: str
    score: float
    content: str
    pushed: bool
    refused: str


class ExplainedPush(TypedDict):
    """What a prompt would get; without a text, `reason` says why."""

    project: str | None
    text: str
    reason: str
    candidates: list[Candidate]


class ListedPush(TypedDict):
    """One push: which memories, at which event, why, and how many tokens."""

    session_id: str
    at: str
    event: str
    why: str
    tokens: int
    ids: list[str]


class ListedPushes(TypedDict):
    """Pushes, newest first; `total` and `tokens` are of all that match."""

    pushes: list[ListedPush]
    total: int
    tokens: int


class RecentCall(TypedDict):
    """A call that has ended; `number` counts the calls since the daemon started. `ids`: the first
    of the memories that it stored or found."""

    number: int
    at: str
    tool: str
    ms: float
    outcome: str
    counts: dict[str, int]
    session_id: str | None
    ids: list[str]


class RecentSession(TypedDict):
    """One of the latest sessions."""

    session_id: str
    identity: str | None
    last_at: str | None
    messages: int
    open: bool


class RecentCalls(TypedDict):
    """The latest calls, newest first, and the latest sessions. `texts`: by id, if asked for."""

    calls: list[RecentCall]
    sessions: list[RecentSession]
    total_sessions: int
    texts: NotRequired[dict[str, str]]


class OwnerClient(Client):
    """`Client` with the calls that agents do not see."""

    async def forget_where(self, **options: Any) -> ForgetResult:
        """Delete a batch of what matches; `dry_run` only counts."""
        return cast(ForgetResult, await self._tool("forget_where", options))

    async def read_memory(self, memory_id: str) -> dict[str, Any]:
        """One memory as it is stored, as an export writes it. Raises NotFound."""
        return await self._tool("read_memory", {"memory_id": memory_id})

    async def export_page(
        self, after: str | None, *, embeddings: bool = False, **selection: Any
    ) -> ExportPage:
        """The next page, after an id, of memories that match; the first page if it is None."""
        given = {"after": after, "embeddings": embeddings, **selection}
        return cast(ExportPage, await self._tool("export_memories", given))

    async def import_batch(
        self,
        memories: list[dict[str, Any]],
        *,
        model: str | None = None,
        overwrite: bool = False,
        trust_vectors: bool = False,
    ) -> list[ImportResult]:
        """Store each memory of a batch with its id and times; the outcomes, in order. With
        `trust_vectors` their vectors are used, if `model` is the one that the daemon uses."""
        given: dict[str, Any] = {"memories": memories, "model": model, "overwrite": overwrite}
        if trust_vectors:  # a daemon of an older version refuses the argument
            given["trust_vectors"] = True
        answer = await self._tool("import_memories", given)
        return cast(list[ImportResult], answer["outcomes"])

    async def import_rows(
        self, rows: list[dict[str, Any]], *, separate: bool = True, overwrite: bool = False
    ) -> list[dict[str, Any]]:
        """Import rows of another program; the outcomes, in order. `separate`: facts that say the
        same stay separate memories. `overwrite`: replace what differs here."""
        given: dict[str, Any] = {"rows": rows}
        if not separate or overwrite:  # a daemon of an older version refuses the arguments
            given |= {"separate": separate, "overwrite": overwrite}
        answer = await self._tool("import_rows", given)
        return cast(list[dict[str, Any]], answer["outcomes"])

    async def open_page(self) -> str:
        """A link to the page that logs one browser in, for two minutes."""
        return cast(str, (await self._tool("open_page", {}))["url"])

    async def backup(self) -> BackupResult:
        """Make a backup now."""
        return cast(BackupResult, await self._tool("backup", {}))

    async def rescue(self, folder: str | None = None) -> BackupResult:
        """Write all memories in the daemon's RAM to a backup, in `folder` if one is named, and to
        a new store. For a daemon whose files are gone."""
        return cast(BackupResult, await self._tool("rescue", {"folder": folder}))

    async def sweep(self, *, clock_is_right: bool = False) -> int:
        """Delete expired memories; how many there were."""
        answer = await self._tool("sweep", {"clock_is_right": clock_is_right})
        return cast(int, answer["deleted"])

    async def audit(self) -> dict[str, int]:
        """The number of memories in the index and in the store."""
        return await self._tool("audit", {})

    async def purge(self) -> None:
        """Rewrite the store, so that no file but backups holds forgotten text."""
        await self._tool("purge", {})

    async def mirror(self, action: str | None = None) -> MirrorResult:
        """The state of the mirror, after an action if one is given: `run`, or `confirm` or `keep`
        what is held."""
        given = {action: True} if action else {}
        return cast(MirrorResult, await self._tool("mirror", given))

    async def add_block(self, path: str, project: str | None = None) -> MirrorResult:
        """Keep a block with the facts of a project, and the shared ones, in a file such as
        AGENTS.md; the state after it."""
        given = {"block": path, "project": project}
        return cast(MirrorResult, await self._tool("mirror", given))

    async def remove_block(self, path: str) -> MirrorResult:
        """Take the block out of a file; the state after it."""
        return cast(MirrorResult, await self._tool("mirror", {"no_block": path}))

    async def explain_push(self, prompt: str, **options: Any) -> ExplainedPush:
        """What a prompt would get by the hook of a client, and why not more."""
        return cast(ExplainedPush, await self._tool("explain_push", {"prompt": prompt, **options}))

    async def hook(self, event: str, payload: dict[str, Any], project: str) -> str:
        """What the hook of Claude Code prints at an event in a project."""
        given = {"event": event, "payload": json.dumps(payload), "project": project}
        given |= {"client": "claude-code"}
        return cast(str, (await self._tool("hook", given))["output"])

    async def list_pushes(
        self, session_id: str | None = None, limit: int | None = None
    ) -> ListedPushes:
        """What hooks put into prompts, newest first."""
        given = {"session_id": session_id, "limit": limit}
        return cast(ListedPushes, await self._tool("list_pushes", given))

    async def recent_calls(self, limit: int | None = None, *, texts: bool = False) -> RecentCalls:
        """The latest calls of all clients; with `texts` also the beginning of each memory that
        they name. What was asked is not kept."""
        given = {"limit": limit, "texts": texts}
        return cast(RecentCalls, await self._tool("recent_calls", given))
