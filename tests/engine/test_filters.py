"""The language of filters: evaluated exactly, and refused with the part that is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.engine.engine import Engine
from memoryd.engine.filters import MAX_CONDITIONS, Filter, OneOf, Where, parse_where
from memoryd.engine.index.index import Index
from memoryd.errors import InvalidInput
from memoryd.model import Memory, MemoryType
from memoryd.ports import Record

MEMORIES: dict[str, dict[str, Any]] = {
    "one": {"n": 1, "word": "tea", "labels": ["a", "b"], "ok": True},
    "two": {"n": 2.5, "word": "Tea time", "labels": ["b", 1], "ok": False},
    "text": {"n": "1", "word": "", "labels": "a"},
    "none": {"n": None, "deep": {"x": 1, "y": [2]}},
    "truth": {"n": True, "labels": []},
    "nothing": {},
}
CASES: list[tuple[dict[str, Any], str]] = [
    ({}, "one two text none truth nothing"),
    ({"n": 1}, "one"),
    ({"n": 1.0}, "one"),
    ({"n": True}, "truth"),
    ({"n": None}, "none"),
    ({"n": "1"}, "text"),
    ({"n": {"$eq": 2.5}}, "two"),
    ({"n": {"$ne": 1}}, "two text none truth nothing"),
    ({"n": {"$gt": 1}}, "two"),
    ({"n": {"$gte": 1}}, "one two"),
    ({"n": {"$lt": 2.5}}, "one"),
    ({"n": {"$lte": 2.5}}, "one two"),
    ({"n": {"$gte": 1, "$lt": 2}}, "one"),
    ({"n": {"$lt": "2"}}, "text"),
    ({"n": {"$in": [1, "1", None]}}, "one text none"),
    ({"n": {"$nin": [1, "1", None]}}, "two truth nothing"),
    ({"labels": "a"}, "one text"),
    ({"labels": ["a", "b"]}, "one"),
    ({"labels": ["b", "a"]}, ""),
    ({"labels": []}, "truth"),
    ({"labels": {"$ne": "a"}}, "two none truth nothing"),
    ({"labels": {"$in": [1, "zzz"]}}, "two"),
    ({"labels": {"$gte": 1}}, "two"),
    ({"labels": {"$contains": "a"}}, "one text"),
    ({"labels": {"$contains": 1}}, "two"),
    ({"labels": {"$not_contains": "b"}}, "text none truth nothing"),
    ({"word": {"$contains": "ea"}}, "one two"),
    ({"word": {"$contains": "tea"}}, "one"),
    ({"word": {"$contains": ""}}, "one two text"),
    ({"word": {"$not_contains": "tea"}}, "two text none truth nothing"),
    ({"n": {"$contains": 1}}, ""),
    ({"n": {"$exists": True}}, "one two text none truth"),
    ({"n": {"$exists": False}}, "nothing"),
    ({"deep": {"y": [2.0], "x": 1}}, "none"),
    ({"deep": {"$eq": {"x": 1, "y": [2]}}}, "none"),
    ({"deep": {"$ne": {"x": 1, "y": [2]}}}, "one two text truth nothing"),
    ({"deep": {}}, ""),
    ({"n": {"$not": {"$gt": 1}}}, "one text none truth nothing"),
    ({"n": {"$not": 1}}, "two text none truth nothing"),
    ({"$not": {"n": 1, "ok": True}}, "two text none truth nothing"),
    ({"$not": {"n": {"$gte": 1}, "ok": True}}, "two text none truth nothing"),
    ({"$and": [{"n": {"$gte": 1}}, {"ok": False}]}, "two"),
    ({"$or": [{"n": 1}, {"ok": False}, {"labels": []}]}, "one two truth"),
    ({"$or": [{"n": 1, "ok": False}, {"word": ""}]}, "text"),
    ({"ok": True, "$or": [{"n": 1}, {"n": 2.5}]}, "one"),
]


@pytest.mark.parametrize(("filter", "found"), CASES, ids=lambda value: str(value)[:60])
async def test_search_list_and_forget_agree_on_every_operator(
    engine: Engine, filter: dict[str, Any], found: str
) -> None:
    for name, metadata in MEMORIES.items():
        await engine.store(f"the memory {name}", metadata=metadata, name=name)
    assert {n for n, m in MEMORIES.items() if parse_where(filter).matches(m)} == set(found.split())
    page = await engine.search("the memory", metadata=filter, limit=10, min_score=0.0)
    assert {hit.memory.name for hit in page.hits} == set(found.split())
    if filter:
        looked = await engine.forget_where(engine.selection(metadata=filter), dry_run=True)
        assert looked.matched == len(found.split())


@pytest.mark.parametrize(
    ("filter", "part", "hint"),
    [
        ({"n": {"$gtt": 1}}, "metadata.n.$gtt is not an operator", "$gt"),
        ({"$nor": [{"n": 1}]}, "metadata.$nor is not an operator", "$or"),
        ({"n": {"$gt": [1]}}, "metadata.n.$gt must be a number or a text, not [1]", "example"),
        ({"n": {"$lte": True}}, "metadata.n.$lte must be a number or a text, not true", ""),
        ({"n": {"$in": 3}}, "metadata.n.$in must be a list of one or more values, not 3", ""),
        ({"n": {"$nin": []}}, "metadata.n.$nin must be a list of one or more values, not []", ""),
        ({"n": {"$exists": 1}}, "metadata.n.$exists must be true or false, not 1", ""),
        ({"n": {"$gt": 1, "x": 2}}, "metadata.n.x is a plain key among operators", "$eq"),
        ({"n": {"$or": [{"n": 1}]}}, "metadata.n.$or is in the wrong place", '"$or": ['),
        ({"$gt": 1}, "metadata.$gt is in the wrong place", '{"key": {"$gt": ...}}'),
        ({"$or": []}, "metadata.$or must be a list of one or more filters, not []", ""),
        ({"$or": {"n": 1}}, 'metadata.$or must be a list of one or more filters, not {"n": 1}', ""),
        ({"$or": [{"n": 1}, 7]}, "metadata.$or[1] must be a filter", ""),
        ({"$and": [{"n": 1}, {}]}, "metadata.$and[1] is an empty filter", ""),
        ({"$not": {}}, "metadata.$not is an empty filter", ""),
        ({"$and": [{"$or": [{"n": {"$i": 1}}]}]}, "metadata.$and[0].$or[0].n.$i is not", ""),
        ({"$or": [{"memoryd:x": 1}]}, "metadata.$or[0].memoryd:x cannot be filtered by", ""),
        ({"$and": [{f"k{n}": 1} for n in range(MAX_CONDITIONS + 1)]}, "at most 100", ""),
    ],
)
def test_a_bad_filter_shows_the_part_that_is_wrong(filter: Any, part: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_where(filter)
    assert refused.value.code == "filter_invalid"
    assert part in refused.value.message
    assert hint in refused.value.hint
    assert refused.value.hint


def test_a_filter_that_is_too_deep_or_too_long_is_refused() -> None:
    deep: Any = {"n": 1}
    for _ in range(20):
        deep = {"$not": deep}
    for wrong in (deep, {"n": {"$in": ["x" * 1000] * 20}}, "n = 1", [1], {"n": float("nan")}):
        with pytest.raises(InvalidInput) as refused:
            parse_where(wrong)
        assert refused.value.code == "metadata_invalid"


def test_equality_is_answered_by_the_index_also_inside_and() -> None:
    """Chroma's users write `$and` for several keys; it must be as fast as several keys."""
    wanted = parse_where({"a": 1, "$and": [{"b": {"$in": ["x", "y"]}}, {"c": {"$gt": 1}}]})
    assert wanted.equal == (OneOf("a", frozenset({1})), OneOf("b", frozenset({"x", "y"})))
    assert len(wanted.others) == 1
    assert parse_where({"$or": [{"a": 1}, {"b": 1}]}).equal == ()
    assert parse_where({}) == parse_where(None) == Where()


