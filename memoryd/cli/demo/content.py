"""The invented memories, from the texts in `data/demo`, as an import takes them.

The content is always the same. Times are not: they are spread over the weeks before now, so that
plots, ages and expiry show something. Each time follows from a hash of the text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "data" / "demo"
PROJECT_FILES = ("robot", "web", "pipeline", "shared")
DAYS = 45  # over which facts are spread
MESSAGE_DAYS = 28  # conversations: the oldest would expire soon
CONVERSATION_DAYS = 30  # that a conversation lives
DAY_BEGINS, DAY_ENDS = 7, 22  # hours in which somebody says something
NUMBERS = ("estimate", "actual", "confidence")
LISTS = {"files": "related_files", "steps": "steps"}  # keys of the texts, and fields
SEPARATORS = {"files": ",", "steps": ";"}
WORDS = {
    "room": "hall;kitchen;living room;study;laundry room;bedroom;cellar;terrace",
    "thing": "lamp;basket;ladder;chair;umbrella;bottle;blanket;bicycle;box;plant",
    "person": "Ann;Bob;Claire;Dan;Eve;Finn;Mia;Ida",
    "day": "Monday;Tuesday;Wednesday;Thursday;Friday;Saturday;Sunday",
    "part": "checkout;basket;search page;product page;login;mail queue;price list",
}
Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Session:
    """A session with its messages."""

    id: str
    title: str
    identity: str
    project: str
    began: float
    closed: bool
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """A note with its aliases."""

    name: str
    aliases: tuple[str, ...]
    content: str


class Content:
    """Everything that a demo stores, as of `now`."""

    def __init__(self, now: datetime) -> None:
        self._now = now.astimezone()

    def memories(self) -> list[Fields]:
        """The facts and contexts of all projects."""
        return [self._memory(*found) for name in PROJECT_FILES for found in _blocks(name)]

    def sessions(self) -> list[Session]:
        found: list[Session] = []
        head, lines = "", []
        for line in [*_lines("sessions"), "== "]:
            if not line.startswith("== "):
                lines.append(line)
                continue
            if head:
                found.append(self._session(head, lines))
            head, lines = line.removeprefix("== "), []
        return found

    def messages(self, session: Session) -> list[Fields]:
        """The messages of a session, and its record."""
        record: Fields = {"title": session.title, "identity": session.identity}
        at = session.began
        made: list[Fields] = []
        for order, line in enumerate(session.lines):
            at += 20 + _number(line) % 160  # seconds to read and write
            made.append(self._message(session, order, line, at))
        record["last_consolidated"] = -1
        if session.closed:
            record["closed_at"] = at + 300
        head = f"Session {session.id}: {session.title}"
        known = _fields(head, at=session.began, metadata={"session_record": record})
        return [known | {"session_id": session.id}, *made]

    def notes(self) -> list[Note]:
        lines = _lines("notes")
        heads = (line.split(" | ") for line in lines[::2])
        return [
            Note(name, tuple(aliases.split(", ")), text)
            for (name, aliases), text in zip(heads, lines[1::2], strict=True)
        ]

    def variations(self, count: int) -> Iterator[Fields]:
        """So many further memories, each different, made from templates."""
        templates = [line.split(" | ", 3) for line in _lines("templates")]
        for number in range(count):
            project, kind, tags, template = templates[number % len(templates)]
            yield self._memory(project.strip(), kind, tags, _filled(template, number), {})

    def _memory(self, project: str, kind: str, tags: str, text: str, extra: Fields) -> Fields:
        at = self._time(text, int(extra.get("days", 0)))
        metadata: Fields = {"tags": tags.split(", ")}
        if kind not in ("-", "context", "conversation"):
            metadata["kind"] = kind
        if project:
            metadata["project"] = project
        metadata |= _metadata(extra, at)
        key = extra.get("id")
        made = _fields(text, at=at, metadata=metadata, id=_id(f"key {key}") if key else None)
        if kind == "context":
            made |= {"type": kind, "created_at": self._today(text), "expires_at": self._midnight()}
        elif kind == "conversation":
            at = self._time(text, 0, MESSAGE_DAYS)
            end = at + timedelta(days=CONVERSATION_DAYS).total_seconds()
            made |= {"type": kind, "created_at": at, "expires_at": end}
        if "name" in extra:
            made["name"] = extra["name"]
        if "pinned" in extra:
            made["pinned"] = True
        return made

    def _session(self, head: str, lines: list[str]) -> Session:
        id, title, identity, project, days, state = (part.strip() for part in head.split("|"))
        began = self._time(id, int(days))
        return Session(id, title, identity, project, began, state == "closed", tuple(lines))

    def _message(self, session: Session, order: int, line: str, at: float) -> Fields:
        who, _, text = line.partition(": ")
        is_agent = who == "assistant"
        metadata: Fields = {"role": "assistant" if is_agent else "user", "order": order}
        if not is_agent:
            metadata["speaker"] = who
        if session.project:
            metadata["project"] = session.project
        text = text.replace("\\n", "\n")
        made = _fields(text, at=at, metadata=metadata, id=_id(f"{session.id} {order}"))
        end = at + timedelta(days=CONVERSATION_DAYS).total_seconds()
        return made | {"type": "conversation", "expires_at": end, "session_id": session.id}

    def _time(self, text: str, days: int, spread: int = DAYS) -> float:
        """A time on a day before today: so many days ago, or one that follows from the text."""
        number = _number(text)
        days = days or 1 + number % spread
        seconds = (number // spread) % ((DAY_ENDS - DAY_BEGINS) * 3600) + DAY_BEGINS * 3600
        day = datetime.combine(self._now.date() - timedelta(days=days), time())
        return (day + timedelta(seconds=seconds)).astimezone().timestamp()

    def _today(self, text: str) -> float:
        """A time between the beginning of today and now."""
        begin = datetime.combine(self._now.date(), time()).astimezone().timestamp()
        return begin + (self._now.timestamp() - begin) * (_number(text) % 1000) / 1000

    def _midnight(self) -> float:
        """The end of today, when contexts expire."""
        tomorrow = self._now.date() + timedelta(days=1)
        return datetime.combine(tomorrow, time()).astimezone().timestamp()


def _lines(name: str) -> list[str]:
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    return [line for line in text.split("\n") if line]


def _blocks(name: str) -> Iterator[tuple[str, str, str, str, Fields]]:
    """The memories of a file: project, kind, tags, text, and the lines below as fields."""
    project = ""
    block: tuple[str, str, str, str, Fields] | None = None
    for line in _lines(name):
        if line.startswith("project: "):
            project = line.removeprefix("project: ")
        elif line.startswith("  ") and block:
            key, _, value = line.strip().partition(": ")
            block[-1][key] = value
        else:
            if block:
                yield block
            kind, tags, text = line.split(" | ", 2)
            block = (project, kind, tags, text, {})
    if block:
        yield block


def _fields(text: str, *, at: float, metadata: Fields, id: str | None = None) -> Fields:
    """A fact as an export has it."""
    made = {"id": id or _id(text), "type": "fact", "content": text, "created_at": at}
    return made | {"expires_at": None, "metadata": metadata}


def _metadata(extra: Fields, at: float) -> Fields:
    made: Fields = {}
    for key, value in extra.items():
        if key in LISTS:
            made[LISTS[key]] = [part.strip() for part in value.split(SEPARATORS[key])]
        elif key in NUMBERS:
            made[key] = float(value)
        elif key == "supersedes":
            made[key] = [_id(f"key {value}")]
        elif key == "review":
            made |= {"needs_review": True, "review_reason": value, "review_uses": 0}
        elif key not in ("id", "days", "name", "pinned"):
            made[key] = value
    return made | _uses(str(extra), at)


def _uses(text: str, at: float) -> Fields:
    """Some memories have been used."""
    uses = max(_number(text) % 15 - 6, 0)
    return {"uses": uses, "last_used_at": at + 3600 * uses} if uses else {}


def _filled(template: str, number: int) -> str:
    """A template with words and numbers that follow from `number`, which makes it unlike others."""
    chance = _number(f"{template} {number}")
    made: Fields = {"n": 1000 + number, "a": 2 + chance % 57, "b": 2 + chance // 57 % 90}
    for word, choices in WORDS.items():
        options = choices.split(";")
        chance //= 7
        made[word] = options[chance % len(options)]
    return template.format(**made)


def _id(text: str) -> str:
    """The id of an invented memory: always the same, like those that memoryd makes."""
    return hashlib.sha256(f"demo {text}".encode()).hexdigest()[:20]


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def batches(memories: Iterable[Fields], size: int) -> Iterator[list[Fields]]:
    """The memories in lists of at most so many."""
    batch: list[Fields] = []
    for memory in memories:
        batch.append(memory)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
