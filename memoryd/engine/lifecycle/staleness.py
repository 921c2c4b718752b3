"""Memories about files that have changed: the upkeep looks at the files, a search never does.

A file is stale for a memory if it is gone; if a commit since `commit_sha` changed it; or, where
git does not know that commit, if it is many days newer than the memory. Of a file only existence
and time are read, and only inside the project's folder. What was reported is kept with the memory
(`stale_files`), so it is not reported again until the file changes again.
"""

from __future__ import annotations

import os
import re
import stat
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from memoryd.engine.lifecycle.decay import DIGITS
from memoryd.engine.lifecycle.folders import ProjectFolders
from memoryd.engine.lifecycle.rewrite import rewrite
from memoryd.engine.lifecycle.uses import Uses
from memoryd.engine.parts import Parts
from memoryd.fair import in_background
from memoryd.fields import (
    COMMIT,
    CONFIRMED_AT,
    FILES,
    MAX_TEXT,
    NEEDS_REVIEW,
    REVIEW_REASON,
    REVIEW_USES,
    STALE_FILES,
    confidence_of,
    moment_of,
    project_of,
    texts_of,
)
from memoryd.model import CONFIDENCE, DAY, Memory, is_expired
from memoryd.ports import FileHistory

CHECKED = 1000  # memories in one sweep; the next one goes on after them
MAX_ASKED = 20  # questions to git in one sweep
STALE_FACTOR = 0.7  # of the confidence is left
LINE = re.compile(r":\d+(?:[-:]\d+)?$")  # src/db.ts:45 is about src/db.ts
PATTERN = re.compile(r"[*?\[\]{}\0\n]")  # names no single file