# The same rules once more, as plainly as they can be said, on values as JSON text.
def naive(filter: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    return all(naive_part(key, part, metadata) for key, part in filter.items())


def naive_part(key: str, part: Any, metadata: Mapping[str, Any]) -> bool:
    if key == "$and":
        return all(naive(one, metadata) for one in part)
    if key == "$or":
        return any(naive(one, metadata) for one in part)
    if key == "$not":
        return not naive(part, metadata)
    if isinstance(part, dict) and any(name.startswith("$") for name in part):
        return all(naive_operator(name, value, key, metadata) for name, value in part.items())
    return naive_operator("$eq", part, key, metadata)


def naive_operator(name: str, wanted: Any, key: str, metadata: Mapping[str, Any]) -> bool:
    opposite = {"$ne": "$eq", "$nin": "$in", "$not_contains": "$contains"}
    if name in opposite:
        return not naive_operator(opposite[name], wanted, key, metadata)
    if name == "$not":
        return not naive_part(key, wanted, metadata)
    if name == "$exists":
        return bool(wanted) == (key in metadata)
    if key not in metadata:
        return False
    value = metadata[key]
    items = value if isinstance(value, list) else []
    if name == "$contains":
        if isinstance(value, str) and isinstance(wanted, str):
            return wanted in value
        return any(same(item, wanted) for item in items)
    if name == "$eq":
        return any(same(one, wanted) for one in [value, *items])
    if name == "$in":
        return any(same(one, each) for one in [value, *items] for each in wanted)
    return any(ordered(name, one, wanted) for one in (items if items else [value]))


def same(one: Any, other: Any) -> bool:
    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(item) for item in value]
        if isinstance(value, dict):
            return {key: plain(item) for key, item in sorted(value.items())}
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if is_number else value

    return json.dumps(plain(one)) == json.dumps(plain(other))


