"""The events of hooks: what each injects, and what is handed to the intake.

Nothing here waits for a write: an agent waits for the answer.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from memoryd.engine.parts import KeyLocks, Parts
from memoryd.engine.push.activity import Activity
from memoryd.engine.push.file_notes import FileNotes
from memoryd.engine.push.intake import Intake
from memoryd.engine.push.pushes import Push, Pushes
from memoryd.engine.push.relevant import Chosen, Relevant, block, item
from memoryd.engine.search.fold import CHARS_PER_TOKEN, tokens
from memoryd.engine.sessions.recall import Recall
from memoryd.engine.windows import session_label
from memoryd.hook_events import (
    CLIENTS,
    MAX_CHARS,
    MAX_TOKENS,
    PROMPT,
    SESSION_START,
    TOOL,
    HookInput,
    human_prompt,
)
from memoryd.recall_text import as_text

LOST_CONTEXT = ("clear", "compact")  # sources of a session start without what was pushed before
SAME_EVENT_SECONDS = 2.0  # the same event within this time is one that two clients' hooks report
MAX_EVENTS = 1_000  # that are remembered for this
NOTE_PART, NOTE_TITLE = "file_note", "Known trouble with this file"
ERROR_TITLE = "Known trouble that looks like this failure"


@dataclass(frozen=True, slots=True)
class Injection:
    """What goes into a prompt, and why."""

    text: str
    ids: tuple[str, ...]
    why: str


class Hooks:
    """The one operation `handle`, and what people ask about it."""

    def __init__(
        self,
        parts: Parts,
        recall: Recall,
        relevant: Relevant,
        file_notes: FileNotes,
        pushes: Pushes,
        intake: Intake,
        count_uses: Callable[[Iterable[str]], None],
    ) -> None:
        self._parts = parts
        self._recall = recall
        self._relevant = relevant
        self._file_notes = file_notes
        self._pushes = pushes
        self._intake = intake
        self._count_uses = count_uses
        self._activity = Activity()
        self._one_at_a_time = KeyLocks()
        self._latest: OrderedDict[bytes, float] = OrderedDict()
        self.pushes = pushes.all

    def is_on(self, project: str | None) -> bool:
        """Whether hooks do anything in this project."""
        settings = self._parts.hooks
        return settings.enabled and (project is None or project not in settings.off_projects)

    async def handle(self, call: HookInput, project: str | None) -> str:
        """What the event injects; "" for nothing. What it brings is taken in afterwards."""
        if not call.session_id or not self.is_on(project):
            return ""
        session, repeated = session_label(call.session_id), self._is_repeated(call)
        call = replace(call, session_id=session)
        if not repeated:
            self._intake.take(call, project)
        elif CLIENTS[call.client].transcript:  # of which nothing comes twice, unlike `said`
            self._intake.take(replace(call, said=""), project)
        if not repeated and not call.in_subagent:
            self._activity.note(session, call)
        if repeated or not call.injects or call.in_subagent:
            return ""
        # One at a time in a session: two tools at once must not get the same note.
        async with self._one_at_a_time.hold([session]):
            injection = await self._injection(call, session, project)
            if injection is None or not injection.text:
                injection = Injection("", (), "nothing to say")
            return self._noted(call, session, injection)

    def _noted(self, call: HookInput, session: str, injection: Injection) -> str:
        """The text of an injection, after it was noted and counted."""
        renewed = call.event == SESSION_START and call.source in LOST_CONTEXT
        if not injection.text and not (renewed and self._pushes.of(session)):
            return ""
        size = tokens(injection.text)
        if len(injection.text) > MAX_CHARS or size > MAX_TOKENS:
            return ""  # the budgets are below these; a client would cut it in the middle
        push = Push(
            self._parts.clock(), call.event, injection.why, injection.ids, size, renewed=renewed
        )
        self._pushes.note(session, push)
        if call.event != SESSION_START:  # what is always shown would stay in front for ever
            self._count_uses(injection.ids)
        return injection.text

    async def explain(self, prompt: str, session_id: str, project: str | None) -> Chosen:
        """What a prompt would get, and why not more. Nothing is noted or counted."""
        if not self.is_on(project):
            return Chosen(reason="Hooks are switched off here.")
        if not (asked := human_prompt(prompt)):
            return Chosen(reason="No person wrote this prompt.")
        seen = self._pushes.seen(session_id) if session_id else set()
        return await self._relevant.choose(asked, session_id, project, seen)

    async def _injection(
        self, call: HookInput, session: str, project: str | None
    ) -> Injection | None:
        if call.event == SESSION_START:
            return await self._at_start(call, session, project)
        if call.event == PROMPT and (asked := human_prompt(call.prompt)):
            seen = self._pushes.seen(session)
            chosen = await self._relevant.choose(asked, session, project, seen)
            return Injection(chosen.text, chosen.ids, "matches the prompt")
        if call.event == TOOL:
            return await self._after_tool(call, session, project)
        return None

    async def _at_start(
        self, call: HookInput, session: str, project: str | None
    ) -> Injection | None:
        budget = min(self._parts.hooks.session_tokens, MAX_CHARS // CHARS_PER_TOKEN)
        if not budget:
            return None
        phase = self._activity.phase(session)
        recalled = await self._recall.recall(
            session, None, budget, own_project=project, with_messages=False, phase=phase
        )
        why = f"session start: {call.source or 'startup'}"
        return Injection(
            as_text(recalled.parts, ()), recalled.ids, f"{why}, phase {phase}" if phase else why
        )

    async def _after_tool(
        self, call: HookInput, session: str, project: str | None
    ) -> Injection | None:
        if self._pushes.count(session, TOOL) >= self._parts.hooks.tool_notes:
            return None
        seen = self._pushes.seen(session)
        found = await self._file_notes.about(call.files, call.cwd, project, seen)
        title, why = NOTE_TITLE, "is about a file that was used"
        if found is None and call.failed:
            found = await self._file_notes.about_error(call.error, project, seen)
            title, why = ERROR_TITLE, "matches a failure"
        if found is None:
            return None
        line = item(found, self._parts.lifetimes.zone)
        return Injection(block(NOTE_PART, title, [line]), (found.id,), why)

    def _is_repeated(self, call: HookInput) -> bool:
        """Whether the same event of the same session came a moment ago. A client that also runs
        the hooks of another one reports each event twice."""
        facts = (call.session_id, call.event, call.source, call.prompt, call.tool, call.error)
        text = "\0".join((*facts, *call.files, call.said, call.command, call.tool_call))
        key = hashlib.blake2b(text.encode(errors="replace"), digest_size=16).digest()
        now = self._parts.monotonic()
        last = self._latest.pop(key, None)
        self._latest[key] = now
        if len(self._latest) > MAX_EVENTS:
            self._latest.popitem(last=False)
        return last is not None and now - last < SAME_EVENT_SECONDS
