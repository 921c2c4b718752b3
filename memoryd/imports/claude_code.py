"""Transcripts of Claude Code: `~/.claude/projects/<folder>/<session>.jsonl`, a line for each event.

What people and the assistant wrote becomes messages, with the ids of their lines. The summary of a
compaction becomes a fact. Tool calls and their results, thoughts, messages of subagents, and turns
that the program wrote itself are left out. The memory folders beside transcripts are read too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from memoryd.imports import auto_memory
from memoryd.imports.rows import ASSISTANT, USER, Found, Maker, Row, Skipped, derived_id
from memoryd.imports.text_files import first_objects, found_files, lines_of
from memoryd.project_folder import folder_project

NAME = "claude-code"
FILES = 20  # that are looked at to recognise a folder of transcripts
SUBAGENTS, MEMORY = "subagents", "memory"
# What the program itself writes as a turn of the user.
MACHINE = re.compile(
    r"\s*(?:<(?:task-notification|command-name|command-message|command-args|local-command-\w+"
    r"|bash-\w+|user-memory-input)\b|Caveat: The messages below|\[Request interrupted by user)"
)
REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.S)
TOOLS, THOUGHTS = "tool calls and their results", "thoughts"
OTHERS, MADE = "messages of subagents", "turns that the program wrote"


def fits(path: Path) -> bool:
    """Whether this is a transcript, or a folder with transcripts or memory folders."""
    if path.is_file():
        return _is_transcript(path, named=True)
    if any(map(_is_transcript, islice(_transcripts(path), FILES))):
        return True
    return any(auto_memory.fits(folder) for folder in _memory_folders(path))


def read(path: Path) -> Found:
    """The messages of a transcript, or of every one below a folder."""
    if path.is_file():
        yield from transcript(path, named=True)
        return
    for file in _transcripts(path):
        if SUBAGENTS in file.parts:
            yield Skipped("transcripts of subagents")
        else:
            yield from transcript(file)
    for folder in _memory_folders(path):
        yield from auto_memory.read(folder)


def transcript(path: Path, *, named: bool = False) -> Found:
    """The messages of one transcript. `named`: the user named this file."""
    maker = Maker(NAME)
    for found in lines_of(path, named=named):
        if isinstance(found, Skipped):
            yield found
        else:
            yield from turn(maker, *found, path.name)


def turn(maker: Maker, number: int, line: dict[str, Any], name: str) -> Iterable[Row | Skipped]:
    """What a line of a transcript says: at most one row."""
    role, message, id = line.get("type"), line.get("message"), line.get("uuid")
    if role not in (USER, ASSISTANT) or not isinstance(message, dict) or not isinstance(id, str):
        return
    if line.get("isSidechain") is True:
        yield Skipped(OTHERS)
        return
    text, left_out = _text(message.get("content"))
    if left_out:
        yield Skipped(left_out)
    if not text:
        return
    session, cwd = line.get("sessionId"), line.get("cwd")
    about: dict[str, Any] = {
        "where": f"{name}, line {number}",
        "project": _project(cwd) if isinstance(cwd, str) else None,
    }
    if line.get("isCompactSummary") is True:
        about["metadata"] = {"original_session": session}
        yield maker.fact(id, text, line.get("timestamp"), kind="session_summary", **about)
    elif line.get("isMeta") is True or (role == USER and MACHINE.match(text)):
        yield Skipped(MADE)
    else:
        session = session if isinstance(session, str) else derived_id(NAME, name)
        yield maker.message(
            id, text, line.get("timestamp"), session=session, role=role, order=number, **about
        )


def _text(content: object) -> tuple[str, str]:
    """What was written, and the reason for which the rest of it is left out."""
    if isinstance(content, str):
        return REMINDER.sub("", content).strip(), ""
    given = content if isinstance(content, list) else []
    blocks = [block for block in given if isinstance(block, dict)]
    said = [block["text"] for block in blocks if isinstance(block.get("text"), str)]
    kinds = {block.get("type") for block in blocks if "text" not in block}
    left_out = THOUGHTS if kinds & {"thinking", "redacted_thinking"} else TOOLS if kinds else ""
    return REMINDER.sub("", "\n\n".join(said)).strip(), left_out


@cache
def _project(folder: str) -> str | None:
    return folder_project(Path(folder))


def _transcripts(folder: Path) -> Iterable[Path]:
    return found_files(folder, ".jsonl")


def _memory_folders(path: Path) -> Iterable[Path]:
    # Of one project, of all of them, or of the folder `.claude` that has these.
    places = (MEMORY, f"*/{MEMORY}", f"{auto_memory.PROJECTS}/*/{MEMORY}")
    found = (folder for place in places for folder in sorted(path.glob(place)))
    return (folder for folder in found if folder.is_dir() and not folder.is_symlink())


def _is_transcript(path: Path, *, named: bool = False) -> bool:
    lines = first_objects(path, named=named)
    return any(isinstance(line.get("sessionId"), str) for line in lines)