def ordered(name: str, one: Any, other: Any) -> bool:
    both = [isinstance(v, int | float) and not isinstance(v, bool) for v in (one, other)]
    if not all(both) and not (isinstance(one, str) and isinstance(other, str)):
        return False
    return bool(
        {"$gt": one > other, "$gte": one >= other, "$lt": one < other}.get(name, one <= other)
    )


scalars = st.sampled_from([None, True, False, 0, 1, -1, 1.0, 2.5, "", "a", "b", "ab", "1"])
values = scalars | st.lists(scalars, max_size=3) | st.just({"x": 1}) | st.just({"x": [1.0]})
keys = st.sampled_from(["k", "l", "m"])
comparable = st.sampled_from([0, 1, 1.0, 2.5, "", "a", "b"])
operators = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne", "$contains", "$not_contains"]), values),
    st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), comparable),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(values, min_size=1, max_size=3)),
    st.tuples(st.just("$exists"), st.booleans()),
)
conditions = st.lists(operators, min_size=1, max_size=2).map(dict)
fields = st.dictionaries(
    keys, values | conditions | conditions.map(lambda c: {"$not": c}), min_size=1, max_size=2
)
filters = st.recursive(
    fields,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["$and", "$or"]), st.lists(inner, min_size=1, max_size=3)).map(
            lambda pair: dict([pair])
        ),
        inner.map(lambda one: {"$not": one}),
    ),
    max_leaves=4,
)


@given(filters, st.dictionaries(keys, values))
@settings(max_examples=500)
def test_every_filter_means_what_its_rules_say(
    filter: dict[str, Any], metadata: dict[str, Any]
) -> None:
    assert parse_where(filter).matches(metadata) == naive(filter, metadata)


@given(filters, st.lists(st.dictionaries(keys, values), max_size=8))
@settings(max_examples=100)
def test_the_index_finds_what_a_look_at_each_memory_finds(
    filter: dict[str, Any], each: list[dict[str, Any]]
) -> None:
    index = Index(8)
    for n, metadata in enumerate(each):
        index.put(Record(Memory(str(n), MemoryType.FACT, "x", 1.0, metadata=metadata)))
    wanted = Filter(where=parse_where(filter))
    found = index.selection(wanted, 2.0).mask()
    assert [bool(one) for one in found] == [naive(filter, metadata) for metadata in each]
    for n in range(len(each)):  # posting lists are emptied again
        index.remove(str(n))
    posted = index._columns.metadata
    assert (posted._whole, posted._items) == ({}, {})
