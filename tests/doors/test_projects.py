"""The project of a connection, at every door; and that pushes are strict."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import mcp.types as types
import pytest
from mcp import Client, StdioServerParameters

from tests.checkouts import checkout
from tests.daemons import INITIALIZE, Daemon, Lines
from tests.doors.clients import over_http
from tests.processes import environment

A, B = "acme/app", "acme/site"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


@asynccontextmanager
async def shim(
    daemon: Daemon,
    home: Path,
    folder: Path,
    *flags: str,
    roots: Any = None,
    era: str = "legacy",
    **variables: str,
) -> AsyncIterator[Client]:
    """The MCP client behind a real shim that runs in a folder."""
    kept = {k: v for k, v in environment().items() if k != "MEMORYD_PROJECT"}
    started = StdioServerParameters(
        command=sys.executable,
        args=["-m", "memoryd", *daemon.flags, "mcp", "--tools", "all", *flags],
        env=kept | {"HOME": str(home)} | variables,
        cwd=str(folder),
    )
    async with Client(started, mode=era, list_roots_callback=roots) as client:
        yield client


async def stored_in(client: Client, **options: Any) -> str | None:
    """The project that a memory is stored into."""
    given = {"content": f"a fact {uuid4()}", **options}
    answer = await client.call_tool("store_memory", given)
    assert answer.structured_content is not None, answer
    project: str | None = answer.structured_content["metadata"].get("project")
    return project


async def test_a_shim_in_a_checkout_has_its_project(daemon: Daemon, home: Path) -> None:
    """Two clones of one repository are one project, in any of their folders."""
    one = checkout(home / "one", "git@example.com:acme/app.git")
    two = checkout(home / "b" / "two", "https://example.com/acme/app")
    below = two / "src"
    below.mkdir()
    for folder in (one, below):
        async with shim(daemon, home, folder) as client:
            assert await stored_in(client) == A
    async with shim(daemon, home, checkout(home / "work" / "site")) as client:
        assert await stored_in(client) == "~/work/site"
        assert await stored_in(client, shared=True) is None
        assert await stored_in(client, metadata={"kind": "preference"}) is None
        assert await stored_in(client, metadata={"project": B}) == B
        listed = (await client.call_tool("list_projects", {})).structured_content
        assert listed is not None
        assert listed["own"] == "~/work/site"
        assert {"~/work/site", A, B, None} <= {facts["project"] for facts in listed["projects"]}


async def test_a_shim_at_home_has_no_project(daemon: Daemon, home: Path) -> None:
    checkout(home, "git@example.com:me/dotfiles")
    for folder in (home, Path("/")):
        async with shim(daemon, home, folder) as client:
            assert await stored_in(client) is None


async def test_a_given_project_wins_and_an_empty_one_is_none(daemon: Daemon, home: Path) -> None:
    folder = checkout(home / "app", "git@example.com:acme/app.git")
    async with shim(daemon, home, folder, "--project", B) as client:
        assert await stored_in(client) == B
    async with shim(daemon, home, folder, MEMORYD_PROJECT=B) as client:
        assert await stored_in(client) == B
    for flags, variables in ((["--project", ""], {}), ([], {"MEMORYD_PROJECT": ""})):
        async with shim(daemon, home, folder, *flags, **variables) as client:
            assert await stored_in(client) is None


async def test_a_project_that_cannot_be_one_is_an_error_of_the_call(
    daemon: Daemon, home: Path
) -> None:
    async with shim(daemon, home, home, "--project", "a\u200bb") as client:
        answer = await client.call_tool("search_memories", {"query": "x"})
        assert answer.is_error
        assert "project_invalid" in answer.content[0].text  # type: ignore[union-attr]


def told(*folders: Path) -> Any:
    """A client that has these roots; `asked` counts how often it was asked."""

    async def roots(ctx: Any) -> types.ListRootsResult:
        roots.asked += 1  # type: ignore[attr-defined]
        found = [types.Root(uri=folder.as_uri()) for folder in folders]  # type: ignore[arg-type]
        return types.ListRootsResult(roots=found)

    roots.asked = 0  # type: ignore[attr-defined]
    return roots


async def test_the_roots_of_a_client_come_before_the_working_directory(
    daemon: Daemon, home: Path
) -> None:
    """The first that is in a checkout; they are asked for once."""
    site = checkout(home / "with space" / "site", "git@example.com:acme/site.git")
    app = checkout(home / "app", "git@example.com:acme/app.git")
    roots = told(home, site)
    async with shim(daemon, home, app, roots=roots) as client:
        assert [await stored_in(client) for _ in range(3)] == [B, B, B]
    assert roots.asked == 1
    async with shim(daemon, home, app, roots=told(home)) as client:
        assert await stored_in(client) == A
    given = told(site)
    async with shim(daemon, home, app, "--project", "", roots=given) as client:
        assert await stored_in(client) is None
    assert given.asked == 0


async def test_new_roots_are_asked_for_again(daemon: Daemon, home: Path) -> None:
    roots = told(checkout(home / "site", "git@example.com:acme/site.git"))
    async with shim(daemon, home, home, roots=roots) as client:
        assert await stored_in(client) == B
        changed = types.RootsListChangedNotification()
        await client.session.send_notification(changed)
        assert await stored_in(client) == B
    assert roots.asked == 2


def test_a_client_that_does_not_tell_its_roots_is_served(daemon: Daemon) -> None:
    """It says that it has roots and never answers: only the first call waits for them."""
    with Lines(daemon.connect()) as lines:
        lines.send(project_note(A, given=False))
        hello = INITIALIZE | {"capabilities": {"roots": {}}}
        lines.call("initialize", **hello)
        lines.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        for _ in range(2):
            answer = lines.tool("store_memory", content=f"silent {uuid4()}")
            assert answer["structuredContent"]["metadata"] == {"project": A}


def project_note(name: object, *, given: bool = True) -> dict[str, Any]:
    params = {"project": name} | ({"given": True} if given else {})
    return {"jsonrpc": "2.0", "method": "notifications/memoryd/project", "params": params}


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_over_http_a_query_or_a_header_names_it(daemon: Daemon, token: str, era: str) -> None:
    async with over_http(daemon, token, era, f"/mcp?project={A}") as client:
        assert await stored_in(client) == A
    headers = {"Memoryd-Project": B}
    async with over_http(daemon, token, era, **headers) as client:
        assert await stored_in(client) == B
    async with over_http(daemon, token, era, "/mcp?project=", **headers) as client:
        assert await stored_in(client) is None


def test_one_call_can_name_its_project(daemon: Daemon) -> None:
    with Lines(daemon.connect()) as lines:
        lines.send(project_note(A))
        lines.open()
        arguments = {"content": f"by meta {uuid4()}"}
        meta = {"memoryd/project": B}
        answer = lines.call("tools/call", name="store_memory", arguments=arguments, _meta=meta)
        assert answer["structuredContent"]["metadata"] == {"project": B}


def test_a_client_cannot_pass_the_project_as_another(daemon: Daemon) -> None:
    """`own_project` is what the door says, never an argument."""
    answer = daemon.call(
        "tools/call", name="store_memory", arguments={"content": "x", "own_project": A}
    )
    assert answer["_meta"]["memoryd/error"]["code"] == "argument_unknown"


def test_each_result_names_its_project_and_the_own_comes_first(daemon: Daemon) -> None:
    ours = {"category": uuid4().hex}
    for name in (A, B):
        daemon.tool("store_memory", content="the port is 8080", metadata=ours | {"project": name})
    for own in (A, B):
        with Lines(daemon.connect()) as lines:
            lines.send(project_note(own))
            lines.open()
            found = lines.tool("search_memories", query="port", metadata=ours, explain=True)
            hits = found["structuredContent"]["results"]
        assert [hit["metadata"]["project"] for hit in hits] == [own, B if own == A else A]
        assert hits[0]["why"]["project"] > 0
    narrow = daemon.tool("search_memories", query="port", metadata=ours, project=B)
    assert [hit["metadata"]["project"] for hit in narrow["results"]] == [B]


def test_a_brief_is_of_the_own_project(daemon: Daemon) -> None:
    task = f"rewrite the importer {uuid4().hex}"
    stored = {
        name: daemon.tool(
            "store_memory",
            content=f"To {task} with threads failed in {name}",
            metadata={"kind": "dead_end", "project": name},
        )["id"]
        for name in (A, B)
    }
    for own, shown in ((A, [stored[A]]), (B, [stored[B]]), ("", [])):
        with Lines(daemon.connect()) as lines:
            lines.send(project_note(own))
            lines.open("all")
            found = lines.tool("brief", task=task)["structuredContent"]
        ids = [id for part in found["parts"] for id in part["ids"]]
        assert [id for id in ids if id in stored.values()] == shown


def test_a_window_never_shows_messages_of_another_project(daemon: Daemon) -> None:
    """The tool and the resource; the hint says that something is left out."""
    session = f"s {uuid4()}"
    for own in (A, B, ""):
        with Lines(daemon.connect()) as lines:
            lines.send(project_note(own))
            lines.open()
            turn = {"role": "user", "content": f"in {own}", "session_id": session}
            lines.tool("add_turn", **turn)
    for own, hidden in ((A, 1), (B, 1), ("", 2)):
        with Lines(daemon.connect()) as lines:
            lines.send(project_note(own))
            lines.open()
            tool = lines.tool("get_context", session_id=session)["structuredContent"]
            uri = f"memory://session/{session.replace(' ', '%20')}"
            read = lines.call("resources/read", uri=uri)["contents"][0]["text"]
        assert {m["content"] for m in tool["messages"]} == {f"in {own}", "in "}
        assert json.loads(read)["messages"] == tool["messages"]
        assert tool["hint"].startswith(f"{hidden} messages")


@pytest.mark.parametrize("name", ["rename_project", "merge_projects", "move_memories"])
async def test_an_agent_cannot_change_projects(daemon: Daemon, home: Path, name: str) -> None:
    async with shim(daemon, home, home) as client:
        answer = await client.call_tool(name, {})
        assert answer.is_error
        assert "not_local" in answer.content[0].text  # type: ignore[union-attr]


async def test_a_client_of_the_newest_protocol_is_not_asked_for_roots(
    daemon: Daemon, home: Path
) -> None:
    """From 2026-07-28 on a server cannot ask; the working directory decides."""
    app = checkout(home / "app", "git@example.com:acme/app.git")
    roots = told(checkout(home / "site", "git@example.com:acme/site.git"))
    async with shim(daemon, home, app, roots=roots, era="2026-07-28") as client:
        assert await stored_in(client) == A
    assert roots.asked == 0
