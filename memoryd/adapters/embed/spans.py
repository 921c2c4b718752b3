"""Cut a long text into overlapping passages that fit into a model's token limit.

The text is tokenised once and cut into windows of tokens. A window ends after a sentence or a word
if one ends in its last quarter, else after a token. A passage may have more tokens on its own than
inside the text (a word cut in two), so every passage is counted again, and one that is too long is
halved.

Rejected: cutting by characters. That needs an estimate of tokens per character, which differs by a
factor of five between English and Tamil, and a wrong one leaves text silently unsearchable.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence

from memoryd.ports import Span

OVERLAP = 8  # a passage shares 1/8 with the one before it
ENDING = 4  # a window may end in its last 1/4
# A full stop needs a space after it (3.14, example.org); an ideographic one does not.
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
        # Several tokens may have the same offset, so progress is counted in tokens.
        first = max(first + 1, after - limit // OVERLAP)
        begin = min(_next_word(text, starts[first], end), end)
        first = max(first, bisect_left(starts, begin))
    return [*spans, (begin, len(text))]


def _cut(text: str, earliest: int, latest: int) -> int:
    """The best end between two offsets: after a sentence, else a word, else the last token."""
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
