"""The summary of a part of a session: by the language model, else from its sentences, else raw.

Each way is tried in turn, and the result says by which it was made. It never raises, whatever a
model does: a session must not stay without an archive because a server is down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import partial

import structlog

from memoryd.engine.models.language import Language
from memoryd.engine.secrecy import masked_text
from memoryd.engine.sessions import answers
from memoryd.engine.sessions.answers import ProposedFact
from memoryd.engine.sessions.extract import extract
from memoryd.engine.sessions.prompt import INSTRUCTIONS, data_of
from memoryd.engine.sessions.said import Said, shortened, stamp
from memoryd.engine.sessions.titles import PLAIN, archive_name
from memoryd.errors import EmbedError
from memoryd.fair import in_thread
from memoryd.sanitize import visible
from memoryd.settings import MemorySettings

log = structlog.get_logger()
LLM, EXTRACT, RAW = "llm", "extract", "raw"
RAW_MARK = "[raw-fallback] "
RAW_MESSAGES, RAW_CHARS = 10, 200
UNUSABLE = "The answer of the language model could not be used."


@dataclass(frozen=True, slots=True)
class Summary:
    """The history entry of some messages. `by`: llm, extract or raw. `facts`: what the language
    model would keep. `name`: for the archive, not yet unique."""

    entry: str
    name: str
    by: str
    memory_update: str | None = None
    facts: tuple[ProposedFact, ...] = ()
    warnings: tuple[str, ...] = ()


class Summaries:
    """Writes summaries."""

    def __init__(self, language: Language, settings: MemorySettings) -> None:
        self._language = language
        self._settings = settings

    async def summarise(
        self,
        said: Sequence[Said],
        durable: str = "",
        zone: tzinfo | None = None,
        *,
        ask: bool = True,
    ) -> Summary:
        """The summary of these messages, at least one. `durable`: the lasting facts that are
        known. `ask`: the language model, if there is one. Never raises. Call it without a lock: it
        may wait for the language model."""
        warnings: tuple[str, ...] = ()
        if ask and self._language.configured:
            try:
                return await self._by_llm(said, durable, zone)
            except EmbedError as exc:
                warnings = (f"{exc.message} The summary was made without it.",)
            except Exception as exc:
                log.error("summary_failed", by=LLM, error=type(exc).__name__)
                warnings = (f"{UNUSABLE} The summary was made without it.",)
        try:
            made = await in_thread(partial(self._extracted, said, zone))
        except Exception as exc:
            log.error("summary_failed", by=EXTRACT, error=type(exc).__name__)
            made = None
        return replace(made or self._raw(said, zone), warnings=warnings)

    async def _by_llm(self, said: Sequence[Said], durable: str, zone: tzinfo | None) -> Summary:
        data = await in_thread(partial(self._prompt, said, durable, zone))
        text = await self._language.ask(INSTRUCTIONS, data)
        made = await in_thread(partial(self._read, text, said, zone))
        if made is None:
            log.warning("llm_answer_unusable", characters=len(text))
            raise EmbedError(UNUSABLE)
        return made

    def _prompt(self, said: Sequence[Said], durable: str, zone: tzinfo | None) -> str:
        """What is sent: without secrets, also those that were stored before they were masked."""
        safe = [replace(one, text=self._masked(one.text)) for one in said]
        return data_of(safe, self._masked(durable), zone)

    def _read(self, text: str, said: Sequence[Said], zone: tzinfo | None) -> Summary | None:
        answer = answers.parse(text)
        if answer is None:
            return None
        facts = tuple(replace(fact, text=self._masked(fact.text)) for fact in answer.facts)
        entry = self._masked(answer.entry)
        title = self._masked(answer.title) if answer.title else None
        removed = (entry, title) != (answer.entry, answer.title) or facts != answer.facts
        return Summary(
            stamp(said, zone) + entry,
            archive_name(title, said, zone),
            LLM,
            self._masked(answer.memory_update) if answer.memory_update else None,
            facts,
            ("What looked like a secret was removed from the summary.",) if removed else (),
        )

    def _masked(self, text: str) -> str:
        return masked_text(text, self._settings)

    def _extracted(self, said: Sequence[Said], zone: tzinfo | None) -> Summary | None:
        entry = extract([replace(one, text=visible(one.text)) for one in said], zone)
        if entry is None:
            return None
        return Summary(self._masked(entry), self._name(said, zone), EXTRACT)

    def _name(self, said: Sequence[Said], zone: tzinfo | None) -> str:
        return self._masked(archive_name(None, said, zone))

    def _raw(self, said: Sequence[Said], zone: tzinfo | None) -> Summary:
        """The last messages as they are, cut."""
        last = said[-RAW_MESSAGES:]
        lines = [f"{one.who}: {shortened(one.text, RAW_CHARS)}" for one in last]
        name = archive_name(PLAIN, said, zone)
        return Summary(RAW_MARK + self._masked("\n".join(lines)), name, RAW)
