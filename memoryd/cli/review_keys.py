"""Reviewing with keys: one memory after the other, one key each.

A rejected memory is forgotten only when the next one has been judged, so that `u` can take the
rejection back. Whoever leaves with q agrees with it; Ctrl-C keeps the memory.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from textwrap import wrap

from memoryd.cli.edit import drafted, edited, editor, run_editor
from memoryd.cli.forget import connect
from memoryd.cli.memories import INDENT, heading
from memoryd.cli.output import (
    BOLD,
    DIM,
    YELLOW,
    clean,
    complain,
    paint,
    say,
    say_fitted,
    terminal_width,
)
from memoryd.cli.screen.keys import END, Keys
from memoryd.client import Client
from memoryd.client.owner import OwnerClient
from memoryd.client.types import Memory
from memoryd.errors import MemorydError

PAGE = 50
CONFIRM, CORRECT, REJECT, SKIP, UNDO, QUIT = "c", "e", "r", "s", "u", "q"
ACTIONS = {
    CONFIRM: "confirm",
    CORRECT: "correct in your editor",
    REJECT: "reject and forget",
    SKIP: "skip",
    QUIT: "quit",
}
ALSO = {"\n": SKIP, " ": SKIP, "\x1b": QUIT, END: QUIT, "y": CONFIRM}


async def judge_all(options: argparse.Namespace) -> int:
    """Judge every memory that needs a review; exit code 0, also if it is left early."""
    async with connect(options) as client:
        with Keys() as keys:
            judge = Judge(client, keys)
            async for place, total, memory in _waiting(client, options.limit):
                _tell(memory, place, total)
                if not await judge.decide(memory):
                    break
            else:
                await judge.offer_undo()
            await judge.settle()
            say(judge.summary())
    return 0


async def _waiting(client: Client, limit: int | None) -> AsyncIterator[tuple[int, int, Memory]]:
    """The memories that need a review, with their number and how many there are. Read at once:
    what is judged leaves the list, and would move the pages."""
    found: list[Memory] = []
    cursor: str | None = None
    while True:
        page = await client.list_memories(
            metadata={"needs_review": True}, limit=PAGE, cursor=cursor
        )
        found += page["memories"]
        cursor = page["cursor"]
        if cursor is None or (limit and len(found) >= limit):
            break
    chosen = found[:limit]
    for place, memory in enumerate(chosen, 1):
        yield place, len(chosen), memory


class Judge:
    """The judgements of one sitting."""

    def __init__(self, client: OwnerClient, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._rejected: Memory | None = None  # until the next one is judged
        self._done: dict[str, int] = {"confirmed": 0, "corrected": 0, "rejected": 0}

    async def decide(self, memory: Memory) -> bool:
        """Ask until a key judges the memory; false if the person leaves."""
        while True:
            say(_choices(can_undo=self._rejected is not None))
            pressed = await self._keys.next() or END
            key = ALSO.get(pressed, pressed.lower())
            if key == UNDO and self._rejected is not None:
                self._take_back()
            elif key == QUIT:
                return False
            elif key in ACTIONS and await self._apply(key, memory):
                return True

    async def _apply(self, key: str, memory: Memory) -> bool:
        """Apply a judgement; false if it failed, and the person has to choose again."""
        try:
            await self.settle()
            if key == CONFIRM:
                await self._client.review(memory["id"], "confirm")
                self._tell_done("confirmed")
            elif key == CORRECT:
                return await self._correct(memory)
            elif key == REJECT:
                self._rejected = memory
                say(f"{INDENT}{paint('Rejected', YELLOW)}; u takes it back.\n")
            else:
                say(f"{INDENT}Skipped.\n")
        except MemorydError as exc:
            complain(exc)
            return False
        return True

    async def offer_undo(self) -> None:
        """After the last memory: it may have been rejected by mistake."""
        if self._rejected is not None:
            say(f"{INDENT}{paint(UNDO, BOLD)} takes it back, any other key forgets it.")
            if (await self._keys.next() or END).lower() == UNDO:
                self._take_back()

    def _take_back(self) -> None:
        if self._rejected is not None:
            say(f"{INDENT}Kept {self._rejected['id']}; it still needs a review.")
        self._rejected = None

    async def settle(self) -> None:
        """Forget the memory that was rejected, if there is one."""
        memory, self._rejected = self._rejected, None
        if memory is not None:
            await self._client.review(memory["id"], "reject")
            self._done["rejected"] += 1

    async def _correct(self, memory: Memory) -> bool:
        command = editor()
        # To the letter: what a list shows is sanitized.
        before = (await self._client.read_memory(memory["id"]))["content"]
        with drafted(before) as path:
            with self._keys.suspended():
                run_editor(command, path)
            content = edited(path, before)
            if content == before:
                say(f"{INDENT}Unchanged.")
                return False
            await self._client.review(memory["id"], "correct", content)
        self._tell_done("corrected")
        return True

    def _tell_done(self, how: str) -> None:
        self._done[how] += 1
        say(f"{INDENT}{how.capitalize()}.\n")

    def summary(self) -> str:
        """What was judged."""
        parts = [f"{count} {how}" for how, count in self._done.items() if count]
        return f"{', '.join(parts).capitalize()}." if parts else "Nothing was changed."


def _tell(memory: Memory, place: int, total: int) -> None:
    say_fitted(f"{paint(f'{place}/{total}', BOLD)}  {heading(memory, datetime.now(UTC))}")
    width = max(terminal_width() - len(INDENT), 20)
    for line in clean(memory["content"]).splitlines():
        for part in wrap(line, width) or [""]:
            say(INDENT + part)
    why = clean(str(memory["metadata"].get("review_reason", "not said")))
    say(f"{INDENT}{paint('Why:', BOLD)} {why}")


def _choices(*, can_undo: bool) -> str:
    keys = ACTIONS | ({UNDO: "undo the rejection"} if can_undo else {})
    lines, room = [""], terminal_width() - len(INDENT)
    used = 0
    for key, what in keys.items():
        size = len(f"{key} {what}  ")
        if used and used + size > room:
            lines.append("")
            used = 0
        lines[-1] += f"{paint(key, BOLD)} {paint(what, DIM)}  "
        used += size
    return "\n".join(f"{INDENT}{line.rstrip()}" for line in lines)
