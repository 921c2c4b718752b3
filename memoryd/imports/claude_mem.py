"""The database of claude-mem, `~/.claude-mem/claude-mem.db`: observations and summaries of sessions
become facts, the user's prompts become messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from memoryd.imports.rows import USER, Found, Maker, Row, Skipped, broken, texts
from memoryd.imports.sqlite_file import Database, open_database

NAME = "claude-mem"
FILE = "claude-mem.db"
OBSERVATIONS, SUMMARIES, PROMPTS = "observations", "session_summaries", "user_prompts"
SESSION, TIME = "memory_session_id", "created_at_epoch"
COMMON = ("id", SESSION, "project", TIME)
COLUMNS = {
    OBSERVATIONS: (
        *COMMON,
        *("type", "title", "subtitle", "text", "narrative", "facts", "concepts"),
        *("files_read", "files_modified"),
    ),
    SUMMARIES: (
        *COMMON,
        *("request", "investigated", "learned", "completed", "next_steps", "notes"),
        *("files_read", "files_edited"),
    ),
    PROMPTS: ("id", "content_session_id", "prompt_number", "prompt_text", TIME),
}
SECTIONS = {
    "request": "Request",
    "investigated": "Investigated",
    "learned": "Learned",
    "completed": "Completed",
    "next_steps": "Next steps",
    "notes": "Notes",
}


def fits_database(database: Database) -> bool:
    return {OBSERVATIONS, SUMMARIES} <= database.tables and TIME in database.columns(OBSERVATIONS)


def read(path: Path) -> Found:
    """The facts and messages of a database."""
    maker = Maker(NAME)
    with open_database(path) as database:
        projects = _projects_of_sessions(database)
        for table, made in ((OBSERVATIONS, _observation), (SUMMARIES, _summary)):
            for row in database.rows(table, COLUMNS[table]):
                yield made(maker, row)
        if PROMPTS in database.tables:
            for row in database.rows(PROMPTS, COLUMNS[PROMPTS]):
                yield _prompt(maker, row, projects)


def _projects_of_sessions(database: Database) -> dict[object, object]:
    wanted = ("content_session_id", "project")
    if not set(wanted) <= database.columns("sdk_sessions"):
        return {}
    found = database.rows("sdk_sessions", wanted)
    return {row["content_session_id"]: row["project"] for row in found}


def _observation(maker: Maker, row: dict[str, Any]) -> Row | Skipped:
    where = _where(OBSERVATIONS, row)
    head = ". ".join(part.rstrip(".") for part in texts([row.get("title"), row.get("subtitle")]))
    facts = "\n".join(f"- {fact}" for fact in _list(row.get("facts")))
    parts = texts([head and f"{head}."])
    parts += filter(None, [_said(row.get("narrative")) or _said(row.get("text")), facts])
    if not parts:
        return broken(where, "an observation without text")
    return maker.fact(
        _id("observation", row),
        "\n\n".join(parts),
        row.get(TIME),
        where=where,
        kind=row.get("type"),
        tags=_list(row.get("concepts")),
        files=[*_list(row.get("files_modified")), *_list(row.get("files_read"))],
        project=row.get("project"),
        metadata={"original_session": row.get(SESSION)},
    )


def _summary(maker: Maker, row: dict[str, Any]) -> Row | Skipped:
    where = _where(SUMMARIES, row)
    said = {title: _said(row.get(key)) for key, title in SECTIONS.items()}
    text = "\n".join(f"{title}: {part}" for title, part in said.items() if part)
    if not text:
        return broken(where, "a summary without text")
    return maker.fact(
        _id("summary", row),
        text,
        row.get(TIME),
        where=where,
        kind="session_summary",
        files=[*_list(row.get("files_edited")), *_list(row.get("files_read"))],
        project=row.get("project"),
        metadata={"original_session": row.get(SESSION)},
    )


def _prompt(maker: Maker, row: dict[str, Any], projects: dict[object, object]) -> Row | Skipped:
    where = _where(PROMPTS, row)
    session, number = row.get("content_session_id"), row.get("prompt_number")
    text = _said(row.get("prompt_text"))
    if not isinstance(session, str) or not text:
        return broken(where, "a prompt without a session or text")
    return maker.message(
        _id("prompt", row),
        text,
        row.get(TIME),
        session=session,
        role=USER,
        order=number if isinstance(number, int) and 0 <= number < 2**32 else 0,
        where=where,
        project=projects.get(session),
    )


def _id(what: str, row: dict[str, Any]) -> str:
    """The number of a row with its time: two machines number their rows alike."""
    return f"{NAME}:{what}:{row.get('id')}:{row.get(TIME)}"


def _where(table: str, row: dict[str, Any]) -> str:
    return f"{table}, row {row.get('id')}"


def _said(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _list(value: object) -> list[str]:
    """The texts of a list, which the database has as a text of JSON."""
    if not isinstance(value, str):
        return []
    try:
        return texts(json.loads(value))
    except (ValueError, RecursionError):
        return []
