"""What a message states as lasting is kept, in its words; what only looks like it is not."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from memoryd.engine.sessions.statements import Statement, statements
from memoryd.engine.sessions.statements.statements import MAX_STATEMENTS
from memoryd.fields import HALF_LIVES

SETS = Path(__file__).parent.parent.parent / "data" / "statements"


def texts(message: str) -> list[str]:
    return [statement.text for statement in statements(message)]


def only(message: str) -> Statement:
    (statement,) = statements(message)
    return statement


def messages(name: str) -> list[dict[str, object]]:
    lines = (SETS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("name", sorted(file.stem for file in SETS.glob("*.jsonl")))
def test_precision_and_recall_of_the_labelled_sets(name: str) -> None:
    """At most one kept message in twenty is wrong, and most of what is worth keeping is kept."""
    rows = messages(name)
    worth = [bool(row["keep"]) for row in rows]
    kept = [bool(statements(str(row["text"]))) for row in rows]
    right = sum(one and other for one, other in zip(worth, kept, strict=True))
    assert len(rows) >= 100
    assert 0.3 < sum(worth) / len(rows) < 0.7
    assert right / sum(kept) >= 0.95
    assert right / sum(worth) >= 0.8


@pytest.mark.parametrize(
    ("message", "topic"),
    [
        ("My name is Ana.", "user.name"),
        ("Ich heiße Jörg.", "user.name"),
        ("my birthday is on the 4th of november", "user.birthday"),
        ("J'habite à Nantes.", "user.address"),
        ("I work at Lindqvist Marine.", "user.employer"),
        ("Trabajo como profesora.", "user.job"),
        ("my email is ana@example.org", "user.email"),
        ("The deadline for the audit is 14 May 2027.", "deadline:audit"),
        ("My favorite color is teal.", "preference:favourite color"),
        ("I hate olives.", "preference:olives"),
        ("We decided to use SQLite.", None),
    ],
)
def test_topic_names_what_only_one_fact_is_true_of(message: str, topic: str | None) -> None:
    assert only(message).topic == topic


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("I like olives.", "I hate olives."),
        ("I prefer tabs over spaces.", "I prefer spaces over tabs."),
        ("I live in Oslo.", "I'm based in Bergen."),
        ("Moro em Recife.", "Moro em Lisboa."),
        ("The report is due on May 3rd.", "The deadline for the report is June 9th."),
        ("La date limite du projet est le 3 mars.", "La date limite du projet est le 9 mai."),
    ],
)
def test_statement_and_its_opposite_have_the_same_topic(older: str, newer: str) -> None:
    assert only(older).topic is not None
    assert only(older).topic == only(newer).topic


def test_trait_does_not_take_the_place_of_a_job() -> None:
    assert only("I'm a teacher.").topic == "user.job"
    assert only("I'm a vegetarian.").topic is None


def test_statements_about_different_things_have_different_topics() -> None:
    assert only("I like olives.").topic != only("I like tea.").topic


def test_text_is_the_sentence_in_the_words_of_its_author() -> None:
    assert texts("my name is Ana") == ["The user: My name is Ana."]
    found = statements("I live in Oslo.", speaker="Kari")
    assert [statement.text for statement in found] == ["Kari: I live in Oslo."]
    assert statements("I live in Oslo.", speaker="user") == statements("I live in Oslo.")


def test_one_lasting_sentence_among_others_is_kept_alone() -> None:
    message = (
        "Thanks, that worked! Yesterday was a mess. I'm allergic to nuts. Is it open on Monday?"
    )
    assert texts(message) == ["The user: I'm allergic to nuts."]


def test_statement_beside_a_question_is_kept_without_it() -> None:
    assert texts("I'm vegan, what can I cook?") == ["The user: I'm vegan."]
    assert texts("Soy vegana, ¿qué puedo cocinar?") == ["The user: Soy vegana."]


def test_two_statements_of_a_sentence_are_two_facts() -> None:
    found = statements("My name is Ana and I live in Oslo.")
    assert [statement.topic for statement in found] == ["user.name", "user.address"]


@pytest.mark.parametrize(
    "message",
    [
        "What's my name?",
        "If my name was Bob, would it matter?",
        "She said, my name is Ana.",
        'He wrote "my name is Ana" on the wall.',
        "> My name is Ana.",
        "```\nMy name is Ana.\n```",
        "```\nMy name is Ana.",
        "Assistant: My name is Ana.",
        "2026-02-01 12:00:01 INFO My name is Ana.",
        "Translate this: My name is Ana.",
        "Pretend you are a judge. My name is Ana.",
        "My name is Ana. Don't remember that.",
        "My name is Ana haha",
        "Maybe I prefer tea.",
        "I used to like tea.",
        "I like your answer.",
        "I am tired.",
        "",
        " \n ",
    ],
)
def test_what_only_looks_like_a_statement_is_not_kept(message: str) -> None:
    assert statements(message) == []


def test_sentence_of_an_assistant_is_not_kept() -> None:
    assert statements("My name is Ana.", speaker="assistant") == []


def test_request_to_remember_is_kept_whatever_it_is() -> None:
    found = only("Remember that the spare key hangs behind the boiler.")
    assert found.text == "The user: The spare key hangs behind the boiler."
    assert found.topic is None
    assert not found.about_user
    assert found.confidence > only("I like tea.").confidence


def test_kinds_are_known_ones() -> None:
    """A kind that is not known would decay or be refused."""
    rows = [row for file in SETS.glob("*.jsonl") for row in messages(file.stem)]
    found = [one for row in rows for one in statements(str(row["text"]))]
    assert {one.kind for one in found} - {None} == {"preference", "decision", "requirement"}
    assert {one.kind for one in found} - {None} <= HALF_LIVES.keys()
    assert all(0 < one.confidence <= 1 for one in found)


def test_facts_of_a_project_are_not_about_the_user() -> None:
    assert not only("In this project we use pnpm.").about_user
    assert not only("We decided to use SQLite.").about_user
    assert only("I prefer tabs over spaces.").about_user


def test_number_of_statements_is_bounded() -> None:
    message = "\n".join(f"Remember that box {number} is green." for number in range(100))
    assert len(statements(message)) == MAX_STATEMENTS


def test_beginning_and_end_of_a_long_message_are_read() -> None:
    pasted = "\n".join(f"Line {number} of a report." for number in range(5_000))
    message = f"My name is Ana.\n{pasted}\nI live in Oslo."
    assert texts(message) == ["The user: My name is Ana.", "The user: I live in Oslo."]


@pytest.mark.parametrize(
    "unit",
    [
        "my name is ",
        "I really ",
        "a, ",
        "and ",
        '"',
        "\u201c",
        "`",
        "(",
        ".",
        "the a b c ",
        "ok so ",
        "\n",
    ],
)
def test_time_does_not_grow_with_the_size_of_a_message(unit: str) -> None:
    """Of 100 kB no more is read than of 10 kB, and no text makes the rules search long."""
    line = (unit * 600)[:590] + "\n"
    statements("warm up")  # the patterns are compiled at the first use

    def taken(size: int) -> float:
        message = (line * (size // len(line) + 1))[:size]
        started = time.perf_counter()
        statements(message)
        return time.perf_counter() - started

    assert min(taken(100_000) for _ in range(3)) < 20 * min(taken(10_000) for _ in range(3)) + 0.05


@pytest.mark.parametrize(
    "message",
    ["\x00\x01\ud800", "\u202emy name is Ana", "😂" * 1000, "\ufeffI live in Oslo.", "ﷺ" * 500],
)
def test_any_unicode_is_read(message: str) -> None:
    for statement in statements(message):
        assert statement.text