State = int | None  # when a file changed, in epoch seconds; None: it is gone
Question = tuple[Path, str]  # folder and commit


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file that a memory names."""

    name: str  # as the memory has it
    path: str  # relative to the folder, or absolute without one
    state: State


@dataclass(frozen=True, slots=True)
class Looked:
    """A memory and what its files are like."""

    memory: Memory
    folder: Path | None
    files: tuple[NamedFile, ...]

    @property
    def question(self) -> Question | None:
        """What git has to be asked about it; None if nothing changed since it was stored."""
        commit = self.memory.metadata.get(COMMIT)
        newer = any(f.state is None or f.state > self.memory.created_at for f in self.files)
        if self.folder is None or not isinstance(commit, str) or not newer:
            return None
        return self.folder, commit

    @property
    def key(self) -> tuple[object, ...]:
        """Equal as long as nothing changes that matters here."""
        return baseline(self.memory), self.memory.metadata.get(COMMIT), self.files


@dataclass(frozen=True, slots=True)
class Finding:
    """Files that are stale for a memory, and a sentence that says so."""

    memory: Memory  # as it was when they were looked at
    files: tuple[NamedFile, ...]
    reason: str


class Staleness:
    """A job of the upkeep."""

    def __init__(self, parts: Parts, uses: Uses, history: FileHistory | None) -> None:
        self._parts = parts
        self._uses = uses
        self._history = history
        self._folders = ProjectFolders(parts.lifecycle.project_folders)
        self._last = ""  # id of the last memory that was looked at
        self._fresh: dict[str, tuple[object, ...]] = {}  # by id, what git found nothing about

    async def check_files(self) -> int:
        """Lower the confidence of memories whose files have changed, and flag them for review; how
        many."""
        if not self._parts.lifecycle.check_files:
            return 0
        memories, now = self._parts.index.memories(), self._parts.clock()
        # Not one of the threads that searches use: a disk or git may be slow.
        found = await in_background(self._look_at_some, memories, now)

        def change(memory: Memory) -> Memory:
            finding = found[memory.id]
            is_same = baseline(memory) == baseline(finding.memory)
            return self._flagged(memory, finding) if is_same and is_asked(memory, now) else memory

        return await rewrite(self._parts, list(found), change)

    def _look_at_some(self, memories: Iterable[Memory], now: float) -> dict[str, Finding]:
        """What is stale of some memories, from where the last sweep ended. Runs on a thread."""
        asked = {memory.id: memory for memory in memories if is_asked(memory, now)}
        ids = sorted(asked)
        start = bisect_right(ids, self._last)
        ids = (ids[start:] + ids[:start])[:CHECKED]
        self._last = ids[-1] if ids else ""
        self._fresh = {id: key for id, key in self._fresh.items() if id in asked}
        folder_of = cache(self._folders.folder_of)
        looked = [one for id in ids if (one := _looked_at(asked[id], folder_of)).files]
        answers = self._ask_git(looked)
        found: dict[str, Finding] = {}
        for one in looked:
            if one.question is not None and one.question not in answers:
                continue  # known to be fresh, or asked at a later sweep
            changed = answers[one.question] if one.question else None
            if finding := self._judged(one, changed):
                found[one.memory.id] = finding
            elif changed is not None:
                self._fresh[one.memory.id] = one.key
        return found

    def _ask_git(self, looked: Iterable[Looked]) -> dict[Question, set[str] | None]:
        """By question, the files that git says have changed; None if it cannot say."""
        files: dict[Question, set[str]] = {}
        for one in looked:
            if one.question is not None and self._fresh.get(one.memory.id) != one.key:
                files.setdefault(one.question, set()).update(file.path for file in one.files)
        some = list(files.items())[:MAX_ASKED]
        if self._history is None:
            return {question: None for question, _ in some}
        return {asked: self._history.changed(*asked, sorted(names)) for asked, names in some}

    def _judged(self, looked: Looked, changed: set[str] | None) -> Finding | None:
        memory = looked.memory
        newest = baseline(memory) + self._parts.lifecycle.stale_days * DAY
        reported = _reported(memory)
        stale = tuple(
            file
            for file in looked.files
            if is_stale(file, changed, newest)
            and not (file.name in reported and reported[file.name] == file.state)
        )
        if not stale:
            return None
        return Finding(memory, stale, _reason(memory, stale, by_git=changed is not None))

    def _flagged(self, memory: Memory, finding: Finding) -> Memory:
        named = set(texts_of(memory, FILES))
        states = _reported(memory) | {file.name: file.state for file in finding.files}
        fields = {
            CONFIDENCE: round(STALE_FACTOR * confidence_of(memory), DIGITS),
            NEEDS_REVIEW: True,
            REVIEW_REASON: finding.reason,
            REVIEW_USES: self._uses.total(memory),
            STALE_FILES: {name: at for name, at in states.items() if name in named},
        }
        return replace(memory, metadata={**memory.metadata, **fields})


def _looked_at(memory: Memory, folder_of: Callable[[str | None], Path | None]) -> Looked:
    folder = folder_of(project_of(memory))
    files = (named_file(name, folder) for name in texts_of(memory, FILES))
    return Looked(memory, folder, tuple(file for file in files if file is not None))


def _reported(memory: Memory) -> dict[str, Any]:
    """The states in which its files were reported."""
    found = memory.metadata.get(STALE_FILES)
    return dict(found) if isinstance(found, Mapping) else {}


def _reason(memory: Memory, stale: Sequence[NamedFile], *, by_git: bool) -> str:
    first, more = stale[0], len(stale) - 1
    if first.state is None:
        said = "is gone."
    elif by_git:
        said = f"has changed since commit {str(memory.metadata[COMMIT])[:12]}."
    else:
        days = (first.state - baseline(memory)) / DAY
        said = f"has changed {days:.0f} days after this was stored or confirmed."
    others = f" {more} more of its files are stale too." if more else ""
    return f"{first.name[: MAX_TEXT - len(said) - len(others) - 1]} {said}{others}"


def is_asked(memory: Memory, now: float) -> bool:
    """Whether to look at its files: one that waits for a review already does not need another."""
    is_flagged = memory.metadata.get(NEEDS_REVIEW) is True
    return bool(memory.metadata.get(FILES)) and not is_flagged and not is_expired(memory, now)


def baseline(memory: Memory) -> float:
    """When its text was stored or last confirmed."""
    return max(memory.created_at, moment_of(memory, CONFIRMED_AT) or memory.created_at)


def named_file(name: str, folder: Path | None) -> NamedFile | None:
    """The file that a name of a memory means; None if it is outside of the folder, no single file,
    or cannot be looked at."""
    found = _stat(name, folder)
    if found is not None and found.state is None and (short := LINE.sub("", name)) != name:
        found = _stat(short, folder)
    return None if found is None else replace(found, name=name)


def _stat(name: str, folder: Path | None) -> NamedFile | None:
    try:
        if (found := _place(name, folder)) is None:
            return None
        place, path = found
        about = os.stat(place)
    except (FileNotFoundError, NotADirectoryError):
        return NamedFile(name, path, None)
    except (OSError, ValueError):
        return None
    return NamedFile(name, path, int(about.st_mtime)) if stat.S_ISREG(about.st_mode) else None


def _place(name: str, folder: Path | None) -> tuple[str, str] | None:
    """The place of a file without links, and its path in the folder."""
    if PATTERN.search(name) or os.pardir in Path(name).parts:
        return None
    if folder is None:
        # Without its own folder, a disk may be away, and nothing can be said.
        known = os.path.isabs(name) and os.path.isdir(os.path.dirname(name))
        return (name, name) if known else None
    place = os.path.realpath(folder / name)
    path = os.path.relpath(place, folder)
    return None if path.split(os.sep)[0] in (os.pardir, os.curdir) else (place, path)


def is_stale(file: NamedFile, changed: set[str] | None, newest: float) -> bool:
    """`changed`: the files that git says have changed; None if it does not know."""
    is_known = changed is not None and file.path in changed
    if file.state is None:
        # A bare name may be short for a file in some folder, unless git knew it.
        return is_known or "/" in file.name
    return is_known if changed is not None else file.state > newest
