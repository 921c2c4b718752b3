"""Addresses of model servers: the path of a call is found, and what cannot be used is refused."""

from __future__ import annotations

import pytest

from memoryd.config import load
from memoryd.endpoints import parse_address
from memoryd.errors import ConfigError

HTTP = {"MEMORYD_EMBEDDING_BACKEND": "http"}


@pytest.mark.parametrize(
    ("given", "call", "path"),
    [
        ("http://one:11434", "/api/embed", "/api/embed"),
        ("http://one:11434/", "/api/embed", "/api/embed"),
        ("http://one:11434/api", "/api/embed", "/api/embed"),
        ("http://one/api/embed", "/api/embed", "/api/embed"),
        ("https://one/v1", "/v1/embeddings", "/v1/embeddings"),
        ("https://one/openai/embeddings?v=2", "/v1/embeddings", "/openai/embeddings?v=2"),
        ("https://one/proxy", "/v1/embeddings", "/proxy/v1/embeddings"),
        ("https://one/rerank", "/v1/rerank", "/rerank"),
        ("https://one/v2", "/v1/rerank", "/v2/rerank"),
        ("http://one:11434", "/v1/chat/completions", "/v1/chat/completions"),
        ("http://one/v1/", "/v1/chat/completions", "/v1/chat/completions"),
        ("http://one/v1/chat/completions", "/v1/chat/completions", "/v1/chat/completions"),
        ("http://one/x/chat/completions?v=1", "/v1/chat/completions", "/x/chat/completions?v=1"),
    ],
)
def test_the_path_of_a_call_is_added_unless_it_is_there(given: str, call: str, path: str) -> None:
    assert parse_address(given, "embedding.url", call).path == path


def test_messages_show_scheme_host_and_port_only() -> None:
    assert parse_address("https://[::1]:8443/private?key=1", "x").shown == "https://[::1]:8443"
    assert parse_address("http://one/v1", "x").shown == "http://one"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:11434",
        "file:///etc/passwd",
        "ftp://one",
        "http://",
        "http://one:99999",
        "http://user:hunter2@one",
        "http://one/a b",
        "http://one\r\nX: y",
        "http://[one",
    ],
)
@pytest.mark.parametrize("key", ["embedding.url", "search.rerank_url", "llm.url"])
def test_an_address_that_cannot_be_used_is_named_by_its_setting(key: str, url: str) -> None:
    if key != "embedding.url" and not url:
        return  # no such server is configured
    with pytest.raises(ConfigError, match=f"`{key}`") as refused:
        load(environ=HTTP, flags={"embedding.url": "http://one"} | {key: url})
    assert refused.value.code == "config_address_invalid"
    assert "hunter2" not in f"{refused.value.message}{refused.value.hint}"


def test_without_the_backend_no_address_is_needed() -> None:
    assert load(environ={}).embedding.url == ""
