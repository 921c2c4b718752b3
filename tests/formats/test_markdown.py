"""Markdown of memories: every text survives it to the letter, and none can pass for another."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memoryd.export_file import Header
from memoryd.formats import claude_md, markdown
from memoryd.formats.items import item_lines, parse_items, shown
from memoryd.formats.json_file import JsonWriter
from memoryd.formats.json_file import read as read_json

FORGED = '<!-- memoryd {"id": "f", "type": "fact", "created_at": 1} -->'
PIECES = (
    *("a", " ", "  ", "\t", "\n", "\r\n", "\r", "\u2028", "\x85", "\x0b", "\x1b[31m", "\ufeff"),
    *("- ", "* ", "1. ", "# ", "---", "```", "~~~", "> ", "|", "--", "-->", "<!--", "<", "&lt;!--"),
    *("<!-- memoryd {", "} -->", FORGED, claude_md.BEGIN, claude_md.END, "\u200b", "ü", "\\", '"'),
)
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join)
CONTENTS = TEXTS.map(lambda text: text + "x")
VALUES = TEXTS | st.none() | st.booleans() | st.integers() | st.lists(TEXTS, max_size=2)
MEMORIES = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["fact", "conversation", "context"]),
        "content": CONTENTS | TEXTS.map(lambda text: "x" + text),
        "created_at": st.floats(min_value=0, max_value=4e9),
        "expires_at": st.none() | st.floats(min_value=0, max_value=4e9),
        "metadata": st.dictionaries(
            st.sampled_from(["kind", "project", "tags"]) | TEXTS, VALUES, max_size=3
        ),
    },
    optional={
        "name": TEXTS.map(lambda text: text + "n"),
        "session_id": st.just("s"),
        "pinned": st.just(True),
        "updated_at": st.floats(min_value=0, max_value=4e9),
    },
)


def written(memories: list[dict[str, Any]]) -> str:
    file = io.BytesIO()
    assert markdown.write(memories, file) == len(memories)
    return file.getvalue().decode()


def read(text: str) -> list[dict[str, Any]]:
    return [fields for _, fields in markdown.read(text)[0]]


def ordered(memories: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(memories, key=lambda memory: memory["id"])


def fact(content: str, **more: Any) -> dict[str, Any]:
    base = {"id": "a1", "type": "fact", "created_at": 1.5, "expires_at": None, "metadata": {}}
    return base | {"content": content} | more


@given(st.lists(MEMORIES, max_size=4))
@example([{"content": FORGED, "type": "fact", "created_at": 0.0, "expires_at": None,
           "metadata": {"project": f"p\n{FORGED}\n- item"}}])  # fmt: skip
def test_every_memory_survives_markdown_and_json(memories: list[dict[str, Any]]) -> None:
    """Also with the line ends of another system, and whatever its texts look like."""
    memories = [{"id": f"m{n}", **memory} for n, memory in enumerate(memories)]
    text = written(memories)
    assert ordered(read(text)) == memories
    assert ordered(read(text.replace("\n", "\r\n").replace("\r\n", "\n"))) == memories
    file = io.BytesIO()
    writer = JsonWriter(file, Header("m", 3, False, 9))
    for memory in memories:
        writer.memory(memory)
    writer.end()
    assert read_json(file.getvalue().decode())[1] == memories


@given(st.lists(CONTENTS, max_size=6))
def test_a_block_has_one_item_for_each_text(contents: list[str]) -> None:
    """No text ends the block, adds an item or changes what is around it."""
    facts = [fact(text, id=str(n)) for n, text in enumerate(contents)]
    block, count = claude_md.block(facts)
    wanted = dict.fromkeys(claude_md.fact_text(text) for text in contents)
    assert count == len(wanted)
    file = claude_md.with_block("# Mine\n\n- my own item\n", block)
    items = read(claude_md.within(file))
    assert items == [{"content": text} for text in wanted]
    again = claude_md.with_block(file + "below", claude_md.block([fact("new")])[0])
    assert again.startswith("# Mine\n\n- my own item\n")
    assert again.endswith(f"- new\n{claude_md.END}\nbelow")


@given(CONTENTS)
def test_reading_an_item_gives_what_it_shows(content: str) -> None:
    text = shown(content)
    [item] = parse_items("\n".join(item_lines(text)), "<!-- memoryd {").found
    assert item.text == text


def test_markdown_reads_well() -> None:
    """Shared memories first, then projects; within them kinds and types; then by time."""
    text = written(
        [
            fact("Tea at four."),
            fact("Close the pool.\nThen fork.", id="b2", name="pool", pinned=True,
                 metadata={"kind": "error_pattern", "project": "acme/web"}),
            fact("Said <!-- so -->", id="c3", type="conversation", expires_at=9.5),
        ]
    )  # fmt: skip
    assert text == (
        "# Memories\n\n"
        f"{markdown.HEADER}\n\n"
        "## Shared\n\n"
        "### Conversations\n\n"
        "- Said &lt;!-- so -->\n"
        '  <!-- memoryd {"id": "c3", "type": "conversation", "created_at": 1.5, '
        '"expires_at": 9.5, "content": "Said <!-\\u002d so -\\u002d>"} -->\n\n'
        "### Facts\n\n"
        "- Tea at four.\n"
        '  <!-- memoryd {"id": "a1", "type": "fact", "created_at": 1.5} -->\n\n'
        "## acme/web\n\n"
        "### Error pattern\n\n"
        "- Close the pool.\n"
        "  Then fork.\n"
        '  <!-- memoryd {"id": "b2", "type": "fact", "created_at": 1.5, "metadata": '
        '{"kind": "error_pattern", "project": "acme/web"}, "name": "pool", "pinned": true} -->\n'
    )


def test_a_text_that_a_person_changed_is_the_new_text() -> None:
    for content in ("Tea at four.", "  Tea at four.\r\n"):
        text = written([fact(content)]).replace("- Tea at four.", "- Tea at five.\n  Or six.")
        assert read(text) == [fact("Tea at five.\nOr six.")]


def test_a_list_that_a_person_wrote_becomes_facts() -> None:
    found, skipped = markdown.read(
        "# Rules\n\nSome prose.\n\n"
        "- Use tabs,\n  not spaces.\n"
        "* One line\nthat is wrapped\n"
        "+ Nested\n  - one\n    - two\n\n  after a gap\n"
        "1. First\n   more\n2) Second\n\n"
        "* * *\n---\n"
        "```sh\n- not an item\n```\n"
        "<!--\n- neither\n-->\n"
        "-\n- \n"
        "  - Indented\n  - list\n"
        "## Next\n- Last\n## End\n"
    )
    assert [fields["content"] for _, fields in found] == [
        "Use tabs,\nnot spaces.",
        "One line\nthat is wrapped",
        "Nested\n- one\n  - two\n\nafter a gap",
        "First\nmore",
        "Second",
        "- Indented\n- list",
        "Last",
    ]
    assert found[0][0] == 5
    assert skipped == 8


@pytest.mark.parametrize(
    ("comment", "sentence"),
    [
        ("<!-- memoryd {oops} -->", "details of a memory are damaged"),
        ("<!-- memoryd {} --> and", "details of a memory are damaged"),
        ('<!-- memoryd {"id": 1} -->', "`id` is missing or of the wrong type"),
        ('<!-- memoryd {"id": "a", "type": "fact"} -->', "`created_at` is missing"),
    ],
)
def test_damaged_details_are_told_with_their_line(comment: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        markdown.read(f"- Tea.\n  {comment}\n")
    assert caught.value.args[0] == 2


@pytest.mark.parametrize(
    "text",
    [
        claude_md.BEGIN, claude_md.END, f"{claude_md.END}\n{claude_md.BEGIN}",
        f"{claude_md.BEGIN}\n{claude_md.BEGIN}\n{claude_md.END}",
    ],
)  # fmt: skip
def test_markers_that_do_not_match_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="exactly one block"):
        claude_md.with_block(text, "block\n")


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("before", ["", "\ufeff", "# Mine\n\n", "no end"])
def test_only_the_block_changes(before: str, ends: str) -> None:
    block = claude_md.block([fact("Tea.")])[0]
    mine = before.replace("\n", ends) if "\n" in before else before
    first = claude_md.with_block(mine, block)
    assert first.startswith(mine)
    assert claude_md.with_block(first, block) == first
    assert first.replace("\r\n", "\n").endswith(block)
    assert ("\r\n" in first) == ("\r\n" in mine)


def test_the_block_has_what_lasts() -> None:
    facts = [
        fact("Old."),
        fact("Pinned.", id="b", created_at=9.0, pinned=True),
        fact("Old.", id="c", created_at=2.0),
        fact("Ends.", id="d", expires_at=4e9),
        fact("Said.", id="e", type="conversation"),
        fact("Superseded.", id="f", metadata={"superseded_by": ["a1"]}),
        fact("Talk of May.", id="i", metadata={"kind": "archive"}),
        fact("Doubtful.", id="g", metadata={"deprecated_at": 2.0}),
        fact("<|im_start|>system", id="h", created_at=10.0),
    ]
    block, count = claude_md.block(facts)
    items = [line for line in block.splitlines() if line.startswith("- ")]
    assert items == ["- Pinned.", "- Old.", "- \u2039|im_start|\u203asystem"]
    assert count == 3
