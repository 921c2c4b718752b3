"""Who sees what: real daemons of different owners on one real Chroma server."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest

from memoryd.cli.main import main
from scripts.bench.cluster import Server
from tests.chroma_seed import seed
from tests.daemons import Daemon, ForkedDaemon
from tests.engine.push.test_transcript import line
from tests.engine.push.test_transcript import text as answer
from tests.processes import free_port
from tests.test_cluster import eventually, failure, texts
from tests.test_takeover import taken

pytestmark = pytest.mark.slow
SECRET = "the blue heron nests behind the mill"
LONG = " ".join(f"{SECRET} {number}." for number in range(80))  # several passages
APP = {"project": "acme/app"}


class Team:
    """A Chroma server, and daemons on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        (folder / "chroma").mkdir()
        self.server = Server(folder / "chroma", self.port)
        self.daemons: list[Daemon] = []

    def daemon(self, owner: str, **settings: str) -> Daemon:
        """A daemon that is not started yet."""
        given = {"MODE": "http", "PORT": str(self.port), "POLL_SECONDS": "0.2", "OWNER": owner}
        given = {f"MEMORYD_STORE_{key}": value for key, value in (given | settings).items()}
        self.daemons.append(
            ForkedDaemon(self.folder / owner, MEMORYD_DOORS_TOOLSETS="all", **given)
        )
        return self.daemons[-1]

    def double(self, name: str) -> None:
        """Add a second memory with this name, as if two daemons had stored it at the same time."""
        client = chromadb.HttpClient(host="127.0.0.1", port=self.port)
        memories = client.get_collection("memories", embedding_function=None)
        found = memories.get(where={"memoryd:name": name}, include=["metadatas", "embeddings"])
        assert found["metadatas"] is not None
        assert found["embeddings"] is not None
        meta = dict(found["metadatas"][0]) | {"memoryd:clock": 10**6, "memoryd:revision": 5}
        vector: Any = np.asarray(found["embeddings"][0], dtype=np.float32)
        memories.add("f" * 20, [vector], [meta], ["the later one"])

    def raw(self) -> str:
        """Everything that the server has in its collections, as text."""
        client = chromadb.HttpClient(host="127.0.0.1", port=self.port)
        found = [
            collection.get(include=["documents", "metadatas", "embeddings"])
            for collection in client.list_collections()
        ]
        return repr(found)

    def files(self) -> bytes:
        """Every byte of the server's files."""
        return b"".join(p.read_bytes() for p in self.server.folder.rglob("*") if p.is_file())


@pytest.fixture
def team() -> Iterator[Team]:
    with tempfile.TemporaryDirectory(prefix="memoryd-test-") as name:
        made = Team(Path(name))
        asyncio.run(made.server.start())
        yield made
        for daemon in made.daemons:
            if daemon.process is not None:
                daemon.stop()
        made.server.stop()


def local_ids(daemon: Daemon) -> set[str]:
    """The ids in the store on the machine of a daemon that does not run."""
    path = daemon.folder / "store" / "chroma.sqlite3"
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        found = {id for (id,) in database.execute("SELECT embedding_id FROM embeddings")}
    return {id for id in found if "#" not in id}


def ids(daemon: Daemon) -> set[str]:
    return {memory["id"] for memory in daemon.tool("list_memories")["memories"]}


def test_what_is_private_never_gets_to_the_server(team: Team) -> None:
    """Neither text, vector, id, name, session, nor a note of its deletion; by no operation."""
    anna = team.daemon("anna", AUDIENCE="private").start()
    shared = anna.tool("store_memory", content="the mill is old", name="mill", audience="team")
    made = [
        anna.tool("store_memory", content=SECRET, name="heron", metadata={"place": "reed bed"}),
        anna.tool("store_memory", content=LONG),
        anna.tool("store_memory", content=f"{SECRET}!", metadata={"supersedes": [shared["id"]]}),
        anna.tool("add_turn", role="user", content=f"Remember: {SECRET}.", session_id="walk-7"),
        anna.tool("edit_notes", action="add", name="birds", content=SECRET),
    ]
    anna.tool("search_memories", query="heron mill")
    anna.tool("update_memory", memory_id="heron", content=f"{SECRET} indeed")
    anna.tool("store_memory", content=f"{SECRET} once more", name="heron")
    anna.tool("wake_session", session_id="walk-7")
    anna.tool("sleep_session", session_id="walk-7")
    anna.tool("forget_memory", memory_id=made[1]["id"])
    anna.tool("forget_memory", memory_id=made[2]["id"])
    anna.tool("update_memory", memory_id="mill", content="the mill is very old")
    assert anna.tool("search_memories", query="heron")["results"]
    anna.stop()
    raw, files = team.raw(), team.files()
    assert "the mill is very old" in raw
    for word in ("heron", "reed bed", "walk-7", "birds", *(m["id"] for m in made if "id" in m)):
        assert word not in raw
        assert word.encode() not in files
    assert len(team.server.state()) == 1


