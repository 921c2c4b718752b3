"""Tokenizer: text to the terms that the word index compares.

A term is a stable 64-bit number, not the word: the index then holds no text, in RAM or in its
snapshot. Words are folded (case, accents, width) and stemmed. An identifier, path, version or
address gives a term for the whole and for each part. Scripts without spaces give characters and
pairs of characters. There are no stop words: common words only weigh less in a query.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b

import Stemmer

from memoryd.normalise import normalized

# Marks that belong to the word before them; Python's \w leaves them out.
_MARKS = "\u0300-\u036f\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
_JOINT = r"(?:[._\-/\\:@'\u2019+#~&]{1,3}|(?<=\d),(?=\d))"
CHUNK = re.compile(
    rf"[\w{_MARKS}]+(?:{_JOINT}[\w{_MARKS}]+)*[+#]{{0,2}}|[\u2190-\u2bff\U0001f000-\U0001faff]"
)
# Accents; Hebrew points, Arabic vowels and tatweel, which are optional in writing.
_ACCENTS = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670]"
)
# Letters that do not decompose, and letters with two code points.
_SAME = str.maketrans(
    "\u0142\u0141\u00f8\u00d8\u0111\u0110\u0127\u0126\u0131\u0167\u0166\u0629\u06cc\u06a9\u0649",
    "lLoOdDhHitT\u0647\u064a\u0643\u064a",
)
_ZEROS = "\u0660\u06f0\u0966\u09e6\u0a66\u0ae6\u0b66\u0be6\u0c66\u0ce6\u0d66\u0e50\u0ed0\u1040"
_LETTERS = _SAME | {ord(zero) + n: str(n) for zero in _ZEROS for n in range(10)}
_POSSESSIVE = re.compile(r"['\u2019]s$", re.IGNORECASE)
# An address is split into its sides, and a side into its words.
_SIDES = re.compile(r"[/\\:@~&]+")
_WORDS = re.compile(r"[._\-+#,]+")
# Word boundaries inside camelCase, HTTPServer, utf8.
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=\D)(?=\d)|(?<=\d)(?=\D)")
_BREAKS = re.compile(rf"{_JOINT}")
_VERSION = re.compile(r"v?(\d+(?:\.\d+)+)", re.IGNORECASE)
# Scripts written without spaces: Thai, Lao, Myanmar, Khmer, kana, Han, Hangul.
DENSE = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U0003ffff]+"
)
# A number in groups, such as a telephone number; the grouping does not matter.
_GROUPED = re.compile(r"(?<!\d)\d++(?:[ ()./\-]{1,3}+\d++)++")
GROUPED = range(7, 21)  # digits of such a number; more digits are a list of numbers
APART = frozenset(" ()/")
TERMS_VERSION = 4  # increase when the same memory gives other terms
CACHED = 24  # longest chunk, in characters, whose terms are cached
LONGEST = 256  # characters of a chunk that are read: longer ones are data, not words

QUIET_WORDS = (
    "a an the is are was were be been being am do does did doing done have has had having i you "
    "he she it we they my your his her its our their me him them us mine yours myself what which "
    "who whom whose when where why how of in on at to for with from by about as into and or but "
    "not no nor this that these those there here can could would should will shall may might must "
    "if so than then any some just also please tell"
).split()

_local = threading.local()  # a stemmer is not thread-safe


def terms(text: str) -> list[int]:
    """The terms of a text, in order, with repetitions."""
    found: list[int] = []
    text = folded(text)
    for chunk in CHUNK.findall(text):
        if len(chunk) <= LONGEST:
            found += _cached(chunk) if len(chunk) <= CACHED else _terms_of(chunk)
        else:
            for piece in _pieces(chunk):
                found += _terms_of(piece)
    return found + [term(number) for number in _grouped(text)]


def numbers(text: str) -> set[int]:
    """The terms of chunks with a digit: numbers, versions, codes. People do not paraphrase them."""
    chunks = CHUNK.findall(folded(text))
    with_digit = (chunk for chunk in chunks if any(sign.isdecimal() for sign in chunk))
    return {found for chunk in with_digit for found in _terms_of(chunk[:LONGEST])}


def _grouped(text: str) -> Iterator[str]:
    """The digits of grouped numbers; for one that is a single chunk, `_words` joins them."""
    for number in _GROUPED.findall(text):
        digits = "".join(filter(str.isdecimal, number))
        if len(digits) in GROUPED and not APART.isdisjoint(number):
            yield digits


def _pieces(chunk: str) -> Iterator[str]:
    """The parts of a very long chunk: a path, a list without spaces, a page of Chinese. Of a part
    that is longer than any word, only the beginning."""
    for part in _BREAKS.split(chunk):
        if len(part) <= LONGEST or not DENSE.search(part):
            yield part[:LONGEST]
            continue
        for start in range(0, len(part), LONGEST):
            yield part[start : start + LONGEST + 1]  # one more: a pair may cross the border


def term(word: str) -> int:
    """The term of one word, without folding or stemming."""
    return int.from_bytes(blake2b(word.encode(errors="replace"), digest_size=8).digest(), "big")


def folded(text: str) -> str:
    """The text without width variants, accents and points, and with ASCII digits. Case stays: it
    shows word boundaries."""
    if text.isascii():
        return text
    plain = _ACCENTS.sub("", normalized("NFKD", text))
    return normalized("NFC", plain.translate(_LETTERS))


def _terms_of(chunk: str) -> tuple[int, ...]:
    chunk = _POSSESSIVE.sub("", chunk).replace("'", "").replace("\u2019", "")
    return tuple(term(word) for word in _words(chunk)) if chunk else ()


_cached = lru_cache(maxsize=32_768)(_terms_of)


def _words(chunk: str) -> Iterator[str]:
    """A chunk as a whole and its parts; for a plain word, its stem."""
    if DENSE.search(chunk):
        yield from _dense_words(chunk)
        return
    sides = [side for side in _SIDES.split(chunk) if side]
    atoms = [atom for side in sides for atom in _atoms(side)]
    if atoms == [chunk]:
        yield stem(chunk.casefold())
        return
    yield chunk.casefold()
    if len(sides) > 1:
        yield from (side.casefold() for side in sides if len(_atoms(side)) > 1)
    if version := _VERSION.fullmatch(chunk):
        numbers = version[1].split(".")
        yield from (".".join(numbers[:n]) for n in range(2, len(numbers) + 1))
    elif len(sides) == 1 and (joined := _WORDS.sub("", chunk)) not in (chunk, *atoms):
        yield stem(joined.casefold())  # e-mail, U.S.A., 2026-11-16, 1,000
    yield from (stem(atom.casefold()) for atom in atoms)


def _atoms(side: str) -> list[str]:
    words = [word for word in _WORDS.split(side) if word]
    parts = [part for word in words for piece in word.split("_") for part in _HUMPS.split(piece)]
    return [part for part in parts if part]


def _dense_words(chunk: str) -> Iterator[str]:
    """Characters and pairs of scripts without spaces; the text between them as words."""
    end = 0
    for run in DENSE.finditer(chunk):
        if rest := chunk[end : run.start()]:
            yield from _words(rest)
        yield from run[0]
        yield from (run[0][n : n + 2] for n in range(len(run[0]) - 1))
        end = run.end()
    if rest := chunk[end:]:
        yield from _words(rest)


def stem(word: str) -> str:
    """The stem of a folded word; the word itself if it is not of ASCII letters."""
    if len(word) < 3 or not word.isalpha() or not word.isascii():
        return word
    stemmer = getattr(_local, "stemmer", None)
    if stemmer is None:
        stemmer = _local.stemmer = Stemmer.Stemmer("english")
    stemmed: str = stemmer.stemWord(word)
    return stemmed


QUIET = frozenset(number for word in QUIET_WORDS for number in terms(word))
