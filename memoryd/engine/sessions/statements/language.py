"""The form of the tables: what a language says, and how a row becomes a pattern.

A row is written in plain words: a space stands for any white space, `<name>` for a fragment of the
table (or of the shared ones below). Every pattern is matched at the beginning of a clause only,
which keeps the rules exact and their cost linear.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_CAPITAL = r"(?-i:[^\W\d_a-zß-öø-ÿ])"
_PARTICLES = "van|von|der|den|de|da|do|dos|di|del|della|la|le|al|bin|ben|el"

FRAGMENTS = {
    "cap": rf"{_CAPITAL}[\w'.-]*\w",
    "name": rf"{_CAPITAL}[\w'.-]*\w(?: (?:(?:{_PARTICLES}) ){{0,2}}{_CAPITAL}[\w'.-]*\w){{0,4}}",
    "word": r"[^\W\d_][\w'-]*",
    "number": r"\+?[\d(][\d ()/.-]{4,20}\d",
    "email": r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,4}",
    "version": r"v?\d+(?:\.\d+)*",
    "time": r"\d{1,2}(?:[:.h]\d{2}| ?(?:am|pm|h|uhr)\b)",
}


@dataclass(frozen=True, slots=True)
class Rules:
    """Patterns that state the same kind of fact.

    topic: the key of facts of which one is true at a time; `{thing}` is the group of that name.
    about_user: None if it depends on whether the sentence speaks of its author.
    general: only if nothing in the clause points at something at hand ("this", "your answer").
    """

    patterns: tuple[str, ...]
    topic: str | None = None
    kind: str | None = None
    about_user: bool | None = True
    confidence: float = 0.8
    general: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """The rules of a language as written."""

    code: str
    rules: tuple[Rules, ...]
    explicit: tuple[str, ...]  # requests to remember what follows
    openers: str  # words before a statement that say nothing
    conjunctions: str  # a clause begins after one of these
    starters: str  # a word that begins another main clause
    questions: str  # how a question begins
    doubts: str  # nowhere in a clause or before it: unsure, reported, past, joking
    conditions: str  # not before a clause: a condition, a scene
    passing: str  # not in a clause: of this moment only
    deictic: str  # points at something at hand
    refusals: str  # a request not to keep what was said
    tasks: str  # a request to work on the text that follows or to play a role
    first_person: str
    typical: str  # frequent words, to tell it from its sisters
    fragments: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Rule:
    pattern: re.Pattern[str]
    rules: Rules


def _longest_first(alternatives: str) -> str:
    """The alternatives in an order in which none hides a longer one ("note", "note that")."""
    parts = re.split(r"\|(?![^(]*\))", alternatives)
    return "|".join(sorted(parts, key=len, reverse=True))


class Language:
    """A table with its patterns compiled."""

    def __init__(self, table: Table) -> None:
        self._fragments = FRAGMENTS | dict(table.fragments)
        self.code = table.code
        self.rules = tuple(
            Rule(self._compiled(row), rules) for rules in table.rules for row in rules.patterns
        )
        self.explicit = self._compiled("(?:" + "|".join(table.explicit) + ")")
        self.openers = self._compiled(
            f"(?:(?:{_longest_first(table.openers)})(?!\\w)[\\s,:!\u2013\u2014-]*)+"
        )
        self.clause = self._compiled(
            rf"(?:[,;:(\u2013\u2014]\s*|\.\.+ |…\s*| - |\s(?=(?:{table.conjunctions}) ))"
        )
        self.conjunction = self._compiled(f"(?:(?:{table.conjunctions}) )+")
        self.starter = self._compiled(rf"(?:¿|(?:{table.starters}|{table.questions})(?!\w))")
        self.question = self._compiled(rf"(?:¿|(?:{table.questions})(?!\w))")
        self.doubt = self._words(table.doubts)
        self.condition = self._words(table.conditions)
        self.passing = self._words(table.passing)
        self.deictic = self._words(table.deictic)
        self.refusal = self._words(table.refusals)
        self.task = self._compiled(f"(?:{table.tasks})(?!\\w)")
        self.first_person = self._words(table.first_person)
        self.typical = self._words(table.typical)

    def _words(self, alternatives: str) -> re.Pattern[str]:
        return self._compiled(rf"(?<!\w)(?:{alternatives})(?!\w)")

    def _compiled(self, row: str) -> re.Pattern[str]:
        for _ in range(3):  # a fragment may name another one
            row = re.sub(r"(?<!\(\?P)<(\w+)>", lambda found: self._fragments[found[1]], row)
        row = re.sub(r"\(\?<![^)]*\)", lambda found: found[0].replace(" ", r"\s"), row)
        return re.compile(row.replace(" ?", r"\s?").replace(" ", r"\s+"), re.IGNORECASE)
