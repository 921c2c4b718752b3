"""The encoder of a model server: what it sends, what it accepts, and how it fails."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

from memoryd.adapters import endpoint
from memoryd.adapters.embed.hash import HashEncoder
from memoryd.adapters.embed.http_encoder import HttpEncoder, identity
from memoryd.errors import ModelUnavailable, TextRefused
from memoryd.fair import in_thread
from memoryd.settings import EmbeddingSettings
from tests.model_server import (
    Handler,
    ModelServer,
    Rudeness,
    dripping,
    hanging_up,
    model_server,
    replying,
    silent,
)

KEY = "sk-very-secret-0123456789"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(8) as running:
        yield running


def encoder_of(server: ModelServer, **settings: Any) -> HttpEncoder:
    given: dict[str, Any] = {
        "backend": "http",
        "url": server.url,
        "retries": 0,
        "timeout": 20.0,
    } | settings
    return HttpEncoder("tiny", EmbeddingSettings(**given))


def vectors(*rows: list[Any]) -> dict[str, Any]:
    return {"embeddings": list(rows)}


UNIT, LONG = [1.0] + [0.0] * 7, [1.0] * 9


def noise(handler: Handler) -> None:
    handler.wfile.write(b"\x00\xff" * 50)
    handler.close_connection = True


RUDE: dict[str, Rudeness] = {
    "hangs up": hanging_up,
    "empty body": replying(b""),
    "no JSON": replying(b"<html>502</html>"),
    "deep JSON": replying(b"[" * 100_000),
    "another object": replying({"error": "who are you?"}),
    "a list": replying([1, 2]),
    "null": replying(None),
    "no vectors": replying(vectors()),
    "too many": replying(vectors(UNIT, UNIT)),
    "ragged": replying(vectors(UNIT, LONG)),
    "texts": replying(vectors(["1.0"] * 8)),
    "nulls": replying(vectors([None] * 8)),
    "NaN": replying(vectors([float("nan")] * 8)),
    "infinite": replying(vectors([1e300] * 8)),
    "zero": replying(vectors([0.0] * 8)),
    "empty vector": replying(vectors([])),
    "another dimension": replying(vectors(LONG)),
    "not found": replying({"error": "model not found"}, 404),
    "forbidden": replying({"error": f"bad key {KEY}"}, 401),
    "busy": replying({}, 429),
    "broken": replying({}, 500),
    "no content": replying(b"", 204),
    "no HTTP": noise,
}


@pytest.mark.parametrize("rude", RUDE)
def test_a_rude_server_is_unavailable_and_nothing_of_it_is_quoted(
    server: ModelServer, rude: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    encoder = encoder_of(server, key_env="SOME_KEY")
    server.rude = RUDE[rude]
    with pytest.raises(ModelUnavailable) as failed:
        encoder.encode(["the user's own words"])
    said = f"{failed.value.message} {failed.value.hint}"
    assert server.url in said
    assert not any(private in said for private in (KEY, "own words", "who are you", "not found"))
    server.rude = None
    assert encoder.encode(["it is back"]).shape == (1, 8)


@pytest.mark.parametrize("rude", [silent, dripping])
def test_a_slow_server_holds_a_caller_for_the_timeout_only(
    server: ModelServer, rude: Rudeness
) -> None:
    """Also one that sends a byte now and then, so that no single read takes long."""
    encoder = encoder_of(server, timeout=0.2, retries=5)
    server.rude = rude
    started = time.monotonic()
    with pytest.raises(ModelUnavailable, match="in time"):
        encoder.encode(["a"])
    assert 0.2 <= time.monotonic() - started < 10
    assert len(server.bodies) == 2  # its first and this one: no time is left for a retry


async def test_a_caller_that_is_cancelled_does_not_wait_for_the_server(server: ModelServer) -> None:
    """Or a daemon could not stop while a server is slow."""
    encoder = encoder_of(server, timeout=600.0)
    server.rude = silent
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(in_thread, encoder.encode, ["a"])
            while len(server.bodies) < 2:  # noqa: ASYNC110 (it is on another thread)
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()


def test_an_answer_that_is_too_large_is_not_read(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = encoder_of(server)
    monkeypatch.setattr(endpoint, "MAX_ANSWER", 1000)
    server.rude = replying(b" " * 100_000)
    with pytest.raises(ModelUnavailable, match="more than"):
        encoder.encode(["a"])


def test_a_redirect_is_not_followed(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither text nor key goes to a server that the owner did not name."""
    monkeypatch.setenv("SOME_KEY", KEY)
    encoder = encoder_of(server, key_env="SOME_KEY")
    with model_server(8) as other:
        for status in (301, 302, 307, 308):
            server.rude = replying({}, status, Location=f"{other.url}/api/embed")
            with pytest.raises(ModelUnavailable, match=str(status)):
                encoder.encode(["a"])
        assert other.bodies == []


