"""Pack results: fold near-identical ones into one, and fit them into a token budget."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from memoryd.engine.turn_keys import CLEARED, ORDER
from memoryd.fields import PROJECT
from memoryd.model import Hit, Memory

ENDS = ".,;:!?\"'()[]`*_\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb\u2026\u2013\u2014"
ARTICLES = frozenset({"a", "an", "the"})
# Words that change the meaning of a sentence: texts that differ in one of them are not folded.
MEANING_CHANGERS = frozenset(
    "no not never none nor nobody nothing neither without unless except hardly barely almost if "
    "maybe perhaps only instead un non former formerly cannot isn't aren't wasn't weren't don't "
    "doesn't didn't won't can't couldn't shouldn't wouldn't hasn't haven't hadn't".split()
)
MAX_EXTRA = 0.1  # share of the words that the longer text may have more
MIN_WORDS = 8  # shorter texts must have the same words
MAX_COMPARED = 4_000  # longer texts, in characters, must have the same words
CHARS_PER_TOKEN = 4  # in English; other scripts need about one token per character
OVERHEAD = 40  # tokens of id, type, times and score of a result
ID_TOKENS = 10
MIN_TOKENS = 20  # of its text that a result shows at least


class Folder:
    """Finds memories that say nearly the same as an earlier one."""

    def __init__(self) -> None:
        self._exact: dict[tuple[str, ...], int] = {}
        # Prefix filter: two texts this similar share one of the first few words of any fixed
        # order, so only texts that share one are compared.
        self._by_word: dict[str, list[tuple[int, tuple[str, ...]]]] = {}

    def twin(self, number: int, memory: Memory) -> int | None:
        """The number of an earlier memory that says nearly the same; None, and it is kept."""
        source = _source(memory)
        words = (source, *_words(memory.content))
        if words in self._exact:
            return self._exact[words]
        if len(words) > MIN_WORDS and len(memory.content) <= MAX_COMPARED:
            mine = frozenset(words[1:])
            first = sorted(mine, key=lambda word: (-len(word), word))
            first = first[: len(mine) - math.ceil((1 - MAX_EXTRA) * len(mine)) + 1]
            for other, theirs in (pair for word in first for pair in self._by_word.get(word, ())):
                if _alike(words, theirs):
                    return other
            for word in first:
                self._by_word.setdefault(word, []).append((number, words))
        self._exact[words] = number
        return None


def _source(memory: Memory) -> str:
    """Speaker and other metadata: the same words from two people are two results."""
    kept = {key: value for key, value in memory.metadata.items() if key not in (ORDER, CLEARED)}
    return json.dumps(kept, sort_keys=True, default=str)


def _words(text: str) -> list[str]:
    """Words and symbols in order, without case, articles and punctuation around words."""
    pieces = (piece.strip(ENDS) for piece in text.casefold().split())
    return [piece for piece in pieces if piece and piece not in ARTICLES] or [text]


def _alike(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether the longer text is the shorter one plus a few words that do not change its meaning.
    A replaced word or another order does."""
    longer, shorter = (mine, theirs) if len(mine) >= len(theirs) else (theirs, mine)
    if len(longer) - len(shorter) > MAX_EXTRA * len(longer):
        return False
    at = 0
    more: list[str] = []
    for word in longer:
        if at < len(shorter) and shorter[at] == word:
            at += 1
        elif len(more) == len(longer) - len(shorter):  # a word of the shorter text is missing
            return False
        else:
            more.append(word)
    return at == len(shorter) and all(
        word.isalpha() and word not in MEANING_CHANGERS for word in more
    )


def tokens(text: str) -> int:
    """About how many tokens a language model reads; an estimate on the high side."""
    plain = sum(map(str.isascii, text)) if not text.isascii() else len(text)
    return -(-plain // CHARS_PER_TOKEN) + len(text) - plain


def within(hits: Iterable[Hit], budget: int) -> tuple[list[Hit], int]:
    """The hits that fit into `budget` tokens, and how many did not.

    A hit that does not fit is cut to the passage that matched, or left out; a later, shorter one
    may still fit. The best hit is never left out, only cut.
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


def did_not_fit(missed: int) -> str:
    """The warning for hits that were left out."""
    return f"{missed} more results did not fit into max_tokens."


def cost(hit: Hit) -> int:
    """The tokens of one result, as it is sent."""
    metadata = tokens(json.dumps(dict(hit.memory.metadata), default=str, ensure_ascii=False))
    texts = tokens(hit.memory.content) + tokens(hit.passage or "")
    return OVERHEAD + metadata + texts + ID_TOKENS * len(hit.folded)


def _fitted(hit: Hit, left: int, *, best: bool) -> Hit | None:
    if cost(hit) <= left:
        return hit
    part = hit.passage or hit.memory.content
    if left < cost(_cut(hit, "")) + MIN_TOKENS:  # no room for text beside its metadata
        # Its project stays: whoever reads it must know what it is about.
        left_over = {key: value for key, value in hit.memory.metadata.items() if key == PROJECT}
        hit = replace(hit, memory=replace(hit.memory, metadata=left_over), folded=())
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
