"""The intake: what was said in a session of a client becomes its turns, in the background.

A hook only hands over where the transcript is and what its event says; the daemon answers at once
and reads afterwards. The record of the session says how far the transcript was read. It is written
after the turns, and a turn carries the id of its message, so a daemon that is killed in between
takes the rest at the next event, and nothing twice.

Nobody asked to store what hooks take in, so in a shared store it is private.

A transcript can lag behind its event: the last message of the agent then comes from the event, and
the line that follows later is skipped. Clients whose transcripts have another format bring prompts
and answers by their events alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import anyio
import anyio.to_thread
import structlog

from memoryd.engine.parts import KeyLocks, Parts
from memoryd.engine.push.transcript import (
    ASSISTANT,
    MAX_SAID,
    USER,
    Heard,
    heard_in,
    read_new,
)
from memoryd.engine.secrecy import masked_text
from memoryd.engine.sessions.messages import messages_of
from memoryd.engine.sessions.records import (
    CLOSED_AT,
    TAKEN,
    Records,
    facts_of,
    find_record,
    time_of,
)
from memoryd.engine.windows import Windows
from memoryd.errors import MemorydError, StoreBusy, StoreUnavailable
from memoryd.hook_events import (
    CLIENTS,
    COMPACT,
    PROMPT,
    SESSION_END,
    SESSION_START,
    STOP,
    TOOL,
    HookInput,
    human_prompt,
    without_injections,
)
from memoryd.model import Memory

log = structlog.get_logger()
MESSAGE_ID = "message_id"  # metadata of a turn that was taken in
MAX_WAITING = 1_000  # events
MAX_NAMES, MAX_SESSIONS = 200, 200  # calls of tools in RAM, and sessions with them
LAG_SECONDS = (0.1, 0.2, 0.4, 0.0)  # pauses, while a transcript lacks the last message
LEFT_OPEN = 3  # sessions that ended without saying so and are finished at a start
IDLE_SECONDS = 3600.0  # without a message, after which a session counts as ended
Finish = Callable[[str], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Job:
    """An event to take in."""

    call: HookInput
    project: str | None


class Intake:
    """Takes in what hooks hand over."""

    def __init__(
        self, parts: Parts, records: Records, windows: Windows, consolidate: Finish, sleep: Finish
    ) -> None:
        """`consolidate` archives what is there of a session, `sleep` also closes it."""
        self._parts = parts
        self._records = records
        self._windows = windows
        self._consolidate = consolidate
        self._sleep = sleep
        self._waiting: list[Job] = []
        self._tool_names: dict[str, dict[str, str]] = {}
        self._running = 0
        self._one_at_a_time = KeyLocks()
        self._work = anyio.Event()
        self._idle = anyio.Event()

    def take(self, call: HookInput, project: str | None) -> None:
        """Take in an event in the background. Returns at once."""
        if not self._parts.hooks.transcripts or call.event == TOOL or call.in_subagent:
            return
        if len(self._waiting) < MAX_WAITING:  # else the next event takes the rest
            self._waiting.append(Job(call, project))
            self._work.set()

    async def drained(self) -> None:
        """Wait until everything that was handed over is taken in."""
        while self._waiting or self._running:
            self._idle = anyio.Event()
            await self._idle.wait()

    async def run(self) -> None:
        """Take in events, sessions side by side and each in its order, until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                await self._work.wait()
                self._work = anyio.Event()
                jobs, self._waiting = self._waiting, []
                self._running += len(jobs)
                for job in jobs:
                    tasks.start_soon(self._do, job)

    async def _do(self, job: Job) -> None:
        session = job.call.session_id
        try:
            async with self._one_at_a_time.hold([session]):
                await self._take(job)
            if job.call.event == SESSION_START:
                await self._finish_left_open(session)
        except Exception as exc:  # the next event tries again
            code = exc.code if isinstance(exc, MemorydError) else type(exc).__name__
            log.warning("intake_failed", code=code)
        finally:
            self._running -= 1
            self._idle.set()

    async def _take(self, job: Job) -> None:
        call, session = job.call, job.call.session_id
        if call.event == SESSION_START:
            if time_of(find_record(self._parts.index, session), CLOSED_AT) is not None:
                await self._records.change(session, closed_at=None)
            return
        heard: list[Heard] = []
        if CLIENTS[call.client].transcript and call.transcript:
            said = without_injections(call.said)[:MAX_SAID] if call.event == STOP else ""
            for pause in LAG_SECONDS:
                heard += await self._read_transcript(session, call.transcript, job.project)
                if not said or said in _answers(heard):
                    break
                await anyio.sleep(pause)
        await self._take_payload(job, heard)
        if call.event == COMPACT:
            await self._consolidate(session)
        if call.event == SESSION_END:
            await self._sleep(session)

    async def _read_transcript(self, session: str, path: str, project: str | None) -> list[Heard]:
        """Store the new messages of a transcript; all that were in the new part."""
        offset = self._offset(session, path)
        found: list[Heard] = []
        while True:
            try:
                part = await anyio.to_thread.run_sync(read_new, path, offset)
            except OSError:  # not there yet, or not readable
                return found
            names = self._names_of(session)
            heard = await anyio.to_thread.run_sync(heard_in, part.lines, session, names)
            known = self._known(session) if heard else set()
            for one in heard:
                await self._add(session, one, project, known)
            found += heard
            if heard:
                taken = {"transcript": path, "offset": part.offset}
                await self._records.change(session, taken=taken)
            offset = part.offset
            if not part.has_more:
                return found

    def _names_of(self, session: str) -> dict[str, str]:
        """The tools that were called in a session; a result may come in a later part."""
        names = self._tool_names.setdefault(session, {})
        for call in list(names)[:-MAX_NAMES]:
            del names[call]
        if len(self._tool_names) > MAX_SESSIONS:
            del self._tool_names[next(iter(self._tool_names))]
        return names

    def _offset(self, session: str, path: str) -> int:
        """Where the new part of a transcript begins."""
        held = facts_of(find_record(self._parts.index, session)).get(TAKEN)
        if not isinstance(held, dict) or held.get("transcript") != path:
            return 0
        offset = held.get("offset")
        return offset if isinstance(offset, int) and offset > 0 else 0

    async def _take_payload(self, job: Job, heard: list[Heard]) -> None:
        """Store what only the event says: the agent's last message, and where no transcript is
        read the prompt."""
        call, session = job.call, job.call.session_id
        by_events = not CLIENTS[call.client].transcript
        known = self._known(session)
        order = len(known)
        if call.event == PROMPT and by_events:
            if prompt := human_prompt(call.prompt)[:MAX_SAID]:
                one = Heard(f"prompt:{order}", USER, prompt)
                await self._add(session, one, job.project, known)
        said = without_injections(call.said)[:MAX_SAID]
        if call.event == STOP and said and said not in _answers(heard):
            if not by_events and self._was_said_last(session, said):
                return  # an earlier event has read that part of the transcript
            # An event comes once; of a transcript the same message may follow.
            id = f"said:{order}" if by_events else _said_id(said)
            await self._add(session, Heard(id, ASSISTANT, said), job.project, known)

    def _was_said_last(self, session: str, said: str) -> bool:
        """Whether this is the last message of the agent that the session has."""
        messages = messages_of(self._parts.index, session, self._parts.clock())
        answers = [one.content for one in messages if one.metadata.get("role") == ASSISTANT]
        return answers[-1:] == [masked_text(said, self._parts.memory)]

    def _known(self, session: str) -> set[str]:
        """The ids of the messages that the session has."""
        messages = messages_of(self._parts.index, session, self._parts.clock())
        return {str(message.metadata.get(MESSAGE_ID, message.id)) for message in messages}

    async def _add(self, session: str, one: Heard, project: str | None, known: set[str]) -> None:
        """Store a message, unless it is known; then it is."""
        if one.id in known or (one.role == ASSISTANT and _said_id(one.text) in known):
            return
        known.add(one.id)
        try:
            await self._windows.add_turn(
                one.role,
                one.text,
                session,
                own_project=project,
                tool=one.tool,
                tools_used=one.tools_used or None,
                metadata=self._parts.audiences.own({MESSAGE_ID: one.id}),
            )
        except MemorydError as exc:
            if isinstance(exc, StoreUnavailable | StoreBusy):
                raise
            log.info("message_not_taken", code=exc.code)  # such as a refused secret

    async def _finish_left_open(self, started: str) -> None:
        """Finish sessions of hooks that ended without an event, as after a crash: take in the rest
        of their transcripts and close them."""
        now, last = self._parts.clock(), dict(self._parts.index.last_said())
        left = [
            record
            for record in self._parts.index.session_records()
            if _is_left_open(record)
            and record.session_id != started
            and now - last.get(record.session_id or "", now) > IDLE_SECONDS
        ]
        left.sort(key=lambda record: last.get(record.session_id or "", 0.0), reverse=True)
        for record in left[:LEFT_OPEN]:
            session = record.session_id or ""
            async with self._one_at_a_time.hold([session]):
                path = facts_of(record)[TAKEN].get("transcript")
                said = messages_of(self._parts.index, session, now)
                project = said[-1].metadata.get("project") if said else None
                if isinstance(path, str):
                    await self._read_transcript(session, path, project)
                await self._sleep(session)


def _answers(heard: Sequence[Heard]) -> list[str]:
    """What the agent said last."""
    return [one.text for one in heard if one.role == ASSISTANT][-1:]


def _is_left_open(record: Memory) -> bool:
    held = facts_of(record)
    return isinstance(held.get(TAKEN), dict) and time_of(record, CLOSED_AT) is None


def _said_id(text: str) -> str:
    """The id of a message that only an event brought: made from its text, as the transcript will
    have another one for it."""
    return "said:" + hashlib.blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()
