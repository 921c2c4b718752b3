"""What a message states as lasting: names, preferences, decisions, dates and requests to remember.

Rules without a model: they are exact rather than complete. A sentence that could be meant otherwise
is left out, because a wrong fact is shown again and again, while a missed one is still in the
archive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from memoryd.engine.sessions.statements.clauses import Clauses, is_doubted, is_of_this_moment
from memoryd.engine.sessions.statements.english import TABLE as ENGLISH
from memoryd.engine.sessions.statements.french import TABLE as FRENCH
from memoryd.engine.sessions.statements.german import TABLE as GERMAN
from memoryd.engine.sessions.statements.italian import TABLE as ITALIAN
from memoryd.engine.sessions.statements.language import Language, Rule
from memoryd.engine.sessions.statements.portuguese import TABLE as PORTUGUESE
from memoryd.engine.sessions.statements.prose import Sentence, sentences
from memoryd.engine.sessions.statements.spanish import TABLE as SPANISH
from memoryd.engine.sessions.statements.topics import topic_of

MAX_STATEMENTS = 10  # of a message
MIN_WORDS, MAX_LENGTH = 2, 400  # of a statement, in characters
EXPLICIT_CONFIDENCE = 0.95
AUTHOR, MAX_SPEAKER = "The user", 80  # who said it, if no name is known; characters of a name

_MACHINES = frozenset({"assistant", "ai", "bot", "system", "tool", "model"})
_ROLES = frozenset({"user", "human", "the user", "me"})
_SISTERS = ("es", "it", "pt")  # near enough to be taken for one another
_CONTEXT = re.compile(  # a clause before a statement that says when it holds
    r"(?:^|(?<=[,.]\s))(?:for|when|in|on|at|while|during|für|beim|bei|im|pour|quand|en|dans|para|"
    r"cuando|per|"
    r"quando|nel|em)\s[^,]{2,50},\s*$",
    re.IGNORECASE,
)
_LETTER = re.compile(r"[^\W\d_]")


@cache
def _languages() -> tuple[Language, ...]:
    """The tables, compiled at the first use: a daemon that never reads a session need not."""
    return tuple(map(Language, (ENGLISH, GERMAN, FRENCH, SPANISH, ITALIAN, PORTUGUESE)))


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence to keep as a fact.

    topic: a key of which only one fact is true at a time, if there is one.
    """

    text: str
    topic: str | None
    kind: str | None
    about_user: bool
    confidence: float


def statements(text: str, speaker: str | None = None) -> list[Statement]:
    """What a message of a person states as lasting, in the order of the message."""
    if speaker is not None and speaker.strip().casefold() in _MACHINES:
        return []
    said = list(sentences(text))
    if any(language.refusal.search(one.masked) for one in said for language in _languages()):
        return []
    author = _author(speaker)
    found: dict[str, Statement] = {}
    for sentence, only_explicit in _before_tasks(said):
        for statement in _of_sentence(sentence, author, only_explicit=only_explicit):
            found.setdefault(statement.text.casefold(), statement)
        if len(found) >= MAX_STATEMENTS:
            break
    return list(found.values())[:MAX_STATEMENTS]


def _author(speaker: str | None) -> str:
    name = " ".join((speaker or "").split())[:MAX_SPEAKER]
    return AUTHOR if not name or name.casefold() in _ROLES else name


def _before_tasks(said: list[Sentence]) -> Iterator[tuple[Sentence, bool]]:
    """The sentences that speak for their author, and whether only requests to remember count.

    What follows a request to translate, to write or to play a role may be its material.
    """
    only_explicit = False
    for sentence in said:
        if any(_is_task(sentence.masked, language) for language in _languages()):
            if ":" in sentence.masked:
                return
            only_explicit = True
        else:
            yield sentence, only_explicit


def _is_task(masked: str, language: Language) -> bool:
    opened = language.openers.match(masked)
    return any(language.task.match(masked, at) for at in {0, opened.end() if opened else 0})


def _of_sentence(sentence: Sentence, author: str, *, only_explicit: bool) -> list[Statement]:
    for language in _languages_of(sentence):
        reading = _Reading(sentence, language, author)
        if found := reading.explicit() or ([] if only_explicit else reading.stated()):
            return found
    return []


def _languages_of(sentence: Sentence) -> list[Language]:
    """All languages but those that a sister explains better: "odio" is a word of two of them."""
    counts = {one.code: len(one.typical.findall(sentence.masked)) for one in _languages()}
    best = max(counts[code] for code in _SISTERS)
    return [one for one in _languages() if one.code not in _SISTERS or counts[one.code] == best]


class _Reading:
    """A sentence read by the rules of one language."""

    def __init__(self, sentence: Sentence, language: Language, author: str) -> None:
        self._sentence, self._language, self._author = sentence, language, author
        self._clauses = Clauses(sentence, language)

    def explicit(self) -> list[Statement]:
        """What the sentence asks to remember."""
        clauses, masked = self._clauses, self._sentence.masked
        for start in clauses.starts:
            asked = self._language.explicit.match(masked, start, clauses.end)
            if asked is None or (clauses.asks and not clauses.begins_with_question):
                continue
            before, clause = masked[:start], masked[asked.end() : clauses.end]
            if self._language.condition.search(before) or is_of_this_moment(self._language, clause):
                continue
            if clauses.begins_with_question and self._language.doubt.search(clause):
                continue
            # After "dass" a German verb is last: such a clause is read with its request only.
            first = asked.start() if asked.group().endswith("dass ") else asked.end()
            made = self._made(self._rule_at(asked.end()), first, clauses.end)
            return [made] if made is not None else []
        return []

    def stated(self) -> list[Statement]:
        """What the clauses of the sentence state."""
        clauses, made, reached = self._clauses, list[Statement](), 0
        if clauses.asks or clauses.begins_with_question:
            return []
        for start in clauses.starts:
            matched = self._rule_at(start) if reached <= start < clauses.end else None
            if matched is None:
                continue
            reached = clauses.segment_end(matched[1].end())
            before, clause = self._sentence.masked[:start], self._sentence.masked[start:reached]
            general = matched[0].rules.general
            if not is_doubted(self._language, before, clause, general=general):
                made += filter(None, [self._made(matched, start, reached)])
        return made

    def _rule_at(self, start: int) -> tuple[Rule, re.Match[str]] | None:
        for rule in self._language.rules:
            if matched := rule.pattern.match(self._sentence.masked, start, self._clauses.end):
                return rule, matched
        return None

    def _made(
        self, matched: tuple[Rule, re.Match[str]] | None, start: int, end: int
    ) -> Statement | None:
        if matched is not None and (context := _CONTEXT.search(self._sentence.text[:start])):
            start = context.start()
        said = self._sentence.text[start:end].strip(" ,;:-\u2013\u2014(*_")
        if not MIN_WORDS <= len(said.split()) or len(said) > MAX_LENGTH or not _LETTER.search(said):
            return None
        text = f"{self._author}: {said[0].upper()}{said[1:]}" + ("" if said[-1] in ".!?…" else ".")
        of_user = self._language.first_person.search(said) is not None
        if matched is None:
            return Statement(text, None, None, of_user, EXPLICIT_CONFIDENCE)
        rules = matched[0].rules
        topic = topic_of(rules.topic, matched[1], self._sentence.text[:end])
        about_user = of_user if rules.about_user is None else rules.about_user
        return Statement(text, topic, rules.kind, about_user, rules.confidence)
