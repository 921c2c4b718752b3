"""Messages from the transcript of a client: JSON lines, one for each part of a message.

This is the format of Claude Code; lines of other kinds, and of other formats, are skipped. Tools
make most of a transcript and say little later: of a call that went well only its name is kept, of
one that failed its name and the beginning of the error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memoryd import files
from memoryd.hook_events import human_prompt, without_injections

MAX_READ = 16 << 20  # bytes at a time
MAX_LINE = 4 << 20  # a longer line is the result of a tool
MAX_SAID = 8_000  # characters of a message
MAX_ERROR = 300  # characters of an error
MAX_TOOLS = 20  # names of tools of a message
USER, ASSISTANT, TOOL = "user", "assistant", "tool"


@dataclass(frozen=True, slots=True)
class Heard:
    """A message of a transcript."""

    id: str
    role: str
    text: str
    tool: str | None = None
    tools_used: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NewPart:
    """The part of a file after an offset, up to the end of its last whole line."""

    lines: list[bytes]
    offset: int
    has_more: bool


def read_new(path: str, offset: int) -> NewPart:
    """The lines of a file that begin at `offset`. Reads from the start if it has become shorter.
    Raises OSError."""
    with os.fdopen(files.open_file(Path(path), os.O_RDONLY, named=True), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        offset = offset if offset <= size else 0
        file.seek(offset)
        found = file.read(MAX_READ)
    end = found.rfind(b"\n") + 1
    has_more = offset + len(found) < size
    if not end and has_more:  # one line that is longer than all that is read
        return NewPart([], offset + len(found), True)
    return NewPart(found[:end].splitlines(), offset + end, has_more)


@dataclass(slots=True)
class _Reading:
    """What is known between the lines of a transcript."""

    names: dict[str, str]  # tools by the id of their call
    used: list[str] = field(default_factory=list)  # tools since the last message of the agent
    heard: list[Heard] = field(default_factory=list)


def heard_in(
    lines: Iterable[bytes], session_id: str, names: dict[str, str] | None = None
) -> list[Heard]:
    """The messages in these lines, in order; those of subagents and of other sessions are left
    out. `names`: of the tools that were called before these lines; those of these are added."""
    reading = _Reading({} if names is None else names)
    for line in lines:
        if len(line) > MAX_LINE:
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and _is_said(found, session_id):
            _read(found, reading)
    return reading.heard


def _is_said(line: Mapping[str, Any], session_id: str) -> bool:
    return (
        line.get("type") in (USER, ASSISTANT)
        and isinstance(line.get("message"), dict)
        and line.get("sessionId", session_id) == session_id
        and not line.get("isSidechain")
        and not line.get("isMeta")
        and not line.get("isCompactSummary")
    )


def _read(line: Mapping[str, Any], reading: _Reading) -> None:
    content = line["message"].get("content")
    id = line.get("uuid")
    if not isinstance(id, str) or not id:
        return
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    blocks = [one for one in blocks if isinstance(one, dict)] if isinstance(blocks, list) else []
    if line["type"] == USER:
        _read_user(id, blocks, reading)
    else:
        _read_assistant(id, blocks, reading)


def _read_user(id: str, blocks: list[dict[str, Any]], reading: _Reading) -> None:
    for one in blocks:
        if one.get("type") != "tool_result":
            continue
        name = reading.names.get(str(one.get("tool_use_id")), TOOL)
        if one.get("is_error") is True:
            error = " ".join(_text(one.get("content")).split())[:MAX_ERROR]
            said = f"failed: {error}" if error else "failed"
            call = str(one.get("tool_use_id"))[:100]
            reading.heard.append(Heard(f"{id}:{call}", TOOL, said, tool=name))
        else:
            reading.used.append(name)
    text = "\n".join(_text(one.get("text")) for one in blocks if one.get("type") == "text")
    if said := human_prompt(text):
        reading.heard.append(Heard(id, USER, said[:MAX_SAID]))


def _read_assistant(id: str, blocks: list[dict[str, Any]], reading: _Reading) -> None:
    for one in blocks:
        if one.get("type") == "tool_use" and isinstance(one.get("name"), str):
            reading.names[str(one.get("id"))] = one["name"][:100]
    text = "\n".join(_text(one.get("text")) for one in blocks if one.get("type") == "text")
    if said := without_injections(text):
        used = tuple(dict.fromkeys(reading.used))[:MAX_TOOLS]
        reading.heard.append(Heard(id, ASSISTANT, said[:MAX_SAID], tools_used=used))
        reading.used.clear()


def _text(content: object) -> str:
    """The text of a content, which is a text or a list of blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (one.get("text") for one in content if isinstance(one, dict))
    return "\n".join(text for text in texts if isinstance(text, str))
