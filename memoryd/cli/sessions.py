"""The verbs `recall`, `brief`, `sessions` and `working-memory`."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, TypeVar

from memoryd.cli.memories import connect, notes, stdin_text
from memoryd.cli.output import (
    BOLD,
    DIM,
    age,
    clean,
    exact,
    is_terminal,
    minute,
    paint,
    say,
    say_fitted,
    say_json,
)
from memoryd.client import Client
from memoryd.client.recalled import Recalled
from memoryd.client.session_types import Compacted, ListedSession, WorkingMemory
from memoryd.client.types import Message
from memoryd.errors import NotFound
from memoryd.recall_text import shown_text

Answer = TypeVar("Answer")


def recall(options: argparse.Namespace) -> int:
    """Show what an agent gets into its prompt."""
    given: dict[str, Any] = {
        "hint": " ".join(options.hint) or None,
        "max_tokens": options.max_tokens,
        "scope": options.scope,
        "identity": options.identity,
        "phase": options.phase,
        "count_use": False,  # a person looks; no agent uses what is found
    }
    return _tell_recall(options, _call(options, lambda all: all.recall(options.session, **given)))


def brief(options: argparse.Namespace) -> int:
    """Show what a planner gets for a task."""
    task, files = " ".join(options.task), options.file or ()
    most = options.max_tokens
    found = _call(options, lambda all: all.brief(task, files, most, count_use=False))
    if options.json:
        say_json(asdict(found) | {"text": found.text})
        return 0
    notes(found.warnings)
    say(clean(found.text) if found.text else "Nothing is known for this task.")
    return 0


def list_sessions(options: argparse.Namespace) -> int:
    """Show the sessions, the latest first."""
    limit, identity = getattr(options, "limit", None), getattr(options, "identity", None)
    page = _call(options, lambda all: all.sessions.list(limit, identity))
    if options.json:
        say_json(page)
        return 0
    now = datetime.now(UTC)
    for session in page["sessions"]:
        say_fitted(_line(session, now))
    say(f"{_counted(page['total'], 'session')}.")
    return 0


def read(options: argparse.Namespace) -> int:
    """Show the messages of a session, and where older ones became an archive."""
    page = {"limit": options.limit, "before": options.before}
    found = _call(options, lambda all: all.sessions.read(options.session, **page))
    if options.json:
        say_json(found)
        return 0
    if not found["turns"] and not found["identity"] and not found["title"]:
        raise NotFound(f"There is no session {options.session!r}.", hint="Run: memoryd sessions")
    title = clean(found["title"] or found["session_id"])
    say(paint(f"{title}, {_counted(found['turns'], 'message')}", BOLD))
    ends = {marker["upto"]: marker for marker in found["markers"]}
    for message in found["messages"]:
        say(_said(message))
        if marker := ends.get(message["order"]):
            count, name = _counted(marker["messages"], "message"), clean(marker["archive_name"])
            say(paint(f"(until here: {count} archived as {name})", DIM))
    return 0


def rename(options: argparse.Namespace) -> int:
    """Give a session a title."""
    done = _call(options, lambda all: all.sessions.rename(options.title, options.session))
    say_json(done) if options.json else say(f"Renamed to {clean(done['title'])}")
    return 0


def compact(options: argparse.Namespace) -> int:
    """Move the older messages of a session into an archive."""
    done = _call(options, lambda all: all.sessions.compact(options.session, options.keep))
    if options.json:
        say_json(done)
        return 0
    notes(done["warnings"])
    kept = _counted(done["kept"], "message")
    say(f"{_archived(done) or 'Nothing to archive'}; the session shows {kept}.")
    _tell_facts(done)
    return 0


def wake(options: argparse.Namespace) -> int:
    """Open a session and show its first recall."""
    given: dict[str, Any] = {"session_id": options.session, "max_tokens": options.max_tokens}
    woken = _call(options, lambda all: all.sessions.wake(options.identity, **given))
    if not options.json:
        say(f"Session {clean(woken.session_id)}")
    return _tell_recall(options, woken)


def sleep(options: argparse.Namespace) -> int:
    """Close a session; say what was kept of it."""
    done = _call(options, lambda all: all.sessions.sleep(options.session))
    if options.json:
        say_json(done)
        return 0
    notes(done["warnings"])
    say(f"Closed {clean(done['session_id'])}. {_archived(done) or 'Nothing was new'}.")
    _tell_facts(done)
    return 0


def working_memory(options: argparse.Namespace) -> int:
    """Show or replace a working memory, or one section of it."""
    found = _call(options, lambda all: _working_memory(all, options))
    if options.json:
        say_json(found)
    elif options.set is not None:
        notes(found["warnings"])
        say(f"{'Changed' if found['changed'] else 'Unchanged:'} {clean(found['identity'])}")
    else:
        say(clean(_shown_memory(found, options.section)))
    return 0


async def _working_memory(client: Client, options: argparse.Namespace) -> WorkingMemory:
    if options.set is None:
        return await client.working_memory(options.identity)
    text = stdin_text() if options.set == "-" else options.set
    return await client.set_working_memory(text, options.identity, options.section)


def _shown_memory(found: WorkingMemory, section: str | None) -> str:
    if section is None:
        return found["content"]
    for title, text in found["sections"].items():
        if title.casefold() == section.casefold():
            return text
    known = ", ".join(title for title in found["sections"] if title)
    raise NotFound(f"There is no section {section!r}.", hint=f"There are {known}." if known else "")


def _call(options: argparse.Namespace, call: Callable[[Client], Awaitable[Answer]]) -> Answer:
    async def done() -> Answer:
        async with connect(options) as client:
            return await call(client)

    return asyncio.run(done())


def _tell_recall(options: argparse.Namespace, recalled: Recalled) -> int:
    if options.json:
        say_json(asdict(recalled) | {"messages": recalled.messages, "text": recalled.text})
        return 0
    notes(recalled.warnings)
    say(clean(recalled.text) if recalled.text else "Nothing to recall.")
    return 0


def _archived(done: Compacted) -> str:
    """What was archived, and who made the summary; "" if nothing was."""
    if done["archive_name"] is None:
        return ""
    count, how = _counted(done["archived"], "message"), done["summary_by"]
    return f"Archived {count} as {clean(done['archive_name'])} (summary by {how})"


def _tell_facts(done: Compacted) -> None:
    for fact in done["facts"]:
        say(f"  {fact['how']}: {clean(fact['content'])}")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _line(session: ListedSession, now: datetime) -> str:
    archives = f", {_counted(session['archives'], 'archive')}" if session["archives"] else ""
    parts = (
        f"{age(session, now):>11}",
        paint(session["session_id"], DIM),
        clean(session["identity"] or ""),
        f"{_counted(session['messages'], 'message')}{archives}",
        "closed" if session["closed_at"] else "open",
        paint(clean(session["title"] or ""), BOLD),
    )
    return "  ".join(part for part in parts if part)


def _said(message: Message) -> str:
    who = clean(message.get("speaker") or message["role"])
    head = f"{message['order']:>4}  {_at(message['at'])}  {who}:"
    return f"{paint(head, DIM)} {clean(shown_text(message))}"


def _at(text: str) -> str:
    """The time of a message: every line has one, so on a terminal it is short."""
    return minute(text) if is_terminal() else exact(text)
