"""Which memories a phase of work needs first: pure arithmetic.

    mix = (0.6 relevance + 0.25 freshness + 0.15 use) * phase factor * source trust * confidence now

Where relevance is equal, the order is that of the mix. Otherwise the mix moves a memory by at most
`MAX_SHIFT` of relevance, so one that is more relevant by twice as much always comes first. The mix
alone was rejected: the scores of good matches differ by a few hundredths, and the freshness of one
of them would outweigh that.

Tokens are shared out between kinds one memory at a time: next comes the best of the kind that has
used the least of its share. So every beginning of the order has about the right shares, however
long it is, and what a kind cannot use goes to the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from memoryd.engine.lifecycle.decay import clock_start, confidence_now
from memoryd.fields import (
    CITATION,
    DEFAULT_CONFIDENCE,
    FILES,
    citation_of,
    kind_of,
    texts_of,
    trust_of,
    uses_of,
)
from memoryd.model import DAY, Memory
from memoryd.phases import OTHER
from memoryd.recall_text import harmless, indented, one_line

RELEVANCE, FRESHNESS, USE = 0.6, 0.25, 0.15
MAX_SHIFT = 0.01  # chosen by measurement, see docs/benchmarks.md
FRESH_DAYS = 30.0  # after which half of the freshness is left
MANY_USES = 63  # from which more uses change nothing
USUAL = 0.5  # freshness and use of a memory that is moved neither up nor down


def freshness(days: float) -> float:
    """1 for a memory of now, half of it after each `FRESH_DAYS`."""
    return float(0.5 ** (max(0.0, days) / FRESH_DAYS))


def usage(uses: int) -> float:
    """0 for a memory that was never used, 1 from `MANY_USES` on."""
    return min(1.0, math.log2(1 + max(0, uses)) / math.log2(1 + MANY_USES))


def mix(relevance: float, fresh: float, use: float, factor: float) -> float:
    """`factor`: the phase factor, times source trust, times confidence."""
    return (RELEVANCE * relevance + FRESHNESS * fresh + USE * use) * factor


def rank(relevance: float, fresh: float, use: float, factor: float) -> float:
    """The relevance, moved by less than `MAX_SHIFT` towards the mix."""
    ratio = mix(relevance, fresh, use, factor) / mix(relevance, USUAL, USUAL, DEFAULT_CONFIDENCE)
    return relevance + MAX_SHIFT * (ratio - 1.0) / (ratio + 1.0)


def rank_of(
    memory: Memory,
    now: float,
    relevance: float,
    factors: Mapping[str, float],
    trust: Mapping[str, float],
) -> float:
    """The rank of a memory. `factors`: of the phase, by kind; others count 1."""
    factor = factors.get(kind_of(memory) or "", 1.0)
    factor *= trust_of(memory, trust) * confidence_now(memory, now)
    fresh = freshness((now - clock_start(memory)) / DAY)
    return rank(relevance, fresh, usage(uses_of(memory)), factor)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A memory with its rank and its size in tokens."""

    memory: Memory
    rank: float
    cost: int


def shared_out(ranked: Iterable[Ranked], shares: Mapping[str, float]) -> list[Ranked]:
    """In the order in which they are taken into a budget: by kind in proportion to the shares,
    within a kind by rank. Kinds without a share come last."""
    groups: dict[str, list[Ranked]] = {}
    for one in sorted(ranked, key=_best_first, reverse=True):  # the best at the end, to pop it
        kind = kind_of(one.memory) or OTHER
        groups.setdefault(kind if kind in shares else OTHER, []).append(one)
    used = {kind: 0.0 if shares.get(kind) else math.inf for kind in groups}
    taken: list[Ranked] = []
    while groups:
        kind = min(groups, key=lambda kind: (used[kind], _best_first(groups[kind][-1])))
        taken.append(one := groups[kind].pop())
        used[kind] += max(1, one.cost) / (shares.get(kind) or 1.0)
        if not groups[kind]:
            del groups[kind]
    return taken


def by_file(ranked: Sequence[Ranked]) -> list[Ranked]:
    """In the order in which they are shown: best first, and after each the others about the same
    file. Pinned ones come first."""
    clusters: dict[tuple[bool, str], list[Ranked]] = {}
    for one in sorted(ranked, key=lambda one: (not one.memory.pinned, _best_first(one))):
        about = next(iter(texts_of(one.memory, FILES)), "") or f"\0{one.memory.id}"
        clusters.setdefault((one.memory.pinned, about), []).append(one)
    return [one for cluster in clusters.values() for one in cluster]


def _best_first(one: Ranked) -> tuple[float, float, str]:
    return (-one.rank, -one.memory.created_at, one.memory.id)


def cited_line(memory: Memory) -> str:
    """A memory as an item of a list: its kind and first file, its text, and its citation."""
    about = [kind_of(memory), *texts_of(memory, FILES)[:1]]
    label = ", ".join(one_line(one) for one in about if one)
    citation = next(iter(texts_of(memory, CITATION)), "") or citation_of(memory.content)
    text = f"{memory.content.rstrip()} [{one_line(citation)}]"
    return f"- {f'({label}) ' if label else ''}{indented(harmless(text))}"
