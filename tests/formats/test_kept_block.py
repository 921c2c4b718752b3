"""The block of a file between its markers: only that is written, and taking it out restores the
file to the byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.formats import claude_md
from memoryd.formats.claude_md import BEGIN, END

BLOCK = claude_md.kept_block(["One.", "Two\nlines."])
PIECES = st.sampled_from(["a", "# Head", "- item", " ", "\n", "\r\n", "é", "\ufeff"])
FILES = st.lists(PIECES).map("".join)


@given(FILES)
def test_taking_a_block_out_leaves_the_file_as_it_was(text: str) -> None:
    gap = claude_md.gap_before(text)
    assert claude_md.without_block(claude_md.with_block(text, BLOCK), gap) == text


@given(FILES, st.sampled_from(["", "\n", "below", "\nbelow\n", "\r\nbelow\r\n"]))
def test_nothing_outside_of_the_markers_changes(above: str, below: str) -> None:
    head = above if not above or above.endswith("\n") else above + "\n"
    text = f"{head}  {BEGIN}\nwritten by hand\n{END}{below}"
    if below and not below.startswith(("\n", "\r\n")):  # then the marker is no line of its own
        with pytest.raises(ValueError, match="exactly one block"):
            claude_md.with_inside(text, BLOCK)
        return
    changed = claude_md.with_inside(text, BLOCK)
    assert changed.startswith(f"{head}  {BEGIN}\n{claude_md.KEPT}\n")
    assert changed.endswith(f"- Two\n  lines.\n{END}{below}")
    assert claude_md.with_inside(changed, BLOCK) == changed


def test_a_block_has_the_line_ends_of_its_file() -> None:
    text = f"Mine.\r\n{BEGIN}\r\n{END}\r\n"
    changed = claude_md.with_inside(text, BLOCK)
    assert changed.count("\n") == changed.count("\r\n")
    assert "- One.\r\n" in changed


def test_what_was_written_below_the_block_stays_a_line_of_its_own() -> None:
    text = claude_md.with_block("No end", BLOCK) + "below\n"
    assert claude_md.without_block(text, claude_md.gap_before("No end")) == "No end\nbelow\n"


def test_a_file_without_a_block_stays_as_it_is() -> None:
    assert claude_md.with_inside("Mine.\n", BLOCK) == "Mine.\n"
    assert claude_md.without_block("Mine.\n", "\n") == "Mine.\n"
