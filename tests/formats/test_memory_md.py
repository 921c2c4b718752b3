"""MEMORY.md: what is written is read again to the letter, and edits are seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.formats import history_md, memory_md
from memoryd.formats.blocks import parse_blocks
from memoryd.formats.claude_md import fact_text
from memoryd.formats.memory_md import Line
from tests.costs import costs_its_length

ID = "3f2a91c0" + "0" * 12
MARKUP = st.text(alphabet="ab #-*+`~<!->|[]()\t\n=1.\\é\u200b", min_size=1, max_size=80)


def ids(count: int) -> list[str]:
    return [f"{number:020x}" for number in range(count)]


@given(st.lists(MARKUP.filter(lambda text: text.strip()), max_size=5, unique=True))
def test_a_written_file_reads_as_unchanged(texts: list[str]) -> None:
    """Whatever the texts are: none looks changed, and none looks like another item."""
    found = memory_md.lines_for(zip(ids(len(texts)), texts, strict=True), 8192)
    text = memory_md.render([line for _, line in found], "0a1b2c3d")
    parsed = memory_md.parse(text)
    assert parsed.version == "0a1b2c3d"
    assert [(e.handle, e.text) for e in parsed.entries] == [(s.handle, s.text) for _, s in found]
    assert not any(entry.is_changed for entry in parsed.entries)


def test_most_texts_with_markup_are_written() -> None:
    texts = [
        "Plain.",
        "# Not a heading",
        "- a\n- b",
        "Code:\n```\n\nx\n```",
        "<!-- x -->",
        "a\n\nb",
    ]
    found = memory_md.lines_for(zip(ids(6), texts, strict=True), 8192)
    assert [line.text for _, line in found] == [fact_text(text) for text in texts]


def test_ids_that_begin_alike_are_named_in_full() -> None:
    others = [ID, ID[:-1] + "1", "another.program:1"]
    found = memory_md.lines_for(zip(others, ["a", "b", "c"], strict=True), 8192)
    assert [line.handle for _, line in found] == [ID[:8], ID[:-1] + "1", "another.program:1"]


def test_the_limit_holds_to_the_byte() -> None:
    texts = [f"{number} " + "é" * 90 for number in range(100)]
    for limit in range(1000, 1200):
        found = memory_md.lines_for(zip(ids(100), texts, strict=True), limit)
        size = len(memory_md.render([line for _, line in found], "0" * 8).encode())
        assert limit - 250 < size < limit


def test_changes_of_a_person_are_seen() -> None:
    lines = [Line("aaaaaaaa", "One."), Line("bbbbbbbb", "Two."), Line("cccccccc", "Three\nlines.")]
    text = memory_md.render(lines, "0" * 8)
    text = (
        text.replace("Two.", "Two and a half.").replace("Three", "Four") + "- New.\r\n\r\nProse.\n"
    )
    entries = memory_md.parse("\ufeff" + text).entries
    assert [(e.text, e.handle, e.is_changed) for e in entries] == [
        ("One.", "aaaaaaaa", False),
        ("Two and a half.", "bbbbbbbb", True),
        ("Four\nlines.", "cccccccc", True),
        ("New.", None, False),
        ("Prose.", None, False),
    ]


def test_items_are_removed_and_the_rest_stays_to_the_letter() -> None:
    lines = [
        Line("aaaaaaaa", "One."),
        Line("bbbbbbbb", "Two\n\nlines."),
        Line("cccccccc", "Three."),
    ]
    text = memory_md.render(lines, "0" * 8) + "\nprose  \n- Three.\n"
    checks = {memory_md.check_of("Three.")}
    left = memory_md.without(text, {"bbbbbbbb"}, checks)
    assert left == memory_md.render([lines[0], lines[2]], "0" * 8) + "\nprose  \n"


@given(MARKUP.filter(lambda text: text.strip()))
def test_an_archive_is_one_section_whatever_its_text_is(text: str) -> None:
    """None of its lines is a heading of the file."""
    at = 1_800_000_000.0
    sections = [history_md.Section(at, "a --> b", text), history_md.Section(at + 1, "c", "End.")]
    [(name, written)] = history_md.files_of(sections, None).items()
    assert name == "HISTORY.md"
    headings = [line for line in written.split("\n") if line.lstrip(" ").startswith("#")]
    assert len(headings) == 3
    assert history_md.is_ours(written)


def test_an_archive_is_read_again_with_its_time() -> None:
    text = "[2026-11-18 09:30] We met.\n\n# A heading\n- item"
    sections = [history_md.Section(1_800_000_000.0, "n", text)]
    written = history_md.files_of(sections, None)["HISTORY.md"]
    [block] = parse_blocks(written)
    assert (block.text, block.at) == (text, 1_800_000_000.0)


@pytest.mark.parametrize(
    "piece",
    [
        *(" ", "# ", "- ", "- x\n", "x:\n```\n```\n", "<!-- ", "```\n", "\n", "x\n---\n"),
        *("## 2026-01-01\n", "[2026-01-01 ", "\t<!-- a 123456 --", "- x <!-- a 123456 -->\n"),
    ],
)
@pytest.mark.parametrize("begin", ["", "- a ", "# ", "## 2026-01-01"])
def test_the_time_to_read_a_file_grows_with_its_length_only(piece: str, begin: str) -> None:
    """Also if the text begins an item, a heading or a date, and does not end it."""
    assert costs_its_length(lambda text: memory_md.parse(f"{begin}{text}x"), piece)
