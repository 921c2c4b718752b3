"""Notes about a file that an agent has just read or changed, or at which a tool failed: what is
known to go wrong there."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence

from memoryd.engine.filters import Filter, parse_where
from memoryd.engine.lifecycle.decay import confidence_now
from memoryd.engine.listing import Listing
from memoryd.engine.parts import Parts
from memoryd.engine.project_rules import pushable
from memoryd.engine.search.search import Search
from memoryd.errors import InvalidInput
from memoryd.fields import FILES, KIND, texts_of
from memoryd.model import Memory

KINDS = ("gotcha", "error_pattern", "dead_end")
MAX_NOTES = 2_000  # of a project that are looked at, the newest
MAX_ERROR = 500  # characters of an error that are searched for
MIN_WORDS = 3  # a shorter error, such as "1 failed", is like too many others
_EXIT_CODE = re.compile(r"\s*(?:error:\s*)?exit code:? \d+", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{2,}")


class FileNotes:
    """Finds the note that fits a tool call best."""

    def __init__(self, parts: Parts, listing: Listing, search: Search) -> None:
        self._parts = parts
        self._listing = listing
        self._search = search
        self._known: tuple[int, str | None] | None = None
        self._by_name: dict[str, list[str]] = {}

    async def about(
        self, files: Sequence[str], cwd: str, project: str | None, seen: Collection[str]
    ) -> Memory | None:
        """The surest note about one of these files; None if there is none that was not seen."""
        if not files:
            return None
        await self._prepare(project)
        found: dict[str, Memory] = {}
        for file in files:
            for id in self._by_name.get(os.path.basename(file.rstrip("/")), ()):
                memory = self._parts.index.get(id)
                if memory is not None and names_file(texts_of(memory, FILES), file, cwd):
                    found[id] = memory
        return self._surest(found.values(), project, seen)

    async def about_error(
        self, error: str, project: str | None, seen: Collection[str]
    ) -> Memory | None:
        """The note that matches an error clearly; None if there is none that was not seen, or the
        error says too little."""
        error = _EXIT_CODE.sub("", error, count=1)[:MAX_ERROR]
        if len(_WORD.findall(error)) < MIN_WORDS:
            return None
        try:
            page = await self._search.unasked(error, 3, project, without=seen, kinds=KINDS)
        except InvalidInput:  # no text
            return None
        least = self._parts.hooks.prompt_min_score
        return self._surest([h.memory for h in page.hits if h.score >= least], project, seen)

    def _surest(
        self, memories: Iterable[Memory], project: str | None, seen: Collection[str]
    ) -> Memory | None:
        now, least = self._parts.clock(), self._parts.hooks.tool_min_confidence
        new = [memory for memory in memories if memory.id not in seen]
        sure = [
            (confidence_now(memory, now), memory.created_at, memory.id, memory)
            for memory in pushable(new, project, self._parts.index, now)
            if confidence_now(memory, now) >= least
        ]
        return max(sure, key=lambda one: one[:3])[3] if sure else None

    async def _prepare(self, project: str | None) -> None:
        """Read again which notes name which file, if a memory has changed since."""
        known = (self._parts.index.changes, project)
        if self._known == known:
            return
        filter = Filter(
            where=parse_where({KIND: {"$in": list(KINDS)}}),
            hides_superseded=True,
            projects=(None,) if project is None else (None, project),
        )
        by_name: dict[str, list[str]] = {}
        for memory in await self._listing.newest(filter, MAX_NOTES):
            for file in texts_of(memory, FILES):
                by_name.setdefault(os.path.basename(file.rstrip("/")), []).append(memory.id)
        self._by_name, self._known = by_name, known


def names_file(related: Iterable[str], file: str, cwd: str) -> bool:
    """Whether one of the related files is this file. They are usually relative to the top of a
    checkout, in which `cwd` is somewhere; a bare name is only a file there."""
    path = os.path.normpath(os.path.join(cwd, file))
    folders = [cwd, *_parents(cwd)]
    for one in related:
        wanted = os.path.normpath(one)
        if os.path.isabs(wanted):
            if wanted == path:
                return True
        elif any(path == os.path.join(folder, wanted) for folder in folders):
            return True
        elif os.sep in wanted and path.endswith(os.sep + wanted):
            return True
    return False


def _parents(folder: str) -> Iterable[str]:
    while folder and (parent := os.path.dirname(folder)) != folder:
        yield parent
        folder = parent
