"""The key of a fact of which one is true at a time, made from what a rule found."""

from __future__ import annotations

import re

MAX_WORDS = 6  # a longer thing is a description, and would never be named the same way again
DEADLINE = "deadline:"
_BEGINNING = re.compile(
    r"\W+|(?:a|an|the|my|our|this|der|die|das|den|dem|des|zur|zum|ein|eine|mein|meine|le|la|les|"
    r"une?|du|des|de|el|los|las|del|una|il|lo|gli|della|o|os|as|um|uma|da|do|for|of|für|pour|para|"
    r"i|kein|keine|keinen|per)\s+|(?:l|d|dell)'",
    re.IGNORECASE,
)
_END = re.compile(
    r"(?:\s+(?:too|a lot|so much|very much|as well|though|auch|aussi|también|anche|também|mucho|"
    r"molto|muito))?[^\w)+#]*$",
    re.IGNORECASE,
)
_DATES = re.compile(  # words for a deadline, which is named by what is due then
    r"\b(?:deadline|(?:due|submission|closing|cut-?off) date|cut-?off|abgabetermin|abgabedatum|"
    r"abgabe|frist|stichtag|einsendeschluss|termin|date (?:limite|butoir)|date de (?:rendu|"
    r"livraison|remise)|échéance|fecha (?:límite|tope)|fecha de (?:entrega|lanzamiento)|plazo|"
    r"entrega|scadenza|data di consegna|data limite|termine|consegna|prazo(?: final| limite)?|data "
    r"de entrega|data final)\b",
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
    if template.startswith(DEADLINE):
        return template.format(thing=_key(_DATES.sub("", thing)) or "").rstrip(":")
    key = _key(thing)
    return template.format(thing=key) if key else None


def _key(thing: str) -> str | None:
    plain = re.sub(r"\s+", " ", thing).strip().casefold() + " "
    while found := _BEGINNING.match(plain):
        plain = plain[found.end() :]
    plain = _END.sub("", plain.strip())
    return plain if plain and len(plain.split()) <= MAX_WORDS else None
