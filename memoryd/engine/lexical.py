"""Search by words, for when there is no vector: no model, or none yet.

The score is the share of the query's weight that a text covers, rare words weighing more: 1.0
means every word of the query is there. Texts are read one by one, without an index that would
cost memory all the time for a need that is rare. A stand-in that says so in every answer.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

WORD = re.compile(r"\w+")
# Scripts without spaces: each character stands for itself.
DENSE_SCRIPT = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]")


def words(text: str) -> set[str]:
    """The distinct words of a text, without case; CJK by characters."""
    found = set(WORD.findall(text.casefold()))
    return found | set(DENSE_SCRIPT.findall(text))


def by_words(
    query: str, texts: Iterable[tuple[int, str]], limit: int, min_score: float
) -> list[tuple[int, float]]:
    """The best numbers of `texts` with their score in 0..1, best first. Runs on any thread."""
    wanted = words(query)
    shared = {number: wanted & words(text) for number, text in texts}
    holders = Counter(word for found in shared.values() for word in found)
    weights = {word: math.log(1 + (len(shared) + 1) / (1 + holders[word])) for word in wanted}
    total = sum(weights.values()) or 1.0
    scores = {number: sum(weights[w] for w in found) / total for number, found in shared.items()}
    best = [(number, score) for number, score in scores.items() if score >= max(min_score, 1e-9)]
    return sorted(best, key=lambda item: (-item[1], item[0]))[:limit]
