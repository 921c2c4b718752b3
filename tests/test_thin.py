"""A daemon without an index (`search.index: remote`) beside a full one, on a real Chroma server."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memoryd.export_file import Header, Writer
from scripts.bench.cluster import Server
from scripts.bench.link import Link
from tests.daemons import Daemon, ForkedDaemon
from tests.processes import free_port
from tests.test_cluster import eventually, failure

pytestmark = pytest.mark.slow


class Fleet:
    """A thin and a full daemon on one server, without any setting of audiences."""

    def __init__(self, server: Server, thin: Daemon, full: Daemon) -> None:
        self.server, self.thin, self.full = server, thin, full


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with tempfile.TemporaryDirectory(prefix="memoryd-test-") as name:
        folder, port = Path(name), free_port()
        (folder / "chroma").mkdir()
        server = Server(folder / "chroma", port)
        asyncio.run(server.start())
        settings = {"MEMORYD_STORE_MODE": "http", "MEMORYD_STORE_PORT": str(port)}
        settings |= {"MEMORYD_STORE_POLL_SECONDS": "0.2", "MEMORYD_DOORS_TOOLSETS": "all"}
        thin = ForkedDaemon(folder / "thin", MEMORYD_SEARCH_INDEX="remote", **settings).start()
        full = ForkedDaemon(folder / "full", **settings).start()
        yield Fleet(server, thin, full)
        for daemon in (thin, full):
            daemon.stop()
        server.stop()


def ids(daemon: Daemon, query: str, **filters: Any) -> list[str]:
    found = daemon.tool("search_memories", query=query, min_score=0.0, **filters)
    return [hit["id"] for hit in found["results"]]


def stored(daemon: Daemon, content: str, **options: Any) -> str:
    return str(daemon.tool("store_memory", content=content, **options)["id"])


def texts(daemon: Daemon, **options: Any) -> list[str]:
    return [memory["content"] for memory in daemon.tool("list_memories", **options)["memories"]]


def test_store_search_update_and_forget(fleet: Fleet) -> None:
    thin, full = fleet.thin, fleet.full
    id = stored(thin, "The gate code is 1234.", name="gate")
    assert ids(thin, "gate code") == [id]
    assert stored(thin, "The gate code is 99.", name="gate") == id
    assert texts(thin) == ["The gate code is 99."]
    assert thin.tool("update_memory", memory_id="gate", content="No gate.")["changed"]
    eventually(lambda: texts(full) == ["No gate."])
    assert failure(thin, "update_memory", memory_id="nothing", content="x")
    full.tool("update_memory", memory_id=id, content="A door.")
    assert texts(thin) == ["A door."]  # without a poll
    assert thin.tool("forget_memory", memory_id="gate")["success"]
    assert not thin.tool("forget_memory", memory_id="gate")["success"]
    assert ids(thin, "gate") == []
    assert fleet.server.state() == {}
    eventually(lambda: texts(full) == [])


def test_words_are_found_in_any_form_case_and_accent(fleet: Fleet) -> None:
    thin = fleet.thin
    with ThreadPoolExecutor(16) as pool:  # more of them than are candidates by meaning
        texts = [f"Filler number {number} about nothing in particular." for number in range(220)]
        assert all(pool.map(lambda text: stored(thin, text), texts))
    wanted = {
        "Studies of the Émigré were full of HAPPINESS.": ("study", "emigre", "happy"),
        "Call +43 660 1234567 for the Hüttenwirt.": ("1234567", "huttenwirt"),
        "The module parse_config.py reads YAML.": ("parse_config", "config yaml"),
        "\u6771\u4eac\u306b\u884c\u304f\u4e88\u5b9a": ("\u6771\u4eac",),
    }
    for text, queries in wanted.items():
        id = stored(thin, text)
        for query in queries:
            assert id in ids(thin, query, limit=3), query


def test_a_long_memory_is_found_by_every_part(fleet: Fleet) -> None:
    parts = [f"Chapter {n} is about {word}. " * 30 for n, word in enumerate(("bees", "rye", "tin"))]
    id = stored(fleet.thin, "".join(parts))
    for query in ("bees", "rye", "tin"):
        found = fleet.thin.tool("search_memories", query=query)["results"]
        assert [hit["id"] for hit in found] == [id]
        assert query in found[0]["passage"]


def test_filters_mean_the_same_on_both(fleet: Fleet) -> None:
    thin, full = fleet.thin, fleet.full
    for number in range(12):
        metadata = {"tags": [f"t{number % 3}", "all"], "rank": number, "open": number % 2 == 0}
        metadata["project"] = f"p{number % 4}"
        type = ("fact", "conversation")[number % 2]
        stored(thin, f"Box {number} has screws.", metadata=metadata, memory_type=type)
    eventually(lambda: len(texts(full)) == 12)
    for filters in (
        {"memory_type": "fact"},
        {"metadata": {"tags": "t1"}},
        {"metadata": {"tags": {"$in": ["t1", "t2"]}, "open": True}},
        {"metadata": {"rank": {"$gte": 7}}},
        {"metadata": {"rank": 7}},
        {"metadata": {"$or": [{"rank": 3}, {"project": "p2"}]}},
        {"metadata": {"project": {"$ne": "p1"}}},
        {"since": "2020-01-01", "until": "2021-01-01"},
        {"session_id": "nobody"},
    ):
        found = sorted(ids(thin, "screws", limit=20, **filters))
        assert found == sorted(ids(full, "screws", limit=20, **filters)), filters
        assert texts(thin, **filters) == texts(full, **filters), filters


def test_ranks_and_pages_are_those_of_a_full_index(fleet: Fleet) -> None:
    thin, full = fleet.thin, fleet.full
    things = ("kettle", "lamp", "rope", "saw", "drill")
    rooms = ("attic", "cellar", "garage", "kitchen")
    for room in rooms:
        for thing in things:
            stored(full, f"The {thing} is in the {room}.")
    for query in ("Where is the saw?", "attic", "What is in the kitchen: the lamp?", "rope cellar"):
        assert ids(thin, query)[:3] == ids(full, query)[:3], query
    pages: list[list[str]] = []
    cursor = None
    while True:
        page = thin.tool("list_memories", limit=7, **({"cursor": cursor} if cursor else {}))
        pages.append([memory["content"] for memory in page["memories"]])
        if (cursor := page["cursor"]) is None:
            break
    assert [len(page) for page in pages] == [7, 7, 6]
    assert page["total"] == 20
    assert [text for page in pages for text in page] == texts(full, limit=20)


def test_identical_facts_are_one_and_superseded_ones_are_hidden(fleet: Fleet) -> None:
    thin, full = fleet.thin, fleet.full
    old = stored(full, "The server is in Graz.")
    assert thin.tool("store_memory", content="The server is in Graz.")["duplicate"]
    new = stored(thin, "The server is in Linz.", metadata={"supersedes": [old]})
    assert ids(thin, "Where is the server?") == [new]
    chain = thin.tool("memory_chain", memory_id=new)["memories"]
    assert [memory["id"] for memory in chain] == [old, new]
    thin.tool("forget_memory", memory_id=new)
    assert ids(thin, "Where is the server?") == [old]
    assert "superseded_by" not in thin.tool("read_memory", memory_id=old)["metadata"]
    eventually(lambda: ids(full, "Where is the server?") == [old])


def test_a_name_is_one_memory_whoever_stores_under_it(fleet: Fleet) -> None:
    daemons = [fleet.thin, fleet.thin, fleet.full, fleet.thin]
    with ThreadPoolExecutor(len(daemons)) as pool:
        calls = [pool.submit(stored, d, f"Value {n}.", name="it") for n, d in enumerate(daemons)]
        assert all(call.result() for call in calls)
    eventually(lambda: len(fleet.server.state()) == 1)
    [(_, text)] = fleet.server.state().values()
    assert texts(fleet.thin) == [text]
    eventually(lambda: texts(fleet.full) == [text])
    assert "name_taken" in failure(
        fleet.thin, "update_memory", memory_id=stored(fleet.thin, "Other."), name="it"
    )


def test_what_has_expired_is_not_found_and_is_swept(fleet: Fleet) -> None:
    thin = fleet.thin
    soon = (datetime.now().astimezone() + timedelta(seconds=3)).isoformat()
    stored(thin, "The kettle is on.", expires_at=soon)
    kept = stored(thin, "The kettle is new.")
    assert len(ids(thin, "kettle")) == 2
    eventually(lambda: ids(thin, "kettle") == [kept])
    assert texts(thin) == ["The kettle is new."]
    assert thin.tool("sweep")["deleted"] == 1
    assert list(fleet.server.state()) == [kept]


def test_the_window_of_a_session_outlives_the_daemon(fleet: Fleet) -> None:
    thin, session = fleet.thin, {"session_id": "s"}

    def window() -> list[str]:
        found = thin.tool("get_context", window_only=True, **session)["messages"]
        return [message["content"] for message in found]

    for text in ("One.", "Two.", "Three."):
        thin.tool("add_turn", role="user", content=text, **session)
    assert window() == ["One.", "Two.", "Three."]
    thin.stop()
    thin.start()
    assert thin.tool("add_turn", role="user", content="Four.", **session)["order"] == 3
    thin.tool("clear_context", **session)
    thin.tool("add_turn", role="user", content="Five.", **session)
    assert window() == ["Five."]


def test_a_recall_has_messages_facts_and_moments(fleet: Fleet) -> None:
    thin = fleet.thin
    for number, text in enumerate(("Is the boiler on?", "Yes, at 60 degrees.", "Thanks.")):
        role = ("user", "assistant")[number % 2]
        thin.tool("add_turn", role=role, content=text, session_id="old")
    stored(thin, "The user prefers tea.", pinned=True)
    thin.tool("working_memory", content="Repair the pump.")
    thin.tool("add_turn", role="user", content="Hello.", session_id="new")
    found = thin.tool("get_context", session_id="new", hint="boiler", form="text")["text"]
    for text in ("Hello.", "The user prefers tea.", "Repair the pump.", "at 60 degrees"):
        assert text in found


def imported(daemon: Daemon, path: Path, *flags: str) -> dict[str, Any]:
    """What `memoryd import` says."""
    place = ("--data-dir", str(daemon.folder), "--socket", str(daemon.socket))
    command = [sys.executable, "-m", "memoryd", "import", str(path), "--json", *flags, *place]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_imports_end_as_with_an_index(fleet: Fleet, tmp_path: Path) -> None:
    """The same id, name, alias or fact is found on the server, and what differs is kept."""
    thin, full = fleet.thin, fleet.full
    now = time.time()

    def memory(id: str, content: str, type: str = "fact", **fields: Any) -> dict[str, Any]:
        known = {"id": id, "type": type, "content": content, "created_at": now}
        return known | {"expires_at": None, "metadata": {}} | fields

    def write(name: str, memories: list[dict[str, Any]]) -> Path:
        path = tmp_path / name
        with path.open("wb") as file:
            writer = Writer(file, Header(count=len(memories)))
            for one in memories:
                writer.memory(one)
            writer.end()
        return path

    stored(thin, "The boiler is in the cellar.")
    named = stored(thin, "The gate code is 1.", name="gate")
    first = write(
        "first",
        [
            memory("a", "The boiler is in the cellar."),  # a fact that is known
            memory("b", "The gate code is 2.", name="gate"),  # another memory has the name
            memory("c", "The attic has two windows.", name="attic"),
            memory("d", "The roof was mended.", metadata={"supersedes": ["e"]}),
            memory("e", "The roof leaks."),
            *(memory(f"n{n}", f"Screw number {n}.", "conversation") for n in range(600)),
        ],
    )
    report = imported(thin, first)
    assert (report["added"], report["known"], report["kept"]) == (603, 1, 1)
    again = imported(thin, first)
    assert (again["added"], again["known"], again["kept"]) == (0, 604, 1)
    report = imported(thin, first, "--overwrite")
    assert (report["added"], report["replaced"]) == (0, 1)
    assert failure(thin, "update_memory", memory_id=named, content="x")
    assert ids(thin, "gate code")[0] == "b"
    assert "e" not in ids(thin, "roof leaks")  # superseded
    wanted = sorted(fleet.server.state())
    assert len(wanted) == 605
    eventually(lambda: sum(full.status()["memories"].values()) == 605)
    assert imported(full, first)["added"] == 0
    assert thin.status()["memories"] == {}  # nothing of it stayed in RAM


def test_what_needs_all_memories_is_refused(fleet: Fleet) -> None:
    for tool, arguments in (
        ("list_projects", {}),
        ("list_memories", {"order": "oldest"}),
        ("forget_memories", {"memory_type": "fact"}),
        ("read_notes", {}),
        ("overview", {}),
        ("export_memories", {}),
    ):
        assert "needs_full_index" in failure(fleet.thin, tool, **arguments), tool
    assert fleet.thin.tool("search_memories", query="anything")["results"] == []


PRIVATE: dict[str, Any] = {"metadata": {"audience": "private"}}


def test_private_memories_stay_here_and_are_found_with_the_others(fleet: Fleet) -> None:
    thin, full = fleet.thin, fleet.full
    shared = stored(thin, "The tea in the kitchen is green.")
    mine = stored(thin, "My tea is in the drawer.", **PRIVATE)
    assert list(fleet.server.state()) == [shared]
    assert sorted(ids(thin, "tea")) == sorted([shared, mine])
    assert ids(thin, "tea", metadata={"audience": "private"}) == [mine]
    assert texts(thin) == ["My tea is in the drawer.", "The tea in the kitchen is green."]
    eventually(lambda: ids(full, "tea") == [shared])
    # The same fact is one memory within an audience only.
    assert stored(thin, "My tea is in the drawer.") != mine
    assert thin.tool("store_memory", content="My tea is in the drawer.", **PRIVATE)["duplicate"]
    thin.tool("update_memory", memory_id=mine, content="My tea is at work.")
    thin.stop()
    thin.start()
    assert thin.tool("read_memory", memory_id=mine)["content"] == "My tea is at work."
    assert thin.tool("forget_memory", memory_id=mine)["success"]
    assert mine not in ids(thin, "tea")


def test_the_server_is_not_asked_about_private_memories(fleet: Fleet, tmp_path: Path) -> None:
    """Neither for texts that may be there already, nor by id or name; whatever it stores."""
    link = Link(fleet.server.port, keep_sent=True)
    settings = fleet.full.settings | {"MEMORYD_STORE_PORT": str(link.port)}
    thin = ForkedDaemon(tmp_path / "asking", MEMORYD_SEARCH_INDEX="remote", **settings).start()
    try:
        stored(thin, "The mill is old.", name="mill")
        mine = stored(thin, "The heron sleeps.", name="reeds", **PRIVATE)
        stored(thin, "The heron sleeps standing.", name="reeds", **PRIVATE)
        stored(thin, "The heron sleeps again.", name="reeds")  # replaces it, so it is private
        again = stored(thin, "A heron eats frogs.", **PRIVATE)
        back = stored(thin, "The weir is open.")
        taken: dict[str, Any] = {"content": "The kingfisher nests.", "name": "bank"}
        thin.tool("update_memory", memory_id=back, **taken, **PRIVATE)
        thin.tool("update_memory", memory_id=mine, content="The heron is awake.")
        thin.tool("update_memory", memory_id="reeds", name="rushes")
        thin.tool("read_memory", memory_id="rushes")
        thin.tool("working_memory", content="Watch the heron.")
        assert imported(thin, private_export(tmp_path / "export"))["added"] == 1
        for id in (mine, again, "heron-export"):
            assert thin.tool("forget_memory", memory_id=id)["success"]
    finally:
        thin.stop()
        link.cut()
    assert link.sent is not None
    sent = link.sent.decode("latin-1")
    assert "The mill is old." in sent
    for word in ("heron", "reeds", "rushes", "frogs", "kingfisher", "bank", mine, again):
        assert word not in sent, word


def private_export(path: Path) -> Path:
    memory: dict[str, Any] = {"id": "heron-export", "type": "fact", "name": "reeds2"}
    memory |= {"content": "The heron is grey.", "metadata": {"audience": "private"}}
    with path.open("wb") as file:
        writer = Writer(file, Header(count=1))
        writer.memory(memory | {"created_at": time.time(), "expires_at": None})
        writer.end()
    return path


def test_a_team_memory_is_found_under_a_name_that_a_private_one_has_too(fleet: Fleet) -> None:
    thin = fleet.thin
    team: dict[str, Any] = {"name": "code", "metadata": {"audience": "team"}}
    first = stored(thin, "The code is 1.", **team)
    stored(thin, "The code is 2.", name="code", **PRIVATE)
    assert stored(thin, "The code is 3.", **team) == first
    assert len(texts(thin)) == 2


def test_a_memory_moves_between_the_stores(fleet: Fleet) -> None:
    thin = fleet.thin
    id = stored(thin, "The key is under the mat.", name="key", **PRIVATE)
    assert fleet.server.state() == {}
    thin.tool("update_memory", memory_id="key", metadata={"audience": "team"})
    assert list(fleet.server.state()) == [id]
    assert ids(thin, "key") == [id]
    thin.tool("update_memory", memory_id="key", metadata={"audience": "private"})
    assert fleet.server.state() == {}
    assert ids(thin, "key") == [id]
    assert len(texts(thin)) == 1


def test_a_name_of_the_team_and_a_private_one_stay_two_memories(fleet: Fleet) -> None:
    thin = fleet.thin
    team = stored(thin, "The code is 1.", name="code", metadata={"audience": "team"})
    mine = stored(thin, "The code is 2.", name="code", **PRIVATE)
    assert team != mine
    assert thin.tool("read_memory", memory_id="code")["id"] == mine
    assert sorted(texts(thin)) == ["The code is 1.", "The code is 2."]
    assert list(fleet.server.state()) == [team]


def test_what_nobody_asked_to_store_is_private(fleet: Fleet) -> None:
    thin = fleet.thin
    thin.tool("working_memory", content="Repair the pump.")
    assert fleet.server.state() == {}
    assert thin.tool("working_memory")["content"] == "Repair the pump."


def test_private_memories_are_backed_up_and_purged(fleet: Fleet) -> None:
    thin = fleet.thin
    stored(thin, "The boat is red.")
    gone = stored(thin, "The car is blue.", **PRIVATE)
    kept = stored(thin, "The bike is green.", **PRIVATE)
    made = thin.tool("backup")
    assert made["memories"] == 2
    thin.tool("forget_memory", memory_id=gone)
    assert "not_embedded" in failure(thin, "purge")  # the files here are, those of the server not
    held = [path.read_bytes() for path in (thin.folder / "store").rglob("*") if path.is_file()]
    assert not any(b"The car is blue." in data for data in held)
    assert thin.tool("read_memory", memory_id=kept)["content"] == "The bike is green."


def test_without_the_server_private_memories_are_served(fleet: Fleet) -> None:
    thin = fleet.thin
    id = stored(thin, "The tea is green.", name="tea")
    mine = stored(thin, "My tea is black.", name="mine", **PRIVATE)
    fleet.server.stop()
    for _ in range(2):
        found = thin.tool("search_memories", query="tea", min_score=0.0)
        assert [hit["id"] for hit in found["results"]] == [mine]
        assert any("Only private memories" in warning for warning in found["warnings"])
        assert "words only" not in "".join(found["warnings"])  # they have vectors here
        assert texts(thin) == ["My tea is black."]
        assert "store_offline" in failure(thin, "store_memory", content="The tea is black.")
        for known in (id, "tea"):
            assert "store_offline" in failure(thin, "forget_memory", memory_id=known)
        assert thin.tool("update_memory", memory_id="mine", content="My tea is hot.")["changed"]
        assert stored(thin, "A", name="a", **PRIVATE)
        assert stored(thin, "B", name="a")  # the private one
        assert thin.tool("forget_memory", memory_id="a")["success"]
        thin.tool("update_memory", memory_id="mine", content="My tea is black.")
        assert "The Chroma server" in thin.status()["shared_store"]["trouble"]
        thin.stop()
        thin.start()
    asyncio.run(fleet.server.start())
    eventually(lambda: sorted(ids(thin, "tea")) == sorted([id, mine]))
    assert list(fleet.server.state()) == [id]
    eventually(lambda: thin.status()["shared_store"]["trouble"] is None)


def test_a_server_that_hangs_does_not_hold_up_searches(fleet: Fleet) -> None:
    thin = fleet.thin
    stored(thin, "The tea is green.")
    mine = stored(thin, "My tea is black.", **PRIVATE)
    assert fleet.server.process is not None
    fleet.server.process.send_signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        assert ids(thin, "tea") == [mine]
        assert time.monotonic() - began < 20  # a request to a server waits for 25 s
        assert ids(thin, "tea") == [mine]
    finally:
        fleet.server.process.send_signal(signal.SIGCONT)
    eventually(lambda: len(ids(thin, "tea")) == 2)
