"""What should be in a prompt now, as ready chat messages and as one text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from memoryd.client.types import Message
from memoryd.recall_text import Part, as_chat, as_text


@dataclass(frozen=True, slots=True)
class Recalled:
    """The parts of a recall and the last messages of the session, oldest first. `tokens`: about how
    many a model reads; `hint`: what to do next, if there is something."""

    session_id: str
    parts: tuple[Part, ...]
    turns: tuple[Message, ...]
    tokens: int
    warnings: tuple[str, ...] = ()
    hint: str | None = None

    @property
    def messages(self) -> list[dict[str, str]]:
        """Ready chat messages, each with `role` and `content`."""
        return as_chat(self.parts, self.turns)

    @property
    def text(self) -> str:
        """The same as one block of text."""
        return as_text(self.parts, self.turns)

    @classmethod
    def from_answer(cls, answer: dict[str, Any], **further: Any) -> Self:
        """From the answer of the daemon."""
        return cls(
            session_id=answer["session_id"],
            parts=tuple(answer["parts"]),
            turns=tuple(answer["messages"]),
            tokens=answer["tokens"],
            warnings=tuple(answer["warnings"]),
            hint=answer.get("hint"),
            **further,
        )


@dataclass(frozen=True, slots=True)
class Brief:
    """What a planner needs, by kind of memory. `tokens`: about how many a model reads."""

    parts: tuple[Part, ...]
    tokens: int
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """As one block of text."""
        return as_text(self.parts, ())

    @classmethod
    def from_answer(cls, answer: dict[str, Any]) -> Self:
        """From the answer of the daemon."""
        return cls(tuple(answer["parts"]), answer["tokens"], tuple(answer["warnings"]))


@dataclass(frozen=True, slots=True)
class Woken(Recalled):
    """The first recall of a session that was opened. `consolidated`: the sessions that were
    summarised before."""

    created_at: str = ""
    identity: str | None = None
    consolidated: tuple[str, ...] = ()

    @classmethod
    def from_answer(cls, answer: dict[str, Any], **further: Any) -> Self:
        return super(Woken, cls).from_answer(
            answer,
            created_at=answer["created_at"],
            identity=answer["identity"],
            consolidated=tuple(answer["consolidated"]),
            **further,
        )
