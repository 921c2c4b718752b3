"""The passages of a record, as the word index sees them."""

from __future__ import annotations

from memoryd.engine.index.speakers import speaker_of
from memoryd.engine.index.terms import terms
from memoryd.fields import words_of
from memoryd.model import Memory
from memoryd.ports import Record, Span

RowTerms = list[list[int]]  # the terms of each row of a memory


def row_terms(record: Record) -> RowTerms:
    """The terms of each passage, with the speaker's. Runs on any thread; slow for long texts."""
    return terms_of(record.memory, spans_of(record))


def terms_of(memory: Memory, spans: list[Span]) -> RowTerms:
    """The terms of each span, with the speaker's; the first also has those of name and fields."""
    speaker = terms(speaker_of(memory))
    found = [terms(memory.content[start:end]) + speaker for start, end in spans]
    if words := words_of(memory):
        found[0] += terms(words)
    return found


def spans_of(record: Record) -> list[Span]:
    """The spans of its passages; one for all of the content if it has no vectors."""
    return [p.span for p in record.passages] or [(0, len(record.memory.content))]
