"""The owner's operations that show what memory knows: `ask`, `map` and `map_points`."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from datetime import tzinfo
from typing import Any

import anyio.to_thread

from memoryd.doors import render
from memoryd.engine import checks
from memoryd.engine.ask.ask import Answer
from memoryd.engine.ask.extract import Sentence, Source
from memoryd.engine.engine import Engine
from memoryd.engine.map.map import Computing
from memoryd.engine.map.points import TYPES, Drawn
from memoryd.fields import kind_of, project_of
from memoryd.model import Memory, who
from memoryd.recall_text import NOTICE
from memoryd.sanitize import as_data

Arguments = dict[str, Any]
ARGUMENTS = {
    "ask": {
        *("question", "memory_type", "session_id", "metadata", "since", "until", "project"),
        *("limit", "written"),
    },
    "map": {"points", "renew"},
    "map_points": {"revision", "indexes"},
}
MAX_READ = 50  # points of one call whose texts are answered
MAX_TEXT = 200  # characters of each


async def _ask(engine: Engine, given: Arguments) -> Arguments:
    return answer(await engine.ask(given.pop("question", None), **given), engine.zone)


async def _map(engine: Engine, given: Arguments) -> Arguments:
    wants_points = checks.flag(given.get("points", False), "points")
    found = engine.map.ask(renew=checks.flag(given.get("renew", False), "renew"))
    if isinstance(found, Computing):
        return {"state": "computing", "progress": round(found.progress, 3)}
    drawn = drawn_map(found, engine.zone) | {"updating": engine.map.updating}
    if not wants_points:
        return drawn
    encoded = await anyio.to_thread.run_sync(base64.b64encode, found.blob)
    return drawn | {"points": encoded.decode()}


async def _map_points(engine: Engine, given: Arguments) -> Arguments:
    indexes = given.get("indexes", [])
    found = engine.map.memories(given.get("revision"), indexes)
    reads = len(found) <= MAX_READ
    points = [
        {"index": index} | _point(memory, engine.zone, reads=reads)
        for index, memory in zip(indexes, found, strict=True)
    ]
    return {"notice": NOTICE, "points": points}


CALLS: dict[str, Callable[[Engine, Arguments], Awaitable[Arguments]]] = {
    "ask": _ask,
    "map": _map,
    "map_points": _map_points,
}


def answer(found: Answer, zone: tzinfo | None) -> Arguments:
    """An answer with its sources."""
    ids = {source.number: source.hit.memory.id for source in found.sources}
    made: Arguments = {
        "notice": NOTICE,
        "question": as_data(found.question),
        "known": found.known,
        "by": found.by,
        "answer": as_data(found.text),
        "sentences": [_sentence(one, ids, zone) for one in found.sentences],
        "citations": [_citation(source, zone) for source in found.sources],
        "warnings": list(found.warnings),
    }
    if not found.known:
        made["closest"] = [_citation(source, zone) for source in found.closest]
    return made


def _sentence(one: Sentence, ids: dict[int, str], zone: tzinfo | None) -> Arguments:
    cited = [ids[number] for number in one.numbers]
    made: Arguments = {
        "text": as_data(one.text),
        "numbers": list(one.numbers),
        "memory_id": cited[0],
        "memory_ids": cited,
    }
    if one.since is not None:
        made["since"] = render.moment(one.since, zone)
    if one.earlier is not None:
        made["earlier"] = True
    return made


def _citation(source: Source, zone: tzinfo | None) -> Arguments:
    memory, changed = source.hit.memory, source.hit.memory.updated_at
    texts = {
        "kind": kind_of(memory),
        "project": project_of(memory),
        "session_id": memory.session_id,
        "name": memory.name,
        "who": who(memory) or None,
    }
    return {
        "number": source.number,
        "memory_id": memory.id,
        "passage": as_data(source.passage),
        "score": round(source.hit.score, 4),
        "type": str(memory.type),
        "created_at": render.moment(memory.created_at, zone),
        "updated_at": None if changed is None else render.moment(changed, zone),
        **{key: None if text is None else as_data(text) for key, text in texts.items()},
    }


def drawn_map(found: Drawn, zone: tzinfo | None) -> Arguments:
    """A revision of the map, without its points."""
    labels = [
        {
            "x": round(label.x),
            "y": round(label.y),
            "text": as_data(label.text),
            "count": label.count,
        }
        for label in found.labels
    ]
    fields = {
        "types": [str(type) for type in TYPES],
        "kinds": [as_data(kind) for kind in found.kinds],
        "projects": [as_data(project) for project in found.projects],
    }
    return {
        "state": "ready",
        "revision": found.revision,
        "made_at": render.moment(found.made_at, zone),
        "count": found.count,
        "left_out": found.left_out,
        "labels": labels,
        "fields": fields,
    }


def _point(memory: Memory | None, zone: tzinfo | None, *, reads: bool) -> Arguments:
    if memory is None:
        return {"memory_id": None}
    if not reads:
        return {"memory_id": memory.id}
    text = " ".join(memory.content[: 2 * MAX_TEXT].split())
    return {
        "memory_id": memory.id,
        "text": as_data(text[:MAX_TEXT]) + ("\u2026" if len(text) > MAX_TEXT else ""),
        "type": str(memory.type),
        "created_at": render.moment(memory.created_at, zone),
    }
