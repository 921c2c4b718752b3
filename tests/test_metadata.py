"""User metadata is kept as it is, or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.errors import InvalidInput
from memoryd.labels import has_hidden, normal_key, normal_name
from memoryd.metadata import MAX_BYTES, RESERVED, check_metadata, mapped, value_key

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
) | text
seen = text.map(normal_name).filter(
    lambda key: not has_hidden(key) and normal_key(key) == key == normal_name(key)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(seen, inner, max_size=3)
)
keys = seen.filter(lambda key: not key.startswith(RESERVED))


@given(st.dictionaries(keys, values, max_size=5))
def test_what_json_can_carry_is_kept(metadata: dict[str, Any]) -> None:
    assert check_metadata(metadata) == metadata
    assert json.loads(json.dumps(check_metadata(metadata))) == metadata


@pytest.mark.parametrize(
    "metadata",
    [
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": [1, float("-inf")]},
        {"a": object()},
        {"a": {1, 2}},
        {"a": b"bytes"},
        {1: "a"},
        {"a": {2: "b"}},
        {"a": "\ud800"},
        {"\udfff": 1},
        {"ro\u200bom": 1},
        {"\u202eroom": 1},
        {"a": {"room\u2060": 1}},
        {"two\nlines": 1},
        {"a": 1, "\uff41": 2},
        {"a": 1, "a ": 2},
        {"a": 1, "a\u00a0": 2},
        {"a": "x" * MAX_BYTES},
        [("a", 1)],
        "text",
        7,
    ],
)
def test_what_nobody_gets_back_unchanged_is_refused(metadata: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_metadata(metadata)
    assert refused.value.code == "metadata_invalid"


def test_the_accents_of_a_key_have_one_form() -> None:
    assert check_metadata({"cafe\u0301": "cafe\u0301"}) == {"caf\u00e9": "cafe\u0301"}


def test_endless_nesting_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InvalidInput):
        check_metadata({"a": endless})


def test_reserved_keys_are_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        check_metadata({"memoryd:type": "fact"})
    assert refused.value.code == "metadata_reserved"


def test_the_caller_keeps_its_own_copy() -> None:
    mine = {"tags": ["a"]}
    kept = check_metadata(mine)
    mine["tags"].append("b")
    assert kept == {"tags": ["a"]}


def test_equality_is_that_of_json() -> None:
    assert value_key(1) == value_key(1.0) != value_key(True)
    assert value_key({"a": 1, "b": [2.0]}) == value_key({"b": [2], "a": 1})
    assert value_key("1") != value_key(1)


def test_every_text_is_mapped_with_its_key_and_no_value_is_lost() -> None:
    metadata = {"a": ["x", {"b": "y"}, 5, None], "A": "z", "c": True}

    def change(text: str, key: str) -> str:
        return f"{key}:{text}" if key else text.upper()

    assert mapped(metadata, change) == {
        "A": ["a:x", {"B": "b:y"}, 5, None],
        "A 2": "A:z",
        "C": True,
    }
