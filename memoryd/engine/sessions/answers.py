"""Reads what a language model answered, forgivingly.

Models put the JSON into a fence, write a sentence before it, answer with one field only, stop in
the middle, or repeat the question. So the first object that has the fields is used, wherever it is;
without one, each field is looked for by its name. What has the wrong type is left out. If no
history entry is found, there is no answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from memoryd.engine.sessions.prompt import INSTRUCTIONS
from memoryd.engine.sessions.said import shortened
from memoryd.fields import HALF_LIVES, NOTE_KINDS
from memoryd.sanitize import visible

ENTRY, TITLE, UPDATE, FACTS = FIELDS = ("history_entry", "title", "memory_update", "facts")
MAX_READ = 200_000  # characters of an answer that are read
MAX_TRIES = 500  # brackets that may begin an object
MAX_DEPTH = 3  # of objects within objects
MAX_ENTRY, MAX_TITLE, MAX_FACT = 4_000, 60, 500  # characters
MAX_FACTS = 20
FEWEST = 5  # letters and digits of a text that says something

DECODER = json.JSONDecoder(strict=False)  # a line feed within a string is accepted
THOUGHTS = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.S | re.I)
NAMED = re.compile(rf"[\"'*`]*\b({'|'.join(FIELDS)})\b[\"'*`]*\s*[:=][*\s]*", re.I)
QUOTED = re.compile(r"\"((?:[^\"\\]|\\.)*+)|'((?:[^'\\]|\\.)*+)", re.S)
CUT_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{0,3}\Z")
HALVES = "".join(map(chr, range(0xD800, 0xDC00)))  # first halves of a pair of surrogates
STAMP = re.compile(r"\s*\[?\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?)?\s?(?:Z|UTC)?\]?[\s:,.-]*")
TOPIC = re.compile(r"[a-z0-9_]{1,30}(?:\.[a-z0-9_]{1,30}){1,3}")
BULLET = re.compile(r"\s*(?:[-*+\u2022]|\d{1,3}[.)])\s+")
NOTHING = re.compile(
    r"\W*(?:none|null|nothing(?: new)?|no (?:changes?|updates?|new facts)|n/?a)\W*"
)
KINDS = frozenset(HALF_LIVES) - set(NOTE_KINDS)
ECHOES = [line for line in INSTRUCTIONS.casefold().split(". ") if len(line) > 30]


@dataclass(frozen=True, slots=True)
class ProposedFact:
    """A fact that a language model would keep. `message`: the number of the message in the prompt
    that states it, None if it did not say."""

    text: str
    topic: str | None = None
    kind: str | None = None
    message: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a language model wrote. `entry` is without its time."""

    entry: str
    title: str | None = None
    facts: tuple[ProposedFact, ...] = ()

    @property
    def memory_update(self) -> str | None:
        """The facts as lines; None without any."""
        return "\n".join(fact.text for fact in self.facts) or None


