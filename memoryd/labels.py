"""Labels (names, session ids and metadata keys): labels that look the same are the same.

Memories are replaced and forgotten by name. If two names differed only in invisible characters, a
user could forget the wrong memory. So a label is stored in its normal form, and refused if it
contains invisible characters.
"""

from __future__ import annotations

import re
import unicodedata

from memoryd.normalise import normalized

VARIATIONS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")  # they only choose a glyph
ACCENTS = re.compile("[\u0300-\u036f]")  # of Latin, Greek and Cyrillic; other marks are letters
# Invisible characters that are letters by category.
UNSEEN = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Zl", "Zp"})
WRITTEN_JOINED = "\u0600-\u18af"  # Arabic to Mongolian
PICTURE = "\u2190-\u2bff\U0001f000-\U0001faff"
JOINERS = re.compile(  # between such letters or pictures they change what is shown
    f"(?<=[{WRITTEN_JOINED}])[\u200c\u200d](?=[{WRITTEN_JOINED}])"
    f"|(?<=[{PICTURE}])\u200d(?=[{PICTURE}])"
)


def normal_name(text: str) -> str:
    """The normal form of a name: full-width letters, ligatures and special spaces become plain ones
    (NFKC), and surrounding spaces are removed."""
    return VARIATIONS.sub("", normalized("NFKC", text)).strip()


def folded_name(text: str) -> str:
    """What names that differ only in case, accents and spaces have in common."""
    plain = ACCENTS.sub("", normalized("NFKD", normal_name(text))).casefold()
    return " ".join(normalized("NFKC", ACCENTS.sub("", normalized("NFKD", plain))).split())


def normal_key(text: str) -> str:
    """A metadata key with composed accents (NFC)."""
    return VARIATIONS.sub("", normalized("NFC", text))


def has_hidden(text: str) -> bool:
    """Whether a label contains control characters or invisible ones."""
    if text.isascii():
        return not text.isprintable()
    return any(
        unicodedata.category(c) in HIDDEN_CATEGORIES or c in UNSEEN for c in JOINERS.sub("", text)
    )
