"""Groups of points on the map, and the words that tell what each group is about.

The groups are of the plane (k-means), not of the vectors: a label names what the eye sees together.
The words of a group are those that its texts have more often than the other groups (TF-IDF with a
group in the place of a document), in the spelling of the texts. A word must be in two texts of its
group, and a word with a digit is none: what looks like a secret is never a label.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memoryd.engine.index.terms import DENSE, stem
from memoryd.engine.sessions.titles import COMMON
from memoryd.fair import paced
from memoryd.masking.mask import MARK, mask

Floats = NDArray[np.float32]
Codes = NDArray[np.uint8]

MAX_GROUPS = 22
NO_GROUP = 255  # the code of a point without a label
ROUNDS = 30  # of k-means
MAX_TEXTS, MAX_CHARS = 150, 400  # of a group, and characters of each, that are read
BURST = 4  # texts, after which other threads get their turn
WORDS = 3  # of a label
LONGEST = 24  # characters of a word; longer ones are data
LEAST_SHARE = 0.03  # of the texts of a group that must have a word
TAKEN = 0.3  # factor of a word that another label has
WORD = re.compile(r"(?<!\w)[^\W\d_]+(?:-[^\W\d_]+)*(?!\w)")  # no part of a code
# What is left of "don't" and the like, and words of courtesy.
CUT = frozenset(
    "don doesn didn isn wasn aren weren couldn wouldn shouldn hasn haven hadn won ain bye wow yeah "
    "hey awesome lot thing things something anything everything way always never even ever every "
    "help looking look give take come back been had has too own same such other another "
    "lets both few since until while because after before during without within".split()
)
QUIET = COMMON | CUT
MASKED = re.compile(re.escape(MARK) + r"[^\]]*\]")


@dataclass(frozen=True, slots=True)
class Label:
    """What a group is about, and where on the plane its middle is."""

    x: float
    y: float
    text: str
    count: int


def group_count(points: int) -> int:
    """How many groups are readable: about eight for 300 memories, 22 from some thousands on."""
    return max(1, min(MAX_GROUPS, round(1.2 * math.pow(points, 0.33)), points // 3))


def centres_of(places: Floats) -> Floats:
    """The middles of the groups, by k-means. The same for the same places in the same order."""
    count = group_count(len(places))
    centres = _first_centres(places, count)
    for _ in range(ROUNDS):
        nearest = nearest_centre(places, centres)
        sizes = np.bincount(nearest, minlength=count)
        sums = np.stack([np.bincount(nearest, places[:, axis], count) for axis in (0, 1)], axis=1)
        moved = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
        if np.allclose(moved, centres, atol=1e-4):
            break
        centres = moved.astype(np.float32)
    return centres


def _first_centres(places: Floats, count: int) -> Floats:
    """Random ones that are far apart (k-means++), always the same."""
    pick = np.random.default_rng(0)
    chosen = [int(pick.integers(len(places)))]
    far = ((places - places[chosen[0]]) ** 2).sum(axis=1)
    for _ in range(count - 1):
        total = float(far.sum())
        one = int(pick.choice(len(places), p=far / total)) if total > 0 else 0
        chosen.append(one)
        far = np.minimum(far, ((places - places[one]) ** 2).sum(axis=1))
    return places[chosen].copy()


def nearest_centre(places: Floats, centres: Floats) -> NDArray[np.intp]:
    """By place, the number of its group."""
    lengths = (centres * centres).sum(axis=1)
    nearest: NDArray[np.intp] = (lengths - 2 * (places @ centres.T)).argmin(axis=1)
    return nearest


def sample(groups: NDArray[np.intp], count: int) -> list[NDArray[np.intp]]:
    """By group, the points whose texts are read: evenly chosen."""
    found = (np.flatnonzero(groups == group) for group in range(count))
    return [of[:: max(1, -(-len(of) // MAX_TEXTS))] for of in found]


def words_of_groups(texts: Sequence[Sequence[str]]) -> list[str]:
    """By group, its telling words; "" if it has none."""
    read = [_Group(group) for group in texts]
    in_all = sum((group.in_texts for group in read), Counter[str]())
    average = in_all.total() / max(1, len(read))
    taken: set[str] = set()
    labels = [""] * len(read)
    # The largest first: of two groups about the same, it gets the better words.
    for number in sorted(range(len(read)), key=lambda n: -read[n].count):
        keys = read[number].telling(in_all, average, taken)
        taken |= set(keys)
        labels[number] = _harmless([read[number].shown(key) for key in keys])
    return labels


class _Group:
    """The words of the texts of one group."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.in_texts = Counter[str]()
        self._spellings: dict[str, Counter[str]] = {}
        for text in paced(texts, BURST):
            seen = dict(_words(MASKED.sub(" ", mask(text[:MAX_CHARS]).text)))
            self.in_texts.update(seen.keys())
            for key, word in seen.items():
                self._spellings.setdefault(key, Counter())[word] += 1
        self.count = len(texts)

    def telling(self, in_all: Counter[str], average: float, taken: set[str]) -> list[str]:
        """The keys of its words that tell most."""
        least = max(2, LEAST_SHARE * self.count) if self.count > 2 else 1

        def weight(key: str) -> float:
            rarity = math.log(1 + average / in_all[key])
            own = self.in_texts[key] / in_all[key]  # a word of all groups tells nothing
            return self.in_texts[key] * rarity * own * (TAKEN if key in taken else 1.0)

        known = [key for key, count in self.in_texts.items() if count >= least]
        return sorted(known, key=lambda key: (-weight(key), key))[:WORDS]

    def shown(self, key: str) -> str:
        """The most usual spelling."""
        return min(self._spellings[key].items(), key=lambda pair: (-pair[1], pair[0]))[0]


def _words(text: str) -> Iterator[tuple[str, str]]:
    """The words that can tell something: what they are counted by, and as they are written."""
    for word in WORD.findall(text):
        if dense := DENSE.search(word):  # no spaces between words: pairs of characters
            run = dense[0]
            yield from ((run[n : n + 2], run[n : n + 2]) for n in range(len(run) - 1))
            continue
        folded = word.casefold()
        if 3 <= len(folded) <= LONGEST and folded not in QUIET:
            yield stem(folded), folded if not word.isupper() else word


def _harmless(words: Sequence[str]) -> str:
    """The label, without the words that look like a secret."""
    return " ".join(word for word in words if mask(word).text == word)
