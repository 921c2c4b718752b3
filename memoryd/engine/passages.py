"""The passages of a record, as the word index sees them."""

from __future__ import annotations

from memoryd.engine.terms import terms
from memoryd.engine.turns import who
from memoryd.model import Memory
from memoryd.ports import Record, Span

RowTerms = list[list[int]]  # the terms of each row of a memory


def row_terms(record: Record) -> RowTerms:
    """The terms of each passage, and of who said it. Long texts take a while: on any thread."""
    return terms_of(record.memory, spans_of(record))


def terms_of(memory: Memory, spans: list[Span]) -> RowTerms:
    """The same for a memory whose spans are known."""
    speaker = terms(who(memory))
    return [terms(memory.content[start:end]) + speaker for start, end in spans]


def spans_of(record: Record) -> list[Span]:
    """Where its passages are; one for the whole if it has no vectors yet."""
    return [p.span for p in record.passages] or [(0, len(record.memory.content))]
