"""Memory text is never logged: one that is like no other goes through every tool, verb and failure,
and then no file but those of the store has it.

Failures that no message brings about are planted: `sitecustomize` is imported by every Python
process that is started with its folder on PYTHONPATH, here the daemon and its store worker.
"""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from memoryd import daemon_record
from tests.daemons import Lines
from tests.homes import ASK, MEMORYD, Home
from tests.processes import free_port

pytestmark = pytest.mark.slow

CANARY = "canaryq7f3zx"
PLANTED = """
import gc, sys, threading, warnings

def boom(text):
    raise ValueError(f"no words for {text!r}")

class Last:
    def __init__(self, text): self.text = text
    def __del__(self): boom(self.text)

def planted(texts):
    for text in map(str, texts):
        if "explode-thread" in text:
            thread = threading.Thread(target=boom, args=(text,))
            thread.start()
            thread.join()
        if "explode-final" in text:
            Last(text)
            gc.collect()
        if "explode-warn" in text:
            warnings.warn(text, UserWarning)
        if "explode-now" in text:
            boom(text)

def before(owner, name, texts_of):
    real = getattr(owner, name)
    def called(*args, **more):
        planted(texts_of(*args, **more))
        return real(*args, **more)
    setattr(owner, name, called)

if "memoryd.adapters.chroma.worker" in " ".join(sys.orig_argv):
    from memoryd.adapters.chroma.collection import Collection
    before(Collection, "write", lambda self, *args: [args] if "in-worker" in str(args) else [])
elif "serve" in sys.orig_argv:
    import asyncio
    from memoryd.adapters.embed.hash import HashEncoder
    before(HashEncoder, "encode", lambda self, texts, **more: [t for t in texts if "in-model" in t])
    from memoryd.engine.search.search import Search
    real = Search.search
    async def search(self, query, **more):
        if "in-task" in query:
            asyncio.get_running_loop().create_task(failing(query))
            await asyncio.sleep(0)
            gc.collect()
        if "in-engine" in query:
            boom(query)
        return await real(self, query, **more)
    async def failing(text):
        boom(text)
    Search.search = search
"""
MARKS = [
    f"explode-{how} in-{where}"
    for how in ("thread", "final", "warn", "now")
    for where in ("worker", "model")
]


