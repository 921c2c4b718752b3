"""A daemon that does as it is told: a line server on a Unix socket, for tests of the shim.

The method of a request says what happens; `params` say how much of it. Like the real one it
exits with 3 when another holds its lock. Flags that it does not know are for the real one.

Run: python fake_daemon.py --socket PATH [--exit CODE]
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import socket
import sys
import threading
from typing import Any


class Connection:
    """One client. `heard` are its lines, as they came."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.heard: list[str] = []

    def serve(self) -> None:
        with self.link, self.link.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                if str(message.get("method")).startswith("notifications/memoryd/"):
                    continue
                self.heard.append(line.decode())
                if "id" in message and "method" in message:
                    self.answer(message["method"], message.get("params") or {}, message["id"])

    def answer(self, method: str, params: dict[str, Any], key: object) -> None:
        if method == "silence":
            return
        if method == "die":
            os._exit(9)
        if method == "tear":
            self.link.sendall(b'{"jsonrpc": "2.0", "id": ' + b"9" * params.get("size", 10))
            os._exit(9)
        if method == "hang up":
            self.link.shutdown(socket.SHUT_RDWR)
            return
        self.send({"jsonrpc": "2.0", "id": key, "result": self.result(method, params)})

    def result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "heard":
                return {"lines": self.heard, "pid": os.getpid()}
            case "say":
                return {"text": params["text"] * params.get("times", 1)}
            case "flood":
                for number in range(params["count"]):
                    self.send({"method": "noise", "params": {"n": number, "text": "x" * 100_000}})
                return {}
            case "hear":
                return {"length": len(params["text"])}
        return {"pid": os.getpid()}

    def send(self, message: dict[str, Any]) -> None:
        self.link.sendall(json.dumps(message, ensure_ascii=False).encode() + b"\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", required=True)
    parser.add_argument("--exit", type=int)
    options = parser.parse_known_args()[0]
    if options.exit is not None:
        sys.exit(f"Error: told to fail with {options.exit}" if options.exit == 1 else options.exit)
    lock = open(options.socket + ".lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(3)
    if os.path.exists(options.socket):
        os.unlink(options.socket)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(options.socket)
        door.listen(128)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            link = door.accept()[0]
            threading.Thread(target=Connection(link).serve, daemon=True).start()


if __name__ == "__main__":
    main()
