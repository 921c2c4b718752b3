"""Packing results: near-identical ones folded into one, all of them within a budget."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace

from memoryd.model import Hit

WORD = re.compile(r"\w+")
ALIKE = 0.9  # share of words that two texts have in common to be one
LEAST_WORDS = 8  # shorter texts must have the same words in the same order
COMPARED = 4_000  # characters up to which texts may differ a little and be one
CHARS_A_TOKEN = 4  # of English; other scripts need about a token a character
OVERHEAD = 40  # tokens that id, type, times and score of a result take


class Folder:
    """Tells whether a text is nearly one of those before it."""

    def __init__(self) -> None:
        self._exact: dict[str, int] = {}
        # Sets this much alike share one of the few words that come first in any fixed order,
        # so only those that do are compared.
        self._by_word: dict[str, list[tuple[int, frozenset[str]]]] = {}

    def twin(self, number: int, text: str) -> int | None:
        """The number of the earlier text that says nearly the same; else this one is kept."""
        words = WORD.findall(text.casefold())
        same = " ".join(words) or text
        if same in self._exact:
            return self._exact[same]
        if len(words) >= LEAST_WORDS and len(text) <= COMPARED:
            mine = frozenset(words)
            first = sorted(mine, key=lambda word: (-len(word), word))
            first = first[: len(mine) - math.ceil(ALIKE * len(mine)) + 1]
            for other, theirs in (pair for word in first for pair in self._by_word.get(word, ())):
                if _alike(mine, theirs):
                    return other
            for word in first:
                self._by_word.setdefault(word, []).append((number, mine))
        self._exact[same] = number
        return None


def _alike(mine: frozenset[str], theirs: frozenset[str]) -> bool:
    if min(len(mine), len(theirs)) < ALIKE * max(len(mine), len(theirs)):
        return False
    if len(mine & theirs) < ALIKE * len(mine | theirs):
        return False
    # 'at 5' and 'at 6' are not the same, however long the rest.
    return not any(any(c.isdigit() for c in word) for word in mine ^ theirs)


def tokens(text: str) -> int:
    """About how many tokens a language model reads this as; rather more than fewer."""
    plain = sum(map(str.isascii, text)) if not text.isascii() else len(text)
    return -(-plain // CHARS_A_TOKEN) + len(text) - plain


def within(hits: Iterable[Hit], budget: int) -> tuple[list[Hit], int]:
    """The hits that fit into `budget` tokens, and how many did not.

    What does not fit whole is cut to the passage that matched. A later, shorter one may still
    fit; the best is never left out, only cut.
    """
    packed: list[Hit] = []
    left, missed = budget, 0
    for hit in hits:
        fitting = _fitted(hit, left, best=not packed)
        if fitting is None:
            missed += 1
            continue
        packed.append(fitting)
        left -= cost(fitting)
    return packed, missed


def cost(hit: Hit) -> int:
    """The tokens of one result."""
    return OVERHEAD + tokens(hit.memory.content) + tokens(hit.passage or "")


def _fitted(hit: Hit, left: int, *, best: bool) -> Hit | None:
    if cost(hit) <= left:
        return hit
    part = hit.passage or hit.memory.content
    cut = _cut(hit, part)
    if cost(cut) <= left:
        return cut
    if not best:
        return None
    while part and cost(_cut(hit, part)) > left:
        part = part[: len(part) * 3 // 4]
    return _cut(hit, part or hit.memory.content[:1])


def _cut(hit: Hit, part: str) -> Hit:
    return replace(hit, memory=replace(hit.memory, content=part), passage=None, cut=True)
