"""A model server for tests: embeddings as Ollama and as OpenAI have them, a reranker and a chat. It
answers well, or as rudely as it is told to."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from memoryd.adapters.embed.hash import HashEncoder
from tests.processes import free_port

Rudeness = Callable[["Handler"], None]
PATHS = ("/api/embed", "/v1/embeddings", "/v1/rerank", "/v1/chat/completions")
SUMMARY = {
    "history_entry": "[2026-11-18 10:00] They planned a trip to Lisbon in March.",
    "title": "Trip to Lisbon",
    "memory_update": [{"text": "Clara is allergic to shellfish.", "topic": None, "message": 1}],
}


class ModelServer:
    """Listens on a loopback port of its own while it is up. `rude`: answers in its place."""

    def __init__(self, dimension: int = 384) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.encoder = HashEncoder(dimension)
        self.rude: Rudeness | None = None
        self.refuses: Callable[[list[str]], bool] = lambda texts: False  # with HTTP 400
        self.chat = json.dumps(SUMMARY)  # what the language model answers
        self.paths: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []  # the Authorization of each request
        self.released = threading.Event()  # ends every slow answer
        self._open: set[socket.socket] = set()
        self._listening: ThreadingHTTPServer | None = None

    def start(self) -> ModelServer:
        handler = type("Bound", (Handler,), {"model_server": self})
        self._listening = Listener(("127.0.0.1", self.port), handler)
        threading.Thread(target=self._listening.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def stop(self) -> None:
        """Be down: refuse connections, and break those that are open."""
        if self._listening is not None:
            self._listening.shutdown()
            self._listening.server_close()
            self._listening = None
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.released.set()
        self.stop()

    def answer(self, path: str, body: dict[str, Any]) -> Any:
        if path == "/v1/rerank":
            return {"results": list(self._ranked(body["query"], body["documents"]))[::-1]}
        if path == "/v1/chat/completions":
            message = {"role": "assistant", "content": self.chat}
            return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        encoder = HashEncoder(body.get("dimensions", self.encoder.dimension))
        vectors = [row.tolist() for row in encoder.encode(body["input"])]
        if path == "/api/embed":
            return {"model": body["model"], "embeddings": vectors}
        rows = [{"index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        return {"object": "list", "data": rows[::-1]}

    def _ranked(self, query: str, documents: list[str]) -> Iterator[dict[str, Any]]:
        wanted = set(query.lower().split())
        for index, text in enumerate(documents):
            share = len(wanted & set(text.lower().split())) / max(1, len(wanted))
            yield {"index": index, "relevance_score": share}


class Listener(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is expected here."""


class Handler(BaseHTTPRequestHandler):
    model_server: ModelServer
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.model_server._open.add(self.connection)

    def finish(self) -> None:
        self.model_server._open.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        server = self.model_server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.paths.append(self.path)
        server.bodies.append(body)
        server.keys.append(self.headers["Authorization"])
        if server.rude is not None:
            server.rude(self)
        elif self.path not in PATHS:
            self.reply({"error": "no such path"}, 404)
        elif server.refuses(body.get("input", [])):
            self.reply({"error": "the input is too long"}, 400)
        else:
            self.reply(server.answer(self.path, body))

    def reply(self, answer: Any, status: int = 200, **headers: str) -> None:
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def model_server(dimension: int = 384) -> Iterator[ModelServer]:
    """A server that is up inside the block."""
    server = ModelServer(dimension).start()
    try:
        yield server
    finally:
        server.close()


def silent(handler: Handler) -> None:
    """Never answers."""
    handler.model_server.released.wait()
    handler.close_connection = True


def dripping(handler: Handler) -> None:
    """Sends a byte of its headers now and then, for ever."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not handler.model_server.released.wait(0.02):
        handler.wfile.write(b"x")
    handler.close_connection = True


def hanging_up(handler: Handler) -> None:
    handler.close_connection = True


def replying(answer: Any, status: int = 200, **headers: str) -> Rudeness:
    return lambda handler: handler.reply(answer, status, **headers)


def in_pieces(answer: Any, pieces: int = 20) -> Rudeness:
    """Answers well, but in pieces with pauses between them."""

    def reply(handler: Handler) -> None:
        content = json.dumps(answer).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        size = max(1, len(content) // pieces)
        for start in range(0, len(content), size):
            handler.wfile.write(content[start : start + size])
            handler.wfile.flush()
            handler.model_server.released.wait(0.005)

    return reply
