"""Working memory: one structured text for each identity, kept across sessions.

It says what its owner has in mind: goals, facts, projects, people. It is Markdown with free
sections (`## Goals`), one fact under a name of its own, replaced whole or by section. Every recall
shows it, between delimiters; so delimiters within the text are removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from memoryd.engine import checks
from memoryd.engine.memories import Memories
from memoryd.engine.parts import Parts
from memoryd.engine.sessions.records import DEFAULT_IDENTITY
from memoryd.errors import InvalidInput
from memoryd.fields import KIND, WORKING_MEMORY
from memoryd.model import Memory

PREFIX = "working-memory:"  # of the name
MAX_INJECTED = 4000  # characters in a prompt, with the note that says what is missing
MAX_IDENTITY = checks.MAX_NAME - len(PREFIX)
_DELIMITER = re.compile(r"</?\s*working[_ -]?memory\b[^>\n]{0,200}>", re.IGNORECASE)
_FENCE = re.compile(r"```[a-z]*", re.IGNORECASE)
_HEADING = re.compile(r"##?[ \t]+(\S[^\n]*?)[ \t#]*")  # further levels are part of a section
_ANY_HEADING = re.compile(r"^##?(?=[ \t]+\S)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class WorkingMemory:
    """The working memory of an identity; an empty text if it has none."""

    identity: str
    text: str = ""
    id: str | None = None
    updated_at: float | None = None
    changed: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def sections(self) -> dict[str, str]:
        """By title, in order; what stands before the first heading is under ""."""
        return sections_of(self.text)


class WorkingMemories:
    """The working memories of all identities."""

    def __init__(self, parts: Parts, memories: Memories) -> None:
        self._parts = parts
        self._memories = memories

    async def get(self, identity: str | None = None) -> WorkingMemory:
        """The working memory of an identity. Raises InvalidInput."""
        who = checked_identity(identity)
        found = await self._memories.get(PREFIX + who)
        return _read(who, found)

    async def set(
        self, content: str, identity: str | None = None, section: str | None = None
    ) -> WorkingMemory:
        """Replace the text, or the text of one section; an empty one removes it. Raises
        InvalidInput."""
        who, title = checked_identity(identity), checks.label(section, "section")
        given = self._checked(content)

        def changed(before: str) -> str:
            return given if title is None else _with_section(before, title, given)

        # One change after the other: each reads what the one before has written.
        async with self._parts.locks.hold([f"0:{PREFIX}{who}"]):
            return await self._replace(who, changed)

    async def _replace(self, who: str, changed: Callable[[str], str]) -> WorkingMemory:
        before = await self._memories.get(PREFIX + who)
        old = before.content if before else ""
        text = changed(old)
        if text == old:
            return _read(who, before)
        if not text:
            if before is not None:
                await self._memories.forget(before.id)
            return WorkingMemory(who, changed=True)
        stored = await self._memories.remember_own(text, {KIND: WORKING_MEMORY}, name=PREFIX + who)
        return replace(_read(who, stored.memory), changed=True, warnings=stored.warnings)

    def _checked(self, content: object) -> str:
        if isinstance(content, str) and not content.strip():
            return ""
        text = checks.content(content, self._parts.memory.max_content_bytes)
        return without_delimiters(text)


def checked_identity(value: object) -> str:
    """The identity, or the default one. Raises InvalidInput."""
    identity = checks.label(value, "identity") or DEFAULT_IDENTITY
    if len(identity) > MAX_IDENTITY:
        raise InvalidInput(
            f"The identity has {len(identity)} characters; at most {MAX_IDENTITY} fit.",
            code="identity_invalid",
            hint="Choose a shorter one.",
        )
    return identity


def without_delimiters(text: str) -> str:
    """The text without what marks a working memory in a prompt, and without a fence around it."""
    lines = _DELIMITER.sub("", text).strip().splitlines()
    if len(lines) > 1 and _FENCE.fullmatch(lines[0].strip()) and lines[-1].strip() == "```":
        lines = lines[1:-1]
    return "\n".join(line.rstrip() for line in lines).strip()


def sections_of(text: str) -> dict[str, str]:
    """The sections of a Markdown text by title; what stands before the first is under ""."""
    found: dict[str, list[str]] = {}
    lines: list[str] = found.setdefault("", [])
    for line in text.splitlines():
        if heading := _HEADING.fullmatch(line):
            lines = found.setdefault(heading[1].strip(), [])
        else:
            lines.append(line)
    texts = {title: "\n".join(lines).strip() for title, lines in found.items()}
    return {title: text for title, text in texts.items() if title or text}


def injected(text: str) -> str:
    """The text for a prompt: at most MAX_INJECTED characters, cut at a line, which it says."""
    clean = without_delimiters(text)
    if len(clean) <= MAX_INJECTED:
        return clean
    lines = clean.splitlines()
    note = f"(cut: {len(lines)} of {len(lines)} lines are not shown)"  # as long as it can get
    room, kept = MAX_INJECTED - len(note) - 1, list[str]()
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    missing = len(lines) - len(kept)
    return "\n".join([*kept, f"(cut: {missing} of {len(lines)} lines are not shown)"])


def _with_section(text: str, title: str, content: str) -> str:
    """The text with this section replaced, added at the end, or removed if `content` is empty."""
    sections = sections_of(text)
    same = next((known for known in sections if known.casefold() == title.casefold()), title)
    sections[same] = _ANY_HEADING.sub("###", content)  # or it would be a section of its own
    return _joined({key: value for key, value in sections.items() if value or key != same})


def _joined(sections: Mapping[str, str]) -> str:
    parts: Sequence[str] = [
        f"## {title}\n{text}".strip() if title else text for title, text in sections.items()
    ]
    return "\n\n".join(part for part in parts if part)


def _read(identity: str, found: Memory | None) -> WorkingMemory:
    if found is None:
        return WorkingMemory(identity)
    at = found.updated_at or found.created_at
    return WorkingMemory(identity, found.content, found.id, at)
