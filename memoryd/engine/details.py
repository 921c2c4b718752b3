"""Everything that is known about one memory, for a person who looks at it. It counts as no use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from memoryd.engine.chains import Chains
from memoryd.engine.filters import Filter
from memoryd.engine.index.entries import Entry
from memoryd.engine.index.rounded import Floats
from memoryd.engine.index.view import View
from memoryd.engine.lifecycle.decay import clock_start, confidence_now, is_deprecated
from memoryd.engine.lifecycle.uses import Uses
from memoryd.engine.memories import Memories
from memoryd.engine.parts import Parts
from memoryd.engine.push.pushes import Push, Pushes
from memoryd.engine.sessions.records import TITLE, find_record, markers_of, text_of
from memoryd.engine.turn_keys import is_message, order_of
from memoryd.fair import in_thread
from memoryd.fields import LAST_USED_AT, RELATIONS, half_life_of, ids_of, moment_of, trust_of
from memoryd.model import Memory, is_expired

NEIGHBOURS = 2  # on each side
NEAREST = 5
MAX_PUSHES = 50


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation with another memory; `outward`: it is this one that names the other."""

    name: str
    outward: bool
    memory: Memory


@dataclass(frozen=True, slots=True)
class Detail:
    """One memory with its surroundings."""

    memory: Memory
    trust: float
    session_title: str | None
    confidence: float  # now
    half_life: float | None  # days
    counted_from: float  # when its confidence was last renewed
    deprecated: bool
    uses: int
    last_used: float | None
    relations: tuple[Relation, ...]
    chain: tuple[Memory, ...]  # oldest first, with itself; empty if it is alone
    neighbours: tuple[Memory, ...]  # in its session, in order, with itself
    nearest: tuple[tuple[Memory, float], ...] | None  # with the cosine; None: it cannot be told
    archives: tuple[Memory, ...]  # that its message is part of
    pushes: tuple[tuple[str, str | None, Push], ...]  # session, its title, push; newest first


class Details:
    """The operation `detail`."""

    def __init__(
        self, parts: Parts, memories: Memories, chains: Chains, uses: Uses, pushes: Pushes
    ) -> None:
        self._parts = parts
        self._memories = memories
        self._chains = chains
        self._uses = uses
        self._pushes = pushes

    async def detail(self, memory_id: str) -> Detail:
        """Raises NotFound."""
        memory = await self._memories.existing(memory_id)
        chain = (await self._chains.chain(memory.id)).memories
        index, now, lifecycle = self._parts.index, self._parts.clock(), self._parts.lifecycle
        around = index.around(memory.id, NEIGHBOURS, NEIGHBOURS) if memory.session_id else []
        waiting = self._uses.all().get(memory.id)
        nearest = await self._nearest(memory)
        return Detail(
            memory=memory,
            trust=trust_of(memory, lifecycle.trust),
            session_title=self._title(memory.session_id),
            confidence=confidence_now(memory, now),
            half_life=half_life_of(memory),
            counted_from=clock_start(memory),
            deprecated=is_deprecated(memory, now, lifecycle.deprecated_below),
            uses=self._uses.total(memory),
            last_used=waiting.last if waiting else moment_of(memory, LAST_USED_AT),
            relations=tuple(self._relations(memory, now)),
            chain=chain if len(chain) > 1 else (),
            neighbours=tuple(one.copy() for one in around if not is_expired(one, now)),
            nearest=nearest,
            archives=self._archives(memory),
            pushes=tuple(self._pushed(memory.id)),
        )

    def _title(self, session_id: str | None) -> str | None:
        return text_of(find_record(self._parts.index, session_id), TITLE) if session_id else None

    def _relations(self, memory: Memory, now: float) -> list[Relation]:
        index, found = self._parts.index, []
        named = [(key, True, index.get(id)) for key in RELATIONS for id in ids_of(memory, key)]
        naming = sorted(index.relations.naming([memory.id]))
        others = [other for id in naming if (other := index.get(id))]
        inward = [
            (key, False, other)
            for key in RELATIONS
            for other in others
            if memory.id in ids_of(other, key)
        ]
        for key, outward, other in (*named, *inward):
            if other is not None and not is_expired(other, now):
                found.append(Relation(key, outward, other.copy()))
        return found

    def _archives(self, memory: Memory) -> tuple[Memory, ...]:
        """The archive that covers its place in the session, if it is a message."""
        if memory.session_id is None or not is_message(memory):
            return ()
        record = find_record(self._parts.index, memory.session_id)
        marker = covering(markers_of(record), order_of(memory))
        found = self._parts.index.get(str(marker.get("archive_id"))) if marker else None
        return (found.copy(),) if found else ()

    def _pushed(self, id: str) -> list[tuple[str, str | None, Push]]:
        held = self._pushes.all()
        found = [(s, push) for s, pushes in held.items() for push in pushes if id in push.ids]
        found.sort(key=lambda pair: -pair[1].at)
        return [(session, self._title(session), push) for session, push in found[:MAX_PUSHES]]

    async def _nearest(self, memory: Memory) -> tuple[tuple[Memory, float], ...] | None:
        """The memories that mean most nearly the same; None without vectors in RAM."""
        index, now = self._parts.index, self._parts.clock()
        record = index.record(memory.id)
        if record is None or not record.passages:
            return None
        query = np.mean([passage.vector for passage in record.passages], axis=0)
        query = (query / max(float(np.linalg.norm(query)), 1e-9)).astype(np.float32)
        filter = Filter(hides_records=True, without=frozenset([memory.id]))
        view = index.view([], filter, now, self._parts.search.quiet_weight)
        with index.slot_versions.watched():
            best = await in_thread(partial(_best, view, query, index.entries()))
        return tuple((one.copy(), cosine) for one, cosine in best if index.get(one.id))


def covering(markers: list[Mapping[str, Any]], order: int) -> Mapping[str, Any] | None:
    """The marker of the archive that has the message with this order; None if none has."""
    ends = sorted((m for m in markers if type(m.get("upto")) is int), key=lambda m: int(m["upto"]))
    return next((marker for marker in ends if marker["upto"] >= order), None)


def _best(view: View, query: Floats, entries: Sequence[Entry | None]) -> list[tuple[Memory, float]]:
    """The nearest memories. Runs on a thread."""
    meaning = np.where(view.allowed, view.signals(query, count=NEAREST).meaning, -1.0)
    top = np.argsort(-meaning, kind="stable")[:NEAREST]
    found = [(entries[slot], float(meaning[slot])) for slot in top.tolist()]
    return [(entry.memory, cosine) for entry, cosine in found if entry and cosine > 0]