class Cage:
    """A home whose daemon and worker fail where a text tells them to."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.ports = {"TCP": str(free_port()), "HTTP": str(free_port())}
        planted = home.path / "planted"
        planted.mkdir()
        (planted / "sitecustomize.py").write_text(PLANTED)
        self.variables = {"PYTHONPATH": str(planted), "MEMORYD_STORE_SYNC_THRESHOLD": "3"}
        self.variables |= {f"MEMORYD_DOORS_{door}_PORT": port for door, port in self.ports.items()}
        self.outside: list[str] = []  # what processes wrote that are no terminal's

    def verb(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Any verb, however it ends."""
        return subprocess.run(
            [*MEMORYD, *words],
            env=self.home.environment("sdk") | self.variables,
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def shim(self, *lines: object) -> None:
        given = ASK + "".join(f"{json.dumps(line)}\n" for line in lines) + f"{{{CANARY}\n"
        self.outside.append(self.verb("mcp", given=given).stderr)

    def lines(self) -> Lines:
        known = daemon_record.read(self.home.data)
        assert known is not None
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(60)
        link.connect(known.socket)
        lines = Lines(link)
        lines.open()
        return lines

    def written(self) -> Iterator[tuple[Path, bytes]]:
        """Every file under this home but those that are to hold memories, and our own."""
        data = self.home.data
        kept = [
            data / name for name in ("store", "store.new", "store.old", "store.next", "backups")
        ]
        kept += [data / "index.snapshot", self.home.path / "planted", self.home.path / "mine"]
        for path in self.home.path.rglob("*"):
            if path.is_file() and not any(path.is_relative_to(place) for place in kept):
                yield path, path.read_bytes()


@pytest.fixture
def cage(home: Home) -> Cage:
    return Cage(home)


def odd_calls() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each argument of each tool with the canary, once as it should be and once as it must not."""
    goods: dict[str, dict[str, Any]] = {
        "store_memory": {"content": CANARY, "name": CANARY, "session_id": CANARY},
        "search_memories": {"query": CANARY, "metadata": {CANARY: CANARY}},
        "forget_memory": {"memory_id": CANARY},
        "add_turn": {"role": "user", "content": CANARY, "session_id": CANARY, "speaker": CANARY},
        "get_context": {"session_id": CANARY},
        "clear_context": {"session_id": CANARY},
        "forget_where": {"session_id": CANARY, "dry_run": True},
        "import_memories": {"memories": [{"content": CANARY, CANARY: 1}, CANARY], "model": CANARY},
        "import_rows": {"rows": [{"id": CANARY, "document": CANARY, "metadata": {CANARY: CANARY}}]},
        "export_memories": {"after": CANARY},
    }
    for name, good in goods.items():
        yield name, good
        yield name, {CANARY: 1}
        for key in good:
            yield name, good | {key: [CANARY]}
            yield name, good | {key: {CANARY: CANARY}}
            yield name, good | {key: f"{CANARY}\ud800"}
    for key in ("memory_type", "expires_at", "pinned", "metadata", "since", "limit"):
        yield "store_memory", {"content": CANARY, key: CANARY}
        yield "search_memories", {"query": CANARY, key: CANARY}
    yield CANARY, {}


def drive_tools(cage: Cage) -> None:
    with cage.lines() as lines:
        for name, arguments in odd_calls():
            lines.tool(name, **arguments)
        for mark in (*MARKS, "in-task", "in-engine"):
            lines.tool("store_memory", content=f"{CANARY} {mark}")
            lines.tool("search_memories", query=f"{CANARY} {mark}")
            lines.tool("add_turn", role="user", content=f"{CANARY} {mark}")
        for uri in (f"memory://memory/{CANARY}", f"memory://session/{CANARY}", CANARY):
            lines.call("resources/read", uri=uri)
        ref = {"type": "ref/resource", "uri": "memory://memory/{id}"}
        lines.call("completion/complete", ref=ref, argument={"name": "id", "value": CANARY})
        lines.call("completion/complete", ref=ref, argument={"name": CANARY, "value": CANARY})
        lines.call("prompts/get", name=CANARY)
        lines.call(CANARY, **{CANARY: CANARY})
        for raw in (f'{{"{CANARY}', f'["{CANARY}"]', f'{{"id": {{}}, "method": "{CANARY}"}}'):
            lines.send(raw.encode() + b"\n")
            assert lines.read() is not None
        assert lines.call("ping") == {}


def drive_network(cage: Cage) -> None:
    with socket.create_connection(("127.0.0.1", int(cage.ports["TCP"])), timeout=60) as link:
        link.sendall(f"{CANARY}\n".encode())
        assert link.recv(100) == b""
    token = (cage.home.data / "token").read_text().strip()
    with httpx.Client(trust_env=False, timeout=60) as client:
        for given in (CANARY, token):
            headers = {"Authorization": f"Bearer {given}", "X-Canary": CANARY}
            address = f"http://127.0.0.1:{cage.ports['HTTP']}"
            for body in (CANARY.encode(), json.dumps({"method": CANARY}).encode()):
                client.post(f"{address}/mcp?{CANARY}", content=body, headers=headers)
            client.get(f"{address}/{CANARY}", headers=headers)
        client.get(f"{address}/health", headers={"Origin": CANARY})


def drive_verbs(cage: Cage) -> None:
    mine = cage.home.path / "mine"
    mine.mkdir()
    (mine / "bad.jsonl").write_text(f'{{"{CANARY}": 1}}\n{CANARY}\n')
    (mine / "bad.jsonl.gz").write_text(CANARY)
    export = str(mine / "export.jsonl")
    for words in (
        ("store", CANARY, "--name", CANARY, "--metadata", f"k={CANARY}"),
        ("store", CANARY, "--type", CANARY),
        ("search", CANARY, "--explain"),
        ("search", CANARY, "--since", CANARY),
        ("get", CANARY),
        ("export", export),
        ("import", export),
        ("import", str(mine / "bad.jsonl")),
        ("restore", str(mine / "bad.jsonl.gz")),
        ("backup",),
        ("backup", str(mine)),
        ("sweep",),
        ("purge",),
        ("status", "--json"),
        ("doctor",),
        ("version",),
        ("config",),
        ("logs",),
        ("forget", "--session", CANARY, "--yes"),
        ("forget", CANARY, "--yes"),
        (CANARY,),
    ):
        cage.verb(*words)
    cage.verb("store", "-", given=f"{CANARY} {MARKS[-1]}")
    call = {"name": "store_memory", "arguments": {"content": CANARY, "pinned": CANARY}}
    cage.shim({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}, CANARY)


def damage(cage: Cage) -> None:
    """A database whose texts cannot be decoded, beside a torn index: the next start must look."""
    with cage.lines() as lines:
        for n in range(7):
            lines.tool("store_memory", content=f"{CANARY} number {n} sings")
    cage.verb("stop")
    with closing(sqlite3.connect(cage.home.data / "store" / "chroma.sqlite3")) as database:
        database.execute(
            "UPDATE embedding_metadata SET string_value = CAST(CAST(string_value AS BLOB) || x'ff' "
            f"AS TEXT) WHERE string_value LIKE '%{CANARY}%'"
        )
        database.commit()
    for file in (cage.home.data / "store").glob("*/header.bin"):
        file.write_bytes(b"")


def test_memory_text_is_in_no_file_but_those_of_the_store(cage: Cage) -> None:
    """Not in the log, a daemon's startup output, or what the worker or the shim write."""
    assert cage.verb("start").returncode == 0
    drive_tools(cage)
    drive_network(cage)
    drive_verbs(cage)
    before = dict(cage.written())  # the next start empties its startup file
    damage(cage)
    assert cage.verb("search", "x").returncode == 1
    for verb in ("status", "doctor"):
        told = cage.verb(verb)
        assert told.returncode == 1
        cage.outside += [told.stdout, told.stderr]
    found = [*before.items(), *cage.written()]
    assert {"daemon.log", "daemon.start"} <= {path.name for path, _ in found}
    assert [(path.name, data) for path, data in found if CANARY.encode() in data] == []
    assert CANARY not in "".join(cage.outside)
    seen = b"".join(data for _, data in found).decode(errors="replace")
    for met in ("uncaught", "tool_failed", "UserWarning", "worker_call_failed"):
        assert met in seen, "what was planted was not met, so this would prove nothing"
