"""Facts that a session proposes to keep: found by rules in what the user said, or by a language
model. Only what a message of the user states counts: a tool or a web page must not teach facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from memoryd.engine.index.terms import QUIET, terms
from memoryd.engine.project_rules import PREFERENCE
from memoryd.engine.sessions.answers import ProposedFact
from memoryd.engine.sessions.statements import Statement, statements
from memoryd.fields import project_of
from memoryd.model import ROLE, SPEAKER, Memory

RULES, LLM = "observer_inferred", "mcp_auto"  # sources
LLM_CONFIDENCE = 0.7
LEAST_SHARED = 0.5  # of the words of a fact, that the message which states it must have
USER = "user"


ReadStatements = Callable[[str, str | None], Sequence[Statement]]  # of a text and its speaker


@dataclass(frozen=True, slots=True)
class Proposal:
    """A fact to keep. `at`: when its message was said. `topic`: a key of which one fact is true at
    a time. `project` None: shared."""

    text: str
    at: float
    message_id: str
    source: str
    confidence: float
    topic: str | None = None
    kind: str | None = None
    project: str | None = None


def by_rules(messages: Iterable[Memory], read: ReadStatements = statements) -> list[Proposal]:
    """What the user stated as lasting in these messages."""
    return [
        Proposal(
            stated.text,
            message.created_at,
            message.id,
            RULES,
            stated.confidence,
            stated.topic,
            stated.kind,
            None if stated.about_user else project_of(message),
        )
        for message in messages
        if message.metadata.get(ROLE) == USER
        for stated in read(message.content, _speaker(message))
    ]


def by_llm(messages: Sequence[Memory], facts: Iterable[ProposedFact]) -> list[Proposal]:
    """What a language model would keep of these messages, if the user stated it."""
    found: list[Proposal] = []
    for fact in facts:
        message = _source(messages, fact)
        if message is None:
            continue
        about_user = fact.kind == PREFERENCE or (fact.topic or "").startswith("user.")
        project = None if about_user else project_of(message)
        found.append(
            Proposal(
                fact.text,
                message.created_at,
                message.id,
                LLM,
                LLM_CONFIDENCE,
                fact.topic,
                fact.kind,
                project,
            )
        )
    return sorted(found, key=lambda one: one.at)


def _source(messages: Sequence[Memory], fact: ProposedFact) -> Memory | None:
    """The message of the user that states a fact: the one that the model names, else the one with
    most of its words; None if there is none."""
    number = fact.message or 0
    if 0 < number <= len(messages) and messages[number - 1].metadata.get(ROLE) == USER:
        return messages[number - 1]
    wanted = set(terms(fact.text)) - QUIET
    best, shared = None, LEAST_SHARED * max(1, len(wanted))
    for message in messages:
        if message.metadata.get(ROLE) == USER:
            count = len(wanted & set(terms(message.content)))
            if count >= shared:
                best, shared = message, count
    return best


def _speaker(message: Memory) -> str | None:
    speaker = message.metadata.get(SPEAKER)
    return speaker if isinstance(speaker, str) else None
