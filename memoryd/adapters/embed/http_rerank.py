"""A reranker on a server: /v1/rerank as Cohere, Jina, vLLM and llama.cpp have it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from memoryd.adapters.endpoint import Endpoint, key_reader
from memoryd.endpoints import parse_address
from memoryd.settings import SearchSettings

CALL = "/v1/rerank"
MAX_LOGIT = 50.0  # e to the power of more would overflow, and is 1 anyway


class HttpReranker:
    """See `memoryd.ports.Reranker`."""

    def __init__(self, settings: SearchSettings) -> None:
        self.model = settings.rerank_model
        self._seconds = settings.rerank_timeout
        self._endpoint = Endpoint(
            "rerank server",
            parse_address(settings.rerank_url, "search.rerank_url", CALL),
            key_reader(settings.rerank_key_env, settings.rerank_key_file),
        )

    def marks(self, query: str, texts: Sequence[str]) -> list[float]:
        if not texts:
            return []
        documents = [_sendable(text) for text in texts]
        body: dict[str, Any] = {"query": _sendable(query), "documents": documents}
        body |= {"top_n": len(documents)} | ({"model": self.model} if self.model else {})
        answer = self._endpoint.post(body, self._seconds)
        try:
            return _marks(answer["results"], len(documents))
        except (ValueError, TypeError, KeyError, OverflowError) as exc:
            raise self._endpoint.unavailable("answered with something else than scores") from exc


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _marks(results: Any, count: int) -> list[float]:
    """One mark for each text, in order. Raises ValueError unless each has exactly one score."""
    scores = {row["index"]: float(row["relevance_score"]) for row in results}
    if len(results) != count or scores.keys() != set(range(count)):
        raise ValueError("not one score for each text")
    if not all(map(math.isfinite, scores.values())):
        raise ValueError("a score that is not finite")
    marks = [scores[index] for index in range(count)]
    # Some servers answer with the model's logits.
    return marks if all(0.0 <= mark <= 1.0 for mark in marks) else [_share(mark) for mark in marks]


def _share(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-MAX_LOGIT, min(MAX_LOGIT, logit))))


def load(settings: SearchSettings) -> HttpReranker:
    """The reranker at `search.rerank_url`; the server is asked when it is first used."""
    return HttpReranker(settings)
