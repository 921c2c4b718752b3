"""What a language model answers is read forgivingly, and nothing that it writes can break it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.engine.sessions import answers
from memoryd.engine.sessions.answers import Answer, ProposedFact, parse
from memoryd.engine.sessions.prompt import INSTRUCTIONS

ENTRY = 'Anna and the assistant planned "the trip" to Lisbon.\nIt is on 12 March.'
FACT = "Clara is allergic to shellfish."
WHOLE = {
    "history_entry": f"[2026-11-18 10:00] {ENTRY}",
    "title": "Trip to Lisbon",
    "memory_update": [{"text": FACT, "topic": "clara.allergy", "kind": "decision", "message": 3}],
}
TEXT = json.dumps(WHOLE)
FACTS = (ProposedFact(FACT, "clara.allergy", "decision", 3),)
ANSWER = Answer(ENTRY, "Trip to Lisbon", FACTS)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        json.dumps(WHOLE, indent=2, ensure_ascii=False),
        f"```json\n{TEXT}\n```",
        f"```\n{TEXT}\n```\nI hope that this helps.",
        f"Here is the summary {{as asked}}:\n\n{TEXT}\n\nDo you want {{more}}?",
        f'{{"thought": "Let me see."}}\n{TEXT}',
        f"[{TEXT}]",
        json.dumps({"answer": {"result": WHOLE}}),
        json.dumps(TEXT),
        f'<think>Perhaps {{"history_entry": "A first draft of it."}}?</think>{TEXT}',
        f"{INSTRUCTIONS}\n\n{TEXT}",
        TEXT.replace("\\n", "\n"),
        json.dumps({key.upper(): value for key, value in WHOLE.items()}),
    ],
)
def test_the_object_is_found_wherever_it_is(text: str) -> None:
    assert parse(text) == ANSWER


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ('{"history_entry": "They planned a tri', "They planned a tri"),
        ('{"history_entry": "They said \\"yes\\".", "memory_update": "x', 'They said "yes".'),
        ('{"history_entry": "They planned it.",}', "They planned it."),
        ("{'history_entry': 'They planned it.', 'memory_update': None}", "They planned it."),
        ("history_entry: [2026-11-18 10:00] They planned it.", "They planned it."),
        ("**history_entry**: They planned it.\n\nAnything else?", "They planned it."),
        ('"history_entry" = "They planned it."\n"memory_update" = ""', "They planned it."),
        ('{"history_entry": ["They planned it.", "Then they left."]}', None),
        ('{"history_entry": "2026-11-18T10:00:00 - They planned it."}', "They planned it."),
    ],
)
def test_single_fields_and_cut_answers_are_read(text: str, entry: str | None) -> None:
    answer = parse(text)
    assert answer is not None
    assert answer.entry == (entry or "They planned it. Then they left.")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I cannot help with that.",
        "{}",
        "{" * 5_000,
        '{"a":' * 5_000,
        "[" * 50_000,
        '{"history_entry": null}',
        '{"history_entry": 42}',
        '{"history_entry": {"text": "It is an object."}}',
        '{"history_entry": "   "}',
        '{"history_entry": "..."}',
        '{"history_entry": "[2026-11-18 10:00]"}',
        '{"history_entry": "None"}',
        '{"memory_update": ["The user lives in Graz."]}',
        "<think>They planned it, history_entry: something long",
        INSTRUCTIONS,
        json.dumps({"history_entry": INSTRUCTIONS.splitlines()[2]}),
    ],
)
def test_what_has_no_history_entry_is_no_answer(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    ("update", "facts"),
    [
        (None, []),
        ("", []),
        ("None.", []),
        ("No changes", []),
        (7, []),
        ([None, 7, {"topic": "x.y"}, [], ""], []),
        (FACT, [FACT]),
        (f"# Memory\n- {FACT}\n* He lives in Graz.\n2. He is 40.", 3),
        ([FACT, FACT.upper(), {"fact": FACT}], [FACT]),
        ({"facts": [FACT]}, [FACT]),
        ({"Preferences": ["He likes tea."], "People": FACT}, ["He likes tea.", FACT]),
        ([f"Fact number {number} is this." for number in range(100)], answers.MAX_FACTS),
        (["x" * 10_000], 1),
    ],
)
def test_facts_come_as_lists_lines_or_objects(update: Any, facts: list[str] | int) -> None:
    answer = parse(json.dumps({"history_entry": ENTRY, "memory_update": update}))
    assert answer is not None
    found = [fact.text for fact in answer.facts]
    assert len(found) == facts if isinstance(facts, int) else found == facts
    assert all(len(text) <= answers.MAX_FACT for text in found)
    assert answer.memory_update == ("\n".join(found) or None)


def test_wrong_parts_of_a_fact_are_left_out() -> None:
    wrong = {"text": FACT, "topic": "Not a key!", "kind": "archive", "message": "three"}
    answer = parse(json.dumps({"history_entry": ENTRY, "facts": [wrong]}))
    assert answer is not None
    assert answer.facts == (ProposedFact(FACT),)


def test_the_whole_facts_of_a_cut_list_are_kept() -> None:
    answer = parse(TEXT.replace("}]}", '}, {"text": "He lives in Gr'))
    assert answer is not None
    assert answer.facts == FACTS


def test_a_huge_answer_is_cut() -> None:
    answer = parse(json.dumps({"history_entry": "word " * 30_000, "title": "long " * 1_000}))
    assert answer is not None
    assert len(answer.entry) <= answers.MAX_ENTRY
    assert answer.title is not None
    assert len(answer.title) <= answers.MAX_TITLE
    parse("x" * 10_000_000)
    parse('{"history_entry": "' + "\\" * 1_000_000)


def test_what_cannot_be_stored_is_removed() -> None:
    answer = parse('{"history_entry": "They \\ud800 planned\\u0000 \\u202e it."}')
    assert answer is not None
    assert answer.entry == "They ? planned  it."


anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from([*answers.FIELDS, "text", "topic", "kind", "message"]) | st.text(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(found=anything, cut=st.integers(0, 200), around=st.text(max_size=20))
def test_any_json_whole_or_cut_is_read_without_an_error(found: Any, cut: int, around: str) -> None:
    text = json.dumps(found)
    for variant in (text, text[:cut], f"{around}{text}{around}", f"{text[cut:]}{text}"):
        _check(parse(variant))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from([*'{}[]",:\\\n', "'", "`", "```json", "<think>", "null", "\ud800"])
        | st.sampled_from([*answers.FIELDS, ENTRY, FACT, "[2026-11-18 10:00]", "- "])
        | st.text(max_size=5),
        max_size=40,
    )
)
def test_any_text_is_read_without_an_error(parts: list[str]) -> None:
    _check(parse("".join(parts)))


def _check(answer: Answer | None) -> None:
    """Whatever is read can be stored."""
    if answer is None:
        return
    texts = [answer.entry, answer.title or "x", *(fact.text for fact in answer.facts)]
    for text in texts:
        text.encode()
        assert text.strip()
        assert "\0" not in text
    assert len(answer.entry) <= answers.MAX_ENTRY


LETTERS = 'ab "\\\n\u00e9\U0001f600'


@settings(max_examples=300, deadline=None)
@given(entry=st.text(LETTERS, min_size=8), cut=st.integers(0, 80))
def test_a_cut_answer_is_a_beginning_of_the_whole_one(entry: str, cut: int) -> None:
    text = json.dumps({"history_entry": f"begins {entry}"})
    part, whole = parse(text[:cut]), parse(text)
    assert whole is not None
    if part is not None:
        assert whole.entry.startswith(part.entry)
