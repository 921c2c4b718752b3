"""Mask what looks like a credential: secrets do not belong in a memory.

`mask` is pure, linear in the length of the text, and changes nothing but the credentials it finds;
masking a masked text changes nothing. `vendors` finds credentials by their format, `named` by the
name before them ("password: ...").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memoryd.masking.named import HINTS, find_named, kind_under
from memoryd.masking.vendors import RULES, Rule
from memoryd.metadata import mapped
from memoryd.normalise import normalized
from memoryd.sanitize import visible

MARK = "[secret removed: "
MARKER = MARK + "{}]"
# Nearly every text has no hint or two: one pass over all of them, not one for each rule.
RULE_HINTS = tuple(dict.fromkeys(hint for rule in RULES for hint in rule.hints))
PASSES = 8  # masking one secret can reveal another; bounded, as an attacker could chain them


@dataclass(frozen=True, slots=True)
class Masked:
    """A text without its secrets, and their kinds: each once, in order."""

    text: str
    kinds: tuple[str, ...] = ()


def mask(text: str) -> Masked:
    """`text` with a marker in the place of each credential. If invisible or full-width characters
    hide a credential, the whole text is normalized first."""
    found = _mask(text)
    if text.isascii():
        return found
    plain = _mask(visible(normalized("NFKC", text)))
    return plain if plain.text.count(MARK) > found.text.count(MARK) else found


def _mask(text: str) -> Masked:
    kinds: list[str] = []
    for _ in range(PASSES):
        before = len(kinds)
        text = _masked(text, kinds)
        if len(kinds) == before:
            break
    return Masked(text, tuple(dict.fromkeys(kinds)))


def mask_metadata(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The same for every text in metadata, keys included; a key can name its value a secret."""
    kinds: list[str] = []

    def change(text: str, key: str) -> str:
        found = mask(text)
        kinds.extend(found.kinds)
        if found.kinds or not (kind := kind_under(key, text)):
            return found.text
        kinds.append(kind)
        return MARKER.format(kind)

    return mapped(metadata, change), tuple(dict.fromkeys(kinds))


def _masked(text: str, kinds: list[str]) -> str:
    folded = text.lower()
    if found := {hint for hint in RULE_HINTS if hint in folded}:
        for rule in RULES:
            if not found.isdisjoint(rule.hints):
                text = _apply(rule, text, kinds)
    return _mask_named(text, kinds) if [hint for hint in HINTS if hint in folded] else text


def _mask_named(text: str, kinds: list[str]) -> str:
    parts, end = [], 0
    for found in sorted(find_named(text), key=lambda found: found.start):
        if found.start >= end:
            kinds.append(found.kind)
            parts += [text[end : found.start], MARKER.format(found.kind)]
            end = found.end
    return "".join([*parts, text[end:]]) if parts else text


def _apply(rule: Rule, text: str, kinds: list[str]) -> str:
    group = "secret" if "secret" in rule.pattern.groupindex else 0

    def replaced(match: re.Match[str]) -> str:
        # Do not mask a marker again: the text would grow with each pass.
        if text.startswith(MARK, match.start(group)) or not rule.holds(match[group]):
            return match[0]
        kinds.append(rule.kind)
        start, end = (at - match.start() for at in match.span(group))
        return match[0][:start] + MARKER.format(rule.kind) + match[0][end:]

    return rule.pattern.sub(replaced, text)
