"""A stand-in for Anthropic's Messages API on loopback: the real Claude Code has a session without a
login. It gives every message the same answer, and keeps what was sent to the model."""

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

    @property
    def variables(self) -> dict[str, str]:
        """What makes Claude Code use this instead of the real one."""
        url = f"http://127.0.0.1:{self.server_address[1]}"
        return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-ant-none"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: MessagesApi

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if self.path.partition("?")[0] != "/v1/messages":
            self._answer(404, "application/json", "{}")
            return
        self.server.sent.append(body)
        asked = json.loads(body)
        if asked.get("stream"):
            told = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events())
            self._answer(200, "text/event-stream", told)
        else:
            self._answer(200, "application/json", json.dumps(message(ANSWER)))

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


def events() -> Iterator[dict[str, Any]]:
    """The same answer as a stream."""
    yield {"type": "message_start", "message": message()}
    block = {"type": "text", "text": ""}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    delta: dict[str, Any] = {"type": "text_delta", "text": ANSWER}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    delta = {"stop_reason": "end_turn", "stop_sequence": None}
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
