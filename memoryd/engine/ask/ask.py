"""The operation `ask`: a question, and what memory answers.

What counts as an answer is what the hook of a prompt counts as a match: `hooks.prompt_min_score`,
which was measured. If nothing reaches it, the answer says that memory holds nothing, and a language
model is not asked: it would only be tempted to invent one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import structlog

from memoryd.engine import checks
from memoryd.engine.ask import written
from memoryd.engine.ask.extract import Sentence, Source, as_text, extract, source_of
from memoryd.engine.parts import Parts
from memoryd.engine.push.relevant import CANDIDATES, is_echo, unclear, words_of
from memoryd.engine.search.search import Search
from memoryd.errors import EmbedError, InvalidInput
from memoryd.fair import in_thread
from memoryd.model import Hit, Page

log = structlog.get_logger()
LLM, EXTRACT = "llm", "extract"
LIMIT, LLM_LIMIT, MAX_LIMIT = 3, 8, 10  # memories of an extract, of a written answer, at most
CLOSEST = 3  # memories that are shown where none answers
NOTHING = "Memory holds nothing that answers this."
WITHOUT = "The answer is made of the memories' own sentences."
UNUSABLE = "The answer of the language model cites no memory."


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its sources. `known` false: memory holds nothing good enough, and `closest`
    are the best that were found. `by`: extract or llm."""

    question: str
    known: bool
    by: str
    text: str
    sentences: tuple[Sentence, ...] = ()
    sources: tuple[Source, ...] = ()
    closest: tuple[Source, ...] = ()
    warnings: tuple[str, ...] = ()


class Ask:
    """Answers questions."""

    def __init__(self, parts: Parts, search: Search) -> None:
        self._parts = parts
        self._search = search

    async def ask(
        self, question: str, *, limit: int | None = None, written: bool = True, **filter: Any
    ) -> Answer:
        """What memory answers. `limit`: memories that it is made of at most. `written`: by the
        language
        model, if there is one. `filter`: as of a search. Raises InvalidInput."""
        question = _checked_question(question)
        writes = checks.flag(written, "written") and self._parts.language.configured
        most = (LLM_LIMIT if writes else LIMIT) if limit is None else _checked_limit(limit)
        page = await self._search.search(question, limit=CANDIDATES, explain=True, **filter)
        clear = self._clear(question, page)[:most]
        if not clear:
            return self._nothing(question, EXTRACT, page.hits, page.warnings)
        if writes:
            return await self._by_llm(question, clear, page)
        return await self._by_extract(question, clear, page.warnings)

    def _clear(self, question: str, page: Page) -> list[Hit]:
        """The hits that answer the question, best first."""
        least, words = self._parts.hooks.prompt_min_score, words_of(question)
        return [
            hit
            for hit in page.hits
            if not unclear(hit, least) and not hit.deprecated and not is_echo(hit.memory, words)
        ]

    def _nothing(
        self, question: str, by: str, hits: Sequence[Hit], warnings: Sequence[str]
    ) -> Answer:
        closest = tuple(source_of(0, hit) for hit in hits[:CLOSEST])
        return Answer(question, False, by, NOTHING, closest=closest, warnings=tuple(warnings))

    async def _by_extract(
        self, question: str, clear: Sequence[Hit], warnings: Sequence[str]
    ) -> Answer:
        sources = [source_of(number, hit) for number, hit in enumerate(clear, start=1)]
        told = await extract(question, sources, self._parts.embedding)
        return self._answer(question, EXTRACT, told, sources, warnings)

    async def _by_llm(self, question: str, clear: Sequence[Hit], page: Page) -> Answer:
        """Written by the language model; by its failure an extract that says so."""
        sources = [source_of(number, hit) for number, hit in enumerate(clear, start=1)]
        zone, settings = self._parts.lifetimes.zone, self._parts.memory
        try:
            data = await in_thread(partial(written.data_of, question, sources, zone, settings))
            text = await self._parts.language.ask(written.INSTRUCTIONS, data)
            found = await in_thread(partial(written.read, text, sources, settings))
            if not found.sentences and not found.is_nothing:
                log.warning("llm_answer_unusable", characters=len(text))
                raise EmbedError(UNUSABLE)
        except EmbedError as exc:
            told = f"{exc.message} {WITHOUT}"
            return await self._by_extract(question, clear[:LIMIT], (*page.warnings, told))
        if found.is_nothing:
            return self._nothing(question, LLM, clear, page.warnings)
        warnings = (*page.warnings, *_repairs(found))
        return self._answer(question, LLM, found.sentences, sources, warnings)

    def _answer(
        self,
        question: str,
        by: str,
        told: Sequence[Sentence],
        sources: Sequence[Source],
        warnings: Sequence[str],
    ) -> Answer:
        """The answer, its sources numbered in the order in which they are cited."""
        cited = dict.fromkeys(number for one in told for number in one.numbers)
        renamed = {number: new for new, number in enumerate(cited, start=1)}
        by_number = {source.number: source for source in sources}
        shown = tuple(replace(one, numbers=tuple(renamed[n] for n in one.numbers)) for one in told)
        kept = tuple(replace(by_number[number], number=new) for number, new in renamed.items())
        text = as_text(shown, self._parts.lifetimes.zone)
        return Answer(question, True, by, text, shown, kept, warnings=tuple(warnings))


def _repairs(found: written.Written) -> list[str]:
    """What was removed from the answer of a language model."""
    told = []
    if found.uncited:
        count = "A sentence" if found.uncited == 1 else f"{found.uncited} sentences"
        told.append(f"{count} of the language model without a source were left out.")
    if found.wrong:
        told.append("The language model cited memories that it was not given; this was left out.")
    return told


def _checked_question(value: object) -> str:
    if value is None or (isinstance(value, str) and not value.strip()):
        raise InvalidInput("There is no question.", code="question_missing", hint="Ask something.")
    return checks.query(value)


def _checked_limit(value: object) -> int:
    number = checks.limit(value)
    if number > MAX_LIMIT:
        raise InvalidInput(
            f"An answer cites at most {MAX_LIMIT} memories, not {number}.",
            code="limit_invalid",
            hint="Leave it out for the default.",
        )
    return number
