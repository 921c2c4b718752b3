"""The head of a Markdown file: the lines between two `---` at its beginning.

It is YAML, of which these files use little: texts, lists in one line or one item a line, and keys
below a key. Only this is read; a parser for all of YAML is not in the standard library, and would
be a risk with files of others.
"""

from __future__ import annotations

import re
from typing import Any

FENCE = "---"
KEY = re.compile(r"(?P<indent> *)(?P<key>[A-Za-z_][\w .-]*?)\s*:(?:\s+(?P<value>.*))?$")
ITEM = re.compile(r" *- +(?P<value>.*)$")
BLOCK = (">", "|", ">-", "|-")  # a text in the lines below


def parted(text: str) -> tuple[dict[str, Any], str]:
    """The head of a file as keys and values, and what follows it. Without a head, no keys and the
    whole text."""
    lines = text.split("\n")
    if lines[0].strip() != FENCE:
        return {}, text
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() == FENCE:
            return parsed(lines[1:number]), "\n".join(lines[number + 1 :])
    return {}, text


def parsed(lines: list[str]) -> dict[str, Any]:
    """Keys and values of these lines. What is not understood is left out."""
    made: dict[str, Any] = {}
    key, inner = "", False  # the key at the margin, and whether its value is below it
    for line in lines:
        found = KEY.match(line)
        if found and not found["indent"]:
            key, value = found["key"], (found["value"] or "").strip()
            inner = value == "" or value in BLOCK
            made[key] = None if inner else scalar(value)
        elif not inner or not line.strip():
            continue
        elif item := ITEM.match(line):
            known = made[key] if isinstance(made[key], list) else []
            made[key] = [*known, scalar(item["value"].strip())]
        elif found:
            below = made[key] if isinstance(made[key], dict) else {}
            made[key] = below | {found["key"]: scalar((found["value"] or "").strip())}
        else:
            before = made[key] if isinstance(made[key], str) else ""
            made[key] = f"{before} {line.strip()}".strip()
    return {key: value for key, value in made.items() if value is not None}


def scalar(text: str) -> Any:
    """A text without its quotes, or the list that `[a, b]` is."""
    if text.startswith("[") and text.endswith("]") and not text.startswith("[["):
        return [scalar(part.strip()) for part in text[1:-1].split(",") if part.strip()]
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        inside = text[1:-1]
        return inside.replace("''", "'") if text[0] == "'" else inside.replace('\\"', '"')
    return text
