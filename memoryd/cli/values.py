"""How the values of options are read. Each says in a few words what is wrong with a bad one."""

from __future__ import annotations

import json
import re
from argparse import ArgumentTypeError

UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}


def whole(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a whole number") from None


def count(text: str) -> int:
    """A whole number that is not negative."""
    if (number := whole(text)) < 0:
        raise ArgumentTypeError(f"{text} is negative")
    return number


def number(text: str) -> float:
    """Any number."""
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a number") from None


def seconds(text: str) -> float:
    """A length of time such as `90s`, `30min`, `12h`, `7d` or `2w`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text.strip().lower())
    if not found or found[2] not in UNITS:
        raise ArgumentTypeError(f"{text!r} is not a length of time such as 12h or 7d")
    return float(found[1]) * UNITS[found[2]]


def pair(text: str) -> tuple[str, object]:
    """KEY=VALUE; a value that is JSON is taken as such."""
    key, separator, value = text.partition("=")
    if not separator:
        raise ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
