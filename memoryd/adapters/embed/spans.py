"""Cutting a long text into overlapping passages that a model can read whole.

The text is tokenised once and windows are laid over the tokens. A window ends after a
sentence or a word if one ends in its last quarter, else after a token. A piece that was cut
out may tokenise into more pieces than it had inside the text (a word cut in two), so every
passage is counted again, and the rare one that is too long is halved.

Cutting at characters instead would need a guess of tokens a character: off by a factor of
five between English and Tamil, and what the guess gets wrong is silently not searchable.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence

from memoryd.ports import Span

OVERLAP = 8  # a passage shares one part in so many with the one before it
ENDING = 4  # a good place to cut is looked for in the last part in so many
# A full stop needs a space after it (3.14, example.org); its ideographic kin do not.
SENTENCE = re.compile(
    r"[.!?\u2026]+[\"'\u201d\u2019)\]]*\s+|[\u3002\uff01\uff1f]+[\u300d\u300f\u201d\u2019\uff09]*|\n+"
)
SPACE = re.compile(r"\s+")

Count = Callable[[list[str]], list[int]]


def passages(text: str, starts: Sequence[int], limit: int, count: Count) -> list[Span]:
    """Increasing spans that cover `text`, of at most `limit` tokens each as `count` counts them.

    `starts` are the offsets at which the tokens of the whole text begin.
    """
    if len(starts) <= limit:
        return [(0, len(text))]
    spans = _windows(text, starts, limit)
    lengths = count([text[begin:end] for begin, end in spans])
    fitting: list[Span] = []
    for span, length in zip(spans, lengths, strict=True):
        fitting += [span] if length <= limit else _halved(text, span, limit, count)
    return fitting


def _windows(text: str, starts: Sequence[int], limit: int) -> list[Span]:
    spans: list[Span] = []
    first = begin = 0
    while first + limit < len(starts):
        end = _cut(text, starts[first + limit - limit // ENDING], starts[first + limit])
        spans.append((begin, end))
        after = bisect_left(starts, end)
        # Characters of one token may share an offset, so progress is counted in tokens.
        first = max(first + 1, after - limit // OVERLAP)
        begin = min(_next_word(text, starts[first], end), end)
        first = max(first, bisect_left(starts, begin))
    return [*spans, (begin, len(text))]


def _cut(text: str, earliest: int, latest: int) -> int:
    """The best place to end between two offsets: after a sentence, a word, or the last token."""
    for pattern in (SENTENCE, SPACE):
        ends = [found.end() for found in pattern.finditer(text, earliest, latest)]
        if ends:
            return ends[-1]
    return latest


def _next_word(text: str, begin: int, end: int) -> int:
    """Where the first whole word at or after `begin` starts; `begin` if there is none."""
    if begin == 0 or text[begin - 1].isspace():
        return begin
    found = SPACE.search(text, begin, end)
    return found.end() if found and found.end() < end else begin


def _halved(text: str, span: Span, limit: int, count: Count) -> list[Span]:
    begin, end = span
    middle = (begin + end) // 2
    halves = [(begin, middle), (middle, end)]
    fitting: list[Span] = []
    for half in halves:
        fits = half[1] - half[0] <= 1 or count([text[slice(*half)]])[0] <= limit
        fitting += [half] if fits else _halved(text, half, limit, count)
    return fitting
