"""Secrets found by the name before them: `password=...`, `"apiKey": "..."`, "my password is ...".

The name says that a secret may follow; the value has to look like one. After `=` nearly anything
does; in prose a dictionary word does only if nothing follows it, so that "password: reset it at the
desk" stays as it is. A password of common words in the middle of a sentence is therefore missed:
that is better than to remove ordinary words from memories.

The lower-cased text is searched for the last word of a name, and the words before it are checked
only where one was found: ten times faster than one pattern of all names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from memoryd.masking.values import (
    is_hex_key,
    is_name,
    is_ordinary,
    is_phrase,
    is_random,
    is_reference,
    is_word,
)

PASSWORDS = tuple(
    "password,passwd,passphrase,passcode,pwd,passwort,kennwort,passwörter,contraseña,contrasena,"
    "пароль,mot de passe,mots de passe,"
    "\u30d1\u30b9\u30ef\u30fc\u30c9,\u5bc6\u7801,\u5bc6\u78bc".split(",")
)
HINTS = (*PASSWORDS, "phrase", "mnemonic", "key", "secret", "token", "credential", "pin")
STEM = (
    rf"(?P<stem>{'|'.join(PASSWORDS)}|phrase|mnemonic|key|secret|token|credential)"
    r"s?[0-9]{0,2}(?:_base)?"
)
# Words before `key` that make it a secret, and before `token`, `secret` or `phrase` that make it
# one whose value need not look random.
OF_KEY = r"api|access|account|auth|encryption|master|private|secret|shared|signing|storage"
OF_TOKEN = r"access|api|app|auth|bot|client|consumer|id|oauth|refresh|session|webhook"
OF = {
    "key": re.compile(rf"(?:{OF_KEY})[ _-]?\Z"),
    "token": re.compile(rf"(?:{OF_TOKEN})[ _-]?\Z"),
    "secret": re.compile(rf"(?:{OF_TOKEN})[ _-]?\Z"),
    "phrase": re.compile(r"(?:seed|recovery|secret)[ _-]?\Z"),
}
# A value of hexadecimal digits is a secret under any `key`, unless NO_KEY matches before it.
ANY_KEY = re.compile(
    r"(?:\A|[^\w]|_|-|aes|hmac|jwt|cookie|session|app|server|crypt(?:ion)?|cipher|base)\Z"
)
NO_KEY = re.compile(
    r"(?:cache|commit|dedup\w*|foreign|hash|idempotency|index|lookup|object|partition|primary|public"
    r"|row|s3|shard|sort|unique)[ _-]?\Z"
)
SETS = re.compile(r"\b(?:set|chang|reset|updat|rotat)\w*+[^.\n]*\Z")
BEFORE = 60  # characters before a name that are checked

# What may be between the name and its value: "... for the router is".
OF_WHAT = (
    r"for|of|to|at|on|in|für|fürs|vom|von|zum|zur|des|der|im|am|de|du|del|pour|sur|para|en|di|della"
    r"|dello|dell|per"
)
ABOUT = rf"(?:(?:\s{{1,4}}(?:{OF_WHAT})(?:\s{{1,4}}|['’])[^\n:;=?!]{{1,60}}?)|\s{{1,4}}wi-?fi)?"  # noqa: RUF001
# What may close a name; a bracket only after a quote, or the name in a marker of ours would match.
CLOSED = r"[\"'`\\*_)]{0,4}(?:(?<=[\"'])\])?"
SIGN = CLOSED + r"\s{0,8}(?P<sign>:=|=>|={1,2}|[:：](?!//))[*_]{0,3}\s{0,8}\\?"  # noqa: RUF001
VERB = (
    r"(?:\s{0,4}[\u662f\u306f\u4e3a\u70ba]\s{0,4}:?\s{0,4}"
    r"|\s{1,4}(?:is|was|are|lautete?n?|(?P<verb>ist|sind|war|es|son|era|est|sont|était|è|e['’]|sono))"  # noqa: RUF001
    r"(?:\s{1,4}(?:now|still|set\s{1,4}to|jetzt|nun|désormais|maintenant|ahora|ora|adesso))?"
    r"\s{0,4}:?\s{1,4})"
)
# The first character of SIGN and VERB: rules out most places quickly.
THEN = r"(?=[\"'`\\*_)\]\s:：=\u662f\u306f\u4e3a\u70ba])"  # noqa: RUF001
TO = r"\s{1,4}(?P<to>to)\s{1,4}"
# A bare value ends at white space, and where the next `key=` begins.
NEXT = r"[,;&](?:\s|\Z|[a-z_][\w.-]{0,40}\s?[=:])"
VALUE = (
    r"(?:b?\"(?P<double>[^\"\n]{1,256}?)\\?\"|b?'(?P<single>[^'\n]{1,256})'|`(?P<back>[^`\n]{1,256})`"
    r"|[„“”«]\s?(?P<marks>[^„“”«»\n]{1,256}?)\s?[“”»]"
    rf"|(?P<bare>(?!\"\"|''|``)(?:(?!{NEXT})\S)++))"
)
NAMED = re.compile(rf"{STEM}(?:{ABOUT}{THEN}(?:{SIGN}|{VERB})|{TO}){VALUE}")
UNDER = re.compile(rf"{STEM}\Z")
PHRASES = re.compile(
    rf"(?P<stem>passphrase|phrase|mnemonic){ABOUT}{THEN}(?:{SIGN}|{VERB})"
    r"(?P<words>[a-z]{2,12}(?:[ \t]{1,4}[a-z]{2,12}){3,23})\b"
)
PIN = re.compile(rf"\bPIN{ABOUT}(?:\s{{1,4}}is\s{{1,4}}|\s?[:=]\s?)(?P<secret>[0-9]{{4,8}})\b")

TRAILING = ".,;:?)]}>\"'\\"
ENDS = re.compile(r"[ \t]*+(?:[\r\n]|\Z)")
SEEDS = (12, 15, 18, 21, 24)  # words of a seed phrase
NO_SEED = re.compile(r"\b(?:[a-z]{2}|the|and|are|for|was)\b")  # words that no seed phrase has


class Trust(IntEnum):
    """How strongly a name says that its value is a secret."""

    HEX = -1  # `key`: the value must be a hexadecimal key
    LITTLE = 0  # `token`: the value must look random
    SOME = 1  # `access token`: it must not be a word
    MUCH = 2  # `password`


@dataclass(frozen=True, slots=True)
class Found:
    """Start and end of a secret in the text, and its kind."""

    start: int
    end: int
    kind: str


def find_named(text: str) -> Iterator[Found]:
    """The values in `text` that have the name of a secret and look like one."""
    folded = _lower(text)
    for match in NAMED.finditer(folded):
        name = _name(match["stem"], folded[max(0, match.start() - BEFORE) : match.start()])
        if name is None or (match["to"] and not _is_set(match)):
            continue
        start, end, alone = _value(match)
        # After these verbs a word is more often said about a password than a password itself.
        if match["verb"] and match["bare"] and all(map(is_word, text[start:end].split("/"))):
            continue
        if _is_secret(name[1], text[start:end], alone):
            yield Found(start, end, name[0])
    for match in PHRASES.finditer(folded):
        if _is_seed(match["words"], match["stem"]):
            yield Found(*match.span("words"), "passphrase")
    for match in PIN.finditer(text):
        yield Found(*match.span("secret"), "PIN")


def kind_under(key: str, value: str) -> str | None:
    """The kind of secret that `value` is, as the whole value of a metadata `key`; None if none."""
    folded = _lower(key[-BEFORE:])
    match = UNDER.search(folded)
    name = _name(match["stem"], folded[: match.start()]) if match else None
    return name[0] if name and _is_secret(name[1], value, alone=True) else None


def _lower(text: str) -> str:
    """`text` in lower case with every character at the same position."""
    folded = text.lower()
    if len(folded) == len(text):
        return folded
    return "".join(low if len(low := c.lower()) == 1 else c for c in text)


def _name(stem: str, before: str) -> tuple[str, Trust] | None:
    """The kind of secret that is named, and the trust in the name; None if it names no secret."""
    if stem in PASSWORDS:
        return "password", Trust.MUCH
    if stem in OF and OF[stem].search(before):
        return ("passphrase", Trust.MUCH) if stem == "phrase" else (stem, Trust.SOME)
    if stem == "key" and ANY_KEY.search(before) and not NO_KEY.search(before):
        return "key", Trust.HEX
    return None if stem in ("key", "phrase", "mnemonic") else (stem, Trust.LITTLE)


def _value(match: re.Match[str]) -> tuple[int, int, bool]:
    """Start and end of the value without the punctuation of its sentence, and whether it stands
    alone: quoted, assigned, or the last word of its line or sentence."""
    group = next(name for name in ("double", "single", "back", "marks", "bare") if match[name])
    start, end = match.span(group)
    if group != "bare" or is_reference(match[group]):
        return start, end, group != "bare"
    length = len(match[group].rstrip(TRAILING))
    alone = "=" in (match["sign"] or "") or length < end - start
    return start, start + length, alone or ENDS.match(match.string, end) is not None


def _is_set(match: re.Match[str]) -> bool:
    """Whether "to" introduces a value, as in "set the password to x", unlike "the password to the
    safe"."""
    return SETS.search(match.string[max(0, match.start() - BEFORE) : match.start()]) is not None


def _is_secret(trust: Trust, text: str, alone: bool) -> bool:
    if trust is Trust.HEX:
        return is_hex_key(text)
    if len(text) < 4 or is_reference(text):
        return False
    if any(c.isspace() for c in text):
        return trust is Trust.MUCH and is_phrase(text)
    if is_name(text) or is_ordinary(text):
        return False
    if trust is Trust.LITTLE:
        return is_random(text)
    if is_word(text):
        return (trust is Trust.MUCH and alone) or (text.isalpha() and len(text) >= 20)
    if text.isdecimal():
        return alone
    return trust is Trust.MUCH or len(text) >= 8


def _is_seed(words: str, stem: str) -> bool:
    if stem == "passphrase" or len(words.split()) not in SEEDS:
        return is_phrase(words)
    return NO_SEED.search(words) is None