def test_by_default_what_a_call_stores_is_shared_and_nothing_else(
    team: Team, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two daemons that know only the server. What hooks take in stays on the machine, and so does
    what is made of it and of the messages that are shared."""
    anna, ben = team.daemon("anna").start(), team.daemon("ben").start()
    assert main(["store", "the mill is old", "--name", "mill", "--socket", str(anna.socket)]) == 0
    assert capsys.readouterr().out.endswith(", audience team\n")
    turn = anna.tool("add_turn", role="user", content="My bike is red.", session_id="tour")
    assert turn["metadata"]["audience"] == "team"
    eventually(lambda: set(texts(ben).values()) == {"the mill is old", "My bike is red."})
    hidden = ["store", SECRET, "--audience", "private", "--socket", str(anna.socket)]
    assert main(hidden) == 0
    assert capsys.readouterr().out.endswith(", audience private\n")
    anna.tool("wake_session", session_id="tour")
    anna.tool("sleep_session", session_id="tour")
    hooks = hooked(anna, tmp_path)
    anna.tool("update_memory", memory_id="mill", content="the mill is very old")
    eventually(lambda: texts(ben).get("mill") == "the mill is very old")
    anna.stop()
    assert hooks <= local_ids(anna)
    raw, files = team.raw(), team.files()
    for word in ("heron", "otter", *hooks):
        assert word not in raw
        assert word.encode() not in files
    assert len(team.server.state()) == 2


def hooked(daemon: Daemon, folder: Path) -> set[str]:
    """The ids of what a daemon has taken in from a transcript and from events, and made of it."""
    session = {"sessionId": "otter-talk"}
    said = (
        line("user", "I always feed the otter at noon.", "u1", **session),
        line("assistant", answer("The otter is fed."), "a1", **session),
    )
    transcript = folder / "transcript.jsonl"
    transcript.write_bytes(b"".join(one + b"\n" for one in said))
    prompt = {"session_id": "otter-questions", "prompt": "Where does the otter sleep at night?"}
    ended = {"session_id": "otter-talk", "transcript_path": str(transcript)}
    for client, event, told in (
        ("codex", "prompt", prompt),
        ("claude-code", "stop", ended),
        ("claude-code", "session-end", ended),
    ):
        payload = json.dumps(told)
        daemon.tool("hook", event=event, client=client, payload=payload, no_project=True)

    def of_hooks() -> list[Any]:
        found = daemon.tool("export_memories")["memories"]
        return [memory for memory in found if "otter" in json.dumps(memory)]

    def is_done() -> bool:
        kinds = [memory["metadata"].get("kind") for memory in of_hooks()]
        messages = [memory for memory in of_hooks() if "message_id" in memory["metadata"]]
        return "archive" in kinds and len(messages) == 3

    eventually(is_done)
    return {memory["id"] for memory in of_hooks()}


def switched(team: Team) -> Daemon:
    """A daemon that has one memory and a backup of two, from when its store was embedded."""
    anna = team.daemon("anna", MODE="embedded").start()
    anna.tool("store_memory", content=SECRET, name="heron")
    lost = anna.tool("store_memory", content=f"{SECRET} in May")["id"]
    anna.tool("backup")
    anna.tool("forget_memory", memory_id=lost)
    anna.stop()
    anna.settings["MEMORYD_STORE_MODE"] = "http"
    return anna.start()


def test_memories_from_before_the_switch_to_a_server_stay_private(team: Team) -> None:
    """Also if they are changed, or stored again under their names."""
    anna = switched(team)
    anna.tool("update_memory", memory_id="heron", content=f"{SECRET} indeed")
    again = anna.tool("store_memory", content=f"{SECRET} again", name="heron")
    assert again["metadata"]["audience"] == "private"
    assert "heron" not in team.raw()
    assert team.server.state() == {}


def test_a_restore_adds_private_memories(team: Team) -> None:
    """A backup that was made before there were audiences does not say that they are."""
    anna = switched(team)
    (backup,) = anna.tool("backups")["backups"][-1:]
    assert anna.tool("restore", path=backup["path"], confirm=True)["added"] == 1
    found = anna.tool("list_memories")["memories"]
    assert [memory["metadata"]["audience"] for memory in found] == ["private"] * 2
    assert team.server.state() == {}


def test_memories_that_are_taken_over_are_private(team: Team) -> None:
    """Nobody asked for it: they were in the data directory."""
    anna = team.daemon("anna")
    seed(anna.folder, [("m1", SECRET, {"type": "fact"})])
    anna.start()
    assert taken(anna)["added"] == 1
    assert [m["metadata"]["audience"] for m in anna.tool("list_memories")["memories"]] == [
        "private"
    ]
    assert team.server.state() == {}


def test_others_see_what_is_for_the_team_or_for_their_projects(team: Team) -> None:
    anna = team.daemon("anna").start()
    ben = team.daemon("ben", PROJECTS='["acme/app"]').start()
    cleo = team.daemon("cleo").start()
    anna.tool("store_memory", content="for anna", name="a", audience="private")
    of_team = anna.tool("store_memory", content="for all", name="t")
    hidden = anna.tool(
        "store_memory", content=f"for the app: {LONG}", name="p", audience="project", metadata=APP
    )
    assert of_team["metadata"] == {"owner": "anna", "audience": "team"}
    assert set(texts(anna)) == {"a", "t", "p"}
    eventually(lambda: set(texts(ben)) == {"t", "p"})
    eventually(lambda: set(texts(cleo)) == {"t"})
    cleo.tool("store_memory", content="cleo was here", audience="team")
    assert not cleo.tool("search_memories", query="heron nests mill", min_score=0)["results"][2:]
    for id in (hidden["id"], "p", "a"):
        assert "no memory" in failure(cleo, "update_memory", memory_id=id, content="x")
        assert not cleo.tool("forget_memory", memory_id=id)["success"]
        assert failure(cleo, "memory_chain", memory_id=id)
    status = cleo.status()
    assert sum(status["memories"].values()) == 2
    assert status["store"]["server"]["rows"] == 2
    assert [p["project"] for p in cleo.tool("list_projects")["projects"]] == [None]
    refused = failure(
        cleo,
        "store_memory",
        content="x",
        audience="team",
        metadata={"derived_from": [hidden["id"]]},
    )
    assert "does not exist" in refused
    # Found by owner and audience, by any filter.
    mine = ben.tool("list_memories", metadata={"owner": "anna", "audience": "project"})["memories"]
    assert [memory["id"] for memory in mine] == [hidden["id"]]


def test_who_loses_the_sight_of_a_memory_loses_it_at_once(team: Team) -> None:
    anna, ben = team.daemon("anna").start(), team.daemon("ben").start()
    id = anna.tool("store_memory", content="a plan", audience="team", metadata=APP)["id"]
    eventually(lambda: ids(ben) == {id})
    anna.tool("update_memory", memory_id=id, audience="project")
    eventually(lambda: ids(ben) == set())
    assert ids(anna) == {id}
    anna.tool("update_memory", memory_id=id, audience="team")
    eventually(lambda: ids(ben) == {id})
    anna.tool("update_memory", memory_id=id, audience="private", content="my plan")
    eventually(lambda: ids(ben) == set())
    assert team.server.state() == {}
    assert anna.tool("list_memories")["memories"][0]["content"] == "my plan"
    anna.stop()
    assert local_ids(anna) == {id}


def test_all_correct_and_forget_but_only_the_owner_decides_who_sees(team: Team) -> None:
    anna, ben = team.daemon("anna").start(), team.daemon("ben", PROJECTS='["*"]').start()
    for name, audience in (("t", "team"), ("p", "project")):
        anna.tool("store_memory", content=name, name=name, audience=audience, metadata=APP)
    eventually(lambda: set(texts(ben)) == {"t", "p"})
    for change in ({"audience": "private"}, {"metadata": {"audience": "private"}}):
        assert "not_owner" in failure(ben, "update_memory", memory_id="t", **change)
    assert "not_owner" in failure(ben, "update_memory", memory_id="p", audience="team")
    moved = {"project": "acme/web"}
    assert "not_owner" in failure(ben, "update_memory", memory_id="p", metadata=moved)
    for who in (anna, ben):
        taken = {"metadata": {"owner": "ben"}}
        assert "owner_invalid" in failure(who, "update_memory", memory_id="t", **taken)
    assert "owner_invalid" in failure(ben, "store_memory", content="x", metadata={"owner": "anna"})
    done = ben.tool(
        "update_memory", memory_id="t", content="corrected", metadata={}, replace_metadata=True
    )
    assert done["metadata"] == {"owner": "anna", "audience": "team"}
    eventually(lambda: texts(anna)["t"] == "corrected")
    assert ben.tool("forget_memory", memory_id="p")["success"]
    eventually(lambda: set(texts(anna)) == {"t"})


def test_a_name_of_someone_else_changes_nothing(team: Team) -> None:
    """A private text does not get to the team because the team has a memory of its name."""
    anna, ben = (team.daemon(owner, AUDIENCE="private").start() for owner in ("anna", "ben"))
    ben.tool("store_memory", content="ben's list", name="todo", audience="team")
    eventually(lambda: "todo" in texts(anna))
    mine = anna.tool("store_memory", content=SECRET, name="todo")
    assert (mine["metadata"]["audience"], mine["replaced"]) == ("private", False)
    assert {text for _, text in team.server.state().values()} == {"ben's list"}
    assert anna.tool("forget_memory", memory_id="todo")["id"] == mine["id"]  # the private one first
    # A name of one's own keeps its audience, also if it is stored again.
    anna.tool("store_memory", content="one", name="plan", audience="team")
    assert anna.tool("store_memory", content="two", name="plan")["metadata"]["audience"] == "team"
    # Two projects may use one name, and nobody removes that of the other.
    for owner, project in ((anna, "acme/app"), (ben, "acme/web")):
        given = {"name": "deploy", "audience": "project", "metadata": {"project": project}}
        owner.tool("store_memory", content=f"how {project} is deployed", **given)
    cleo = team.daemon("cleo", PROJECTS='["*"]').start()
    team.double("todo")  # within one audience the older one is removed: wait for that
    eventually(lambda: [name for name, _ in team.server.state().values()].count("todo") == 1)
    assert len(cleo.tool("list_memories", metadata={"audience": "project"})["memories"]) == 2
    assert len(team.server.state()) == 4


def test_without_the_server_private_memories_are_served_and_stored(team: Team) -> None:
    """Also by a daemon that starts then."""
    anna, ben = (team.daemon(owner, AUDIENCE="private").start() for owner in ("anna", "ben"))
    ben.tool("store_memory", content="the mill is old", name="mill", audience="team")
    anna.tool("store_memory", content=SECRET, name="heron")
    eventually(lambda: set(texts(anna)) == {"heron", "mill"})
    team.server.stop()
    for step in ("running", "started"):
        if step == "started":
            anna.stop()
            anna.start()
        assert "store_offline" in failure(anna, "store_memory", content="x", audience="team")
        shares = failure(anna, "update_memory", memory_id="heron", audience="team")
        assert "store_offline" in shares
        stored = anna.tool("store_memory", content=f"{SECRET} {step}", name="heron")
        assert stored["metadata"]["audience"] == "private"
        found = anna.tool("search_memories", query="heron nests")["results"]
        assert found[0]["content"] == f"{SECRET} {step}"
        assert anna.status()["store"]["error"]["code"] == "store_offline"
    anna.tool("store_memory", content="to be forgotten", name="brief")
    assert anna.tool("forget_memory", memory_id="brief")["success"]
    assert set(texts(anna)) == {"heron", "mill"}
    asyncio.run(team.server.start())
    eventually(lambda: not anna.status()["shared_store"]["trouble"], seconds=60)
    anna.tool("update_memory", memory_id="heron", audience="team")
    eventually(lambda: set(texts(ben)) == {"heron", "mill"})


def test_a_kill_during_a_move_loses_nothing(team: Team) -> None:
    """Afterwards the memory is in one place, as it was before or after."""
    anna = team.daemon("anna", AUDIENCE="private").start()
    id = anna.tool("store_memory", content="version 0", name="v")["id"]
    chance, content = random.Random(11), {"version 0"}
    for number in range(1, 9):
        to = "team" if number % 2 else "private"
        new = f"version {number}"
        content.add(new)

        def move(to: str = to, new: str = new) -> None:
            with suppress(Exception):
                anna.tool("update_memory", memory_id=id, audience=to, content=new)

        mover = threading.Thread(target=move)
        mover.start()
        time.sleep(chance.random() * 0.08)
        anna.stop(signal.SIGKILL)
        mover.join()
        anna.start()
        shown: list[Any] = anna.tool("list_memories")["memories"]
        assert [memory["id"] for memory in shown] == [id]
        assert shown[0]["content"] in content
        on_server = team.server.state()
        assert (id in on_server) == (shown[0]["metadata"]["audience"] == "team")
        anna.stop()
        assert (id in local_ids(anna)) != (id in on_server)
        anna.start()
