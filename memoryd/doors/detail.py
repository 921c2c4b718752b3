"""Owner operations that show: one memory with its surroundings, the transcript of a session, and
the values that a list can be filtered by."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import tzinfo
from hashlib import sha256
from typing import Any

from memoryd.doors import render
from memoryd.doors.manage import memory_id
from memoryd.doors.session_tools import owner_facts
from memoryd.engine.details import Detail
from memoryd.engine.engine import Engine
from memoryd.engine.turn_keys import order_of
from memoryd.fields import (
    COMMIT,
    CONFIRMED_AT,
    FILES,
    FROM_SESSION,
    KIND,
    NEEDS_REVIEW,
    PROJECT,
    REVIEW_REASON,
    SOURCE,
    STALE_FILES,
    TAGS,
    TOOL,
    TOOLS_USED,
    USER_VERIFIED,
    aliases_of,
    confidence_of,
    is_note,
    kind_of,
    moment_of,
    texts_of,
)
from memoryd.model import ROLE, SPEAKER, Memory

Arguments = dict[str, Any]
SHORT = 200  # characters of a memory that is only mentioned
MAX_VALUES = 100  # of a menu; twice as many tags
ORIGINAL_ID = "original_id"  # of what another program stored


async def _memory_detail(engine: Engine, given: Arguments) -> Arguments:
    """Everything about one memory. Its text is exact: it is shown to its owner, perhaps to edit."""
    found = await engine.details.detail(memory_id(given, "memory_detail", "show"))
    memory, zone = found.memory, engine.zone
    return {
        "memory": render.exact_memory(memory, zone),
        "provenance": _provenance(found),
        "confidence": _confidence(found, zone),
        "uses": {"count": found.uses, "last": _moment(found.last_used, zone)},
        "expiry": _expiry(memory, zone),
        "review": {
            "needs_review": memory.metadata.get(NEEDS_REVIEW) is True,
            "reason": _text(memory, REVIEW_REASON),
            "user_verified": memory.metadata.get(USER_VERIFIED) is True,
            "confirmed_at": _moment(moment_of(memory, CONFIRMED_AT), zone),
        },
        "files": _files(memory, zone),
        **_surroundings(found, zone),
        "note": {"name": memory.name, "aliases": aliases_of(memory)} if is_note(memory) else None,
    }


def _surroundings(found: Detail, zone: tzinfo | None) -> Arguments:
    own, nearest = found.memory.id, found.nearest
    return {
        "relations": [
            short(one.memory, zone)
            | {"relation": one.name, "direction": "out" if one.outward else "in"}
            for one in found.relations
        ],
        "chain": [short(one, zone) | {"is_this": one.id == own} for one in found.chain],
        "neighbours": [
            short(one, zone) | {"role": _text(one, ROLE), "is_this": one.id == own}
            for one in found.neighbours
        ],
        "nearest": None
        if nearest is None
        else [short(one, zone) | {"score": round(cosine, 4)} for one, cosine in nearest],
        "archives": [short(one, zone) | {"name": one.name} for one in found.archives],
        "pushes": [
            {
                "session_id": session,
                "session_title": title,
                "at": render.moment(push.at, zone),
                "event": push.event,
                "why": push.why,
            }
            for session, title, push in found.pushes
        ],
    }


def _provenance(found: Detail) -> Arguments:
    """Where it came from."""
    memory = found.memory
    keys = (SOURCE, TOOL, ROLE, SPEAKER, FROM_SESSION, PROJECT, COMMIT, ORIGINAL_ID)
    return {key: _text(memory, key) for key in keys} | {
        "trust": found.trust,
        "tools_used": texts_of(memory, TOOLS_USED),
        "session_id": memory.session_id,
        "session_title": found.session_title,
        "sha256": sha256(memory.content.encode()).hexdigest(),
    }


def _confidence(found: Detail, zone: tzinfo | None) -> Arguments:
    stored, half_life = confidence_of(found.memory), found.half_life
    since = render.moment(found.counted_from, zone)
    if half_life is None:
        sentence = f"{stored:.2f}; memories like this one keep it."
    else:
        kind = kind_of(found.memory)
        sentence = f"{stored:.2f} on {since[:10]}; a {kind} loses half of it in {half_life:g} days."
    return {
        "now": round(found.confidence, 4),
        "stored": stored,
        "half_life_days": half_life,
        "counted_from": since,
        "deprecated": found.deprecated,
        "sentence": sentence,
    }


def _expiry(memory: Memory, zone: tzinfo | None) -> Arguments:
    ends = None if memory.expires_at is None else render.moment(memory.expires_at, zone)
    if memory.pinned:
        sentence = "It is pinned and does not expire."
    elif ends is None:
        sentence = "It is kept until it is forgotten."
    else:
        sentence = f"It expires on {ends[:10]} at {ends[11:16]}."
    return {"expires_at": ends, "pinned": memory.pinned, "sentence": sentence}


def _files(memory: Memory, zone: tzinfo | None) -> list[Arguments]:
    """The files that it is about; `changed_at` of a stale one, null if the file is gone."""
    held = memory.metadata.get(STALE_FILES)
    stale = held if isinstance(held, dict) else {}
    names = dict.fromkeys([*texts_of(memory, FILES), *map(str, stale)])
    return [
        {
            "file": name,
            "stale": name in stale,
            "changed_at": _moment(
                at if isinstance(at := stale.get(name), int | float) else None, zone
            ),
        }
        for name in names
    ]


def short(memory: Memory, zone: tzinfo | None) -> Arguments:
    """A memory that is only mentioned."""
    line = " ".join(memory.content[: 4 * SHORT].split())
    return {
        "id": memory.id,
        "text": line if len(line) <= SHORT else f"{line[: SHORT - 1]}\u2026",
        "type": str(memory.type),
        "kind": kind_of(memory),
        "created_at": render.moment(memory.created_at, zone),
    }


def _text(memory: Memory, key: str) -> str | None:
    value = memory.metadata.get(key)
    return value if isinstance(value, str) else None


def _moment(at: float | None, zone: tzinfo | None) -> str | None:
    return None if at is None else render.moment(at, zone)


async def _transcript(engine: Engine, given: Arguments) -> Arguments:
    """A page of a session as a conversation: messages and archives in order, with exact text."""
    found = await engine.sessions.transcript(given.pop("session_id", ""), **given)
    archived = max((_whole(marker.get("upto")) for marker in found.facts.markers), default=-1)
    messages: list[tuple[tuple[int, int], Arguments]] = []
    for said in found.messages:
        order = order_of(said)
        marks = {"in_window": said.id in found.in_window, "archived": order <= archived}
        messages.append(((order, 0), _message(said, engine.zone) | marks))
    archives = [
        ((_whole(marker.get("upto")), 1), _archive(marker, memory, engine.zone))
        for marker, memory in found.archives
    ]
    items = [item for _, item in sorted([*messages, *archives], key=lambda pair: pair[0])]
    return {
        "session": owner_facts(found.facts, engine.zone),
        "items": items,
        "before": found.before,
        "total": found.facts.messages,
    }


def _message(said: Memory, zone: tzinfo | None) -> Arguments:
    made: Arguments = {
        "item": "message",
        "id": said.id,
        "role": said.metadata[ROLE],
        "text": said.content,
        "at": render.moment(said.created_at, zone),
        "order": order_of(said),
    }
    marks = {key: _text(said, key) for key in (SPEAKER, SOURCE, TOOL)}
    made |= {key: value for key, value in marks.items() if value is not None}
    made |= {TOOLS_USED: used} if (used := texts_of(said, TOOLS_USED)) else {}
    own = {key: value for key, value in said.metadata.items() if key not in render.OF_MESSAGES}
    return made | {"metadata": own}


def _archive(marker: Mapping[str, Any], memory: Memory | None, zone: tzinfo | None) -> Arguments:
    at = marker.get("archived_at")
    return {
        "item": "archive",
        "id": memory.id if memory else None,
        "name": str(marker.get("archive_name", "")),
        "text": memory.content if memory else None,
        "at": _moment(at if isinstance(at, int | float) else None, zone),
        "messages": _whole(marker.get("messages")),
        "upto": _whole(marker.get("upto")),
    }


def _whole(value: object) -> int:
    return value if type(value) is int else 0


async def _filters(engine: Engine, given: Arguments) -> Arguments:
    """The values that memories can be filtered by, the most frequent first."""
    census = await engine.censuses.census()
    return {
        "types": dict(census.types),
        "kinds": render.values(census.values[KIND], MAX_VALUES),
        "projects": render.values(census.values[PROJECT], MAX_VALUES),
        "tags": render.values(census.values[TAGS], 2 * MAX_VALUES),
        "sources": render.values(census.values[SOURCE], MAX_VALUES),
        "pinned": census.pinned,
        "needs_review": census.needs_review,
        "sessions": [
            {"session_id": id, "title": title, "last_at": render.moment(at, engine.zone)}
            for id, title, at in engine.sessions.recent(MAX_VALUES)
        ],
    }


CALLS: dict[str, Callable[[Engine, Arguments], Awaitable[Arguments]]] = {
    "memory_detail": _memory_detail,
    "transcript": _transcript,
    "filters": _filters,
}
ARGUMENTS = {
    "memory_detail": {"memory_id"},
    "transcript": {"session_id", "before", "limit"},
    "filters": set(),
}
