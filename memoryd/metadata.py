"""User metadata: what may be in it, and when two values are equal.

Accepted is what JSON returns unchanged: text, integers, finite numbers, true/false, null, and lists
and mappings of these. Everything else is refused, never converted; only keys are brought into
Unicode normal form.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from memoryd.errors import InvalidInput
from memoryd.labels import has_hidden, normal_key, normal_name

RESERVED = "memoryd:"  # prefix of memoryd's own keys; a user's key may not begin with it
MAX_BYTES = 16_384  # metadata describes a memory; it is not the memory
TOO_LONG = f"Metadata is over {MAX_BYTES} bytes."
MAX_DEPTH = 16
MAX_BITS = 4096


def check_metadata(value: object) -> dict[str, Any]:
    """A copy of `value` in plain types, empty for None. Raises InvalidInput naming the key."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _refused("Metadata must be a mapping of names to values.")
    clean: dict[str, Any] = _plain(value, "metadata", 0, _Budget())
    for key in clean:
        if key.startswith(RESERVED):
            raise InvalidInput(
                f"The metadata key {key!r} is reserved.",
                code="metadata_reserved",
                hint=f"Choose a key that does not begin with {RESERVED!r}.",
            )
    if len(json.dumps(clean).encode()) > MAX_BYTES:
        raise _refused(TOO_LONG)
    return clean


class _Budget:
    """The bytes that are left, so that too much is refused before all of it is read."""

    def __init__(self) -> None:
        self._left = MAX_BYTES

    def take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _refused(TOO_LONG)


def value_key(value: Any) -> Hashable:
    """A key that is the same for equal values: 1 equals 1.0 as in JSON, but true is not 1."""
    kind = type(value)
    if kind is str or kind is int or kind is float:
        return value  # type: ignore[no-any-return]
    if kind is bool or value is None:
        return (value,)  # in Python True equals 1
    return ("json", json.dumps(_unified(value), sort_keys=True))


def mapped(value: Any, change: Callable[[str, str], str], key: str = "") -> Any:
    """A copy in which `change` has replaced each text, keys included. `change` gets the text and
    its key; keys that become equal get a number."""
    if isinstance(value, str):
        return change(value, key)
    if isinstance(value, list | tuple):
        return [mapped(item, change, key) for item in value]
    if not isinstance(value, Mapping):
        return value
    made: dict[str, Any] = {}
    for old, item in value.items():
        new = base = change(old, "")
        number = 1
        while new in made:
            number += 1
            new = f"{base} {number}"
        made[new] = mapped(item, change, old)
    return made


def plain_text(text: str) -> str:
    """The same text as a plain `str`, whatever subclass it is of."""
    return "".join((text,))


def check_text(text: str, what: str) -> None:
    """Raise InvalidInput if `text` cannot be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise _refused(f"{what} contains half of a character (a lone surrogate).") from exc


def _plain(value: object, where: str, depth: int, budget: _Budget) -> Any:
    budget.take(1)  # each value is at least one character of JSON
    if depth > MAX_DEPTH:
        raise _refused(f"{where} is nested more than {MAX_DEPTH} deep.")
    # Plain types, not subclasses: another process must be able to read them.
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if value.bit_length() > MAX_BITS:
            raise _refused(f"{where} is a number of more than {MAX_BITS} bits.")
        return int(value)
    if isinstance(value, str):
        budget.take(len(value))
        check_text(value, where)
        return plain_text(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _refused(f"{where} is {value}, which JSON cannot represent.")
        return float(value)
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{i}]", depth + 1, budget) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        return _plain_mapping(value, where, depth, budget)
    raise _refused(f"{where} is of type {type(value).__name__}, which cannot be stored.")


def _plain_mapping(
    value: Mapping[Any, Any], where: str, depth: int, budget: _Budget
) -> dict[str, Any]:
    for key in value:
        if not isinstance(key, str):
            raise _refused(f"{where} has a key that is not text: {key!r}.")
        budget.take(len(key))
        check_text(key, f"A key of {where}")
        if has_hidden(normal_key(key)):
            raise _refused(f"{where} has a key with control or hidden characters: {key!a}.")
    if len({normal_name(key) for key in value}) < len(value):
        raise _refused(f"{where} has two keys that look alike.")
    return {normal_key(k): _plain(v, f"{where}.{k}", depth + 1, budget) for k, v in value.items()}


def _unified(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list | tuple):
        return [_unified(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _unified(item) for key, item in value.items()}
    return value


def _refused(message: str) -> InvalidInput:
    return InvalidInput(
        message,
        code="metadata_invalid",
        hint="Use text, finite numbers, true/false, null, and lists or mappings of these.",
    )
