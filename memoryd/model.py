"""The domain model: what a memory is, and when it expires.

Everything here is pure and standard library. The clock is always an argument, so that every rule
can be tested for any time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from memoryd.errors import InvalidInput

MICRO = 6  # decimal places of a time in seconds: Chroma changes further ones
CONTEXT_NAME = "context:"  # prefix, so that a context cannot replace a fact of the same name
DAY = 86_400.0
ROLE, SPEAKER = "role", "speaker"  # metadata keys of a message
ID = re.compile("[0-9a-f]{20}")  # ids of the engine; a name of this form could hide a memory
# Ids that memories may have which another program stored: no "#", which separates passages.
FOREIGN_ID = re.compile("[A-Za-z0-9][A-Za-z0-9._:@+=-]{0,127}")
CONFIDENCE = "confidence"  # metadata key: how certain a memory is, 0..1


class MemoryType(StrEnum):
    """The three types. Anything more specific is metadata."""

    CONVERSATION = "conversation"  # kept for some days, 30 by default
    FACT = "fact"  # kept until forgotten
    CONTEXT = "context"  # kept until the end of the local day


# Type names of older tools and prompts.
OLDER_NAMES = {
    "observation": MemoryType.CONVERSATION,
    "preference": MemoryType.FACT,
    "event": MemoryType.CONTEXT,
    "task": MemoryType.CONTEXT,
}


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory. Times are epoch seconds; `expires_at` None: never expires; `updated_at` None: it
    was not changed since it was created."""

    id: str
    type: MemoryType
    content: str
    created_at: float
    expires_at: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    session_id: str | None = None
    pinned: bool = False
    updated_at: float | None = None

    def copy(self) -> Memory:
        """A copy for a caller, who may change its metadata without effect on the original."""
        return replace(self, metadata=deepcopy(self.metadata)) if self.metadata else self


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The configured part of the expiry rule. `zone` None means the system's local time."""

    conversation: float = 30 * DAY
    zone: tzinfo | None = None


@dataclass(frozen=True, slots=True)
class Why:
    """The parts of a hit's score, in points of cosine; `rank.score` maps their sum to 0..1."""

    dense: float  # the cosine of its best passage with the query
    lexical: float  # word score times the weight of words for this query
    neighbour: float  # neighbour boost and session boost
    speaker: float  # the query refers to its speaker
    length: float  # negative for memories with many passages
    time: float = 0.0  # it is of a time that the query names
    recency: float = 0.0  # new, pinned
    project: float = 0.0  # it is of the caller's own project
    trust: float = 0.0  # how sure it is, and where it comes from
    rerank: float = 0.0  # change by the reranker


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that a search found. `passage`: the part of a long content that matched."""

    memory: Memory
    score: float
    passage: str | None = None
    folded: tuple[str, ...] = ()  # ids of lower-ranked memories that say nearly the same
    why: Why | None = None
    cut: bool = False  # the content was cut to fit a token budget
    deprecated: bool = False  # too little of its confidence is left


@dataclass(frozen=True, slots=True)
class Page:
    """What a search returns. `warnings` says where quality dropped, in plain sentences."""

    hits: tuple[Hit, ...]
    warnings: tuple[str, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)  # step: seconds


@dataclass(frozen=True, slots=True)
class Stored:
    """What a store returns: the memory as it is now, and what happened."""

    memory: Memory
    duplicate: bool = False  # an identical fact was already there
    replaced: bool = False  # another memory with this name was replaced
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Updated:
    """What an update returns: the memory as it is now, and whether anything differs from before."""

    memory: Memory
    changed: bool
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reviewed:
    """What a review returns: the memory as it is now, None if it was rejected and is gone."""

    id: str
    action: str
    memory: Memory | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of a list. `total`: how many match in all; `cursor`: argument for the next page, None
    after the last."""

    memories: tuple[Memory, ...]
    total: int
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Chain:
    """Memories that supersede each other, oldest first; `id`: the one that was asked for."""

    id: str
    memories: tuple[Memory, ...]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What a forget returns. `success` is true only if the memory existed and is gone."""

    success: bool
    id: str

    def __bool__(self) -> bool:
        return self.success


def parse_type(value: object) -> MemoryType:
    """The type with this name, older names included. Raises InvalidInput."""
    if isinstance(value, str):
        word = value[:50].strip().lower()
        if word in OLDER_NAMES:
            return OLDER_NAMES[word]
        try:
            return MemoryType(word)
        except ValueError:
            pass
    # Shortened for the comparison and for the message.
    given = value[:50] if isinstance(value, str) else type(value).__name__
    close = get_close_matches(given.lower(), list(MemoryType), n=1)
    raise InvalidInput(
        f"There is no memory type {given!r}." + (f" Did you mean {close[0]}?" if close else ""),
        code="type_unknown",
        hint="Use fact, conversation or context.",
    )


def end_of_day(now: float, zone: tzinfo | None = None) -> float:
    """The instant at which the local day that contains `now` ends.

    Days have 23, 24 or 25 hours, and some zones skip midnight itself. So the next midnight comes
    from the calendar, not from adding hours.
    """
    today = datetime.fromtimestamp(now, zone).date()
    midnight = datetime.combine(today + timedelta(days=1), datetime.min.time(), zone)
    return midnight.timestamp()  # a skipped midnight is the instant of the skip (PEP 495)


def who(memory: Memory) -> str:
    """Who said it: the speaker, else the role; "" if neither is known."""
    for key in (SPEAKER, ROLE):
        name = memory.metadata.get(key)
        if isinstance(name, str) and name.strip():
            return name.strip()[:100]
    return ""


def confidence(memory: Memory, default: float) -> float:
    """How certain a memory is, 0..1; `default` if it does not say."""
    value = memory.metadata.get(CONFIDENCE)
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value:
        return min(1.0, max(0.0, float(value)))
    return default


def identical(one: Memory, other: Memory) -> bool:
    """Equal in every field. In metadata 1, 1.0 and true differ, which `==` takes for equal."""
    plain = (replace(one, metadata={}), replace(other, metadata={}))
    texts = [json.dumps(memory.metadata, sort_keys=True) for memory in (one, other)]
    return plain[0] == plain[1] and texts[0] == texts[1]


def default_expiry(type: MemoryType, created_at: float, lifetimes: Lifetimes) -> float | None:
    """When a memory of this type expires by default; None: never."""
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
    """When this memory expires; None: never. A pin beats the override, the override beats the
    type."""
    if pinned:
        return None
    return default_expiry(type, created_at, lifetimes) if override is None else override


def is_expired(memory: Memory, now: float) -> bool:
    """True from the instant `expires_at` on; a pinned memory never expires."""
    return not memory.pinned and memory.expires_at is not None and now >= memory.expires_at
