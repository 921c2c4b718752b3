"""The key of a fact of which one is true at a time, made from what a rule found."""

from __future__ import annotations

import re

MAX_WORDS = 6  # a longer thing is a description, and would never be named the same way again
_EDGES = re.compile(
    r"^\W+|^(?:(?:a|an|the|my|our|der|die|das|den|le|la|les|l'|el|los|las|il|lo|gli|i|o|os|as|um|"
    r"uma|"
    r"un|una|une|mein|meine|de|du|des|del|da|do|ein|eine)\s+|l')+|[^\w)+#]+$",
    re.IGNORECASE,
)


def topic_of(template: str | None, found: re.Match[str], text: str) -> str | None:
    """The topic by a rule's template. `text` ends where the clause ends."""
    if template is None or "{thing}" not in template:
        return template
    groups = found.groupdict()
    if groups.get("first") and groups.get("second"):
        # "Tabs over spaces" and "spaces over tabs" are about the same choice.
        pair = sorted(filter(None, (_key(groups["first"]), _key(groups["second"]))))
        return template.format(thing="/".join(pair)) if len(pair) == 2 else None
    thing = groups.get("thing") or ""
    if groups.get("rest") is not None:
        thing = text[found.start("rest") :]
    key = _key(thing)
    return template.format(thing=key) if key else None


def _key(thing: str) -> str | None:
    plain = _EDGES.sub("", re.sub(r"\s+", " ", thing).strip()).strip().casefold()
    plain = _EDGES.sub("", plain)
    return plain if plain and len(plain.split()) <= MAX_WORDS else None
