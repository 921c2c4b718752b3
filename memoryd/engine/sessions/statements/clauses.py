"""A sentence cut into clauses, and what makes a clause no statement.

A statement may stand beside a question or a request in one sentence ("I'm vegan, what can I
cook?"). So each rule is tried where a clause begins, and what it keeps ends where another main
clause begins.
"""

from __future__ import annotations

import re

from memoryd.engine.sessions.statements.language import Language
from memoryd.engine.sessions.statements.prose import Sentence

MAX_CLAUSES = 40  # of a sentence; what comes later is not read
_JOKES = re.compile(
    r"(?<!\w)(?:l+o+l+|lmao|rofl|(?:ha){2,}h?|(?:he){2,}|ah(?:ah)+a?|x+d|mdr|ptdr|(?:ja){2,}|"
    r"(?:rs){2,}|k{3,}|/s)(?!\w)|[😂🤣😜🙃😏🤡]|[:;]-?[DPp)](?!\w)",
    re.IGNORECASE,
)


class Clauses:
    """Where the clauses of a sentence begin, in a language."""

    def __init__(self, sentence: Sentence, language: Language) -> None:
        self._language, self._masked = language, sentence.masked
        self.starts = [self._skipped(0)]
        self._breaks: list[int] = []  # a new main clause begins here
        self.end = len(sentence.masked)
        cut = None
        for number, found in enumerate(language.clause.finditer(sentence.masked)):
            if number == MAX_CLAUSES:
                self.end = found.start()
                break
            start = self._skipped(found.end())
            self.starts.append(start)
            if language.starter.match(sentence.masked, start):
                self._breaks.append(found.start())
            if cut is None and language.question.match(sentence.masked, start):
                cut = found.start()
        self.asks = sentence.asks
        self.begins_with_question = bool(language.question.match(sentence.masked, self.starts[0]))
        if sentence.asks and cut is not None and not self.begins_with_question:
            self.end, self.asks = cut, False

    def _skipped(self, start: int) -> int:
        """The place after conjunctions and words that say nothing."""
        for pattern in (self._language.conjunction, self._language.openers):
            if found := pattern.match(self._masked, start):
                start = found.end()
        return start

    def segment_end(self, matched_to: int) -> int:
        """The end of what begins with a match: the next main clause, or the end of the sentence."""
        later = (place for place in self._breaks if place >= matched_to)
        return min(next(later, self.end), self.end)


def is_doubted(language: Language, before: str, clause: str, *, general: bool) -> bool:
    """Whether a clause is unsure, reported, past, a joke, of this moment, or about something at
    hand. `before`: what the sentence says before it."""
    if language.condition.search(before) or _JOKES.search(before + clause):
        return True
    if language.doubt.search(clause) or language.passing.search(clause):
        return True
    return general and language.deictic.search(clause) is not None


def is_of_this_moment(language: Language, clause: str) -> bool:
    return language.passing.search(clause) is not None or _JOKES.search(clause) is not None
