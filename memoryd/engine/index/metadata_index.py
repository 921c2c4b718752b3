"""Which memories have which metadata: by key and value, the slots.

As with words, slots written since the last snapshot began are in dictionaries; all earlier ones are
in sealed parts, which do not change: a removed slot of theirs is only marked as gone. A snapshot
has hashes of keys and values, never the values: what a memory has in its metadata stays in its
text. To list the values of a key, one memory with each value is read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memoryd.metadata import value_key
from memoryd.model import Memory

if TYPE_CHECKING:
    from memoryd.index_files import Arrays

Slots = NDArray[np.int32]
Mask = NDArray[np.bool_]
Posted = dict[str, dict[Hashable, set[int]]]  # by key, then by `value_key`
Get = Callable[[int], Memory | None]  # the memory in a slot
NO_SLOTS: Slots = np.zeros(0, dtype=np.int32)
WHOLE, ITEM = 0, 1  # a value, or an item of a value that is a list
KEY, KEY_END = "key_code", "key_end"
PAIR, PAIR_END, PAIR_SLOT = "pair", "pair_end", "pair_slot"
SEALED_METADATA = (KEY, KEY_END, PAIR, PAIR_END, PAIR_SLOT)
PACKED = 50_000  # about how many slots make a piece of a snapshot


class MetadataIndex:
    """By key and value, the slots that have it."""

    def __init__(self) -> None:
        self._whole: Posted = {}
        self._items: Posted = {}
        self._sealed: tuple[SealedMetadata | FrozenMetadata, ...] = ()

    def put(self, slot: int, metadata: Mapping[str, Any]) -> None:
        for posted, key, value in self._places(metadata):
            posted.setdefault(key, {}).setdefault(value, set()).add(slot)

    def remove(self, slot: int, metadata: Mapping[str, Any]) -> None:
        """Remove a slot that is in no sealed part."""
        for posted, key, value in self._places(metadata):
            posted[key][value].discard(slot)
            if not posted[key][value]:
                del posted[key][value]
            if not posted[key]:
                del posted[key]

    def _places(self, metadata: Mapping[str, Any]) -> Iterator[tuple[Posted, str, Hashable]]:
        for key, value in metadata.items():
            yield self._whole, key, value_key(value)
            if type(value) is list:
                for item in {value_key(item) for item in value}:
                    yield self._items, key, item

    def having(self, key: str, value: Hashable) -> Slots:
        """The slots with this value, alone or in a list; also slots that are gone."""
        parts = [part.having(key, value) for part in self._sealed]
        own = [posted.get(key, {}).get(value, ()) for posted in (self._whole, self._items)]
        parts += [np.fromiter(slots, dtype=np.int32, count=len(slots)) for slots in own if slots]
        return np.concatenate(parts) if parts else NO_SLOTS

    def values(self, key: str, get: Get) -> Values:
        """The values of a key and the slots that have each, for a thread: a copy."""
        own = {
            kind: {value: list(slots) for value, slots in posted.get(key, {}).items()}
            for kind, posted in ((WHOLE, self._whole), (ITEM, self._items))
        }
        return Values(key, self._sealed, own, get)

    # Snapshots

    def seal(self) -> None:
        """From now on slots are added to new dictionaries; the present ones do not change."""
        if self._whole:  # without whole values there are no items
            self._sealed = (*self._sealed, FrozenMetadata(self._whole, self._items))
            self._whole, self._items = {}, {}

    def pack(self, is_in: Mask) -> Iterator[tuple[str, NDArray[Any]]]:
        """The sealed parts as arrays in pieces, with the slots that are in the snapshot. Runs on
        a thread."""
        yield from _merged(self._sealed, is_in)

    def use(self, arrays: Arrays) -> None:
        """Use the arrays of `pack` in place of all sealed parts."""
        self._sealed = (SealedMetadata(arrays),)


class Values:
    """The values of one key."""

    def __init__(
        self,
        key: str,
        sealed: Sequence[SealedMetadata | FrozenMetadata],
        own: Mapping[int, Mapping[Hashable, Sequence[int]]],
        get: Get,
    ) -> None:
        self._key, self._sealed, self._own = key, sealed, own
        self._get = get

    def tally(self, is_used: Mask) -> dict[Hashable, int]:
        """How many used slots have each value, by `value_key`; a list counts as itself and for
        each of its items."""
        found: dict[Hashable, int] = {}
        for kind in (WHOLE, ITEM):
            for value, slots in self._each(kind, is_used):
                found[value_key(value)] = found.get(value_key(value), 0) + len(slots)
        return found

    def slots(self, is_used: Mask, holds: Callable[[Any], bool]) -> Mask:
        """The used slots whose whole value holds."""
        found = np.zeros(len(is_used), dtype=np.bool_)
        for value, slots in self._each(WHOLE, is_used):
            found[slots] = holds(value)
        return found

    def _each(self, kind: int, is_used: Mask) -> Iterator[tuple[Any, Slots]]:
        """Each value with the used slots that have it. Equal values may come again."""
        for known, listed in self._own[kind].items():
            yield from self._valued(
                kind, np.array(listed, dtype=np.int32), is_used, pair_code(known)
            )
        for part in self._sealed:
            for pair, slots in part.of_key(self._key, kind):
                yield from self._valued(kind, slots, is_used, pair)

    def _valued(
        self, kind: int, slots: Slots, is_used: Mask, pair: int
    ) -> Iterator[tuple[Any, Slots]]:
        """The value with this code, as the first memory has it that can be read; nothing if no
        used slot has it."""
        slots = _used(slots, is_used)
        for slot in slots.tolist():
            memory = self._get(slot)
            if memory is None or self._key not in memory.metadata:
                continue
            whole = memory.metadata[self._key]
            for one in (whole,) if kind == WHOLE else whole:
                if pair_code(value_key(one)) == pair:
                    yield one, slots
                    return


class SealedMetadata:
    """The metadata of a snapshot. Codes of keys in order, and where the pairs of each end; codes of
    the values of each key in order, and where the slots of each end; slots."""

    def __init__(self, arrays: Arrays) -> None:
        self._keys: NDArray[np.uint64] = arrays[KEY]
        self._key_ends: NDArray[np.int64] = arrays[KEY_END]
        self._pairs: NDArray[np.uint64] = arrays[PAIR]
        self._ends: NDArray[np.int64] = arrays[PAIR_END]
        self._slots: Slots = arrays[PAIR_SLOT]

    def having(self, key: str, value: Hashable) -> Slots:
        pair = pair_code(value)
        return np.concatenate([self.of_pair(key_code(key, kind), pair) for kind in (WHOLE, ITEM)])

    def of_pair(self, key: int, pair: int) -> Slots:
        """The slots with this pair, not copied."""
        begin, end = self._range(key)
        at = begin + int(np.searchsorted(self._pairs[begin:end], np.uint64(pair)))
        return self._at(at) if at < end and int(self._pairs[at]) == pair else NO_SLOTS

    def of_key(self, key: str, kind: int) -> Iterator[tuple[int, Slots]]:
        for at in range(*self._range(key_code(key, kind))):
            yield int(self._pairs[at]), self._at(at)

    def keys(self) -> Iterable[int]:
        return [int(key) for key in self._keys]

    def pairs(self, key: int) -> Iterable[int]:
        begin, end = self._range(key)
        return [int(pair) for pair in self._pairs[begin:end]]

    def _range(self, key: int) -> tuple[int, int]:
        at = int(np.searchsorted(self._keys, np.uint64(key)))
        if at == len(self._keys) or int(self._keys[at]) != key:
            return 0, 0
        return int(self._key_ends[at - 1]) if at else 0, int(self._key_ends[at])

    def _at(self, at: int) -> Slots:
        return self._slots[self._ends[at - 1] if at else 0 : self._ends[at]]


class FrozenMetadata:
    """The metadata of slots that were written since the last snapshot."""

    def __init__(self, whole: Posted, items: Posted) -> None:
        self._posted = {WHOLE: whole, ITEM: items}
        self._coded: dict[int, dict[int, set[int]]] | None = None

    def having(self, key: str, value: Hashable) -> Slots:
        found = [posted.get(key, {}).get(value, set()) for posted in self._posted.values()]
        both = set[int]().union(*found)
        return np.fromiter(both, dtype=np.int32, count=len(both))

    def of_pair(self, key: int, pair: int) -> Slots:
        return np.array(sorted(self._codes().get(key, {}).get(pair, ())), dtype=np.int32)

    def of_key(self, key: str, kind: int) -> Iterator[tuple[int, Slots]]:
        for value, slots in self._posted[kind].get(key, {}).items():
            yield pair_code(value), np.array(sorted(slots), dtype=np.int32)

    def keys(self) -> Iterable[int]:
        return self._codes()

    def pairs(self, key: int) -> Iterable[int]:
        return self._codes().get(key, ())

    def _codes(self) -> dict[int, dict[int, set[int]]]:
        if self._coded is None:
            self._coded = {
                key_code(key, kind): {pair_code(value): slots for value, slots in values.items()}
                for kind, posted in self._posted.items()
                for key, values in posted.items()
            }
        return self._coded


def key_code(key: str, kind: int) -> int:
    """A 64-bit hash of a key, another one for items of lists."""
    return _code(f"{kind}{key}")


def pair_code(value: Hashable) -> int:
    """A 64-bit hash of a `value_key`. Equal numbers have one."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return _code(repr(value))


