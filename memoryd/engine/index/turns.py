"""The order of messages in each session.

The neighbours of a message are looked up here, so that an answer can be found by the question
before it. Only numbers are kept. The words of a neighbour are never copied into a message, so
forgetting a message removes all of it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from memoryd.engine.index.columns import TYPE_CODE, Columns, text_code
from memoryd.engine.index.growing_array import NONE, GrowingArray, Numbers
from memoryd.model import MemoryType

CONVERSATION = TYPE_CODE[MemoryType.CONVERSATION]
_Place = tuple[float, int, str]  # created, order, id: sorts in the order of the session


class Turns:
    """Neighbours of slots and of rows, updated with every change."""

    def __init__(
        self, columns: Columns, id_in: Callable[[int], str], session_in: Callable[[int], str | None]
    ) -> None:
        """`id_in` and `session_in`: the id and the session of the memory in a slot."""
        self._columns, self._id_in, self._session_in = columns, id_in, session_in
        self._sessions: dict[int, array[int]] = {}  # by code of the session: slots in order
        self._names: dict[int, str] = {}  # of the sessions whose name was needed
        # By slot: the message before and after. By row: the last passage of a message and the
        # first passage of the next one are neighbours.
        self._slots = (GrowingArray(), GrowingArray())
        self._rows = (GrowingArray(), GrowingArray())

    def put(self, slot: int) -> None:
        """Link a new memory with its neighbours, if it is a message of a session. Its columns are
        set."""
        if not self._is_turn(slot):
            return
        code = int(self._columns["session"][slot])
        places = self._sessions.setdefault(code, array("i"))
        at = self._position(places, slot)
        places.insert(at, slot)
        self._link(places[at - 1] if at else NONE, slot)
        self._link(slot, places[at + 1] if at + 1 < len(places) else NONE)

    def remove(self, slot: int) -> None:
        """Unlink a memory; its neighbours become neighbours of each other. Its columns are still
        set."""
        if not self._is_turn(slot):
            return
        before, after = (int(side.values[slot]) for side in self._slots)
        self._link(before, NONE)
        self._link(NONE, slot)
        self._link(slot, NONE)
        self._link(before, after)
        code = int(self._columns["session"][slot])
        places = self._sessions[code]
        del places[self._position(places, slot)]
        if not places:
            del self._sessions[code]
            self._names.pop(code, None)

    def around(self, slot: int, before: int, after: int) -> list[int]:
        """A slot with those before and after it in its session, in order."""
        found = [slot]
        for count, side in ((before, 0), (after, 1)):
            at = slot
            for _ in range(count):
                at = int(self._slots[side].values[at]) if self._is_turn(at) else NONE
                if at == NONE:
                    break
                found.insert(0 if side == 0 else len(found), at)
        return found

    def first_said(self, session_id: str) -> float | None:
        """The time of the first message of a session; None if it has none."""
        places = self._sessions.get(text_code(session_id))
        return float(self._columns["created"][places[0]]) if places else None

    def last_said(self) -> Iterator[tuple[str, float]]:
        """Every session, and the time of its last message."""
        created = self._columns["created"]
        for code, places in self._sessions.items():
            yield self._name(code), float(created[places[-1]])

    def last_alive(self, now: float) -> Iterator[tuple[str, float]]:
        """The same for messages that have not expired."""
        created, expires = self._columns["created"], self._columns["expires"]
        for code, places in self._sessions.items():
            alive = next((slot for slot in reversed(places) if expires[slot] > now), None)
            if alive is not None:
                yield self._name(code), float(created[alive])

    def sessions(self) -> set[str]:
        """Every session with a message."""
        return {self._name(code) for code in self._sessions}

    def of_slots(self, count: int) -> tuple[Numbers, Numbers]:
        """Copies, by slot: the slot before, the slot after; NONE where there is none."""
        return self._slots[0].first(count), self._slots[1].first(count)

    def of_rows(self, count: int) -> tuple[Numbers, Numbers]:
        """The same by row."""
        return self._rows[0].first(count), self._rows[1].first(count)

    def restore(self, rows: int, ids: Sequence[str]) -> None:
        """Fill from the columns, which are restored. `ids`: by slot."""
        columns, count = self._columns, len(ids)
        codes = columns["session"][:count]
        turns = np.flatnonzero((columns["type"][:count] == CONVERSATION) & (codes != 0))
        keys = [columns[name][turns] for name in ("order", "created", "session")]
        slots = turns[np.lexsort(keys)]
        _sort_ties(slots, ids, columns)
        last = columns["first"] + columns["rows"] - 1
        together = np.flatnonzero(codes[slots][1:] == codes[slots][:-1])
        left, right = slots[together], slots[together + 1]
        pairs = ((left, right, self._slots), (last[left], columns["first"][right], self._rows))
        for (one, next_one, sides), size in zip(pairs, (count, rows), strict=True):
            before, after = (np.full(size, NONE, dtype=np.int32) for _ in sides)
            before[next_one], after[one] = one, next_one
            sides[0].restore(before)
            sides[1].restore(after)
        begins = np.flatnonzero(np.append(True, codes[slots][1:] != codes[slots][:-1]))
        for part in np.split(slots.astype(np.int32), begins[1:]) if len(slots) else ():
            self._sessions[int(codes[part[0]])] = array("i", part.tobytes())

    def _is_turn(self, slot: int) -> bool:
        columns = self._columns
        return bool(columns["type"][slot] == CONVERSATION and columns["session"][slot] != 0)

    def _name(self, code: int) -> str:
        if code not in self._names:
            self._names[code] = self._session_in(self._sessions[code][0]) or ""
        return self._names[code]

    def _position(self, places: array[int], slot: int) -> int:
        """Where a slot is or belongs. Most often that is the end."""
        place = self._place(slot)
        if not places or self._place(places[-1]) < place:
            return len(places)
        return bisect_left(places, place, key=self._place)

    def _place(self, slot: int) -> _Place:
        created = float(self._columns["created"][slot])
        return created, int(self._columns["order"][slot]), self._id_in(slot)

    def _link(self, left: int, right: int) -> None:
        """Make two slots neighbours; NONE: the other slot has no neighbour on that side."""
        if left != NONE:
            self._slots[1].set(left, right)
            self._rows[1].set(self._edge(left, 1), self._edge(right, 0))
        if right != NONE:
            self._slots[0].set(right, left)
            self._rows[0].set(self._edge(right, 0), self._edge(left, 1))

    def _edge(self, slot: int, side: int) -> int:
        """The first or the last row of a slot."""
        if slot == NONE:
            return NONE
        first = int(self._columns["first"][slot])
        return first + int(self._columns["rows"][slot]) - 1 if side else first


def _sort_ties(slots: NDArray[np.intp], ids: Sequence[str], columns: Columns) -> None:
    """Sort messages of one session that have the same time and order by their ids."""
    same = np.ones(max(0, len(slots) - 1), dtype=np.bool_)
    for name in ("session", "created", "order"):
        same &= columns[name][slots][1:] == columns[name][slots][:-1]
    edges = np.flatnonzero(np.diff(np.concatenate([[0], same, [0]]))).tolist()
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        part = slots[begin : end + 1].tolist()
        slots[begin : end + 1] = sorted(part, key=lambda slot: ids[slot])
