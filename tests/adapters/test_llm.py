"""The language model on a server: an answer as text, or an error that says why not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from memoryd.adapters.llm import HttpLanguageModel
from memoryd.errors import EmbedError, ModelUnavailable, TextRefused
from memoryd.settings import LlmSettings
from tests.model_server import (
    SUMMARY,
    ModelServer,
    Rudeness,
    dripping,
    hanging_up,
    in_pieces,
    model_server,
    replying,
    silent,
)

QUESTION = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Tea \ud800?"}]
KEY = "sk-very-private"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


def model_of(server: ModelServer, path: str = "", **settings: Any) -> HttpLanguageModel:
    given: dict[str, Any] = {"url": server.url + path, "timeout": 5.0} | settings
    return HttpLanguageModel(LlmSettings(**given))


def chat(content: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": content}}]}


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/v1/chat/completions"])
async def test_a_chat_is_answered(
    server: ModelServer, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    model = model_of(server, path, model="qwen", key_env="SOME_KEY")
    assert str(SUMMARY["title"]) in await model.complete(QUESTION)
    assert server.paths == ["/v1/chat/completions"]
    assert server.keys == [f"Bearer {KEY}"]
    assert server.bodies[0]["model"] == "qwen"
    assert [message["role"] for message in server.bodies[0]["messages"]] == ["system", "user"]
    assert server.bodies[0]["messages"][1]["content"] == "Tea ??"


async def test_without_a_name_the_server_chooses_the_model(server: ModelServer) -> None:
    model = model_of(server)
    await model.complete(QUESTION)
    assert set(server.bodies[0]) == {"messages"}
    assert model.name == f"the default model at {server.url}"


async def test_an_answer_in_parts_or_in_pieces_is_joined(server: ModelServer) -> None:
    server.rude = replying(chat([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]))
    assert await model_of(server).complete(QUESTION) == "ab"
    server.rude = in_pieces(chat("slow but complete"))
    assert await model_of(server).complete(QUESTION) == "slow but complete"


async def test_a_key_file_is_read_for_each_request_and_for_its_owner_only(
    server: ModelServer, tmp_path: Path
) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    file.chmod(0o644)
    model = model_of(server, key_file=str(file))
    with pytest.raises(ModelUnavailable):
        await model.complete(QUESTION)
    with pytest.raises(ModelUnavailable):
        model.check_key()
    assert server.bodies == []
    file.chmod(0o600)
    await model.complete(QUESTION)
    file.write_text("another")
    await model.complete(QUESTION)
    assert server.keys == [f"Bearer {KEY}", "Bearer another"]


RUDE: dict[str, Rudeness] = {
    "hangs up": hanging_up,
    "no choices": replying({"choices": []}),
    "a list": replying([]),
    "a text": replying("private words"),
    "no message": replying({"choices": [{}]}),
    "no content": replying(chat(None)),
    "a number": replying(chat(7)),
    "parts of texts": replying(chat(["private words"])),
    "no JSON": replying(b"private words"),
    "fails": replying({"error": "private words"}, 500),
    "too many requests": replying({"error": "private words"}, 429),
    "refuses the key": replying({"error": f"wrong key {KEY}"}, 401),
    "another path": replying({"error": "private words"}, 404),
    "a redirect": replying({}, 302, Location="http://127.0.0.1:9/"),
}


@pytest.mark.parametrize("rude", RUDE)
async def test_a_rude_server_is_unavailable_and_nothing_of_it_is_quoted(
    server: ModelServer, rude: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    server.rude = RUDE[rude]
    with pytest.raises(ModelUnavailable, match=server.url) as raised:
        await model_of(server, key_env="SOME_KEY").complete(QUESTION)
    assert "private" not in raised.value.message + raised.value.hint
    assert len(server.bodies) == 1  # not tried again: a summary is made without it


async def test_a_server_that_refuses_the_text_says_so(server: ModelServer) -> None:
    server.rude = replying({"error": "too long"}, 400)
    with pytest.raises(TextRefused, match="400"):
        await model_of(server).complete(QUESTION)


@pytest.mark.parametrize("rude", [silent, dripping])
async def test_a_slow_server_holds_a_caller_for_the_timeout_only(
    server: ModelServer, rude: Rudeness
) -> None:
    server.rude = rude
    with pytest.raises(ModelUnavailable, match="in time"):
        await model_of(server, timeout=0.1).complete(QUESTION)


async def test_a_cancelled_call_does_not_wait_for_the_server(server: ModelServer) -> None:
    server.rude = silent
    began = time.monotonic()
    with anyio.move_on_after(0.1) as scope:
        await model_of(server, timeout=60.0).complete(QUESTION)
    assert scope.cancelled_caught
    assert time.monotonic() - began < 10


async def test_a_server_that_is_down_and_back_is_used_again(server: ModelServer) -> None:
    model = model_of(server)
    await model.complete(QUESTION)
    server.stop()
    with pytest.raises(EmbedError):
        await model.complete(QUESTION)
    server.start()
    assert await model.complete(QUESTION)
