"""An answer without a language model: the sentences of memories that answer the question.

Of each memory that matches clearly, the sentence nearest to the question is taken, with the one
before or after it if that is near too; of a short one all of it. Where two facts say different
things of the same subject, the newer one comes first and says since when it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

import numpy as np

from memoryd.engine.index.terms import QUIET, terms
from memoryd.engine.models.embedding import Embedding
from memoryd.engine.models.lanes import Vector
from memoryd.engine.sessions.extract import sentences
from memoryd.engine.sessions.messages import shown_text
from memoryd.engine.sessions.said import day, shortened
from memoryd.errors import EmbedError
from memoryd.fields import SUPERSEDES, ids_of
from memoryd.model import Hit, Memory, MemoryType, who

SHORT = 240  # characters of a text that is taken as a whole
MAX_TEXT = 400  # characters of what is taken of one memory
MAX_PASSAGE = 500  # characters of a passage that is shown as a source
MAX_SENTENCES = 12  # of one memory that are compared with the question
NEXT = 0.9  # a sentence beside the best one is taken too, if it is nearly as near
WORD_WEIGHT = 0.3  # of the share of the question's words, beside the cosine
SAME_SUBJECT = 0.5  # share of the words that two facts about the same have in common
ENDS = (".", "!", "?", "\u2026", "\u3002", "\uff01", "\uff1f", ":")


@dataclass(frozen=True, slots=True)
class Source:
    """A memory that an answer cites by its number, from 1 on."""

    number: int
    hit: Hit
    passage: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A part of an answer, with the numbers of its sources. `since`: when a fact that differs from
    an older one was stored; `earlier`: it is the older one."""

    text: str
    numbers: tuple[int, ...]
    since: float | None = None
    earlier: float | None = None


def source_of(number: int, hit: Hit) -> Source:
    text = " ".join((hit.passage or shown_text(hit.memory)).split())
    return Source(number, hit, shortened(text, MAX_PASSAGE))


async def extract(question: str, sources: Sequence[Source], embedding: Embedding) -> list[Sentence]:
    """A sentence for each source, the best first. Works without a model: then by words."""
    split = [_split(source.hit) for source in sources]
    compared = [text for texts in split if len(texts) > 1 for text in texts]
    near = dict(zip(compared, await _nearness(question, compared, embedding), strict=True))
    told = [
        Sentence(_said(_best(texts, near), source.hit.memory), (source.number,))
        for source, texts in zip(sources, split, strict=True)
    ]
    return _by_time(told, sources)


def _split(hit: Hit) -> list[str]:
    """The sentences of what matched; all of it in one if it is short."""
    text = hit.passage or shown_text(hit.memory)
    if len(text) <= SHORT:
        return [" ".join(text.split())]
    return sentences(text)[:MAX_SENTENCES] or [shortened(" ".join(text.split()), MAX_TEXT)]


async def _nearness(question: str, texts: Sequence[str], embedding: Embedding) -> list[float]:
    """How near each text is to the question: by meaning and words; without a model by words."""
    if not texts:
        return []
    asked = {term for term in terms(question) if term not in QUIET}
    shares = [len(asked & set(terms(text))) / max(1, len(asked)) for text in texts]
    try:
        wanted, vectors = await embedding.query(question), await embedding.sentences(texts)
    except EmbedError:
        wanted, vectors = None, []  # the search has warned of it
    if wanted is None or not vectors:
        return shares
    return [
        _cosine(wanted, vector) + WORD_WEIGHT * share
        for vector, share in zip(vectors, shares, strict=True)
    ]


def _cosine(one: Vector, other: Vector) -> float:
    return float(np.dot(one, other))


def _best(texts: Sequence[str], near: dict[str, float]) -> str:
    """The nearest sentence, with the one beside it that is nearly as near."""
    if len(texts) == 1:
        return texts[0]
    best = max(range(len(texts)), key=lambda n: near[texts[n]])
    beside = [n for n in (best - 1, best + 1) if 0 <= n < len(texts)]
    other = max(beside, key=lambda n: near[texts[n]])
    chosen = [best]
    if near[texts[other]] >= NEXT * near[texts[best]] > 0:
        chosen = sorted((best, other))
    return shortened(" ".join(texts[n] for n in chosen), MAX_TEXT)


def _said(text: str, memory: Memory) -> str:
    """The text, for a message with who said it, ended as a sentence."""
    speaker = who(memory) if memory.type is MemoryType.CONVERSATION else None
    # Not "assistant: ...": at the start of a line that would be the delimiter of a chat template.
    whole = f"({speaker}) {text}" if speaker else text
    return whole if whole.endswith(ENDS) else f"{whole}."


def _by_time(told: Sequence[Sentence], sources: Sequence[Source]) -> list[Sentence]:
    """The same, each fact before the older ones that it differs from."""
    memories = {source.number: source.hit.memory for source in sources}
    waiting, ordered = list(told), list[Sentence]()
    while waiting:
        first = memories[waiting[0].numbers[0]]
        rivals = [one for one in waiting if is_rival(first, memories[one.numbers[0]])]
        rivals.sort(key=lambda one: -_at(memories[one.numbers[0]]))
        newest = memories[rivals[0].numbers[0]]
        if len(rivals) > 1 or ids_of(newest, SUPERSEDES):
            rivals[0] = replace(rivals[0], since=_at(newest))
        older = [replace(one, earlier=_at(memories[one.numbers[0]])) for one in rivals[1:]]
        ordered += [rivals[0], *older]
        taken = {one.numbers for one in rivals}
        waiting = [one for one in waiting if one.numbers not in taken]
    return ordered


def is_rival(one: Memory, other: Memory) -> bool:
    """Whether two facts are about the same subject, so that at most the newer one still holds."""
    if one.id == other.id:
        return True
    if MemoryType.CONVERSATION in (one.type, other.type):
        return False
    first, second = ({term for term in terms(m.content) if term not in QUIET} for m in (one, other))
    return len(first & second) >= SAME_SUBJECT * max(1, len(first | second))


def _at(memory: Memory) -> float:
    return memory.updated_at or memory.created_at


def as_text(told: Sequence[Sentence], zone: tzinfo | None) -> str:
    """The answer as one text, with the numbers of the sources in brackets."""
    parts = []
    for one in told:
        numbers = "".join(f"[{number}]" for number in one.numbers)
        lead = f"Earlier, {day(one.earlier, zone)}: " if one.earlier is not None else ""
        since = f" (since {day(one.since, zone)})" if one.since is not None else ""
        parts.append(f"{lead}{one.text}{since} {numbers}")
    return " ".join(parts)
