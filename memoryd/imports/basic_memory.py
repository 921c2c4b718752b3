"""Notes of basic-memory: a folder of Markdown files with a head (`title`, `permalink`, `tags`).

Each observation (`- [category] text #tag (context)`) and each relation (`- relation [[Target]]`)
becomes a fact, and so does what else a note says, as one text.
"""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Any

from memoryd.imports.front_matter import parted
from memoryd.imports.rows import Found, Maker, Skipped, derived_id, split_list, texts
from memoryd.imports.text_files import found_files, time_of, whole_text

NAME = "basic-memory"
FILES = 50  # that are looked at to recognise a folder
OBSERVATION = re.compile(r"\s*[-*+] +\[(?P<category>[^\[\]()]{2,})\]\s+(?P<text>\S.*)$")
CLOCK = re.compile(r"\d{1,3}:\d{2}[\d:.,\s-]*")  # of a transcript: no category
RELATION = re.compile(r"\s*[-*+] +(?P<relation>[^\[\]]*?)\s*\[\[(?P<target>[^\]]+)\]\]")
HEADING = re.compile(r"#{1,6} ")
TAG = re.compile(r"(?:^|\s)#([\w/-]+)")
FENCE = re.compile(r"\s*(?:```|~~~)")


def fits(path: Path) -> bool:
    """Whether this is such a folder or one of its files."""
    if path.is_file():
        return path.suffix.lower() == ".md" and _is_note(path, named=True)
    return any(map(_is_note, islice(found_files(path, ".md"), FILES)))


def read(path: Path) -> Found:
    """The facts of every note."""
    for file in [path] if path.is_file() else found_files(path, ".md"):
        text = whole_text(file, named=path.is_file())
        if isinstance(text, Skipped):
            yield text
            continue
        name = file.name if path.is_file() else file.relative_to(path).as_posix()
        head, body = parted(text)
        if head:
            first = text.count("\n") - body.count("\n") + 1  # number of the line after the head
            yield from _note(head, body, name, file, first)
        else:
            yield Skipped("files without a head", name)


def _note(head: dict[str, Any], body: str, name: str, file: Path, first: int) -> Found:
    link = str(head.get("permalink") or name)
    title = str(head.get("title") or file.stem)
    given = head.get("tags")
    tags = texts(given) if isinstance(given, list) else split_list(given)
    maker = Maker(NAME, time_of(file), {"note": link, "title": title}, zone=None)
    created = head.get("created") or head.get("created_at") or head.get("date")
    prose: list[str] = []
    in_code = False
    for number, line in enumerate(body.split("\n"), start=first):
        in_code ^= bool(FENCE.match(line))
        where = f"{name}, line {number}"
        said = None if in_code else OBSERVATION.match(line)
        relation = None if in_code or said else RELATION.match(line)
        if said and not CLOCK.fullmatch(said["category"]):
            yield maker.fact(
                derived_id(NAME, link, said["category"], said["text"]),
                f"{title}: {said['text'].strip()}",
                created,
                where=where,
                kind=said["category"],
                tags=[*tags, *TAG.findall(said["text"])],
            )
        elif relation:
            text = f"{title} {relation['relation'] or 'relates to'} {relation['target']}"
            yield maker.fact(
                derived_id(NAME, link, text), text.replace("_", " "), created, where=where,
                tags=tags,
            )  # fmt: skip
        else:
            prose.append(line)
    text = "\n".join(prose).strip()
    if any(line.strip() and not HEADING.match(line) for line in prose):
        text = text if title in text else f"{title}\n\n{text}"
        yield maker.fact(
            derived_id(NAME, link), _without_empty_headings(text), created, where=name,
            kind=_kind(head.get("type")), tags=tags,
        )  # fmt: skip


def _kind(type: object) -> object:
    return None if type in ("note", "entity") else type


def _without_empty_headings(text: str) -> str:
    """The text without headings that have nothing left below them."""
    kept: list[str] = []
    for line in reversed(text.split("\n")):
        is_empty = HEADING.match(line) and not any(below.strip() for below in kept)
        if not is_empty and not (HEADING.match(line) and HEADING.match(_first(kept))):
            kept.insert(0, line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()


def _first(lines: list[str]) -> str:
    return next((line for line in lines if line.strip()), "")


def _is_note(path: Path, *, named: bool = False) -> bool:
    text = whole_text(path, named=named)
    return not isinstance(text, Skipped) and "permalink" in parted(text)[0]
