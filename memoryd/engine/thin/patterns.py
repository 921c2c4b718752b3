"""The words of a query as regular expressions that a server can search texts for.

A server knows texts, not terms. So a pattern is the beginning of a word, in any case and with any
accent, that all forms of the word have in common: `(?i)\\bstud` for studies. It may find too much;
the terms of what was found decide.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memoryd.engine.index.terms import CHUNK, DENSE, QUIET, folded, stem, terms

MAX_PATTERNS = 40  # words of a query that are considered
WORD = re.compile(r"[^\W_]+")
ENDINGS = "eiy"  # the last letter of a stem that other forms of the word may not have
LONG = 6  # letters of a stem from which its last letter is left out
# Letters that a query finds with accents as well.
ACCENTED = {
    "a": "àáâãäåāăą",
    "c": "çćčĉ",
    "d": "ďđ",
    "e": "èéêëēėęě",
    "g": "ğģ",
    "i": "ìíîïīįı",
    "l": "łĺľ",
    "n": "ñńňņ",
    "o": "òóôõöøōő",
    "r": "řŕ",
    "s": "śšşșß",
    "t": "ťţțŧ",
    "u": "ùúûüūůűų",
    "y": "ýÿ",
    "z": "źžż",
}
S = "[sśšşșß]"  # the pattern of s; ss is written ß as well


@dataclass(frozen=True, slots=True)
class WordPattern:
    """A word of a query: its regular expression, and the terms that it has."""

    regex: str
    terms: frozenset[int]


def patterns(text: str) -> list[WordPattern]:
    """The words of a query, each once, in order. Words such as 'the' are left out, unless there is
    no other."""
    found: dict[str, WordPattern] = {}
    for chunk in CHUNK.findall(folded(text)):
        for word in _words(chunk):
            made = WordPattern(_regex(word), frozenset(terms(word)))
            if made.terms:
                found.setdefault(made.regex, made)
        if len(found) >= MAX_PATTERNS:
            break
    loud = [one for one in found.values() if not one.terms <= QUIET]
    return loud or list(found.values())


def _words(chunk: str) -> list[str]:
    """The parts of a chunk that a text may have apart: words, and pairs of characters of scripts
    without spaces."""
    runs = [run[0] for run in DENSE.finditer(chunk)]
    pairs = [run[at : at + 2] for run in runs for at in range(max(1, len(run) - 1))]
    return pairs + WORD.findall(DENSE.sub(" ", chunk))


def _regex(word: str) -> str:
    if DENSE.match(word):
        return re.escape(word)
    plain = stem(word.casefold())
    if plain.isascii() and plain.isalpha() and len(plain) > 3:
        if plain[-1] in ENDINGS or len(plain) >= LONG:
            plain = plain[:-1]
    return r"(?i)\b" + "".join(map(_letter, plain)).replace(S + S, S + "{1,2}")


def _letter(letter: str) -> str:
    marks = ACCENTED.get(letter)
    return f"[{letter}{marks}]" if marks else re.escape(letter)
