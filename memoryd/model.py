"""The words: what a memory is, how long it lives, what may be in its metadata.

Everything here is pure and standard library. The clock is always an argument: a rule that
reads the time itself cannot be tested on the day it matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from difflib import get_close_matches
from enum import StrEnum
from hashlib import blake2b
from typing import Any

from memoryd.errors import InvalidInput

MICRO = 6  # digits of a time in seconds: Chroma moves what comes after them
CONTEXT_NAME = "context:"  # a context must not replace a fact that has the same name
DAY = 86_400.0
ROLE, SPEAKER = "role", "speaker"  # metadata of a message


class MemoryType(StrEnum):
    """The three types. Everything richer is metadata."""

    CONVERSATION = "conversation"  # lives some days, 30 by default
    FACT = "fact"  # kept
    CONTEXT = "context"  # until the end of the local day


# Names that older tools and prompts use.
OLDER_NAMES = {
    "observation": MemoryType.CONVERSATION,
    "preference": MemoryType.FACT,
    "event": MemoryType.CONTEXT,
    "task": MemoryType.CONTEXT,
}


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory. Times are epoch seconds; `expires_at` is None for what is kept."""

    id: str
    type: MemoryType
    content: str
    created_at: float
    expires_at: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    session_id: str | None = None
    pinned: bool = False

    def copy(self) -> Memory:
        """One to hand out: what a caller does to its metadata stays with the caller."""
        return replace(self, metadata=deepcopy(self.metadata)) if self.metadata else self


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The configured part of the expiry rule. `zone` None means the system's local time."""

    conversation: float = 30 * DAY
    zone: tzinfo | None = None


@dataclass(frozen=True, slots=True)
class Why:
    """What a hit's score is made of, in points of cosine; their sum is squeezed into 0..1."""

    dense: float  # the cosine of its best passage with the query
    lexical: float  # how much of the query's words it has, times what words are worth here
    neighbour: float  # lent by the messages next to it, and by the best of its session
    speaker: float  # the query means the one who said it
    length: float  # held against memories of many passages
    recency: float = 0.0  # new, pinned, sure
    rerank: float = 0.0  # what the second look changed


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that a search found. `passage` is the part of a long content that matched."""

    memory: Memory
    score: float
    passage: str | None = None
    folded: tuple[str, ...] = ()  # ids of memories that say nearly the same, found below it
    why: Why | None = None
    cut: bool = False  # the content is a part of the memory, cut to a budget


@dataclass(frozen=True, slots=True)
class Page:
    """What a search returns. `warnings` says where quality dropped, in plain sentences."""

    hits: tuple[Hit, ...]
    warnings: tuple[str, ...] = ()
    timings: Mapping[str, float] | None = None  # step: seconds, if the search explains itself


@dataclass(frozen=True, slots=True)
class Stored:
    """What a store returns: the memory as it is now, and how it came to be."""

    memory: Memory
    duplicate: bool = False  # an identical fact was already there
    replaced: bool = False  # something else had this name before
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What a forget returns. `success` is true only if the memory existed and is gone."""

    success: bool
    id: str

    def __bool__(self) -> bool:
        return self.success


@dataclass(frozen=True, slots=True)
class Filter:
    """Exact conditions on a memory. Times are epoch seconds: since <= created_at < until."""

    type: MemoryType | None = None
    session_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    since: float | None = None
    until: float | None = None


def parse_type(value: object) -> MemoryType:
    """The type that a word stands for, older names included; InvalidInput for any other."""
    if isinstance(value, str):
        word = value[:50].strip().lower()
        if word in OLDER_NAMES:
            return OLDER_NAMES[word]
        try:
            return MemoryType(word)
        except ValueError:
            pass
    # Short: to look for what is near, and to be shown.
    given = value[:50] if isinstance(value, str) else type(value).__name__
    near = get_close_matches(given.lower(), list(MemoryType), n=1)
    raise InvalidInput(
        f"There is no memory type {given!r}." + (f" Did you mean {near[0]}?" if near else ""),
        code="type_unknown",
        hint="Use fact, conversation or context.",
    )


def end_of_day(now: float, zone: tzinfo | None = None) -> float:
    """The instant at which the local day that contains `now` ends.

    Days have 23, 24 or 25 hours, and in some zones midnight itself is skipped: so the next
    midnight is looked up on the calendar, never computed by adding hours.
    """
    today = datetime.fromtimestamp(now, zone).date()
    midnight = datetime.combine(today + timedelta(days=1), datetime.min.time(), zone)
    return midnight.timestamp()  # a skipped midnight is the instant of the skip (PEP 495)


def who(memory: Memory) -> str:
    """The one who said it: the speaker, else the role; "" if nobody is named."""
    for key in (SPEAKER, ROLE):
        name = memory.metadata.get(key)
        if isinstance(name, str) and name.strip():
            return name.strip()[:100]
    return ""


def lead_of(memory: Memory) -> str:
    """What a model reads before the text: who said it."""
    speaker = who(memory)
    return f"{speaker}: " if speaker else ""


def said_key(memory: Memory) -> int:
    """A number for what a model reads of a memory, the same in every run."""
    said = lead_of(memory) + memory.content
    return int.from_bytes(blake2b(said.encode(), digest_size=8).digest(), "big")


def default_expiry(type: MemoryType, created_at: float, lifetimes: Lifetimes) -> float | None:
    """When a memory of this type expires if nobody says otherwise; None: never."""
    if type is MemoryType.CONVERSATION:
        return created_at + lifetimes.conversation
    if type is MemoryType.CONTEXT:
        return end_of_day(created_at, lifetimes.zone)
    return None


def expiry(
    type: MemoryType,
    created_at: float,
    lifetimes: Lifetimes,
    *,
    override: float | None = None,
    pinned: bool = False,
) -> float | None:
    """When this memory expires: a pin beats the override, the override beats the type."""
    if pinned:
        return None
    return default_expiry(type, created_at, lifetimes) if override is None else override


def is_expired(memory: Memory, now: float) -> bool:
    """True from the very instant of `expires_at` on; a pinned memory never expires."""
    return not memory.pinned and memory.expires_at is not None and now >= memory.expires_at
