"""Which phase of work a session is in, from the tools that it used lately.

The events of hooks show the tools. What they were used for is kept in RAM, for the latest sessions.
A wrong phase costs more than none, so in doubt there is none.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Sequence

from memoryd.hook_events import PROMPT, TOOL, HookInput, human_prompt
from memoryd.phases import DEFINE, EXPLORE, IMPLEMENT, REFINE, REFLECT, VALIDATE

PLAN, DOCUMENT, EDIT, READ = "plan", "document", "edit", "read"
CHECK, FAILED_CHECK, FAILED = "check", "failed_check", "failed"  # FAILED: another command
LOOK_BACK = "look_back"
LATELY = 10  # uses of tools that count
LEAST = 3  # fewer say nothing
MAX_SESSIONS = 1_000
PLAN_TOOLS = {"exitplanmode", "enterplanmode", "todowrite", "update_plan", "write_todos"}
READ_TOOLS = {
    *("read", "grep", "glob", "ls", "webfetch", "websearch", "notebookread", "list_dir"),
    *("read_file", "read_many_files", "list_directory", "search_file_content", "grep_search"),
    *("codebase_search", "file_search", "web_fetch", "google_web_search"),
}
EDIT_TOOLS = {
    *("edit", "multiedit", "write", "notebookedit", "apply_patch", "replace", "write_file"),
    *("edit_file", "search_replace", "create_file", "insert_edit_into_file"),
}
NEW_FILE_TOOLS = {"write", "write_file", "create_file"}
DOCUMENTS = (".md", ".rst", ".txt", ".adoc")
_CHECKS = re.compile(
    r"(?:^|[\s;&|/])(?:pytest|tox|nox|mypy|ruff|make|cmake|ninja|gradlew?|mvn|ctest|jest|vitest"
    r"|eslint|tsc|rspec|phpunit|unittest|(?:go|cargo|npm|pnpm|yarn|bun|dotnet|swift|mix)"
    r"\s+(?:run\s+)?(?:test|build|check|lint|vet|clippy))(?:$|[\s;&|:.])"
)
_LOOKS_BACK = re.compile(
    r"\b(?:retrospective|retro|post-?mortem|lessons? learned|what (?:did|have) we learn(?:ed)?"
    r"|summar(?:y|i[sz]e)\b.{0,40}\b(?:session|work|today|sprint|week|we did|was done))",
    re.IGNORECASE | re.DOTALL,
)
MAX_PROMPT = 2_000  # characters of a prompt that are read


class Activity:
    """What sessions did lately."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, deque[str]] = OrderedDict()

    def note(self, session: str, call: HookInput) -> None:
        """Keep what an event shows."""
        if (seen := use_of(call)) is None:
            return
        self._sessions.setdefault(session, deque(maxlen=LATELY)).append(seen)
        self._sessions.move_to_end(session)
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)

    def phase(self, session: str) -> str | None:
        """The phase of a session; None if that is not sure."""
        return inferred(tuple(self._sessions.get(session, ())))


def use_of(call: HookInput) -> str | None:
    """What an event shows of the work; None for nothing."""
    if call.event == PROMPT:
        looks_back = _LOOKS_BACK.search(human_prompt(call.prompt)[:MAX_PROMPT])
        return LOOK_BACK if looks_back else None
    if call.event != TOOL:
        return None
    tool = call.tool.lower()
    if tool in PLAN_TOOLS:
        return PLAN
    if tool in EDIT_TOOLS:
        is_text = bool(call.files) and all(file.endswith(DOCUMENTS) for file in call.files)
        return DOCUMENT if tool in NEW_FILE_TOOLS and is_text else EDIT
    if tool in READ_TOOLS:
        return READ
    if call.command:
        is_check = bool(_CHECKS.search(call.command))
        if call.failed:
            return FAILED_CHECK if is_check else FAILED
        return CHECK if is_check else None
    return None


def inferred(uses: Sequence[str]) -> str | None:
    """The phase that these uses show, oldest first; None if that is not sure."""
    if uses and uses[-1] == LOOK_BACK:
        return REFLECT
    if LOOK_BACK in uses:  # what came before it was another piece of work
        uses = uses[len(uses) - tuple(reversed(uses)).index(LOOK_BACK) :]
    if len(uses) < LEAST:
        return None
    work = [use for use in uses if use != READ]
    if not work:
        return EXPLORE
    if work[-1] == EDIT and _since_failure(work):
        return REFINE
    edits, checks = work.count(EDIT), work.count(CHECK) + work.count(FAILED_CHECK)
    plans = work.count(PLAN) + work.count(DOCUMENT)
    if plans > edits + checks and len(work) * 2 >= len(uses):
        return DEFINE
    if work[-1] in (CHECK, FAILED_CHECK) and checks >= edits:
        return VALIDATE
    if work[-1] == EDIT and edits > checks and edits >= 2:
        return IMPLEMENT
    return None


def _since_failure(work: Sequence[str]) -> bool:
    """Whether the last command failed."""
    commands = [use for use in work if use in (CHECK, FAILED, FAILED_CHECK)]
    return bool(commands) and commands[-1] != CHECK
