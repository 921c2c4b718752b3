"""Who said what, and which speakers a query refers to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from memoryd.engine.index.terms import QUIET, term, terms
from memoryd.model import SPEAKER, Memory

Codes = NDArray[np.uint64]

USER, ASSISTANT = term("user"), term("assistant")
ROLES = frozenset(
    {USER, ASSISTANT, term("system"), term("tool")}
)  # a query refers to these by pronouns only
ME = frozenset(term(word) for word in ("i", "my", "me", "mine", "myself"))
YOU = frozenset(term(word) for word in ("you", "your", "yours"))
DID, YOU_DID = term("did"), term("you")


def speaker_of(memory: Memory) -> str:
    """The name of the speaker; "" where only a role is known: a role is not searched as a word."""
    name = memory.metadata.get(SPEAKER)
    return name.strip()[:100] if isinstance(name, str) else ""


class Speakers:
    """By slot, a code for the speaker; and the speakers that a query refers to."""

    def __init__(self) -> None:
        self._codes = np.zeros(1024, dtype=np.uint64)
        self._known: dict[int, int] = {}  # code: how many slots
        self._names: dict[int, str] = {}  # by code
        self._named: dict[int, set[int]] = {}  # term: codes of the speakers whose name has it

    def put(self, slot: int, name: str) -> None:
        while slot >= len(self._codes):
            self._codes = np.concatenate([self._codes, np.zeros_like(self._codes)])
        code = _code(name)
        self._codes[slot] = code
        if code and self._count(code, 1) == 1:
            self._know(code, name)

    def _know(self, code: int, name: str) -> None:
        self._names[code] = name
        for part in terms(name):
            self._named.setdefault(part, set()).add(code)

    def remove(self, slot: int) -> None:
        code = int(self._codes[slot])
        self._codes[slot] = 0
        if code and self._count(code, -1) == 0:
            for part in set(terms(self._names.pop(code))):
                self._named[part].discard(code)
                if not self._named[part]:
                    del self._named[part]

    def restore(self, codes: Codes, name_in: Callable[[int], str]) -> None:
        """Fill from the codes of a snapshot. `name_in`: the name of the speaker in a slot."""
        self._codes = np.append(codes, np.zeros(1024, dtype=np.uint64))
        found, slots, counts = np.unique(codes, return_index=True, return_counts=True)
        for code, slot, count in zip(found.tolist(), slots.tolist(), counts.tolist(), strict=True):
            if code:
                self._known[code] = count
                self._know(code, name_in(slot))

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


def _code(name: str) -> int:
    return term(name.casefold()) if name else 0
