"""Markdown that a person wrote for agents, such as a MEMORY.md, HISTORY.md, CLAUDE.md, AGENTS.md or
.cursorrules: every block of it is a fact.

The headings above a block become its tags. A block under a heading that begins with a date, or one
that begins with a date in brackets, is of that time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

from memoryd.formats.blocks import parse_blocks
from memoryd.formats.memory_md import COMMENT

NAMES = re.compile(
    r"(?:memory|history(?:-\d{4,5}-\d\d)?|claude(?:\.local)?|agents)\.md|\.cursorrules", re.I
)
MAX_TAG = 100  # characters of a heading that becomes a tag
# Headings that name the file, and say nothing about what is below them.
TITLES = frozenset(
    "memory memories history claude claude.md agents agents.md cursorrules .cursorrules".split()
)


@dataclass(slots=True)
class Fact:
    """What a block says. `at`: the time that it is of, as epoch seconds."""

    line: int
    text: str
    tags: list[str]
    at: float | None


def is_named(name: str) -> bool:
    """Whether a file has the name of such a file."""
    return NAMES.fullmatch(PurePath(name).name) is not None


def read(text: str) -> list[Fact]:
    """The facts of a text, each once, in the order of the text."""
    facts: dict[str, Fact] = {}
    for block in parse_blocks(text):
        said = COMMENT.sub("", block.text).strip()  # a mirror writes comments at its items
        if not said:
            continue
        found = facts.setdefault(said, Fact(block.line, said, [], block.at))
        found.tags += [tag for tag in tags_of(block.headings) if tag not in found.tags]
    return list(facts.values())


def tags_of(headings: Iterable[str]) -> list[str]:
    """The tags of what is below these headings."""
    titles = (" ".join(heading.split())[:MAX_TAG].strip() for heading in headings)
    return list(dict.fromkeys(title for title in titles if title and title.lower() not in TITLES))
