"""Compaction: the older part of a session becomes an archive, a note that outlives its messages.

The order of the writes lets a kill lose nothing, and a repeat finish what was begun:

1. The facts of the messages are taken. Taken again they change nothing.
2. The archive is added. It says which messages it is of: `upto`, the order of the last one.
3. The record of the session gets the marker. If it is missing, the next compaction finds the
   archive by its `upto` and adopts it.

Messages are only read. What is part of an archive is never read again, so a message is summarised
once, and a fact that was forgotten does not come back. No lock of the session is held meanwhile:
turns go on while the language model writes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio
import structlog

from memoryd.engine import checks, commits
from memoryd.engine.parts import KeyLocks, Parts
from memoryd.engine.sessions.digest import Digests
from memoryd.engine.sessions.durable import Durable
from memoryd.engine.sessions.facts import Facts, Taken
from memoryd.engine.sessions.messages import messages_of, shown_text
from memoryd.engine.sessions.notes import Notes
from memoryd.engine.sessions.proposals import (
    Proposal,
    ReadStatements,
    by_llm,
    by_rules,
)
from memoryd.engine.sessions.records import (
    CONSOLIDATED_AT,
    LAST_CONSOLIDATED,
    Records,
    find_record,
    last_consolidated,
)
from memoryd.engine.sessions.said import USER, Said
from memoryd.engine.sessions.statements import statements
from memoryd.engine.sessions.summary import LLM, Summaries, Summary
from memoryd.engine.turn_keys import order_of
from memoryd.engine.windows import session_label
from memoryd.errors import InvalidInput, MemorydError
from memoryd.fair import in_thread
from memoryd.fields import (
    ARCHIVE,
    ARCHIVED,
    FROM_SESSION,
    PROJECT,
    SUMMARY_BY,
    is_archive,
    project_of,
)
from memoryd.model import DAY, ROLE, Memory, is_expired, who

log = structlog.get_logger()
MAX_AT_ONCE = 200  # messages of one archive: of more, a summary would say too little
MAX_ATTEMPTS = 3  # with the language model, while messages are being forgotten


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did. `kept`: messages that are part of no archive. `summary_by`: of the
    last archive."""

    session_id: str
    archives: tuple[Memory, ...] = ()
    archived: int = 0
    kept: int = 0
    facts: tuple[Taken, ...] = ()
    summary_by: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def archive_name(self) -> str | None:
        return self.archives[-1].name if self.archives else None