def parse(text: str) -> Answer | None:
    """What the model answered; None if there is no history entry in it."""
    text = THOUGHTS.sub("", text[:MAX_READ]).strip()
    whole, end = _decoded(text, 0)
    text = whole if isinstance(whole, str) and end == len(text) else text  # JSON in a JSON string
    for found in _objects(text):
        if (answer := _answer(found)) is not None:
            return answer
    return _answer(_fields(text))


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text, in order, and those within them."""
    at = text.find("{")
    for _ in range(MAX_TRIES):
        if at < 0:
            return
        found, end = _decoded(text, at)
        yield from _within(found)
        at = text.find("{", max(end, at + 1))


def _decoded(text: str, at: int) -> tuple[Any, int]:
    """The JSON value that begins here, and where it ends; None and 0 if there is none."""
    try:
        return DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, 0


def _within(found: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    if isinstance(found, dict):
        yield found
    values = found.values() if isinstance(found, dict) else found
    if depth < MAX_DEPTH and isinstance(found, dict | list):
        for value in values:
            yield from _within(value, depth + 1)


def _fields(text: str) -> dict[str, Any]:
    """The fields that a text names, where it is no whole object."""
    found: dict[str, Any] = {}
    names = list(NAMED.finditer(text))
    for number, match in enumerate(names):
        end = names[number + 1].start() if number + 1 < len(names) else len(text)
        field = match[1].lower()
        if field not in found or not found[field]:
            found[field] = _value(text[match.end() : end], field)
    return found


def _value(text: str, field: str) -> Any:
    """The value at the beginning of a text, of which the end may be missing."""
    value, _ = _decoded(text, 0)
    if value is not None:
        return value
    if (match := QUOTED.match(text)) is not None:
        return _unescaped(match[1] or match[2] or "")
    if text.startswith("[") and field != ENTRY:
        return list(_items(text))
    return text.split("\n\n")[0].strip(" \n,}`*\"'")


def _items(text: str) -> Iterator[Any]:
    """The items of a list that may not end."""
    at = 1
    while at < len(text):
        while at < len(text) and text[at] in " \n\r\t,":
            at += 1
        value, end = _decoded(text, at)
        if not end:
            return
        yield value
        at = end


def _unescaped(text: str) -> str:
    """The text of a JSON string, of which the end may be missing."""
    found, end = _decoded(f'"{CUT_ESCAPE.sub("", text)}"', 0)
    if not end:
        return text.replace("\\n", "\n").replace("\\", "")
    return str(found).rstrip(HALVES)


def _answer(found: dict[str, Any]) -> Answer | None:
    found = {key.strip().lower(): value for key, value in found.items() if isinstance(key, str)}
    entry = _clean(found.get(ENTRY))
    entry = STAMP.sub("", entry, count=1).strip() if STAMP.match(entry) else entry
    if not _says_something(entry) or _is_echo(entry):
        return None
    title = " ".join(STAMP.sub(" ", _clean(found.get(TITLE))).split()).strip(" .\"'*#")
    facts = _facts([found.get(UPDATE), found.get(FACTS)])
    return Answer(shortened(entry, MAX_ENTRY), shortened(title, MAX_TITLE) or None, facts)


def _clean(value: Any) -> str:
    """A text that can be stored; "" for anything else."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = " ".join(value)
    if not isinstance(value, str):
        return ""
    return visible(value.encode("utf-8", "replace").decode()).strip()


def _says_something(text: str) -> bool:
    return sum(map(str.isalnum, text[:1000])) >= FEWEST and not NOTHING.fullmatch(text.lower())


def _is_echo(text: str) -> bool:
    """Whether it repeats the question."""
    folded = " ".join(text.casefold().split())
    return folded in INSTRUCTIONS.casefold() or any(line in folded for line in ECHOES)


def _facts(found: Any) -> tuple[ProposedFact, ...]:
    facts: dict[str, ProposedFact] = {}
    for fact in _proposals(found):
        if _says_something(fact.text) and not _is_echo(fact.text) and len(facts) < MAX_FACTS:
            facts.setdefault(fact.text.casefold(), fact)
    return tuple(facts.values())


def _proposals(found: Any, depth: int = 0) -> Iterator[ProposedFact]:
    """The facts in a list, in lines of a text, or in an object with either."""
    if depth > MAX_DEPTH + 1:
        return
    if isinstance(found, str):
        lines = [line for line in _clean(found).splitlines() if not line.lstrip().startswith("#")]
        for line in lines:
            yield ProposedFact(shortened(BULLET.sub("", line, count=1).strip(), MAX_FACT))
    elif isinstance(found, list):
        for item in found[:MAX_TRIES]:
            yield from _proposals(item, depth + 1)
    elif isinstance(found, dict):
        named = (found.get(key) for key in ("text", "fact", "content"))
        text = next((value for value in named if isinstance(value, str)), None)
        if text is not None:
            yield _proposal(text, found)
            return
        for value in found.values():
            yield from _proposals(value, depth + 1)


def _proposal(text: str, found: dict[str, Any]) -> ProposedFact:
    topic, kind, message = (found.get(key) for key in ("topic", "kind", "message"))
    return ProposedFact(
        shortened(" ".join(_clean(text).split()), MAX_FACT),
        topic if isinstance(topic, str) and TOPIC.fullmatch(topic) else None,
        kind if isinstance(kind, str) and kind in KINDS else None,
        message if type(message) is int else None,
    )
