"""A brief: what a planner needs to know before a task, by kind, within a token budget."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memoryd.engine import checks
from memoryd.engine.filters import Filter, parse_where
from memoryd.engine.listing import Listing
from memoryd.engine.parts import Parts
from memoryd.engine.project_rules import pushable
from memoryd.engine.push.file_notes import names_file
from memoryd.engine.search.fold import tokens
from memoryd.engine.search.search import Search
from memoryd.engine.sessions.phase_facts import LINE_TOKENS, scores, size
from memoryd.engine.sessions.phases import Ranked, by_file, cited_line, rank_of, shared_out
from memoryd.errors import InvalidInput
from memoryd.fields import FILES, KIND, PROJECT, kind_of, texts_of
from memoryd.model import Memory
from memoryd.recall_text import Part, as_text, harmless

# How many of each kind, and the titles. The tokens are shared out by these numbers too.
COUNTS = {
    "task_calibration": 5,
    "dead_end": 8,
    "causal_dependency": 10,
    "work_unit_outcome": 5,
    "workflow_recipe": 2,
}
TITLES = {
    "task_calibration": "Estimates of similar tasks, and what they took",
    "dead_end": "What was tried and failed",
    "causal_dependency": "What depends on what",
    "work_unit_outcome": "How similar work ended",
    "workflow_recipe": "Ways of working that proved good",
}
SPARE = 5  # hits beyond the count of a kind, because some may not be shown
FILE_RELEVANCE = 0.3  # added to the relevance of a memory about one of the files
MAX_ABOUT_FILES = 2_000  # memories of these kinds that are looked at for files, the newest
MAX_FILES = 100


@dataclass(frozen=True, slots=True)
class Brief:
    """What a planner needs, by kind. `tokens`: of all of it as text."""

    parts: tuple[Part, ...] = ()
    tokens: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(id for part in self.parts for id in part["ids"])


class Briefs:
    """The operation `brief`."""

    def __init__(self, parts: Parts, search: Search, listing: Listing) -> None:
        self._parts = parts
        self._search = search
        self._listing = listing

    async def brief(
        self,
        task: str,
        files: Sequence[str] = (),
        max_tokens: int | None = None,
        *,
        own_project: str | None = None,
    ) -> Brief:
        """What is known for a task and the files that it is about, of the own project and shared,
        as text at most `max_tokens` tokens. Raises InvalidInput."""
        task, files = checks.query(task), _checked_files(files)
        project = checks.label(own_project, PROJECT)
        budget = self._parts.phases.brief_tokens
        if max_tokens is not None:
            budget = checks.count(max_tokens, "max_tokens")
        relevance: dict[str, float] = {}
        warnings: dict[str, None] = {}
        for kind, count in COUNTS.items():
            page = await self._search.unasked(task, count + SPARE, project, kinds=(kind,))
            relevance |= scores(page)
            warnings |= dict.fromkeys(page.warnings)
        for memory in await self._about(files, project):
            relevance[memory.id] = min(1.0, relevance.get(memory.id, 0.0) + FILE_RELEVANCE)
        chosen = _first_of_each(shared_out(self._ranked(relevance, project), COUNTS))
        made = _packed(chosen, budget)
        if missing := len(chosen) - len(made.ids):
            warnings[f"{missing} of {len(chosen)} did not fit into max_tokens."] = None
        return Brief(made.parts, made.tokens, tuple(warnings))

    def _ranked(self, relevance: dict[str, float], project: str | None) -> list[Ranked]:
        index, now = self._parts.index, self._parts.clock()
        found = [memory for id in relevance if (memory := index.get(id))]
        trust = self._parts.lifecycle.trust
        return [
            Ranked(memory, rank_of(memory, now, relevance[memory.id], {}, trust), size(memory))
            for memory in pushable(found, project, index, now)
        ]

    async def _about(self, files: Sequence[str], project: str | None) -> list[Memory]:
        """The memories of these kinds that name one of the files."""
        if not files:
            return []
        filter = Filter(
            where=parse_where({KIND: {"$in": list(COUNTS)}}),
            hides_superseded=True,
            projects=(None,) if project is None else (None, project),
        )
        by_name: dict[str, list[str]] = {}
        for file in files:
            by_name.setdefault(os.path.basename(file.rstrip("/")), []).append(file)
        return [
            memory
            for memory in await self._listing.newest(filter, MAX_ABOUT_FILES)
            if _names_one(texts_of(memory, FILES), by_name)
        ]


def _names_one(related: Sequence[str], by_name: Mapping[str, Sequence[str]]) -> bool:
    """Whether one of the related files is one of those files, which are given by name."""
    return any(
        names_file([one], file, "")
        for one in related
        for file in by_name.get(os.path.basename(one.rstrip("/")), ())
    )


def _checked_files(files: object) -> tuple[str, ...]:
    given = [files] if isinstance(files, str) else files
    if (
        not isinstance(given, list | tuple)
        or len(given) > MAX_FILES
        or not all(isinstance(file, str) for file in given)
    ):
        raise InvalidInput(
            f"files must be a list of at most {MAX_FILES} paths.",
            code="files_invalid",
            hint="Give paths as texts, such as src/pay.py.",
        )
    return tuple(file for file in given if file.strip())


def _first_of_each(ordered: Sequence[Ranked]) -> list[Ranked]:
    """As many of each kind as a brief has."""
    left = dict(COUNTS)
    chosen = []
    for one in ordered:
        kind = kind_of(one.memory) or ""
        if left.get(kind, 0) > 0:
            left[kind] -= 1
            chosen.append(one)
    return chosen


def _packed(chosen: Sequence[Ranked], budget: int) -> Brief:
    """The first of them whose text fits."""
    kept: list[Ranked] = []
    brief = Brief()
    for one in chosen:
        if one.cost > budget + LINE_TOKENS:  # its text need not be made
            continue
        parts = _parts([*kept, one])
        if (cost := tokens(as_text(parts, ()))) <= budget:
            kept.append(one)
            brief = Brief(parts, cost)
    return brief


def _parts(chosen: Sequence[Ranked]) -> tuple[Part, ...]:
    made = []
    for kind, title in TITLES.items():
        shown = [one.memory for one in by_file([o for o in chosen if kind_of(o.memory) == kind])]
        if shown:
            text = harmless("\n".join(cited_line(memory) for memory in shown))
            made.append(Part(part=kind, title=title, text=text, ids=[one.id for one in shown]))
    return tuple(made)
