"""A summary without a language model: the sentences that carry the session, with who and when.

Messages are chosen one after the other, each time the one that stands for most of what the chosen
ones do not stand for yet: the similarity of two messages is the cosine of their vectors, or of
their words where there are no vectors. The best sentence of each is shown. Taking the messages
nearest to the middle was rejected: of a session with two topics it shows the larger one only.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from memoryd.engine.index.terms import CHUNK, QUIET, terms
from memoryd.engine.sessions.said import Said, day, minute, shortened, stamp

MAX_SENTENCE, MAX_ENTRY = 240, 2_400  # characters
FEWEST, MOST = 4, 12  # sentences
PER_SENTENCE = 4  # messages that one sentence stands for
MAX_CHOICES = 1_000  # messages to choose from; of more, those that say most
MAX_TEXT = 4_000  # characters of a message that are read
MAX_SPEAKERS = 4
BUCKETS = 512  # of words, where there are no vectors
LEAST_ALIKE = 0.25  # cosine below which two messages have nothing in common
LEAST_GAIN = 1e-3  # below it a message says nothing that the chosen ones do not say
ROLES = {"user": 1.0, "assistant": 0.85, "system": 0.4, "tool": 0.4}  # how much a message counts
QUESTION, SHORT = 0.7, 0.3  # factors of a sentence that asks, and of one with few words
SHORT_WORDS = 4

ENDS = re.compile(r"(?<=[.!?\u2026])[\"')\]]*\s+|(?<=[\u3002\uff01\uff1f])|\n+")
LEADING = re.compile(r"^[\s>#*+\-\u2022`|=_]+|^\d{1,3}[.)]\s")
LETTER = re.compile(r"[^\W_]")

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sentence:
    """The best sentence of a message, and how much it says."""

    text: str
    weight: float


class Words:
    """How much each word of a session says: most if it comes back, little if it is everywhere."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.of_text = [terms(text[:MAX_TEXT]) for text in texts]
        self._in_messages = Counter(term for found in self.of_text for term in set(found))
        self._count = len(texts)

    def weight(self, term: int) -> float:
        if term in QUIET:
            return 0.0
        count = self._in_messages[term]
        common = count / self._count if self._count > SHORT_WORDS else 0.0
        return math.log1p(count) * (1.0 - common)

    @cached_property
    def vectors(self) -> Vectors:
        """A unit vector for the words of each text; zero for one without words."""
        rows = np.zeros((self._count, BUCKETS), dtype=np.float32)
        for row, found in enumerate(self.of_text):
            for term, count in Counter(found).items():
                rows[row, term % BUCKETS] += self.weight(term) * math.sqrt(count)
        return _unit(rows)


def extract(said: Sequence[Said], zone: tzinfo | None) -> str | None:
    """The history entry of a session; None if no message has a sentence."""
    words = Words([one.text for one in said])
    best = [_best_sentence(one, words) for one in said]
    weights = np.array([found.weight if found else 0.0 for found in best], dtype=np.float32)
    if not weights.any():
        return None
    chosen = _chosen(_vectors(said, words), weights)
    lines = [_heading(said, zone)]
    room = MAX_ENTRY - len(lines[0])
    for number in sorted(chosen, key=lambda n: (said[n].at, n)):
        found, one = best[number], said[number]
        assert found is not None
        same_day = day(one.at, zone) == day(said[-1].at, zone)
        when = minute(one.at, zone)[-5:] if same_day else minute(one.at, zone)
        line = f"- {when} {shortened(' '.join(one.who.split()), 40)}: {found.text}"
        if (room := room - len(line) - 1) < 0:
            break
        lines.append(line)
    return "\n".join(lines)


def _heading(said: Sequence[Said], zone: tzinfo | None) -> str:
    names = list(dict.fromkeys(shortened(" ".join(one.who.split()), 40) for one in said))
    if len(names) > MAX_SPEAKERS:
        names = [*names[:MAX_SPEAKERS], f"{len(names) - MAX_SPEAKERS} others"]
    speakers = " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
    count = "1 message" if len(said) == 1 else f"{len(said)} messages"
    first, last = (minute(at(one.at for one in said), zone) for at in (min, max))
    since = f", {first} to {last}" if first != last else ""
    return f"{stamp(said, zone)}{count} of {speakers}{since}."


def _best_sentence(one: Said, words: Words) -> Sentence | None:
    """The sentence of a message that says most; None if it has none."""
    found = [sentence for sentence in sentences(one.text) if LETTER.search(sentence)]
    if not found:
        return None
    weigh = {text: _weight(text, words) for text in found}
    best = max(found, key=lambda text: weigh[text])
    return Sentence(shortened(best, MAX_SENTENCE), ROLES.get(one.role, 1.0) * weigh[best])


def sentences(text: str) -> list[str]:
    """The sentences of a text, without the marks of lists, headings and quotations."""
    parts = (LEADING.sub("", part) for part in ENDS.split(text[:MAX_TEXT]))
    return [clean for part in parts if (clean := " ".join(part.split()))]


def _weight(text: str, words: Words) -> float:
    """How much a sentence says: the weight of its words, not simply of many of them."""
    found = terms(text)
    total = sum(words.weight(term) for term in set(found))
    score: float = (0.01 + total) / math.sqrt(4 + len(found))
    names = sum(any(map(str.isdecimal, chunk)) or chunk.isupper() for chunk in CHUNK.findall(text))
    score *= 1.0 + min(0.3, 0.1 * names)
    if text.rstrip("\"')").endswith(("?", "\uff1f")):
        score *= QUESTION
    return score * SHORT if len(found) < SHORT_WORDS else score


def _vectors(said: Sequence[Said], words: Words) -> Vectors:
    given = [one.vector for one in said if one.vector is not None]
    if len(given) < len(said) or len({len(vector) for vector in given}) != 1:
        return words.vectors
    return _unit(np.asarray(given, dtype=np.float32))


def _unit(rows: Vectors) -> Vectors:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Vectors = np.where(norms > 0, rows / np.maximum(norms, 1e-9), 0).astype(np.float32)
    return unit


def _chosen(vectors: Vectors, weights: NDArray[np.float32]) -> list[int]:
    """The messages that stand for the session, by number."""
    choices = np.sort(np.argsort(-weights, kind="stable")[:MAX_CHOICES])
    weights = weights[choices] / weights.max()
    cosines = vectors[choices] @ vectors[choices].T
    alike = np.clip((cosines - LEAST_ALIKE) / (1.0 - LEAST_ALIKE), 0.0, 1.0)
    np.fill_diagonal(alike, 1.0)
    alike *= weights  # to stand for a message counts as much as the message says
    covered = np.zeros(len(choices), dtype=np.float32)
    most = min(MOST, max(FEWEST, math.ceil(len(vectors) / PER_SENTENCE)))
    chosen: list[int] = []
    while len(chosen) < min(most, len(choices)):
        gains = np.maximum(alike - covered, 0.0).sum(axis=1) * weights
        gains[chosen] = -1.0
        best = int(gains.argmax())
        if gains[best] <= LEAST_GAIN:
            break
        chosen.append(best)
        covered = np.maximum(covered, alike[best])
    return [int(choices[number]) for number in chosen]
