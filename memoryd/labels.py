"""Names, session ids and metadata keys: what is shown alike has to be the same.

A name is what a memory is replaced and forgotten by. If two of them differed only in characters
that nobody sees, whoever forgets the one that is shown would remove the other. So a label is kept
in its normal form, and refused where it holds what no reader sees.
"""

from __future__ import annotations

import re
import unicodedata

from memoryd.normalise import normalized

VARIATIONS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")  # they choose a glyph, no more
UNSEEN = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"  # letters by category
HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Zl", "Zp"})
WRITTEN_JOINED = "\u0600-\u18af"  # Arabic to Mongolian
PICTURE = "\u2190-\u2bff\U0001f000-\U0001faff"
JOINERS = re.compile(  # between such letters or pictures they change what is seen
    f"(?<=[{WRITTEN_JOINED}])[\u200c\u200d](?=[{WRITTEN_JOINED}])"
    f"|(?<=[{PICTURE}])\u200d(?=[{PICTURE}])"
)


def normal_name(text: str) -> str:
    """The one form of names that look alike: wide letters, ligatures and other spaces are plain
    ones (NFKC), no space is around it."""
    return VARIATIONS.sub("", normalized("NFKC", text)).strip()


def normal_key(text: str) -> str:
    """A metadata key with its accents in one form (NFC), which no reader can tell apart."""
    return VARIATIONS.sub("", normalized("NFC", text))


def has_hidden(text: str) -> bool:
    """Whether a label holds controls, or characters that are not seen."""
    if text.isascii():
        return not text.isprintable()
    return any(
        unicodedata.category(c) in HIDDEN_CATEGORIES or c in UNSEEN for c in JOINERS.sub("", text)
    )
