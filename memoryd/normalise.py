"""Unicode normalisation in linear time.

The library sorts the marks behind a letter by insertion, so a text of nothing but marks takes time
by the square of its length: 50,000 of them more than two seconds, and the interpreter lock with
them, so that a thread would not help.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

MARKS = 30  # behind one letter; Unicode's stream-safe text has no more
# Marks are among what is neither letter nor space nor ASCII.
LONG_RUN = re.compile(rf"[^\w\s\x00-\x7f]{{{MARKS + 1},}}+")


def normalized(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """The text in a normal form. A run of more marks than any script has is taken in parts, each
    in order by itself."""
    if text.isascii():
        return text
    parts, end = [], 0
    for run in LONG_RUN.finditer(text):
        for cut in range(run.start() + MARKS, run.end(), MARKS):
            parts.append(unicodedata.normalize(form, text[end:cut]))
            end = cut
    return "".join([*parts, unicodedata.normalize(form, text[end:])])
