"""The order of messages in each session, and their speakers.

The neighbours of a message are looked up here, so that an answer can be found by the question
before it. Only ids, times and numbers are kept. The words of a neighbour are never copied into a
message, so forgetting a message removes all of it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from memoryd.engine.index.terms import QUIET, term, terms
from memoryd.engine.turn_keys import order_of
from memoryd.model import SPEAKER, Memory, MemoryType

Numbers = NDArray[np.int32]
Codes = NDArray[np.uint64]
NONE = -1

USER, ASSISTANT = term("user"), term("assistant")
ROLES = frozenset(
    {USER, ASSISTANT, term("system"), term("tool")}
)  # a query refers to these by pronouns only
ME = frozenset(term(word) for word in ("i", "my", "me", "mine", "myself"))
YOU = frozenset(term(word) for word in ("you", "your", "yours"))
DID, YOU_DID = term("did"), term("you")

_Place = tuple[float, int, str, int]  # created, order, id, slot: sorts in the order of the session


def speaker_of(memory: Memory) -> str:
    """The name of the speaker; "" where only a role is known: a role is not searched as a word."""
    name = memory.metadata.get(SPEAKER)
    return name.strip()[:100] if isinstance(name, str) else ""


class Turns:
    """Neighbours of slots and of rows, updated with every change."""

    def __init__(self) -> None:
        self._sessions: dict[str, list[_Place]] = {}
        # By slot: the message before and after. By row: the last passage of a message and the
        # first passage of the next one are neighbours.
        self._slots = (GrowingArray(), GrowingArray())
        self._rows = (GrowingArray(), GrowingArray())
        self._edges: dict[int, tuple[int, int]] = {}  # slot: its first and last row

    def put(self, slot: int, memory: Memory, rows: list[int]) -> None:
        """Link a new memory with its neighbours, if it is a message of a session."""
        if memory.type is not MemoryType.CONVERSATION or memory.session_id is None:
            return
        self._edges[slot] = (rows[0], rows[-1])
        places = self._sessions.setdefault(memory.session_id, [])
        place = _place(memory, slot)
        insort(places, place)
        at = bisect_left(places, place)
        self._link(places[at - 1][3] if at else NONE, slot)
        self._link(slot, places[at + 1][3] if at + 1 < len(places) else NONE)

    def remove(self, slot: int, memory: Memory) -> None:
        """Unlink a memory; its neighbours become neighbours of each other."""
        if slot not in self._edges or memory.session_id is None:
            return
        before, after = (int(side.values[slot]) for side in self._slots)
        self._link(before, NONE)
        self._link(NONE, slot)
        self._link(slot, NONE)
        self._link(before, after)
        del self._edges[slot]
        places = self._sessions[memory.session_id]
        del places[bisect_left(places, _place(memory, slot))]
        if not places:
            del self._sessions[memory.session_id]

    def around(self, slot: int, before: int, after: int) -> list[int]:
        """A slot with those before and after it in its session, in order."""
        found = [slot]
        for count, side in ((before, 0), (after, 1)):
            at = slot
            for _ in range(count):
                at = int(self._slots[side].values[at]) if at in self._edges else NONE
                if at == NONE:
                    break
                found.insert(0 if side == 0 else len(found), at)
        return found

    def first_said(self, session_id: str) -> float | None:
        """The time of the first message of a session; None if it has none."""
        places = self._sessions.get(session_id)
        return places[0][0] if places else None

    def last_said(self) -> Iterator[tuple[str, float]]:
        """Every session, and the time of its last message."""
        return ((session, places[-1][0]) for session, places in self._sessions.items())

    def sessions(self) -> set[str]:
        """Every session with a message."""
        return set(self._sessions)

    def of_slots(self, count: int) -> tuple[Numbers, Numbers]:
        """Copies, by slot: the slot before, the slot after; NONE where there is none."""
        return self._slots[0].first(count), self._slots[1].first(count)

    def of_rows(self, count: int) -> tuple[Numbers, Numbers]:
        """The same by row."""
        return self._rows[0].first(count), self._rows[1].first(count)

    def _link(self, left: int, right: int) -> None:
        """Make two slots neighbours; NONE: the other slot has no neighbour on that side."""
        if left != NONE:
            self._slots[1].set(left, right)
            self._rows[1].set(self._edges[left][1], self._edge(right, 0))
        if right != NONE:
            self._slots[0].set(right, left)
            self._rows[0].set(self._edges[right][0], self._edge(left, 1))

    def _edge(self, slot: int, side: int) -> int:
        return NONE if slot == NONE else self._edges[slot][side]


class Speakers:
    """By slot, a code for the speaker; and the speakers that a query refers to."""

    def __init__(self) -> None:
        self._codes = np.zeros(1024, dtype=np.uint64)
        self._known: dict[int, int] = {}  # code: how many slots
        self._named: dict[int, set[int]] = {}  # term: codes of the speakers whose name has it

    def put(self, slot: int, name: str) -> None:
        while slot >= len(self._codes):
            self._codes = np.concatenate([self._codes, np.zeros_like(self._codes)])
        code = self._codes[slot] = _code(name)
        if code and self._count(int(code), 1) == 1:
            for part in terms(name):
                self._named.setdefault(part, set()).add(int(code))

    def remove(self, slot: int, name: str) -> None:
        code = int(self._codes[slot])
        self._codes[slot] = 0
        if code and self._count(code, -1) == 0:
            for part in set(terms(name)):
                self._named[part].discard(code)
                if not self._named[part]:
                    del self._named[part]

    def meant(self, query: Iterable[int]) -> list[int]:
        """Codes of the speakers that the query refers to; 'I' is the user, 'you' the assistant."""
        words = list(query)
        asked = set(words)
        codes = {code for part in asked - QUIET for code in self._named.get(part, ())} - ROLES
        # "What did you say about my plan?" asks for the assistant's words.
        if (DID, YOU_DID) in pairwise(words):
            codes.add(ASSISTANT)
        elif asked & ME:
            codes.add(USER)
        elif asked & YOU:
            codes.add(ASSISTANT)
        return [code for code in codes if code in self._known]

    def codes(self, count: int) -> Codes:
        """A copy, by slot."""
        return self._codes[:count].copy()

    def _count(self, code: int, change: int) -> int:
        count = self._known.get(code, 0) + change
        if count:
            self._known[code] = count
        else:
            del self._known[code]
        return count


class GrowingArray:
    """An array of numbers by slot or row, NONE until set, that grows as needed."""

    def __init__(self) -> None:
        self.values: Numbers = np.full(1024, NONE, dtype=np.int32)

    def set(self, at: int, value: int) -> None:
        while at >= len(self.values):
            self.values = np.concatenate([self.values, np.full_like(self.values, NONE)])
        self.values[at] = value

    def first(self, count: int) -> Numbers:
        """A copy of the first `count`."""
        if count <= len(self.values):
            return self.values[:count].copy()
        found = np.full(count, NONE, dtype=np.int32)
        known = self.values[:count]
        found[: len(known)] = known
        return found


def _place(memory: Memory, slot: int) -> _Place:
    return (memory.created_at, order_of(memory), memory.id, slot)


def _code(name: str) -> int:
    return term(name.casefold()) if name else 0
