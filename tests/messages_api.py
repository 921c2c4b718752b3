"""A stand-in on loopback for the APIs of models: Anthropic's Messages, OpenAI's Responses and
Google's generateContent. The real Claude Code, Codex and Gemini CLI have a session with it without
a login. It gives every message the same answer, and keeps what was sent to the model. With `reads`,
Claude Code is first asked to read that file."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER = "That is noted."


class MessagesApi(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.sent: list[str] = []  # the body of each message
        self.reads = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def variables(self) -> dict[str, str]:
        """What makes Claude Code and Gemini CLI use this instead of the real ones."""
        claude = {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": "sk-ant-none"}
        return claude | {"GOOGLE_GEMINI_BASE_URL": self.url, "GEMINI_API_KEY": "none"}

    @property
    def codex_flags(self) -> tuple[str, ...]:
        """What makes Codex use it."""
        provider = f'{{name="scripted",base_url="{self.url}/v1",wire_api="responses"}}'
        settings = ("model_provider=scripted", f"model_providers.scripted={provider}", "model=m")
        return tuple(word for setting in settings for word in ("-c", setting))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: MessagesApi

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        path = self.path.partition("?")[0]
        asked = {"/v1/messages": messages, "/v1/responses": responses}.get(path)
        asked = asked or (generated if "enerateContent" in path else None)
        if asked is None:
            self._answer(404, "application/json", "{}")
            return
        self.server.sent.append(body)
        if self.server.reads and '"tools":[{' in body and "tool_result" not in body:
            reading = (stream_event(event) for event in messages(self.server.reads))
            self._answer(200, "text/event-stream", "".join(reading))
        elif path.endswith(":streamGenerateContent") or json.loads(body).get("stream"):
            self._answer(200, "text/event-stream", "".join(map(stream_event, asked())))
        else:
            whole = message(ANSWER) if asked is messages else next(generated())
            self._answer(200, "application/json", json.dumps(whole))

    def do_GET(self) -> None:
        self._answer(404, "application/json", "{}")

    do_HEAD = do_GET

    def log_message(self, format: str, *words: Any) -> None:
        """Nothing is logged."""

    def _answer(self, status: int, kind: str, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text.encode())


def message(text: str = "") -> dict[str, Any]:
    """A message of the model; without a text, the beginning of one."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [{"type": "text", "text": text}] if text else [],
        "stop_reason": "end_turn" if text else None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def stream_event(event: dict[str, Any]) -> str:
    """An event as it is sent; those of Google have no type."""
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n"


def responses() -> Iterator[dict[str, Any]]:
    """The answer as OpenAI's Responses API streams it."""
    said = {"type": "output_text", "text": ANSWER, "annotations": []}
    item = {"type": "message", "id": "m1", "role": "assistant", "content": [said]}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    yield {"type": "response.created", "response": {"id": "r1"}}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": "response.completed", "response": {"id": "r1", "output": [], "usage": usage}}


def generated() -> Iterator[dict[str, Any]]:
    """The answer as Google's generateContent streams it."""
    content = {"role": "model", "parts": [{"text": ANSWER}]}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    told = {"content": content, "finishReason": "STOP", "index": 0}
    yield {"candidates": [told], "usageMetadata": usage}


def messages(reads: str = "") -> Iterator[dict[str, Any]]:
    """The answer as Anthropic streams it; or a call of the tool that reads a file."""
    yield {"type": "message_start", "message": message()}
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta: dict[str, Any] = {"type": "text_delta", "text": ANSWER}
    if reads:
        block = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps({"file_path": reads})}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    delta = {"stop_reason": "tool_use" if reads else "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


@contextmanager
def messages_api() -> Iterator[MessagesApi]:
    with MessagesApi() as api:
        serving = threading.Thread(target=api.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield api
        finally:
            api.shutdown()
            serving.join()
