"""Unicode normalisation in linear time.

`unicodedata` sorts the combining marks after a letter with an insertion sort, so a text of marks
takes quadratic time: more than two seconds for 50,000 of them. It holds the interpreter lock
meanwhile, so a thread would not help.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

MAX_MARKS = 30  # after one letter, as in Unicode's stream-safe text format
# Marks are neither word characters nor spaces nor ASCII.
LONG_RUN = re.compile(rf"[^\w\s\x00-\x7f]{{{MAX_MARKS + 1},}}+")


def normalized(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """The text in a normal form. A run of more marks than any script uses is done in parts."""
    if text.isascii():
        return text
    parts, end = [], 0
    for run in LONG_RUN.finditer(text):
        for cut in range(run.start() + MAX_MARKS, run.end(), MAX_MARKS):
            parts.append(unicodedata.normalize(form, text[end:cut]))
            end = cut
    return "".join([*parts, unicodedata.normalize(form, text[end:])])
