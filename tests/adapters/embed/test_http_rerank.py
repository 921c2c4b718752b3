"""The reranker on a server: marks in the order of the texts, or an error that says why not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from memoryd.adapters.embed.http_rerank import HttpReranker
from memoryd.errors import ModelUnavailable
from memoryd.settings import SearchSettings
from tests.model_server import ModelServer, Rudeness, hanging_up, model_server, replying, silent


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


def reranker_of(server: ModelServer, **settings: Any) -> HttpReranker:
    return HttpReranker(SearchSettings(**({"rerank_url": server.url} | settings)))


def results(*pairs: tuple[Any, Any]) -> dict[str, Any]:
    return {"results": [{"index": n, "relevance_score": score} for n, score in pairs]}


def test_marks_are_in_the_order_of_the_texts(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "secret")
    reranker = reranker_of(server, rerank_model="ranker", rerank_key_env="SOME_KEY")
    assert reranker.marks("green tea", ["tea", "green tea", "coffee \ud800"]) == [0.5, 1.0, 0.0]
    assert server.paths == ["/v1/rerank"]
    assert server.keys == ["Bearer secret"]
    assert server.bodies[0]["model"] == "ranker"
    assert reranker.marks("tea", []) == []
    assert len(server.bodies) == 1


def test_logits_become_shares_in_the_same_order(server: ModelServer) -> None:
    server.rude = replying(results((2, -11.0), (0, 1e9), (1, 0.5)))
    marks = reranker_of(server).marks("tea", ["a", "b", "c"])
    assert 1.0 >= marks[0] > marks[1] > marks[2] >= 0.0


RUDE: dict[str, Rudeness] = {
    "hangs up": hanging_up,
    "no results": replying({}),
    "a list": replying([]),
    "too few": replying(results((0, 0.5))),
    "twice the same": replying(results((0, 0.5), (0, 0.6))),
    "an index beyond": replying(results((0, 0.5), (2, 0.6))),
    "a text for a score": replying(results((0, 0.5), (1, "high"))),
    "no score": replying(results((0, 0.5), (1, None))),
    "not finite": replying(results((0, 0.5), (1, float("inf")))),
    "broken": replying({}, 503),
}


@pytest.mark.parametrize("rude", RUDE)
def test_a_rude_server_is_unavailable(server: ModelServer, rude: str) -> None:
    server.rude = RUDE[rude]
    with pytest.raises(ModelUnavailable, match=server.url):
        reranker_of(server).marks("tea", ["a", "b"])


def test_a_slow_server_is_waited_for_a_bounded_time(server: ModelServer) -> None:
    server.rude = silent
    with pytest.raises(ModelUnavailable, match="in time"):
        reranker_of(server, rerank_timeout=0.1).marks("tea", ["a"])
