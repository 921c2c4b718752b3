"""Folding and packing: the same thing once, numbers told apart, a budget kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memoryd.engine.search.fold import Folder, cost, tokens, within
from memoryd.model import Hit, Memory, MemoryType

LONG = "the meeting about the new garden robot is on monday morning at nine in room {}"


@pytest.mark.parametrize(
    ("first", "second", "folded"),
    [
        ("Anna likes tea.", "anna likes TEA", True),
        ("Anna likes tea.", "Anna likes coffee.", False),
        ("Anna likes tea", "tea likes Anna", False),
        (LONG.format("blue"), LONG.format("blue") + "!", True),
        (LONG.format("blue"), "So " + LONG.format("blue"), True),
        (LONG.format("5"), LONG.format("6"), False),
        ("🎉🎉", "🚀", False),
        ("🎉", "🎉", True),
        ("w " * 5000 + "x", "w " * 5000 + "y", False),
        ("The user likes tea", "user likes the tea", True),
        ("I use C++ at work", "I use C# at work", False),
        ("It is kept at -5 degrees", "It is kept at 5 degrees", False),
        ("The price is 10 \u20ac", "The price is 10 $", False),
        ("alarm if x > 5", "alarm if x < 5", False),
        ("a ratio of 3.5", "a ratio of 3:5", False),
        ("Lena loves \U0001f355", "Lena loves \U0001f354", False),
        (
            "Ann owes Bob forty euros for the dinner they had there",
            "Bob owes Ann forty euros for the dinner they had there",
            False,
        ),
        (
            "people who take this new medicine should drink much water in the morning",
            "people who take this new medicine should not drink much water in the morning",
            False,
        ),
        (LONG.format("blue"), LONG.format("blue").replace("monday", "tuesday"), False),
    ],
)
def test_near_identical_texts_are_one(first: str, second: str, folded: bool) -> None:
    folder = Folder()
    assert folder.twin(0, hit(first).memory) is None
    assert (folder.twin(1, hit(second).memory) == 0) is folded


def test_the_same_words_of_two_people_are_two() -> None:
    folder = Folder()
    for number, name in enumerate(("Ann", "Bob")):
        memory = replace(hit("I agree").memory, metadata={"speaker": name, "order": number})
        assert folder.twin(number, memory) is None
    again = replace(hit("I agree!").memory, metadata={"speaker": "Bob", "order": 7})
    assert folder.twin(2, again) == 1


def test_metadata_and_folded_ids_count_in_a_budget() -> None:
    rich = replace(hit("short").memory, metadata={"blob": "x" * 15_000})
    (packed,), _ = within([Hit(rich, 0.5, None, folded=("a" * 20,) * 30)], 100)
    assert cost(packed) <= 100
    assert (packed.memory.content, packed.cut) == ("short", True)


def hit(text: str, passage: str | None = None, id: str = "a") -> Hit:
    memory = Memory(id=id, type=MemoryType.FACT, content=text, created_at=0.0)
    return Hit(memory, 0.5, passage)


def test_tokens_are_counted_generously() -> None:
    assert tokens("") == 0
    assert tokens("four") == 1
    assert tokens("hello") == 2
    assert tokens("東京") == 2


def test_a_budget_is_kept_and_the_best_is_never_left_out() -> None:
    hits = [hit("x" * 400, id="a"), hit("y" * 40_000, id="b"), hit("z" * 80, id="c")]
    packed, missed = within(hits, 300)
    assert [(h.memory.id, h.cut) for h in packed] == [("a", False), ("c", False)]
    assert missed == 1
    assert sum(map(cost, packed)) <= 300
    packed, missed = within(hits[1:], 100)
    assert [(h.memory.id, h.cut) for h in packed] == [("b", True)]
    assert sum(map(cost, packed)) <= 100
    packed, missed = within(hits, 1)
    assert len(packed) == 1


def test_a_long_memory_is_cut_to_what_matched() -> None:
    (packed,), missed = within([hit("x" * 9000 + "the key", "the key")], 60)
    assert (packed.memory.content, packed.cut, packed.passage, missed) == ("the key", True, None, 0)
