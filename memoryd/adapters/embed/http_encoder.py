"""Vectors from a model server: Ollama's /api/embed, or /v1/embeddings as OpenAI has it.

The server's tokenizer is not known here, so passages are measured in bytes of UTF-8. Characters
would be no measure: a token is four letters of English but often less than one Tamil letter, which
has three bytes. A passage that the server still refuses as too long is cut until it is accepted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoryd.adapters.embed.catalogue import known_model
from memoryd.adapters.embed.spans import passages
from memoryd.adapters.endpoint import Endpoint, key_reader
from memoryd.endpoints import parse_address
from memoryd.errors import ModelUnavailable, TextRefused
from memoryd.ports import Span
from memoryd.settings import EmbeddingSettings

CALLS = {"ollama": "/api/embed", "openai": "/v1/embeddings"}
PREFIX = "http/"  # of the identity: a local model of the same name may give other vectors
PROBE = "memory"
BLANK = "."  # in place of a text of spaces, which servers refuse or answer with nothing
SHORT = 100  # characters: a text of this length is not refused for its length


class HttpEncoder:
    """See `memoryd.ports.Encoder`. Asks the server for a vector when it is made."""

    def __init__(self, model: str, settings: EmbeddingSettings) -> None:
        self._name = model
        self._settings = settings
        self._endpoint = Endpoint(
            "model server",
            parse_address(settings.url, "embedding.url", CALLS[settings.api]),
            key_reader(settings.key_env, settings.key_file),
            retries=settings.retries,
        )
        self._query_prefix, self._document_prefix = _prefixes(model, settings)
        self._asked_dimension: int | None = None  # sent with each request if set
        self._dimension = self._find_dimension(settings.dimensions)

    @property
    def model(self) -> str:
        return identity(self._name, self._settings)

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def prefers_large_calls(self) -> bool:
        return False

    def knows(self, text: str) -> bool:
        return True

    def split(self, text: str, lead: str = "") -> list[Span]:
        (taken,) = _bytes([self._document_prefix + lead])
        room = max(1, self._settings.passage_bytes - taken)
        starts = range(len(text)) if text.isascii() else _byte_starts(text)
        return passages(text, starts, room, _bytes)

    def encode(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        if not texts:
            return np.empty((0, self._dimension), dtype=np.float32)
        prefix = self._query_prefix if query else self._document_prefix
        vectors = self._fitting([_sendable(prefix + text) for text in texts])
        if vectors.shape[1] != self._dimension:
            raise self._endpoint.unavailable(
                f"gives vectors of {vectors.shape[1]} numbers, not {self._dimension}"
            )
        return vectors

    def _fitting(self, texts: list[str]) -> NDArray[np.float32]:
        """The vectors; a single text that is refused is cut until it is accepted."""
        while True:
            try:
                return self._request(texts)
            except TextRefused:
                if len(texts) > 1 or len(texts[0]) <= SHORT:
                    raise
                texts = [_sendable(texts[0][: len(texts[0]) // 2])]

    def _find_dimension(self, wanted: int) -> int:
        try:
            found: int = self._request([PROBE]).shape[1]
            if wanted and found != wanted:
                self._asked_dimension = wanted
                found = self._request([PROBE]).shape[1]
        except TextRefused as exc:  # not for its length
            raise ModelUnavailable(exc.message, hint=exc.hint) from exc
        if wanted and found != wanted:
            raise self._endpoint.unavailable(
                f"gives vectors of {found} numbers, not the {wanted} of embedding.dimensions",
                hint=f"Set embedding.dimensions to {found}, or to 0.",
            )
        return found

    def _request(self, texts: list[str]) -> NDArray[np.float32]:
        """Unit vectors of any dimension. Raises ModelUnavailable and TextRefused."""
        body: dict[str, Any] = {"model": self._name, "input": texts}
        if self._asked_dimension is not None:
            body["dimensions"] = self._asked_dimension
        answer = self._endpoint.post(body, self._settings.timeout)
        try:
            read = _from_ollama if self._settings.api == "ollama" else _from_openai
            return _unit_vectors(read(answer), len(texts))
        except (ValueError, TypeError, KeyError, IndexError, OverflowError) as exc:
            raise self._endpoint.unavailable("answered with something else than vectors") from exc


def _from_ollama(answer: Any) -> Any:
    return answer["embeddings"]


def _from_openai(answer: Any) -> Any:
    """The vectors in the order of the texts; the order of the answer is not promised."""
    rows = {row["index"]: row["embedding"] for row in answer["data"]}
    if len(rows) != len(answer["data"]):
        raise ValueError("an index is there twice")
    return [rows[index] for index in range(len(rows))]


def _unit_vectors(rows: Any, count: int) -> NDArray[np.float32]:
    """Raises ValueError unless `rows` are `count` vectors of finite numbers, none of them zero."""
    found = np.asarray(rows)  # raises for rows of different lengths
    if found.ndim != 2 or len(found) != count or not found.shape[1] or found.dtype.kind not in "if":
        raise ValueError("not one vector of numbers for each text")
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(found, axis=1, keepdims=True)
    if not np.isfinite(norms).all() or (norms < 1e-6).any():
        raise ValueError("a vector without a direction")
    unit: NDArray[np.float32] = (found / norms).astype(np.float32)
    return unit


def _sendable(text: str) -> str:
    """The text without halves of surrogate pairs, which UTF-8 cannot encode; never blank."""
    return text.encode("utf-8", "replace").decode() if text.strip() else BLANK


def _bytes(texts: list[str]) -> list[int]:
    return [len(text.encode("utf-8", "surrogatepass")) for text in texts]


def _byte_starts(text: str) -> list[int]:
    """For each byte of the text, the offset of its character."""
    return [at for at, size in enumerate(_bytes(list(text))) for _ in range(size)]


def _prefixes(model: str, settings: EmbeddingSettings) -> tuple[str, str]:
    """Query and document prefix: as configured, else of a known model of this name."""
    configured = settings.query_prefix, settings.document_prefix
    known = known_model(model)
    if any(configured) or known is None:
        return configured
    return known.recipe.query_prefix, known.recipe.document_prefix


def identity(model: str, settings: EmbeddingSettings) -> str:
    """What the vectors of a model on a server are recorded as: not by its address, which may
    change, but by what changes them."""
    prefix = _prefixes(model, settings)[1]
    mark = f"#{hashlib.sha256(prefix.encode()).hexdigest()[:8]}" if prefix else ""
    return f"{PREFIX}{model}{mark}"


def load(model: str, settings: EmbeddingSettings, cache: Path) -> HttpEncoder:
    """The encoder of the backend `http`. Raises ModelUnavailable."""
    return HttpEncoder(model, settings)
