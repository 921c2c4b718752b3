"""Folding and packing: the same thing once, numbers told apart, a budget kept."""

from __future__ import annotations

import pytest

from memoryd.engine.fold import Folder, cost, tokens, within
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
        ("w " * 5000 + "a", "w " * 5000 + "b", False),
    ],
)
def test_near_identical_texts_are_one(first: str, second: str, folded: bool) -> None:
    folder = Folder()
    assert folder.twin(0, first) is None
    assert (folder.twin(1, second) == 0) is folded


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