def test_proxies_of_the_environment_are_not_used(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert encoder_of(server).encode(["a"]).shape == (1, 8)


def test_a_passing_failure_is_tried_again(server: ModelServer) -> None:
    encoder = encoder_of(server, retries=2)
    failures = iter([500, 429])

    def fails_twice(handler: Any) -> None:
        if (status := next(failures, None)) is not None:
            handler.reply({}, status)
        else:
            handler.reply(
                handler.model_server.answer(handler.path, handler.model_server.bodies[-1])
            )

    server.rude = fails_twice
    assert encoder.encode(["a"]).shape == (1, 8)
    assert len(server.bodies) == 4


def test_a_connection_that_the_server_closed_meanwhile_is_no_failure(server: ModelServer) -> None:
    encoder = encoder_of(server)
    server.stop()
    server.start()
    assert encoder.encode(["a"]).shape == (1, 8)


def test_a_server_that_is_down_is_named(server: ModelServer) -> None:
    encoder = encoder_of(server)
    server.stop()
    with pytest.raises(ModelUnavailable, match=f"{server.url} refuses connections"):
        encoder.encode(["a"])
    with pytest.raises(ModelUnavailable):
        encoder_of(server)


@pytest.mark.parametrize(("api", "path"), [("ollama", "/api/embed"), ("openai", "/v1/embeddings")])
def test_both_kinds_of_server_give_the_vectors_in_the_order_of_the_texts(
    server: ModelServer, api: Any, path: str
) -> None:
    encoder = encoder_of(server, api=api)
    texts = ["one", "two", "three"]
    np.testing.assert_allclose(encoder.encode(texts), HashEncoder(8).encode(texts), atol=1e-6)
    assert set(server.paths) == {path}
    assert server.bodies[-1] == {"model": "tiny", "input": texts}


def test_openai_rows_with_the_same_index_are_refused(server: ModelServer) -> None:
    encoder = encoder_of(server, api="openai")
    row = {"index": 0, "embedding": UNIT}
    server.rude = replying({"data": [row, row]})
    with pytest.raises(ModelUnavailable, match="something else"):
        encoder.encode(["a", "b"])


def test_the_dimension_is_asked_for_only_if_the_model_has_another(server: ModelServer) -> None:
    """A server may refuse to be asked for what it cannot change."""
    assert encoder_of(server, dimensions=8).dimension == 8
    assert all("dimensions" not in body for body in server.bodies)
    shorter = encoder_of(server, dimensions=4)
    assert shorter.encode(["a"]).shape == (1, 4)
    assert server.bodies[-1]["dimensions"] == 4


def test_a_dimension_that_the_server_does_not_give_is_told(server: ModelServer) -> None:
    server.rude = replying(vectors(UNIT))
    with pytest.raises(ModelUnavailable, match="8 numbers, not the 5") as failed:
        encoder_of(server, dimensions=5)
    assert "Set embedding.dimensions to 8" in failed.value.hint


def test_a_text_that_is_refused_as_too_long_is_cut_until_it_is_not(server: ModelServer) -> None:
    encoder = encoder_of(server)
    server.refuses = lambda texts: any(len(text) > 300 for text in texts)
    text = "word " * 200
    np.testing.assert_allclose(encoder.encode([text]), encoder.encode([text[:250]]), atol=1e-6)
    with pytest.raises(TextRefused):  # the lane asks for each alone
        encoder.encode([text, "short"])
    server.refuses = lambda texts: True
    with pytest.raises(TextRefused):
        encoder.encode([text])
    with pytest.raises(ModelUnavailable):
        encoder_of(server)


def test_a_file_with_the_key_is_for_its_owner_only(server: ModelServer, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    file.chmod(0o644)
    with pytest.raises(ModelUnavailable, match="Other users") as loose:
        encoder_of(server, key_file=str(file))
    assert "chmod 600" in loose.value.hint
    assert server.bodies == []
    file.chmod(0o600)
    encoder = encoder_of(server, key_file=str(file))
    assert server.keys == [f"Bearer {KEY}"]
    file.write_text("another-key")  # replaced: used at once
    encoder.encode(["a"])
    assert server.keys[-1] == "Bearer another-key"


def test_a_key_comes_from_the_variable_first_and_is_never_shown(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    file.touch(0o600)
    named = {"key_env": "SOME_KEY", "key_file": str(file)}
    monkeypatch.delenv("SOME_KEY", raising=False)
    with pytest.raises(ModelUnavailable, match=r"SOME_KEY is not set and .* is empty"):
        encoder_of(server, **named)
    monkeypatch.setenv("SOME_KEY", KEY)
    encoder_of(server, **named)
    assert server.keys == [f"Bearer {KEY}"]
    monkeypatch.setenv("SOME_KEY", f"{KEY}\r\nX-Evil: 1")
    with pytest.raises(ModelUnavailable) as failed:
        encoder_of(server, **named)
    assert KEY not in str(failed.value)


def test_prefixes_are_as_configured_or_as_a_known_model_has_them(server: ModelServer) -> None:
    given = {"query_prefix": "search_query: ", "document_prefix": "search_document: "}
    encoder = encoder_of(server, **given)
    encoder.encode(["tea"], query=True)
    encoder.encode(["tea"])
    asked = [body["input"] for body in server.bodies[-2:]]
    assert asked == [["search_query: tea"], ["search_document: tea"]]
    known = HttpEncoder("bge-small-en-v1.5", EmbeddingSettings(backend="http", url=server.url))
    known.encode(["tea"], query=True)
    assert server.bodies[-1]["input"][0].startswith("Represent this sentence")


def test_the_identity_says_what_changes_the_vectors() -> None:
    """Not the address, nor what is put before a query; and never that of a local model."""
    plain = EmbeddingSettings(backend="http", url="http://one")
    other = EmbeddingSettings(backend="http", url="https://two/v1", api="openai", query_prefix="q")
    prefixed = EmbeddingSettings(backend="http", url="http://one", document_prefix="d: ")
    assert identity("all-MiniLM-L6-v2", plain) == "http/all-MiniLM-L6-v2"
    assert identity("nomic", plain) == identity("nomic", other) == "http/nomic"
    assert identity("nomic", prefixed).startswith("http/nomic#")


@pytest.mark.parametrize("letter", ["a", "é", "த", "🎉"])
def test_passages_are_measured_in_bytes(server: ModelServer, letter: str) -> None:
    """What has more bytes has more tokens: a passage of another script has fewer letters."""
    encoder = encoder_of(server, passage_bytes=200, document_prefix="doc: ")
    text = (letter * 9 + " ") * 100
    spans = encoder.split(text, "Anna: ")
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)
    assert all(begin <= before for (_, before), (begin, _) in pairwise(spans))
    sizes = [len(f"doc: Anna: {text[begin:end]}".encode()) for begin, end in spans]
    assert max(sizes) <= 200
    assert max(sizes) > 120


def test_requests_are_plain_json_with_any_text(server: ModelServer) -> None:
    encoder = encoder_of(server)
    encoder.encode(["\ud800 half", "", "日本", "\x00"])
    assert server.bodies[-1]["input"] == ["? half", ".", "日本", "\x00"]
    assert json.dumps(server.bodies[-1]).isascii()