def _code(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=8).digest(), "big")


def _used(slots: Slots, is_used: Mask) -> Slots:
    slots = slots[slots < len(is_used)]
    return slots[is_used[slots]]


def _merged(
    parts: Sequence[SealedMetadata | FrozenMetadata], is_in: Mask
) -> Iterator[tuple[str, NDArray[Any]]]:
    """All pairs of the slots that are `is_in`, as the arrays of one part, in pieces."""
    keys = sorted({key for part in parts for key in part.keys()})
    key_ends: list[int] = []
    pairs: list[int] = []
    ends: list[int] = []
    group: list[Slots] = []
    room, end = PACKED, 0
    for key in keys:
        for pair in sorted({pair for part in parts for pair in part.pairs(key)}):
            found = [_used(part.of_pair(key, pair), is_in) for part in parts]
            if not (count := sum(map(len, found))):
                continue
            group += found
            end += count
            pairs.append(pair)
            ends.append(end)
            room -= count + 1
            if room <= 0:
                yield PAIR_SLOT, np.concatenate(group)
                group, room = [], PACKED
        key_ends.append(len(pairs))
    yield PAIR_SLOT, np.concatenate([*group, NO_SLOTS])
    yield PAIR, np.array(pairs, dtype=np.uint64)
    yield PAIR_END, np.array(ends, dtype=np.int64)
    yield KEY, np.array(keys, dtype=np.uint64)
    yield KEY_END, np.array(key_ends, dtype=np.int64)
