"""Markdown of a person: cut where a reader would cut it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.formats.blocks import Block, moment_in, parse_blocks

TEXT = """\
---
alwaysApply: true
---
# Rules

Use tabs.
Always.

## Python

- one
  more
- two:
  ```
  # no heading
  ```
* three

Run this:

```sh
# no heading

make
```

Underlined
----------

> quoted

***

| a | b |
|---|---|

### 2026-11-18T09:30:00+01:00 Standup

<!-- name -->

Hello.

#### Inside

- item

### Next

[2026-01-02T10:00Z] Said.
<!-- a comment
- of two lines -->
1. last
"""


def test_each_block_is_found_with_its_headings_and_times() -> None:
    python, under = ("Rules", "Python"), ("Rules", "Underlined")
    at = datetime(2026, 11, 18, 8, 30, tzinfo=UTC).timestamp()
    said = datetime(2026, 1, 2, 10, tzinfo=UTC).timestamp()
    assert parse_blocks(TEXT) == [
        Block(6, 7, "Use tabs.\nAlways.", ("Rules",)),
        Block(11, 12, "one\nmore", python),
        Block(13, 16, "two:\n```\n# no heading\n```", python),
        Block(17, 17, "three", python),
        Block(19, 25, "Run this:\n```sh\n# no heading\n\nmake\n```", python),
        Block(30, 30, "> quoted", under),
        Block(34, 35, "| a | b |\n|---|---|", under),
        Block(37, 46, "Hello.\n\n#### Inside\n\n- item", (*under, "Standup"), at),
        Block(49, 49, "[2026-01-02T10:00Z] Said.", (*under, "Next"), said),
        Block(52, 52, "last", (*under, "Next")),
    ]


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("2026-11-18T09:30:00+01:00", ""),
        ("2026-11-18", ""),
        ("[2026-11-18 09:30] a text", "a text"),
        ("2026-11-18: a day", "a day"),
        ("2026-11-18 09:30:15,123", ""),
    ],
)
def test_times_are_read(text: str, rest: str) -> None:
    found = moment_in(text)
    assert found is not None
    assert found[1] == rest


@pytest.mark.parametrize("text", ["", "2026-13-40", "20261118", "in 2026-11-18", "2026-11-181"])
def test_other_texts_are_no_times(text: str) -> None:
    assert moment_in(text) is None


def test_code_that_is_not_closed_is_whole() -> None:
    assert [block.text for block in parse_blocks("a\n```\nb\n\nc")] == ["a", "```\nb\n\nc"]


@given(st.text(alphabet="ab:#-*`~<!>|[] \t\n=1.", max_size=200))
def test_any_text_is_read_and_blocks_do_not_overlap(text: str) -> None:
    last = 0
    for block in parse_blocks(text):
        assert last < block.line <= block.last <= text.count("\n") + 1
        assert block.text.strip()
        last = block.last
