"""The recall, and the tools of the toolset `session`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo
from typing import Any

from memoryd.doors import render
from memoryd.doors.rights import Rights
from memoryd.doors.schemas.core import FORMS
from memoryd.doors.sessions import (
    Session,
    continue_with,
    hint_to_continue,
    hint_where_empty,
)
from memoryd.engine import checks
from memoryd.engine.engine import Engine
from memoryd.engine.sessions.compaction import Compacted
from memoryd.engine.sessions.recall import Recalled
from memoryd.engine.sessions.sessions import SessionFacts
from memoryd.errors import InvalidInput
from memoryd.recall_text import NOTICE, as_chat, as_text
from memoryd.sanitize import as_data

Arguments = dict[str, Any]
PARTS, TEXT, CHAT = FORMS


async def get_context(
    engine: Engine, given: Arguments, session: Session, rights: Rights
) -> Arguments:
    """What to have in mind now; with `window_only` nothing but the last messages."""
    if checks.flag(given.pop("window_only", False), "window_only"):
        found = await engine.context_window(session.id, **given)
        hint = {} if found.messages or found.hidden else hint_where_empty(session)
        return render.window(found, engine.zone) | hint
    counts = checks.flag(given.pop("count_use", True), "count_use")
    form = _checked_form(given.pop("form", PARTS))
    recalled = await engine.recall(session.id, given.pop("hint", None), **given)
    # Of what is always shown no use is counted: it would stay in front for ever. And who may only
    # read leaves no trace.
    if counts and rights.writes:
        engine.count_uses(recalled.found_ids)
    is_empty = not recalled.messages and not recalled.hidden
    return _recalled(recalled, engine.zone, form) | (hint_where_empty(session) if is_empty else {})


async def wake_session(
    engine: Engine, given: Arguments, session: Session, rights: Rights
) -> Arguments:
    """Open a session, which the connection continues with."""
    woken = await engine.sessions.wake(given.pop("identity", None), **given)
    engine.count_uses(woken.recalled.found_ids)
    opened = continue_with(woken.facts.session_id)
    facts = {
        "identity": as_data(woken.facts.identity or ""),
        "created_at": render.moment(woken.facts.created_at, engine.zone),
        "consolidated": [as_data(id) for id in woken.consolidated],
    }
    hint = hint_to_continue(opened, first=True)
    return _recalled(woken.recalled, engine.zone, PARTS) | facts | hint


async def brief(engine: Engine, given: Arguments, rights: Rights) -> Arguments:
    """What a planner needs."""
    counts = checks.flag(given.pop("count_use", True), "count_use")
    found = await engine.brief(given.pop("task", ""), **given)
    if counts and rights.writes:
        engine.count_uses(found.ids)
    return {
        "notice": NOTICE,
        "parts": list(found.parts),
        "tokens": found.tokens,
        "warnings": list(found.warnings),
    }


async def sleep_session(
    engine: Engine, given: Arguments, session: Session, rights: Rights
) -> Arguments:
    slept = await engine.sessions.sleep(session.id)
    closed = {"closed_at": render.moment(slept.closed_at, engine.zone)}
    return _compacted(slept.compacted) | closed


async def compact_session(
    engine: Engine, given: Arguments, session: Session, rights: Rights
) -> Arguments:
    done = await engine.sessions.compact(session.id, given.get("keep"))
    hint = {} if done.archived or done.kept else hint_where_empty(session)
    return _compacted(done) | hint


async def list_sessions(engine: Engine, given: Arguments) -> Arguments:
    facts = session_facts
    if checks.flag(given.pop("details", False), "details"):
        facts = owner_facts
    found = await engine.sessions.list_sessions(**given)
    listed = [facts(one, engine.zone) for one in found.sessions]
    return {"sessions": listed, "total": found.total}


async def read_session(
    engine: Engine, given: Arguments, session: Session, rights: Rights
) -> Arguments:
    found = await engine.sessions.read_session(session.id, **given)
    messages = [render.whole_message(one, engine.zone) for one in found.messages]
    markers = [_marker(marker, engine.zone) for marker in found.facts.markers]
    hint = {} if messages or markers else hint_where_empty(session)
    read = {"notice": NOTICE, "messages": messages, "markers": markers}
    return session_facts(found.facts, engine.zone) | read | hint


async def rename_session(
    engine: Engine, given: Arguments, session: Session, rights: Rights
) -> Arguments:
    title = await engine.sessions.rename(session.id, given.get("title", ""))
    return {"session_id": as_data(str(session.id)), "title": as_data(title)}


async def working_memory(engine: Engine, given: Arguments) -> Arguments:
    """Read the working memory, or replace it."""
    identity = given.get("identity")
    if "content" in given:
        found = await engine.working_memories.set(given["content"], identity, given.get("section"))
    elif "section" in given:
        raise InvalidInput(
            "To replace a section, working_memory needs its content.",
            code="content_missing",
            hint="Leave out section to read all of them.",
        )
    else:
        found = await engine.working_memories.get(identity)
    at = found.updated_at
    return {
        "notice": NOTICE,
        "identity": as_data(found.identity),
        "content": as_data(found.text),
        "sections": {as_data(title): as_data(text) for title, text in found.sections.items()},
        "updated_at": None if at is None else render.moment(at, engine.zone),
        "changed": found.changed,
        "warnings": list(found.warnings),
    }


def _recalled(found: Recalled, zone: tzinfo | None, form: str) -> Arguments:
    """The answer of a recall in one of its forms."""
    messages = [render.message(one, zone) for one in found.messages]
    parts = found.parts
    shown: dict[str, Any] = {"messages": messages, "parts": list(parts)}
    if form == TEXT:
        shown = {"text": as_text(parts, messages)}
    elif form == CHAT:
        shown = {"chat": as_chat(parts, messages)}
    hint = {"hint": render.hidden(found.hidden)} if found.hidden else {}
    return {
        "notice": NOTICE,
        "session_id": as_data(found.session_id),
        **shown,
        "tokens": found.tokens,
        "warnings": list(found.warnings),
    } | hint


def _compacted(done: Compacted) -> Arguments:
    name = done.archive_name
    return {
        "session_id": as_data(done.session_id),
        "archived": done.archived,
        "archive_name": None if name is None else as_data(name),
        "summary_by": done.summary_by,
        "kept": done.kept,
        "facts": [
            {"id": fact.memory.id, "content": as_data(fact.memory.content), "how": fact.how}
            for fact in done.facts
        ],
        "warnings": list(done.warnings),
    }


def session_facts(found: SessionFacts, zone: tzinfo | None) -> Arguments:
    def moment(at: float | None) -> str | None:
        return None if at is None else render.moment(at, zone)

    return {
        "session_id": as_data(found.session_id),
        "title": None if found.title is None else as_data(found.title),
        "identity": None if found.identity is None else as_data(found.identity),
        "created_at": moment(found.created_at),
        "closed_at": moment(found.closed_at),
        "last_at": moment(found.last_at),
        "last_consolidated": moment(found.last_consolidated),
        "messages": found.messages,
        "turns": found.turns,
        "archives": len(found.markers),
    }


def owner_facts(found: SessionFacts, zone: tzinfo | None) -> Arguments:
    """The same with its project and state, which the schemas have no room for."""
    return session_facts(found, zone) | {
        "project": None if found.project is None else as_data(found.project),
        "state": "open" if found.closed_at is None else "asleep",
    }


def _marker(marker: Mapping[str, Any], zone: tzinfo | None) -> Arguments:
    at = marker.get("archived_at")
    shown = render.moment(at, zone) if isinstance(at, int | float) else None
    name = as_data(str(marker.get("archive_name", "")))
    return {**marker, "archive_name": name, "archived_at": shown}


def _checked_form(value: object) -> str:
    if value not in FORMS:
        raise InvalidInput(
            f"There is no form {str(value)[:50]!r}.",
            code="form_unknown",
            hint=f"Use {', '.join(FORMS)}.",
        )
    return str(value)
