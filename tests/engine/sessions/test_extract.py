"""Without a language model the sentences that carry a session are its summary."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.sessions.extract import MAX_ENTRY, MAX_SENTENCE, MOST, extract, sentences
from memoryd.engine.sessions.said import Said
from memoryd.engine.sessions.titles import MAX_TITLE, PLAIN, archive_name, title_of
from memoryd.labels import has_hidden

VIENNA = ZoneInfo("Europe/Vienna")
START = 1_790_000_000.0  # 2026-09-21 15:33:20 in Vienna
TALK = [
    "Hi! I want to plan a trip to Lisbon in March.",
    "Great! When do you want to fly to Lisbon, and how many of you?",
    "We are two, my wife Clara and me. We fly on 12 March and stay for five nights.",
    "A hotel in Alfama would be close. The trip to Lisbon costs about 900 euros for two.",
    "Thanks.",
    "You are welcome!",
    "By the way, our backup server failed again last night. The disk is at 97 percent.",
    "You should replace the disk of the backup server soon, or delete old snapshots.",
    "We decided to replace the disk of the backup server on Monday.",
    "ok",
]


def said(texts: list[str], *, step: float = 60.0, vectors: bool = False) -> list[Said]:
    return [
        Said(
            who="Anna" if number % 2 == 0 else "assistant",
            text=text,
            at=START + step * number,
            id=str(number),
            role="user" if number % 2 == 0 else "assistant",
            vector=HashEncoder(384).encode([text])[0] if vectors else None,
        )
        for number, text in enumerate(texts)
    ]


@pytest.mark.parametrize("vectors", [True, False])
def test_each_topic_is_there_with_who_and_when_and_small_talk_is_not(vectors: bool) -> None:
    entry = extract(said(TALK, vectors=vectors), VIENNA)
    assert entry is not None
    head, *lines = entry.splitlines()
    span = "2026-09-21 16:13 to 2026-09-21 16:22"
    assert head == f"[2026-09-21 16:22] 10 messages of Anna and assistant, {span}."
    assert "Lisbon" in entry
    assert "backup server" in entry
    assert not {"Thanks.", "You are welcome!", "ok", "Hi!"} & {line[9:] for line in lines}
    for line in lines:
        time, who, text = line.removeprefix("- ").split(" ", 2)
        number = next(n for n, one in enumerate(TALK) if text in one)
        assert who == f"{said(TALK)[number].who}:"
        assert time == f"16:{13 + number}"
    assert lines == sorted(lines)


def test_vectors_decide_what_stands_for_what() -> None:
    """Of two messages that mean the same one is shown, though they share no word."""
    texts = [f"Sentence number {n} about the roof garden." for n in range(20)]
    odd = ["Frachtgut trifft Mittwoch ein.", "The parcel comes in three days."]
    messages = said([*texts, *odd])
    near = np.zeros((22, 3), dtype=np.float32)
    near[:20, 0], near[20:, 1] = 1.0, 1.0
    entry = extract([_with(one, near[n]) for n, one in enumerate(messages)], VIENNA)
    assert entry is not None
    assert len([text for text in odd if text in entry]) == 1


def _with(one: Said, vector: object) -> Said:
    return Said(one.who, one.text, one.at, one.id, one.role, vector)  # type: ignore[arg-type]


def test_messages_of_another_day_say_so() -> None:
    entry = extract(said(TALK, step=86_400.0), VIENNA)
    assert entry is not None
    assert "- 2026-09-21 15:33 Anna:" in entry or "- 2026-09-21 16:13 Anna:" in entry


@pytest.mark.parametrize("texts", [["..."], ["?!", "---"], ["\n\n"], ["👍", "🎉"]])
def test_without_a_sentence_there_is_no_summary(texts: list[str]) -> None:
    assert extract(said(texts), VIENNA) is None


def test_long_messages_and_many_messages_stay_within_bounds() -> None:
    texts = [f"{n} " + f"word{n % 7} something " * 500 for n in range(1_500)]
    entry = extract(said(texts), VIENNA)
    assert entry is not None
    assert len(entry) <= MAX_ENTRY
    assert 1 < len(entry.splitlines()) <= MOST + 1
    assert all(len(line) <= MAX_SENTENCE + 60 for line in entry.splitlines())


def test_sentences_lose_the_marks_of_lists() -> None:
    assert sentences("# Plan\n- Buy tea. Then rest!\n2) 来週。また\n> quoted") == [
        "Plan",
        "Buy tea.",
        "Then rest!",
        "来週。",
        "また",
        "quoted",
    ]


@pytest.mark.parametrize(
    ("texts", "title"),
    [
        (TALK[:6], "Trip to Lisbon"),
        (TALK[6:], "Backup server"),
        (["Wir graben den Garten um.", "Wann? Der Garten ist nass.", "Ja."], "Garten"),
        (["来週東京に出張します。"], "来週東京に出張します"),
        (["ok", "thanks", "?"], PLAIN),
        ([""], PLAIN),
    ],
)
def test_an_archive_is_named_by_its_day_and_topic(texts: list[str], title: str) -> None:
    assert title_of(said(texts)).startswith(title)
    assert archive_name(None, said(texts), VIENNA) == f"2026-09-21 {title_of(said(texts))}"


def test_a_given_title_is_used_if_it_can_be_a_name() -> None:
    assert archive_name("  Two\nlines ", said(TALK), VIENNA) == "2026-09-21 Two lines"
    assert archive_name("a\u202eb", said(TALK), VIENNA) == f"2026-09-21 {title_of(said(TALK))}"
    assert len(archive_name("x" * 500, said(TALK), VIENNA)) <= MAX_TITLE + 11


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(max_size=60), min_size=1, max_size=12))
def test_any_messages_have_a_name_and_a_bounded_summary(texts: list[str]) -> None:
    messages = said(texts)
    name = archive_name(None, messages, VIENNA)
    assert 11 < len(name) <= MAX_TITLE + 11
    assert not has_hidden(name)
    entry = extract(messages, VIENNA)
    assert entry is None or len(entry) <= MAX_ENTRY
