"""A model's tokenizer, used without state, so that any number of threads can share it.

Truncation and padding are settings of the tokenizer object (the published file has them at 128
tokens); changing them between calls is not thread-safe. They are turned off, and long texts are
cut here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tokenizers import Tokenizer

from memoryd.adapters.embed.spans import passages
from memoryd.ports import Span

SURROGATE = re.compile("[\ud800-\udfff]")
PROBE = "a"
UNKNOWN = "[UNK]"
KNOWN_CHARACTERS = 2_000  # of a text that `knows` reads


class Tokens:
    """Texts to token ids and to passages, for one model."""

    def __init__(self, tokenizer: Tokenizer, max_tokens: int, document_prefix: str = "") -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self._prefix = document_prefix
        unknown = tokenizer.token_to_id(UNKNOWN)
        self._unknown = -1 if unknown is None else unknown
        probe = tokenizer.encode(PROBE).special_tokens_mask
        self._before = probe.index(0)
        self._after = len(probe) - self._before - probe.count(0)
        self._limit = max_tokens - self._before - self._after
        self._room = self._limit - self._count([""])[0]

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text with its special tokens, cut to what the model reads."""
        found = self._tokenizer.encode_batch_fast([_encodable(text) for text in texts])
        return [self._cut(encoding.ids) for encoding in found]

    def knows(self, text: str) -> bool:
        """See `memoryd.ports.Encoder`."""
        (found,) = self._tokenizer.encode_batch_fast(
            [_encodable(text[:KNOWN_CHARACTERS])], add_special_tokens=False
        )
        return 2 * found.ids.count(self._unknown) <= len(found.ids)

    def split(self, text: str, lead: str = "") -> list[Span]:
        """See `memoryd.ports.Encoder`."""
        room = max(1, self._room - (self._room_taken([lead])[0] if lead else 0))
        # A token has at least one ASCII character; other scripts can decompose into more.
        if text.isascii() and len(text) < room:
            return [(0, len(text))]
        # As a batch: only then other Python threads can run meanwhile.
        (found,) = self._tokenizer.encode_batch([_encodable(text)], add_special_tokens=False)
        starts = [begin for begin, _ in found.offsets]
        return passages(text, starts, room, self._room_taken)

    def _cut(self, ids: list[int]) -> list[int]:
        """Truncate, but keep the special tokens at the end."""
        if len(ids) <= self._limit + self._before + self._after:
            return ids
        return ids[: self._before + self._limit] + ids[len(ids) - self._after :]

    def _room_taken(self, texts: list[str]) -> list[int]:
        """Tokens of each text beyond those of the prefix alone."""
        taken = self._limit - self._room
        return [total - taken for total in self._count(texts)]

    def _count(self, texts: list[str]) -> list[int]:
        whole = [_encodable(self._prefix + text) for text in texts]
        return [len(e) for e in self._tokenizer.encode_batch_fast(whole, add_special_tokens=False)]


def _encodable(text: str) -> str:
    """The text with unpaired surrogates replaced, which UTF-8 cannot encode; same length."""
    return text if text.isascii() else SURROGATE.sub("\ufffd", text)