class Compaction:
    """Compacts sessions, when asked and by itself."""

    def __init__(
        self,
        parts: Parts,
        records: Records,
        notes: Notes,
        facts: Facts,
        durable: Durable,
        digests: Digests,
        read: ReadStatements = statements,
    ) -> None:
        self._parts = parts
        self._records = records
        self._notes = notes
        self._facts = facts
        self._durable = durable
        self._digests = digests
        self._read = read
        self._summaries = Summaries(parts.language, parts.memory)
        self._one_at_a_time = KeyLocks()
        self._due: list[str] = []  # sessions to compact in the background
        self._busy: set[str] = set()  # these, and those that are being compacted
        self._work = anyio.Event()

    async def compact(
        self, session_id: str, keep: int | None = None, *, ask: bool = True
    ) -> Compacted:
        """Archive the messages that are part of no archive yet, but for the last `keep`; without it
        the configured number. `ask`: the language model, if there is one. Raises InvalidInput, and
        StoreError: then what is archived stays."""
        session = session_label(session_id)
        kept = self._parts.sessions.keep_count if keep is None else _checked_keep(keep)
        done = Compacted(session)
        async with self._one_at_a_time.hold([session]):
            await self._adopt(session)
            waiting = self._waiting(session)
            due = _first(waiting, len(waiting) - kept)
            upto = order_of(due[-1]) if due else -1
            while due:
                done = await self._archive(done, _first(due, MAX_AT_ONCE), ask)
                # Those that come meanwhile are left to the next compaction.
                due = [message for message in self._waiting(session) if order_of(message) <= upto]
            if done.summary_by == LLM:
                await self._digests.refresh(_project(waiting))
            return replace(done, kept=len(self._waiting(session)))

    async def consolidate(self, session_id: str, *, ask: bool = True) -> Compacted:
        """Archive all messages that are part of no archive yet. `ask`: the language model, if there
        is one. Raises StoreError."""
        return await self.compact(session_id, 0, ask=ask)

    def after_turn(self, session_id: str, order: int | None = None) -> None:
        """In the background, compact a session that has become long, and give a record to one that
        has become old. `order`: of its last message, if the caller knows it."""
        if session_id in self._busy:
            return
        record = find_record(self._parts.index, session_id)
        needs_record = record is None and self._is_old(session_id)
        if needs_record or self._is_long(session_id, record, order):
            self._busy.add(session_id)
            self._due.append(session_id)
            self._work.set()

    def _is_old(self, session_id: str) -> bool:
        """Whether a session lasts for longer than a day: its first messages may expire before it
        ends, and only a record keeps when it began."""
        began = self._parts.index.first_said(session_id)
        return began is not None and self._parts.clock() - began > DAY

    def _is_long(self, session_id: str, record: Memory | None, order: int | None = None) -> bool:
        """Whether a session is to be compacted by itself."""
        settings = self._parts.sessions
        if not settings.auto_compact:
            return False
        # Orders have no gaps but for forgotten messages: usually this is all there is to do.
        if order is not None and order - last_consolidated(record) <= settings.memory_window:
            return False
        return len(self._waiting(session_id)) > settings.memory_window

    async def run(self) -> None:
        """Compact the sessions that are due, side by side, until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                await self._work.wait()
                self._work = anyio.Event()
                due, self._due = self._due, []
                for session_id in due:
                    tasks.start_soon(self._in_background, session_id)

    async def _in_background(self, session_id: str) -> None:
        try:
            record = await self._records.ensure(session_id)
            if self._is_long(session_id, record):
                await self.compact(session_id)
        except Exception as exc:  # the next turn tries again
            code = exc.code if isinstance(exc, MemorydError) else type(exc).__name__
            log.warning("compaction_failed", code=code)
        finally:
            self._busy.discard(session_id)

    def _waiting(self, session_id: str) -> list[Memory]:
        """The messages that are part of no archive yet, oldest first."""
        index = self._parts.index
        archived = last_consolidated(find_record(index, session_id))
        return messages_of(index, session_id, self._parts.clock(), after=archived)

    async def _adopt(self, session_id: str) -> None:
        """Record the archives of a session that its record does not know: something ended between
        the two writes."""
        known = last_consolidated(find_record(self._parts.index, session_id))
        found = [note for note in self._parts.index.notes() if _is_of(note, session_id)]
        for archive in sorted(found, key=_upto):
            if _upto(archive) > known:
                await self._mark(session_id, archive)

    async def _archive(self, done: Compacted, part: Sequence[Memory], ask: bool) -> Compacted:
        """Archive these messages, the oldest ones that wait."""
        session_id, upto = done.session_id, order_of(part[-1])
        # A language model that failed is not waited for once more.
        ask = ask and done.summary_by in (None, LLM)
        summary, part = await self._summarised(part, ask)
        if not part:  # all of them were forgotten meanwhile
            return done
        facts = await self._facts.take(session_id, await in_thread(self._proposals, part, summary))
        archive, warnings = await self._add(session_id, part, upto, summary)
        await self._mark(session_id, archive)
        log.info("compacted", messages=len(part), by=summary.by, facts=len(facts))
        return replace(
            done,
            archives=(*done.archives, archive),
            archived=done.archived + len(part),
            facts=(*done.facts, *facts),
            summary_by=summary.by,
            warnings=tuple(dict.fromkeys((*done.warnings, *summary.warnings, *warnings))),
        )

    async def _summarised(
        self, part: Sequence[Memory], ask: bool
    ) -> tuple[Summary, Sequence[Memory]]:
        """The summary, and the messages that it is of: none that was forgotten meanwhile. `ask`:
        the language model, if there is one."""
        zone = self._parts.lifetimes.zone
        for attempt in itertools.count(1):
            said = [await self._said(message) for message in part]
            known = await self._known(_project(part))
            ask = ask and attempt < MAX_ATTEMPTS  # it takes long: others may be forgotten again
            summary = await self._summaries.summarise(said, known, zone, ask=ask)
            alive = [message for message in part if self._is_there(message)]
            if not alive or len(alive) == len(part):
                return summary, alive
            part = alive
        raise AssertionError("each attempt has fewer messages")

    async def _known(self, project: str | None) -> str:
        """The lasting facts that a language model need not propose again, one a line."""
        if not self._parts.language.configured:
            return ""
        await self._durable.prepare()
        return "\n".join(fact.content for fact in self._durable.facts(project, self._parts.clock()))

    def _is_there(self, message: Memory) -> bool:
        return self._parts.index.get(message.id) is not None

    async def _said(self, message: Memory) -> Said:
        passages = await commits.passages(self._parts, message)
        return Said(
            who=who(message) or USER,
            text=shown_text(message),
            at=message.created_at,
            id=message.id,
            role=str(message.metadata.get(ROLE)),
            vector=passages[0].vector if passages else None,
        )

    def _proposals(self, part: Sequence[Memory], summary: Summary) -> list[Proposal]:
        if summary.by == LLM:
            return by_llm(part, summary.facts)
        return by_rules(part, self._read)

    async def _add(
        self, session_id: str, part: Sequence[Memory], upto: int, summary: Summary
    ) -> tuple[Memory, tuple[str, ...]]:
        """Add the archive under a name that is free."""
        times = [message.created_at for message in part]
        archived = {"messages": len(part), "upto": upto}
        archived_at = {"first_at": min(times), "last_at": max(times)}
        own = {FROM_SESSION: session_id, SUMMARY_BY: summary.by, ARCHIVED: archived | archived_at}
        project = _project(part)
        content = _fitting(summary.entry, self._parts.memory.max_content_bytes)
        for name in self._free_names(summary.name):
            try:
                done = await self._notes.add_note(
                    name,
                    content,
                    kind=ARCHIVE,
                    metadata={PROJECT: project} if project else None,
                    own=own,
                )
            except InvalidInput as exc:
                if exc.code != "name_taken":
                    raise
            else:
                return done.memory, done.warnings
        raise AssertionError("names have no end")

    def _free_names(self, name: str) -> Iterator[str]:
        """The name, then with numbers; those that are free now."""
        for number in itertools.count(1):
            asked = name if number == 1 else f"{name} ({number})"
            now = self._parts.clock()
            owners = self._parts.index.named_alike(asked)
            if all(is_expired(owner, now) for owner in owners):
                yield asked

    async def _mark(self, session_id: str, archive: Memory) -> None:
        """Record an archive in the record of its session."""
        now, facts = self._parts.clock(), archive.metadata[ARCHIVED]
        marker = {
            "archive_id": archive.id,
            "archive_name": archive.name,
            "archived_at": now,
            "messages": facts["messages"],
            "upto": facts["upto"],
        }
        fields: dict[str, Any] = {LAST_CONSOLIDATED: facts["upto"], CONSOLIDATED_AT: now}
        await self._records.change(session_id, marker=marker, **fields)


def _checked_keep(value: object) -> int:
    return 0 if value == 0 and not isinstance(value, bool) else checks.count(value, "keep")


def _is_of(note: Memory, session_id: str) -> bool:
    return is_archive(note) and note.metadata.get(FROM_SESSION) == session_id and _upto(note) >= 0


def _upto(archive: Memory) -> int:
    """The order of its last message; -1 if it does not say, as one that a person wrote."""
    facts = archive.metadata.get(ARCHIVED)
    if not isinstance(facts, dict) or type(facts.get("messages")) is not int:
        return -1
    upto = facts.get("upto")
    return upto if type(upto) is int else -1


def _first(messages: Sequence[Memory], count: int) -> list[Memory]:
    """The first messages. Imported ones may have the same order: they stay together."""
    if count <= 0:
        return []
    last = order_of(messages[min(count, len(messages)) - 1])
    return [message for message in messages if order_of(message) <= last]


def _project(part: Sequence[Memory]) -> str | None:
    """The project of all these messages; None if they have none, or not the same."""
    projects = {project_of(message) for message in part}
    return projects.pop() if len(projects) == 1 else None


def _fitting(text: str, most: int) -> str:
    """The beginning of a text that has at most so many bytes."""
    return text.encode()[:most].decode(errors="ignore")
