"""Which memories a prompt gets: those that match it clearly, or none.

A wrong memory in a prompt costs more than a missing one, which the agent can search for. So a match
must reach `hooks.prompt_min_score`, a threshold that was measured: `scripts/bench/push.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from memoryd.engine.parts import Parts
from memoryd.engine.project_rules import pushable
from memoryd.engine.search.fold import tokens
from memoryd.engine.search.search import Search
from memoryd.engine.sessions.messages import shown_text
from memoryd.errors import InvalidInput
from memoryd.fields import CITATION, FROM_SESSION, WORKING_MEMORY, citation_of, kind_of, texts_of
from memoryd.model import ROLE, Hit, Memory, MemoryType, who
from memoryd.recall_text import NOTICE, delimited, harmless, indented, one_line

CANDIDATES = 30  # of a search: among many messages that ask the same, a fact comes late
MAX_SHOWN = 3
MAX_QUERY = 1_000  # characters of a prompt that are searched for
MIN_WORDS = 3  # a shorter prompt, such as "go on", is about what is in the context already
MAX_ITEM = 500  # characters of one memory; of a longer one the passage that matched
MIN_COSINE = 0.2  # of a message with the prompt; below it only the messages around it match
# Share of the words of two prompts that are the same, from which one echoes the other: of a
# question, which answers nothing, and of any other prompt.
ECHOED_QUESTION, ECHO = 0.3, 0.6
WORD = re.compile(r"\w+")
USER = "user"
PART, TITLE = "relevant", "Memories that match this prompt, best first"


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate. `refused`: why it is not pushed, "" if it is."""

    hit: Hit
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a prompt gets. `reason`: why it gets nothing, "" if it gets something."""

    text: str = ""
    ids: tuple[str, ...] = ()
    judged: tuple[Judged, ...] = ()
    reason: str = ""


class Relevant:
    """Finds what a prompt should have."""

    def __init__(self, parts: Parts, search: Search) -> None:
        self._parts = parts
        self._search = search

    async def choose(
        self, prompt: str, session_id: str, project: str | None, seen: Collection[str]
    ) -> Chosen:
        """The memories for a prompt, and why not others. `seen`: what the session has already."""
        if len(prompt.split()) < MIN_WORDS:
            return Chosen(reason=f"A prompt of less than {MIN_WORDS} words gets nothing.")
        try:
            page = await self._search.unasked(
                prompt[:MAX_QUERY], CANDIDATES, project, without=seen, explain=True
            )
        except InvalidInput as exc:
            return Chosen(reason=exc.message)
        words = words_of(prompt[:MAX_QUERY])
        return self._packed(
            [Judged(hit, self._refused(hit, words, session_id, project)) for hit in page.hits]
        )

    def _refused(
        self, hit: Hit, words: frozenset[str], session_id: str, project: str | None
    ) -> str:
        """Why a candidate is not pushed; "" if it may be."""
        memory, least, now = hit.memory, self._parts.hooks.prompt_min_score, self._parts.clock()
        if reason := unclear(hit, least):
            return reason
        if hit.deprecated or not pushable([memory], project, self._parts.index, now):
            return "it may not be pushed"
        if kind_of(memory) == WORKING_MEMORY:
            return "it is the working memory, which the session has from its start"
        said_in = memory.session_id if memory.type is MemoryType.CONVERSATION else None
        if session_id and session_id in (memory.metadata.get(FROM_SESSION), said_in):
            return "it is of this session"
        return "it is an earlier prompt like this one" if is_echo(memory, words) else ""

    def _packed(self, judged: Sequence[Judged]) -> Chosen:
        """As many as fit into `hooks.prompt_tokens`, best first."""
        shown: list[str] = []
        ids: list[str] = []
        done: list[Judged] = []
        for one in judged:
            if one.refused:
                done.append(one)
            elif len(shown) == MAX_SHOWN:
                done.append(Judged(one.hit, f"only {MAX_SHOWN} are pushed at a time"))
            else:
                line = item(one.hit.memory, self._parts.lifetimes.zone, one.hit.passage)
                if tokens(block(PART, TITLE, [*shown, line])) > self._parts.hooks.prompt_tokens:
                    done.append(Judged(one.hit, "it does not fit into hooks.prompt_tokens"))
                    continue
                shown.append(line)
                ids += [one.hit.memory.id, *one.hit.folded]
                done.append(one)
        if not shown:
            return Chosen(judged=tuple(done), reason="No memory matches well enough.")
        return Chosen(block(PART, TITLE, shown), tuple(ids), tuple(done))


def unclear(hit: Hit, least: float) -> str:
    """Why a match is not a clear one; "" if it is. `hit` must have its `why`."""
    if hit.score < least:
        return f"its score is below {least:g}"
    is_message = hit.memory.type is MemoryType.CONVERSATION
    if is_message and hit.why and hit.why.dense < MIN_COSINE:
        return "only the messages around it match"
    return ""


def is_echo(memory: Memory, words: frozenset[str]) -> bool:
    """Whether it is a prompt of a user that asks for the same, and so does not answer it."""
    if memory.metadata.get(ROLE) != USER or memory.type is not MemoryType.CONVERSATION:
        return False
    said = words_of(memory.content)
    share = ECHOED_QUESTION if memory.content.rstrip().endswith("?") else ECHO
    return len(said & words) >= share * len(said | words)


def words_of(text: str) -> frozenset[str]:
    """The words of a text, in any case."""
    return frozenset(WORD.findall(text.casefold()))


def block(part: str, title: str, lines: Sequence[str]) -> str:
    """Lines that were made harmless, as a prompt gets them."""
    return f"{NOTICE}\n{delimited(part, title, harmless(chr(10).join(lines)))}"


def item(memory: Memory, zone: tzinfo | None, passage: str | None = None) -> str:
    """A memory in a line: its kind or who said it, its day, its text, and its citation if it was
    given one: a citation made from its text would only repeat it."""
    day = datetime.fromtimestamp(memory.updated_at or memory.created_at, zone)
    label = kind_of(memory) or who(memory) or str(memory.type)
    text = shown_text(memory)
    if len(text) > MAX_ITEM:
        text = (passage or text)[:MAX_ITEM].rstrip() + "\u2026"
    cited = next(iter(texts_of(memory, CITATION)), "")
    if cited and cited != citation_of(memory.content):
        text = f"{text.rstrip()} [{one_line(cited)}]"
    return f"- ({one_line(label)}, {day:%Y-%m-%d}) {indented(harmless(text))}"
