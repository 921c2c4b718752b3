"""The memory tool over notes, against a real daemon; and its answers beside those of the tool in
Anthropic's SDK, if that is installed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool

from memoryd.client import AsyncMemoryTool, Client, MemoryTool, MemoryToolError, SyncClient
from memoryd.errors import DaemonUnavailable
from tests.daemons import Daemon, ForkedDaemon

ROOT = "/memories"
NOTES = f"{ROOT}/notes.md"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    running = ForkedDaemon(tmp_path_factory.mktemp("memory-tool")).start()
    yield running
    assert running.stop() == 0


@pytest.fixture
def client(daemon: Daemon) -> Iterator[SyncClient]:
    daemon.tool("forget_where", everything=True)
    with SyncClient(daemon.socket) as client:
        yield client


@pytest.fixture
def tool(client: SyncClient) -> MemoryTool:
    return MemoryTool(client)


def command(name: str, path: str | None = None, **given: Any) -> dict[str, Any]:
    return {"command": name} | ({} if path is None else {"path": path}) | given


def create(path: str, text: str) -> dict[str, Any]:
    return command("create", path, file_text=text)


def view(path: str, *lines: int) -> dict[str, Any]:
    return command("view", path, **({"view_range": list(lines)} if lines else {}))


def replace(path: str, old: str, new: str = "") -> dict[str, Any]:
    return command("str_replace", path, old_str=old, new_str=new)


def insert(path: str, line: int, text: str) -> dict[str, Any]:
    return command("insert", path, insert_line=line, insert_text=text)


def delete(path: str) -> dict[str, Any]:
    return command("delete", path)


def rename(old: str, new: str) -> dict[str, Any]:
    return command("rename", old_path=old, new_path=new)


# A session with every command, every success and every error, in an order that makes sense.
SCRIPT = [
    view(ROOT),
    view(f"{ROOT}/none.md"),
    create(NOTES, "one\ntwo\ntwo again\nfour\nfive\nsix\n"),
    create(NOTES, "x"),
    view(NOTES),
    view(NOTES, 2, 3),
    view(NOTES, 3, -1),
    view(NOTES, 0, 2),
    view(NOTES, 90, 99),
    replace(NOTES, "four", "4\nand a half"),
    replace(NOTES, "two", "2"),
    replace(NOTES, "missing", "2"),
    replace(f"{ROOT}/none.md", "a", "b"),
    replace(NOTES, "six"),
    view(NOTES),
    insert(NOTES, 0, "first\n"),
    insert(NOTES, 2, "third\nand more"),
    insert(NOTES, 99, "x"),
    insert(NOTES, -1, "x"),
    insert(f"{ROOT}/none.md", 0, "x"),
    view(NOTES),
    create(f"{ROOT}/empty.txt", ""),
    view(f"{ROOT}/empty.txt"),
    insert(f"{ROOT}/empty.txt", 0, "no longer"),
    view(f"{ROOT}/empty.txt"),
    create(f"{ROOT}/a/b/c/deep.md", "x" * 1536),
    create(f"{ROOT}/a/b.md", "y" * 1024),
    create(f"{ROOT}/a-1.md", "z" * 1100),
    create(f"{ROOT}/.hidden", "secret"),
    view(ROOT),
    view(f"{ROOT}/a"),
    view(f"{ROOT}/a/b/c/deep.md"),
    create(f"{ROOT}/a", "x"),
    replace(f"{ROOT}/a", "x", "y"),
    insert(f"{ROOT}/a", 0, "y"),
    rename(f"{ROOT}/a", f"{ROOT}/moved/here"),
    rename(f"{ROOT}/none.md", f"{ROOT}/other.md"),
    rename(NOTES, f"{ROOT}/a-1.md"),
    rename(NOTES, f"{ROOT}/moved/notes.md"),
    rename(ROOT, f"{ROOT}/x"),
    view(f"{ROOT}/moved"),
    view(NOTES),
    delete(NOTES),
    delete(ROOT),
    delete(f"{ROOT}/moved/here/b.md"),
    delete(f"{ROOT}/moved"),
    view(f"{ROOT}/./a-1.md"),
    view(f"{ROOT}/moved/../a-1.md"),
    view(f"{ROOT}/../etc/passwd"),
    create(f"{ROOT}/../../x", "x"),
    view("/etc/passwd"),
    view("memories/x"),
    delete(f"{ROOT}/x/../.."),
    rename(f"{ROOT}/a-1.md", f"{ROOT}/../x"),
    view(ROOT),
]


def answers(call: Any, error: type[Exception]) -> list[str]:
    """What the tool says to each command of the script. Directories have no size of their own in
    one of the tools, and that of their blocks on the disk in the other."""
    said = []
    for one in SCRIPT:
        try:
            said.append(call(one))
        except error as exc:
            said.append(f"Error: {exc}")
    return [
        re.sub(r"^\S+\t(\S*/|/memories(?:/a|/moved)?)$", r"-\t\1", text, flags=re.M)
        for text in said
    ]


def test_answers_are_those_of_the_sdk(tool: MemoryTool, tmp_path: Path) -> None:
    """Every success and every error, word for word."""
    theirs: Any = BetaLocalFilesystemMemoryTool(str(tmp_path))
    expected = answers(theirs.call, ToolError)
    for one, ours, sdk in zip(SCRIPT, answers(tool.call, MemoryToolError), expected, strict=True):
        assert ours == sdk, one
    assert tool.to_dict() == theirs.to_dict()


def test_answers_without_the_sdk(tool: MemoryTool) -> None:
    said = dict(zip(map(str, SCRIPT), answers(tool.call, MemoryToolError), strict=True))
    assert said[str(view(f"{ROOT}/none.md"))] == (
        "Error: The path /memories/none.md does not exist. Please provide a valid path."
    )
    assert said[str(view(NOTES, 2, 3))] == (
        "Here's the content of /memories/notes.md with line numbers:\n"
        "     2\ttwo\n     3\ttwo again"
    )
    assert said[str(replace(NOTES, "two", "2"))] == (
        "Error: No replacement was performed. Multiple occurrences of old_str `two` in lines: "
        "2, 3. Please ensure it is unique"
    )
    assert said[str(view(f"{ROOT}/../etc/passwd"))] == (
        "Error: Path /memories/../etc/passwd would escape /memories directory"
    )
    assert said[str(view(f"{ROOT}/a"))] == (
        "Here're the files and directories up to 2 levels deep in /memories/a, excluding hidden "
        "items:\n-\t/memories/a\n-\t/memories/a/b/\n-\t/memories/a/b/c/\n1K\t/memories/a/b.md"
    )
    assert said[str(delete(f"{ROOT}/moved"))] == "Successfully deleted /memories/moved"


def test_files_are_notes_that_a_search_finds(client: SyncClient, tool: MemoryTool) -> None:
    tool.call(create(f"{ROOT}/dock.md", "The charging dock is behind the kitchen door.\n"))
    assert client.search("charging dock")["results"][0]["name"] == "/memories/dock.md"
    assert client.notes.read("/memories/dock.md")["content"].endswith("door.\n")
    client.notes.add("a note of its own", "not a file")
    client.notes.add("/memories/archive.md", "kept", kind="archive")
    assert "own" not in tool.call(view(ROOT))
    tool.call(rename(f"{ROOT}/dock.md", f"{ROOT}/home/dock.md"))
    assert client.search("charging dock")["results"][0]["name"] == "/memories/home/dock.md"
    tool.call(delete(f"{ROOT}/home"))
    assert [note["name"] for note in client.notes.list(kind="note")["notes"]] == [
        "a note of its own"
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "Unknown command: None"),
        ({"command": "format"}, "Unknown command: format"),
        (command("view"), "The command view needs `path`."),
        (command("view", 5), "The command view needs `path`."),  # type: ignore[arg-type]
        (command("insert", NOTES, insert_line=True, insert_text="x"), "needs `insert_line`"),
        (create(f"{NOTES}/below", "x"), "is a file, not a directory"),
        (create(f"{ROOT}/{'x' * 300}", "x"), "characters"),
        (create(f"{ROOT}/a\0b", "x"), "without hidden characters"),
        (create(f"{ROOT}/large", "x" * 200_000), "at most"),
        (view(NOTES, 1, "x"), "whole numbers"),  # type: ignore[arg-type]
        (rename(f"{ROOT}/d", f"{ROOT}/d/e"), "into itself"),
        (replace(NOTES, ""), "did not appear verbatim"),
    ],
)  # fmt: skip
def test_what_the_model_gets_wrong_is_told(
    tool: MemoryTool, given: dict[str, Any], message: str
) -> None:
    tool.call(create(NOTES, "text"))
    tool.call(create(f"{ROOT}/d/file", "text"))
    with pytest.raises(MemoryToolError, match=message):
        tool.call(given)


def test_case_accents_and_spaces_at_the_ends_make_no_difference(tool: MemoryTool) -> None:
    """As with all notes: what a view finds by another spelling can be renamed and deleted by it."""
    tool.call(create(f"{ROOT}/Caf\u00e9/Plan.md", "Build."))
    assert tool.call(view(f"{ROOT}/cafe\u0301")).endswith(f"6B\t{ROOT}/cafe\u0301/Plan.md")
    assert tool.call(view(f"{ROOT}/cafe/plan.md ")).endswith("1\tBuild.")
    tool.call(rename(f"{ROOT}/cafe", f"{ROOT}/bar"))
    assert tool.call(delete(f"{ROOT}/BAR/PLAN.md")).endswith("PLAN.md")
    with pytest.raises(MemoryToolError, match="already exists"):
        tool.call(create(f"{ROOT}/ ", "nameless"))
    assert tool.call(view(ROOT)).endswith(f"0B\t{ROOT}")


@pytest.mark.parametrize("dots", ["\u2024\u2024", "\uff0e\uff0e", "\u2025", "x/\u2025\uff0f.."])
def test_characters_that_stand_for_dots_and_slashes_do_not_lead_out(
    tool: MemoryTool, dots: str
) -> None:
    """The name of a note is stored in its normal form, where these are plain ones."""
    for given in (create(f"{ROOT}/{dots}/etc", "x"), view(f"{ROOT}/{dots}/etc")):
        with pytest.raises(MemoryToolError, match="would escape"):
            tool.call(given)
    assert tool.call(view(ROOT)).endswith(f"0B\t{ROOT}")


def test_results_are_blocks_of_a_message(tool: MemoryTool, daemon: Daemon) -> None:
    block = SimpleNamespace(type="tool_use", id="t-1", name="memory", input=create(NOTES, "x"))
    content = f"File created successfully at: {NOTES}"
    assert tool.result(block) == {
        "type": "tool_result", "tool_use_id": "t-1", "content": content,
    }  # fmt: skip
    again = tool.result({"type": "tool_use", "id": "t-2", "input": create(NOTES, "x")})
    assert (again["is_error"], again["content"]) == (True, f"File {NOTES} already exists")


def test_the_async_tool(daemon: Daemon, client: SyncClient) -> None:
    async def use() -> str:
        async with Client(daemon.socket) as memory:
            tool = AsyncMemoryTool(memory)
            await tool.call(create(NOTES, "x"))
            return str((await tool.result({"id": "t", "input": view(NOTES)}))["content"])

    assert asyncio.run(use()).endswith("     1\tx")


def test_a_daemon_that_is_away_is_an_error_of_its_own(tmp_path: Path) -> None:
    daemon = ForkedDaemon(tmp_path).start()
    with SyncClient(daemon.socket) as client:
        tool = MemoryTool(client)
        tool.call(create(NOTES, "x"))
        assert daemon.stop() == 0
        with pytest.raises(DaemonUnavailable):
            tool.call(view(NOTES))
        assert tool.result({"id": "t", "input": view(NOTES)})["is_error"]
