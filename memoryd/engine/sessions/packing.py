"""Pack the sections of a recall into a token budget.

Every section has a guaranteed share of the budget, so that a long one cannot push out the others.
What a section does not need goes to the others, in the order of `SHARES`; where the budget is too
small for all, the first ones get theirs. Within a section the
least important entries are dropped first; an entry is cut only where it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from memoryd.engine.search.fold import CHARS_PER_TOKEN, tokens
from memoryd.model import Memory
from memoryd.recall_text import (
    ARCHIVES,
    FACTS,
    MESSAGES,
    MOMENTS,
    NOTICE,
    WORKING_MEMORY,
    delimited,
)

# The guaranteed share of each section; what is left over is offered to them in this order.
SHARES = {FACTS: 0.25, WORKING_MEMORY: 0.15, MESSAGES: 0.3, MOMENTS: 0.2, ARCHIVES: 0.1}
MIN_CUT = 30  # tokens; less than this of an entry is not shown
SHRINK = 0.9  # a text that is still too long is cut to this share, until it fits
CUT = "(cut: {shown:,} of {total:,} characters are shown)"
LINE_END = 1  # tokens after an entry


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a section, as it is shown. `within`: gives a shorter form of it that takes at
    most so many tokens, None if there is none. `message`: set for an entry of the conversation.
    `place`: where it is shown, if that is not by its importance."""

    text: str
    ids: tuple[str, ...]
    message: Memory | None = None
    within: Callable[[int], Entry | None] | None = None
    place: int = 0
    cost: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cost", tokens(self.text) + LINE_END)


@dataclass(frozen=True, slots=True)
class Section:
    """A section with its entries, the most important first. `backwards`: they are shown in the
    other direction, and one that does not fit ends the section; otherwise it is skipped. `more`:
    entries that were not made, because those before them fill the budget."""

    part: str
    title: str
    entries: Sequence[Entry]
    backwards: bool = False
    more: int = 0
    frame: int = field(init=False)  # tokens of its delimiters

    def __post_init__(self) -> None:
        frame = tokens(delimited(self.part, self.title, "")) + LINE_END
        object.__setattr__(self, "frame", frame)


@dataclass(slots=True)
class Packed:
    """What of a section is shown, the most important first."""

    section: Section
    entries: list[Entry] = field(default_factory=list)
    used: int = 0

    @property
    def missing(self) -> int:
        """How many entries did not fit."""
        return len(self.section.entries) + self.section.more - len(self.entries)

    @property
    def shown(self) -> list[Entry]:
        """In the order in which they are shown."""
        if self.section.backwards:
            return self.entries[::-1]
        return sorted(self.entries, key=lambda entry: entry.place)

    def only_these(self) -> Section:
        """The section without the entries that did not fit."""
        kept = {entry.ids for entry in self.entries}
        entries = [entry for entry in self.section.entries if entry.ids in kept]
        return replace(self.section, entries=entries, more=self.missing)


def pack(sections: Sequence[Section], budget: int) -> list[Packed]:
    """What of each section fits into the budget."""
    room = budget - tokens(NOTICE) - LINE_END
    ordered = sorted(sections, key=lambda section: list(SHARES).index(section.part))
    shares = sum(SHARES[section.part] for section in ordered)
    packed: dict[str, Packed] = {}
    share = used = 0.0
    for section in ordered:  # each within its share, and what those before it left of theirs
        share += SHARES[section.part] / shares
        mine = max(room * share - used, min(room - used, section.frame + MIN_CUT))
        packed[section.part] = done = _filled(section, int(mine))
        used += done.used
    for section in ordered:  # what is left over
        used -= packed[section.part].used
        packed[section.part] = done = _filled(section, int(room - used))
        used += done.used
    return [packed[section.part] for section in sections]


def _filled(section: Section, room: int) -> Packed:
    """The most important entries of a section that fit."""
    packed = Packed(section)
    left = room - section.frame
    for entry in section.entries:
        fitting = entry if entry.cost <= left else None
        # Of a conversation only the newest message is cut: older ones are dropped.
        if fitting is None and entry.within and not (section.backwards and packed.entries):
            fitting = entry.within(left) if left >= MIN_CUT else None
        if fitting is not None:
            packed.entries.append(fitting)
            left -= fitting.cost
        elif section.backwards:
            break
    packed.used = room - left if packed.entries else 0
    return packed


def entry_of(content: str, made: Callable[[str], Entry], budget: int) -> Entry:
    """An entry that can be cut. `made`: an entry with this content. A content that no budget can
    hold is cut here already, so that not all of it has to be made harmless."""
    most = CHARS_PER_TOKEN * (budget + 1)
    first = made(content if len(content) <= most else _noted(content[:most], len(content)))
    return replace(first, within=lambda room: _cut(content, made, room))


def _cut(content: str, made: Callable[[str], Entry], room: int) -> Entry | None:
    """An entry with the beginning of a content, and a note that says so."""
    shown = _at_end(content[: CHARS_PER_TOKEN * room])
    while len(shown) > CHARS_PER_TOKEN:
        entry = made(_noted(shown, len(content)))
        if entry.cost <= room:
            return entry
        shown = _at_end(shown[: int(len(shown) * SHRINK)])
    return None


def _at_end(text: str) -> str:
    """The text up to the end of its last line or word, unless too much would be lost."""
    for end, least in (("\n", 0.5), (" ", SHRINK)):
        at = text.rfind(end)
        if at > len(text) * least:
            return text[:at]
    return text


def _noted(shown: str, total: int) -> str:
    return f"{shown.rstrip()}\n{CUT.format(shown=len(shown.rstrip()), total=total)}"
