"""A memory as one line of a push."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest

from memoryd.engine.push.relevant import item
from memoryd.fields import citation_of
from memoryd.model import Memory, MemoryType

TEXT = "The build needs Node 22."


@pytest.mark.parametrize(
    ("metadata", "line"),
    [
        ({}, f"- (fact, 1970-01-01) {TEXT}"),
        ({"kind": "gotcha"}, f"- (gotcha, 1970-01-01) {TEXT}"),
        ({"citation": "docs/build.md:12"}, f"- (fact, 1970-01-01) {TEXT} [docs/build.md:12]"),
        ({"citation": citation_of(TEXT)}, f"- (fact, 1970-01-01) {TEXT}"),
        ({"citation": "a\nb"}, f"- (fact, 1970-01-01) {TEXT} [a b]"),
    ],
)
def test_a_line_ends_with_the_citation_that_was_given(metadata: Any, line: str) -> None:
    memory = Memory("id", MemoryType.FACT, TEXT, 0.0, None, metadata)
    assert item(memory, UTC) == line
