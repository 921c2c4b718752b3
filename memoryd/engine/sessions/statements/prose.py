"""The sentences of a message that are its author's own words.

Code, logs, quotes, tables and lines of a pasted dialogue are left out. What stands between
quotation marks inside a sentence is masked by as many letters, so that no rule reads it and every
other word stays in its place.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

MAX_TEXT = 8_000  # characters read; of a longer message its beginning and its end, half of each
MAX_LINE = 2_000  # characters; a longer paragraph is a pasted text
MAX_SENTENCE = 600  # characters; a longer sentence is no speech
MAX_QUOTE = 600

_FENCE = re.compile(r"\s{0,3}(?:```|~~~)")
_CODE_LINE = re.compile(
    r"""\s*(?:\$\s|>>>|\.\.\.\s|import\s[\w.]+\s*$|from\s[\w.]+\simport\b|def\s\w+\(|class\s\w+[(:{]
    |function\s\w*\(|(?:const|let|var)\s\w+\s*=|public\s|private\s|return\b.*;|\#|<[/!?\w]|[{}\[]|//|/\*
    |@\w+\(|--\s|at\s[\w.$<>]+\(|File\s"|\|)|\t|\s{4,}(?![-*\d\s])""",
    re.VERBOSE,
)
_LOG_LINE = re.compile(
    r"\s*\[?\d{4}-\d\d-\d\d[ T]\d\d:|\s*\[?\d\d:\d\d(?::\d\d)?[\],.]?\s+\S"
    r"|\s*\[?(?:ERROR|WARN|WARNING|INFO|DEBUG|TRACE|FATAL|CRITICAL)\b|Traceback "
)
_ROLE = re.compile(r"\s*[*_]{0,2}[A-Z][\w.-]{1,20}(?: [A-Z][\w.-]{1,20})?[*_]{0,2}:\s")
_ROLE_WORD = re.compile(
    r"\s*[*_<\[]{0,2}(?:user|human|assistant|ai|bot|system|me|you|customer|agent|nutzer|q|a)"
    r"[*_>\]]{0,2}\s*:",
    re.IGNORECASE,
)
_LEAD_WORD = re.compile(  # words before a colon that are no speaker
    r"\s*[*_]{0,2}(?:note|reminder|remember|fyi|ps|btw|important|decision|also|update|correction|"
    r"deadline|rule|preference|merke|notiz|wichtig|hinweis|übrigens|entscheidung|regel|rappel|note|"
    r"important|décision|nota|importante|recuerda|decisión|ricorda|lembre|decisione|decisão|"
    r"recordatorio|lembrete|promemoria)\b",
    re.IGNORECASE,
)
_SYMBOLS = re.compile(r"[{}\[\]<>=;|\\$_&^~]")
_BULLET = re.compile(r"^\s*(?:[-*•\u2013]|\d{1,2}[.)])\s+")
_QUOTED = re.compile(
    "|".join(
        f"{first}[^{last}\n]{{1,{MAX_QUOTE}}}{last}"
        for first, last in (('"', '"'), ("“", "”"), ("„", "[“”]"), ("«", "»"), ("»", "«"))
    ).replace("[^[“”]\n]", "[^“”\n]")
    + r"|(?<![\w'])'[^'\n]{2,200}'(?!\w)|`[^`\n]{1,200}`|(?<!\w)\"\w[^\"\n]*|“[^”\n]*|«[^»\n]*"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|st|prof|str|nr|no|e\.g|i\.e|z\.b|bzw|ca|vs|approx|sra?|mme|av|dott|ing)"
    r"|(?<!\w)(?-i:[A-Z]))\.$",
    re.IGNORECASE,
)
_ORDINAL = re.compile(r"(?<!\d)\d{1,2}\.$")
_END = re.compile(r"[.!?…。\uff01\uff1f]+[)\"'”»]*(?=\s|$)|[;\n]")
_INVISIBLE = re.compile(r"[\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SPACES = str.maketrans(
    {"\u00a0": " ", "\u202f": " ", "\u2019": "'", "\u2018": "'", "\u00b4": "'", "\t": " "}
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence as written, the same with its quotes masked, and whether it ends as a question."""

    text: str
    masked: str
    asks: bool


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of a message that its author says."""
    plain = "\n".join(_own_lines(_shortened(text)))
    plain = unicodedata.normalize("NFC", _CONTROL.sub(" ", _INVISIBLE.sub("", plain))).translate(
        _SPACES
    )
    masked = _QUOTED.sub(_mask, plain)
    start = 0
    for end in _ends(masked):
        yield from _sentence(plain, masked, start, end)
        start = end
    yield from _sentence(plain, masked, start, len(plain))


def _shortened(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    # The lines that are cut through are no whole sentences.
    first, last = text[:half].rpartition("\n"), text[-half:].partition("\n")
    return f"{first[0] or first[2]}\n{last[2] or last[0]}"


def _own_lines(text: str) -> Iterator[str]:
    fenced = False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and _is_own(line):
            yield _BULLET.sub("", line, count=1).strip(" *_")


def _is_own(line: str) -> bool:
    if (
        len(line) > MAX_LINE
        or line.lstrip().startswith(">")
        or _CODE_LINE.match(line)
        or _LOG_LINE.match(line)
    ):
        return False
    if _ROLE_WORD.match(line) or (_ROLE.match(line) and not _LEAD_WORD.match(line)):
        return False
    return len(_SYMBOLS.findall(line)) * 12 <= max(len(line), 36)


def _mask(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", "Q", found.group())


def _ends(masked: str) -> Iterator[int]:
    for found in _END.finditer(masked):
        before = masked[max(0, found.start() - 8) : found.start() + 1]
        after = masked[found.end() : found.end() + 2].strip()
        if found.group() == ".":
            if _ABBREVIATION.search(before):
                continue
            # "9. Februar": a day of the month, not the end of a sentence.
            if _ORDINAL.search(before) and after[:1].isalpha():
                continue
        yield found.end()


def _sentence(plain: str, masked: str, start: int, end: int) -> Iterator[Sentence]:
    part = plain[start:end]
    start += len(part) - len(part.lstrip())
    part = part.strip()
    if 2 <= len(part) <= MAX_SENTENCE:
        asks = "?" in part[-4:] or "\uff1f" in part[-4:] or part.startswith("¿")
        yield Sentence(part, masked[start : start + len(part)], asks)
