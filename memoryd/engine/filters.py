"""Filters: exact conditions on a memory, and the language of those on its metadata.

    {"category": "user_profile", "age": {"$gte": 18, "$lt": 65}}
    {"$or": [{"tags": "tea"}, {"tags": {"$in": ["coffee", "cocoa"]}}]}

The operators are those that users of Chroma know. Where languages of this kind differ:

- Several keys, and several operators of one key, must all hold.
- A list matches if one of its items does, or if the whole list is equal.
- `$ne`, `$nin` and `$not_contains` are true exactly where `$eq`, `$in` and `$contains` are not, so
  also where the key is missing. Every other operator is false for a missing key.
- Values of different kinds are never equal, and neither is greater. All numbers are one kind, but
  true is not 1.
- `$contains` finds a part of a text, upper and lower case apart, or an item of a list.

A filter is parsed once, into a tree of conditions. The index has a posting list for each value, so
equality costs it no look at a memory, and `$and`, `$or` and `$not` combine masks; only orders,
`$contains` and `$exists` are evaluated memory by memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import reduce
from operator import and_, ge, gt, le, lt, or_
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from memoryd.errors import InvalidInput
from memoryd.fields import PROJECT, is_hidden
from memoryd.metadata import RESERVED, check_metadata, value_key
from memoryd.model import Memory, MemoryType

MAX_CONDITIONS = 100  # some are evaluated for each memory
MAX_SHOWN = 100  # characters of a wrong part in a message
ORDERS: dict[str, Callable[[Any, Any], bool]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}
NEGATED = {"$ne": "$eq", "$nin": "$in", "$not_contains": "$contains"}
OF_KEYS = ("$eq", "$ne", *ORDERS, "$in", "$nin", "$contains", "$not_contains", "$exists", "$not")
OF_FILTERS = ("$and", "$or", "$not")
OPERATORS = tuple(dict.fromkeys(OF_KEYS + OF_FILTERS))
MISSING = object()
NUMBERS = (int, float)

Metadata = Mapping[str, Any]
ValueTest = Callable[[Any], bool]  # of a value that is there
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class OneOf:
    """The key has one of these values, or a list with one of them, each as its `value_key`."""

    key: str
    values: frozenset[Hashable]

    def matches(self, metadata: Metadata) -> bool:
        value = metadata.get(self.key, MISSING)
        if value is MISSING:
            return False
        items = value if type(value) is list else ()
        return any(value_key(one) in self.values for one in (value, *items))


@dataclass(frozen=True, slots=True)
class Field:
    """The key is there and its value passes a test."""

    key: str
    holds: ValueTest

    def matches(self, metadata: Metadata) -> bool:
        value = metadata.get(self.key, MISSING)
        return value is not MISSING and self.holds(value)


@dataclass(frozen=True, slots=True)
class All:
    """Every part matches; there is at least one."""

    parts: tuple[Condition, ...]

    def matches(self, metadata: Metadata) -> bool:
        return all(part.matches(metadata) for part in self.parts)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part matches."""

    parts: tuple[Condition, ...]

    def matches(self, metadata: Metadata) -> bool:
        return any(part.matches(metadata) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not match."""

    part: Condition

    def matches(self, metadata: Metadata) -> bool:
        return not self.part.matches(metadata)


Condition = OneOf | Field | All | AnyOf | Not


@dataclass(frozen=True, slots=True)
class Where:
    """A parsed filter on metadata: all of `equal`, and all of `others`."""

    equal: tuple[OneOf, ...] = ()
    others: tuple[Condition, ...] = ()

    def matches(self, metadata: Metadata) -> bool:
        parts: tuple[Condition, ...] = (*self.equal, *self.others)
        return all(part.matches(metadata) for part in parts)

    def names(self, key: str) -> bool:
        """Whether a condition is on this key."""
        parts: tuple[Condition, ...] = (*self.equal, *self.others)
        return any(leaf.key == key for part in parts for leaf in _leaves(part))

    def posted(self) -> set[OneOf]:
        """Every OneOf somewhere in `others`."""
        leaves = (leaf for part in self.others for leaf in _leaves(part))
        return {leaf for leaf in leaves if isinstance(leaf, OneOf)}

    def tested(self) -> set[str]:
        """The keys of every Field somewhere in `others`."""
        leaves = (leaf for part in self.others for leaf in _leaves(part))
        return {leaf.key for leaf in leaves if isinstance(leaf, Field)}


def _leaves(condition: Condition) -> Iterator[OneOf | Field]:
    match condition:
        case All(parts) | AnyOf(parts):
            for part in parts:
                yield from _leaves(part)
        case Not(part):
            yield from _leaves(part)
        case _:
            yield condition


def combined(condition: Condition, of: Callable[[OneOf | Field], Mask]) -> Mask:
    """The mask of a condition, made of the masks of its leaves."""
    match condition:
        case All(parts):
            return reduce(and_, (combined(part, of) for part in parts))
        case AnyOf(parts):
            return reduce(or_, (combined(part, of) for part in parts))
        case Not(part):
            return ~combined(part, of)
        case _:
            return of(condition)


@dataclass(frozen=True, slots=True)
class Filter:
    """Exact conditions on a memory. Times are epoch seconds: since <= created_at < until."""

    type: MemoryType | None = None
    session_id: str | None = None
    where: Where = field(default_factory=Where)
    since: float | None = None
    until: float | None = None
    hides_superseded: bool = False  # only the index can tell
    hides_records: bool = False  # of sessions, and digests
    projects: tuple[str | None, ...] | None = None  # only of these; None among them: shared ones
    without: frozenset[str] = frozenset()  # ids of memories that are not wanted
    pinned: bool | None = None  # None: both

    def matches(self, memory: Memory) -> bool:
        """Whether the memory meets every condition on its own fields; expiry is none of them."""
        return (
            self.type in (None, memory.type)
            and self.session_id in (None, memory.session_id)
            and (self.since is None or memory.created_at >= self.since)
            and (self.until is None or memory.created_at < self.until)
            and (self.projects is None or memory.metadata.get(PROJECT) in self.projects)
            and memory.id not in self.without
            and self.pinned in (None, memory.pinned)
            and self.where.matches(memory.metadata)
            and not (self.hides_records and is_hidden(memory))
        )


def parse_where(value: object) -> Where:
    """The filter on metadata from a call; empty for None. Raises InvalidInput, which shows the
    part that is wrong."""
    parts = list(_Parser().filter(check_metadata(value), "metadata", top=True))
    equal = tuple(part for part in parts if isinstance(part, OneOf))
    return Where(equal, tuple(part for part in parts if not isinstance(part, OneOf)))


class _Parser:
    """Turns a filter into conditions, and counts them."""

    def __init__(self) -> None:
        self._count = 0

    def filter(self, value: object, at: str, *, top: bool = False) -> Iterator[Condition]:
        """The conditions of a filter; all must hold."""
        if not isinstance(value, Mapping):
            _refuse(at, "must be a filter such as {key: value}", value)
        if not value and not top:
            _refuse(at, "is an empty filter", value, shown=False)
        for key, part in value.items():
            where = f"{at}.{key}"
            if key.startswith("$"):
                yield from self._combined(key, part, where)
            elif key.startswith(RESERVED):
                _refuse(where, f"cannot be filtered by: {RESERVED!r} is reserved", key, shown=False)
            else:
                yield from self._field(key, part, where)

    def _combined(self, operator: str, part: object, at: str) -> Iterator[Condition]:
        if operator == "$not":
            yield Not(All(tuple(self.filter(part, at))))
            return
        if operator not in OF_FILTERS:
            _refuse_operator(operator, at, OF_FILTERS)
        parts = enumerate(_several(part, at, "filters"))
        each = [tuple(self.filter(one, f"{at}[{number}]")) for number, one in parts]
        if operator == "$and":
            yield from (condition for conditions in each for condition in conditions)
        else:
            yield AnyOf(tuple(map(All, each)))

    def _field(self, key: str, part: object, at: str) -> Iterator[Condition]:
        """The conditions on one key: operators, or a value to be equal to."""
        if not isinstance(part, Mapping) or not any(name.startswith("$") for name in part):
            part = {"$eq": part}
        for operator, wanted in part.items():
            where = f"{at}.{operator}"
            if operator not in OF_KEYS:
                _refuse_operator(operator, where, OF_KEYS)
            yield self._condition(key, operator, wanted, where)

    def _condition(self, key: str, operator: str, wanted: Any, at: str) -> Condition:
        self._count += 1
        if self._count > MAX_CONDITIONS:
            _refuse(at, f"is one condition too many: at most {MAX_CONDITIONS}", wanted, shown=False)
        if operator == "$exists":
            if not isinstance(wanted, bool):
                _refuse(at, "must be true or false", wanted)
            there = Field(key, lambda value: True)
            return there if wanted else Not(there)
        if operator == "$not":
            return Not(All(tuple(self._field(key, wanted, at))))
        if operator in NEGATED:
            return Not(_positive(key, NEGATED[operator], wanted, at))
        return _positive(key, operator, wanted, at)


def _positive(key: str, operator: str, wanted: Any, at: str) -> Condition:
    """A condition that is false where the key is missing."""
    if operator == "$eq":
        return OneOf(key, frozenset([value_key(wanted)]))
    if operator == "$in":
        return OneOf(key, frozenset(map(value_key, _several(wanted, at, "values"))))
    if operator == "$contains":
        return Field(key, _contains(wanted))
    if type(wanted) not in (*NUMBERS, str):
        _refuse(at, "must be a number or a text", wanted)
    return Field(key, _ordered(ORDERS[operator], wanted))


def _ordered(compare: Callable[[Any, Any], bool], wanted: Any) -> ValueTest:
    kinds = (str,) if type(wanted) is str else NUMBERS

    def holds(value: Any) -> bool:
        if type(value) in kinds:
            return compare(value, wanted)
        return type(value) is list and any(
            type(item) in kinds and compare(item, wanted) for item in value
        )

    return holds


def _contains(wanted: Any) -> ValueTest:
    if type(wanted) is str:
        return lambda value: type(value) in (str, list) and wanted in value
    key = value_key(wanted)
    return lambda value: type(value) is list and any(value_key(item) == key for item in value)


def _several(value: object, at: str, what: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        _refuse(at, f"must be a list of one or more {what}", value)
    return value


def _refuse_operator(operator: str, at: str, known: Sequence[str]) -> NoReturn:
    """An operator that does not exist, or not here."""
    if operator in OPERATORS:
        example = (
            '{"$or": [{"key": 1}, {"key": 2}]}'
            if operator in OF_FILTERS
            else (f'{{"key": {{"{operator}": ...}}}}')
        )
        _refuse(at, "is in the wrong place", operator, hint=f"Write {example}.", shown=False)
    if not operator.startswith("$"):
        hint = 'To compare with a whole mapping, write {"$eq": {...}}.'
        _refuse(at, "is a plain key among operators", operator, hint=hint, shown=False)
    near = get_close_matches(operator[:20], known, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Use {', '.join(known)}."
    _refuse(at, "is not an operator", operator, hint=hint, shown=False)


def _refuse(at: str, what: str, value: object, *, hint: str = "", shown: bool = True) -> NoReturn:
    part = f", not {json.dumps(value)[:MAX_SHOWN]}" if shown else ""
    raise InvalidInput(
        f"The filter is wrong: {at[-MAX_SHOWN:]} {what}{part}.",
        code="filter_invalid",
        hint=hint or 'For example {"category": "tea", "rating": {"$gte": 4}}.',
    )
