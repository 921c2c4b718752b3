"""A language model on a server: /v1/chat/completions as OpenAI, Ollama, vLLM and llama.cpp have it.

Of the request only `model` and `messages` are given: servers disagree about every other field, and
one that a server does not know would be refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import anyio.to_thread

from memoryd.adapters.endpoint import Endpoint, key_reader
from memoryd.endpoints import parse_address
from memoryd.settings import LlmSettings

CALL = "/v1/chat/completions"


class HttpLanguageModel:
    """See `memoryd.ports.LanguageModel`. The server is asked when it is first used."""

    def __init__(self, settings: LlmSettings) -> None:
        self._settings = settings
        address = parse_address(settings.url, "llm.url", CALL)
        self.name = f"{settings.model or 'the default model'} at {address.shown}"
        self._key = key_reader(settings.key_env, settings.key_file)
        self._endpoint = Endpoint(
            "language model server", address, self._key, slowest=settings.timeout
        )

    def check_key(self) -> None:
        """Raise ModelUnavailable if the key cannot be read. Nothing is sent."""
        self._key()

    async def complete(self, messages: Sequence[Mapping[str, str]]) -> str:
        body: dict[str, Any] = {"messages": [_sendable(message) for message in messages]}
        body |= {"model": self._settings.model} if self._settings.model else {}
        post = partial(self._endpoint.post, body, self._settings.timeout)
        answer = await anyio.to_thread.run_sync(post)
        try:
            return _text(answer["choices"][0]["message"]["content"])
        except (TypeError, KeyError, IndexError, AttributeError, ValueError) as exc:
            raise self._endpoint.unavailable("answered with something else than a message") from exc


def _sendable(message: Mapping[str, str]) -> dict[str, str]:
    return {key: value.encode("utf-8", "replace").decode() for key, value in message.items()}


def _text(content: Any) -> str:
    """The text of an answer, which may be in parts. Raises ValueError if there is none."""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part.get("type") == "text")
    if not isinstance(content, str):
        raise ValueError("not a text")
    return content
