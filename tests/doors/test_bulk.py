"""Memories that are named one by one, on a real daemon: tag, set, forget and export them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.daemons import Daemon, ForkedDaemon


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("bulk") / "data"
    running = ForkedDaemon(folder, MEMORYD_DOORS_TOOLSETS="all").start()
    yield running
    assert running.stop() == 0, running.log.read_text()


@pytest.fixture
def three(owner: Daemon, request: pytest.FixtureRequest) -> list[str]:
    """Three facts, the first of them with a tag."""
    name = request.node.name
    tagged = {"metadata": {"tags": ["old"]}}
    given: list[dict[str, Any]] = [tagged, {}, {}]
    return [
        owner.tool("store_memory", content=f"{name} {number}", **one)["id"]
        for number, one in enumerate(given)
    ]


def error(owner: Daemon, name: str, /, **arguments: Any) -> Any:
    answer = owner.call("tools/call", name=name, arguments=arguments)
    assert answer["isError"], answer
    return answer["_meta"]["memoryd/error"]["code"]


def tags(owner: Daemon, id: str) -> list[str]:
    found: list[str] = owner.tool("read_memory", memory_id=id)["metadata"].get("tags", [])
    return found


def outcomes(answer: Any) -> list[str]:
    return [one["outcome"] for one in answer["outcomes"]]


def test_tags_are_added_and_removed(owner: Daemon, three: list[str]) -> None:
    """Each memory has its outcome, a preview tells the same and writes nothing."""
    asked = {"memory_ids": [*three[:2], "nobody"], "add": ["new"], "remove": ["old"]}
    before = [owner.tool("read_memory", memory_id=id) for id in three]
    preview = owner.tool("tag_memories", **asked, dry_run=True)
    assert [owner.tool("read_memory", memory_id=id) for id in three] == before
    done = owner.tool("tag_memories", **asked)
    assert outcomes(preview) == outcomes(done) == ["changed", "changed", "missing"]
    assert (done["changed"], done["missing"], done["refused"]) == (2, 1, 0)
    assert [tags(owner, id) for id in three] == [["new"], ["new"], []]
    again = owner.tool("tag_memories", **asked)
    assert outcomes(again) == ["unchanged", "unchanged", "missing"]
    owner.tool("tag_memories", memory_ids=three, remove=["new"])
    assert [tags(owner, id) for id in three] == [[], [], []]


def test_fields_are_set_and_cleared(owner: Daemon, three: list[str]) -> None:
    """Type, kind, project and pin of many; what a memory refuses is told for it alone."""
    owner.tool("edit_notes", action="add", name="A note", content="It stays one.")
    fields = {"kind": "pattern", "project": "bulk", "pinned": True}
    done = owner.tool("set_memories", memory_ids=[*three, "A note"], **fields)
    assert outcomes(done) == ["changed", "changed", "changed", "refused"]
    assert done["outcomes"][3]["error"]["code"] == "note_invalid"
    found = owner.tool("read_memory", memory_id=three[0])
    assert (found["metadata"]["kind"], found["metadata"]["project"]) == ("pattern", "bulk")
    assert found["metadata"]["tags"] == ["old"]
    assert found["pinned"]
    done = owner.tool("set_memories", memory_ids=three[:1], clear=["kind", "project"], pinned=False)
    assert done["changed"] == 1
    found = owner.tool("read_memory", memory_id=three[0])
    assert found["metadata"].keys().isdisjoint({"kind", "project"})
    preview = owner.tool("set_memories", memory_ids=three, memory_type="context", dry_run=True)
    assert preview["changed"] == 3
    assert owner.tool("read_memory", memory_id=three[1])["type"] == "fact"


def test_named_memories_are_read_in_their_order(owner: Daemon, three: list[str]) -> None:
    found = owner.tool("read_memories", memory_ids=[three[2], "nobody", three[0]])
    assert [memory["id"] for memory in found["memories"]] == [three[2], three[0]]
    assert found["missing"] == ["nobody"]


def test_forget_by_ids(owner: Daemon, three: list[str]) -> None:
    """A preview counts and forgets nothing; then exactly these are gone."""
    asked = [*three[:2], three[0], "nobody"]
    preview = owner.tool("forget_by_ids", memory_ids=asked, dry_run=True)
    assert (preview["matched"], preview["forgotten"], preview["missing"]) == (2, 0, 1)
    assert preview["types"] == {"fact": 2}
    done = owner.tool("forget_by_ids", memory_ids=asked)
    assert (done["forgotten"], done["missing"]) == (2, 1)
    assert error(owner, "read_memory", memory_id=three[0]) == "not_found"
    assert owner.tool("read_memory", memory_id=three[2])["id"] == three[2]
    assert owner.tool("forget_by_ids", memory_ids=three[:2])["forgotten"] == 0


@pytest.mark.parametrize("format", ["jsonl", "json", "md", "claude-md"])
def test_export_of_a_selection(owner: Daemon, three: list[str], format: str) -> None:
    """Every format has all that were selected, and what it says can be imported again."""
    made = owner.tool("export_selection", memory_ids=[*three, "nobody"], format=format)
    assert (made["memories"], made["missing"]) == (3, ["nobody"])
    preview = owner.tool("import_preview", name=made["file_name"], text=made["text"])
    assert preview["memories"] == 3
    if format == "jsonl":
        lines = [json.loads(line) for line in made["text"].splitlines()]
        assert [line["id"] for line in lines[1:-1]] == three


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("tag_memories", {"memory_ids": ["a"]}, "tags_missing"),
        ("tag_memories", {"memory_ids": ["a"], "add": "red"}, "tags_invalid"),
        ("tag_memories", {"memory_ids": ["a"], "add": [1]}, "field_invalid"),
        ("tag_memories", {"memory_ids": [], "add": ["red"]}, "memory_ids_invalid"),
        ("tag_memories", {"memory_ids": ["a"] * 1001, "add": ["red"]}, "memory_ids_invalid"),
        ("set_memories", {"memory_ids": ["a"]}, "update_empty"),
        ("set_memories", {"memory_ids": ["a"], "memory_type": "poem"}, "type_unknown"),
        ("set_memories", {"memory_ids": ["a"], "kind": "Not a kind"}, "field_invalid"),
        ("set_memories", {"memory_ids": ["a"], "clear": ["tags"]}, "clear_invalid"),
        ("read_memories", {"memory_ids": ["a"] * 1001}, "memory_ids_invalid"),
        ("forget_by_ids", {"memory_ids": "a"}, "memory_ids_invalid"),
        ("forget_by_ids", {"memory_ids": ["a"], "dry_run": 1}, "dry_run_invalid"),
        ("export_selection", {"memory_ids": ["a"], "format": "pdf"}, "format_unknown"),
    ],
)
def test_bad_input(owner: Daemon, name: str, arguments: dict[str, Any], code: str) -> None:
    """A clear error, and nothing is done."""
    assert error(owner, name, **arguments) == code
