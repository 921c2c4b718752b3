"""`memoryd list`, `update`, `pin`, `unpin` and filters of other verbs, against a real daemon."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from memoryd.cli.main import main
from tests.daemons import Daemon

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    running = Daemon(tmp_path_factory.mktemp("manage") / "data").start()
    for n in range(5):
        metadata = {"n": n, "kind": "even" if n % 2 == 0 else "odd", "tags": [f"t{n}", "all"]}
        running.tool("store_memory", content=f"memory {n}", name=f"m{n}", metadata=metadata)
    running.tool("store_memory", content="we spoke", memory_type="conversation", name="talk")
    yield running
    assert running.stop() == 0, running.log.read_text()


def names(said: str) -> list[str]:
    return [memory.get("name") for memory in json.loads(said)["memories"]]


def test_a_list_is_shown_in_pages(run: Any) -> None:
    said = run("list", "--limit", "4", "--order", "oldest")
    assert re.findall(r"  (m\d|talk)\n", said) == ["m0", "m1", "m2", "m3"]
    assert "\n      memory 2\n" in said
    assert "\n4 of 6 memories.\n" in said
    [cursor] = re.findall(r"repeat this with --cursor (\S+)\n", said)
    said = run("list", "--limit", "4", "--order", "oldest", "--cursor", cursor)
    assert re.findall(r"  (m\d|talk)\n", said) == ["m4", "talk"]
    assert "--cursor" not in said
    assert "another filter or order" in run("list", "--cursor", cursor, fails=1)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--type", "conversation"], ["talk"]),
        (["--meta", "kind=odd"], ["m3", "m1"]),
        (["--meta", "tags=t2"], ["m2"]),
        (["--filter", '{"n": {"$gte": 3}}'], ["m4", "m3"]),
        (["--filter", '{"n": {"$gte": 3}}', "--meta", "kind=odd"], ["m3"]),
        (["--meta", 'n={"$lt": 1}'], ["m0"]),
        (["--filter", '{"$or": [{"n": 0}, {"n": {"$exists": false}}]}'], ["talk", "m0"]),
        (["--until", "2001-01-01"], []),
    ],
)
def test_a_list_has_what_its_filter_matches(run: Any, words: list[str], found: list[str]) -> None:
    assert names(run("list", *words, "--json")) == found


def test_a_search_without_a_query_needs_a_filter(run: Any) -> None:
    said = json.loads(run("search", "--meta", "kind=odd", "--json"))
    assert [hit["name"] for hit in said["results"]] == ["m3", "m1"]
    assert "give a filter" in run("search", fails=1)


def test_a_bad_filter_is_shown(run: Any) -> None:
    assert "metadata.n.$gtx is not an operator" in run(
        "list", "--filter", '{"n": {"$gtx": 3}}', fails=1
    )
    for wrong in ("{", "[1]", "n=3"):
        assert wrong in run("search", "x", "--filter", wrong, fails=2)


def test_an_export_and_a_forget_take_the_same_filters(run: Any) -> None:
    wanted = ["--filter", '{"n": {"$in": [1, 2]}, "tags": "all"}']
    lines = [json.loads(line) for line in run("export", *wanted).splitlines()]
    assert [line["name"] for line in lines[1:-1]] == sorted(
        ["m1", "m2"], key=lambda name: next(m["id"] for m in lines[1:-1] if m["name"] == name)
    )
    assert (lines[0]["count"], lines[-1]["count"]) == (2, 2)
    assert run("forget", *wanted, "--dry-run").startswith("Would forget 2 memories (2 fact).")
    assert "filter" in run("forget", "m1", *wanted, fails=1)


def test_an_update_changes_what_is_given(run: Any, daemon: Daemon) -> None:
    daemon.tool("store_memory", content="old", name="plan", metadata={"a": 1, "b": 2})
    said = run("update", "plan", "--content", "new", "--meta", "b=3", "--meta", "c=[1]")
    assert said.startswith("Updated fact ")
    found = json.loads(run("get", "plan", "--json"))
    assert (found["content"], found["metadata"]) == ("new", {"a": 1, "b": 3, "c": [1]})
    assert found["updated_at"] >= found["created_at"]
    assert "updated" in run("get", "plan")
    assert run("update", "plan", "--content", "new").startswith("Unchanged: fact ")
    done = json.loads(run("update", "plan", "--replace-metadata", "--meta", "d=1", "--json"))
    assert (done["changed"], done["metadata"]) == (True, {"d": 1})
    done = json.loads(run("update", "plan", "--meta", "d=null", "--json"))
    assert done["metadata"] == {}
    ends = ["--type", "conversation", "--expires-at", "2099-01-01T00:00:00Z"]
    done = json.loads(run("update", "plan", "--name", "plan b", *ends, "--json"))
    assert (done["type"], done["name"]) == ("conversation", "plan b")
    assert done["expires_at"].startswith(("2099-01-01", "2098-12-31"))
    run("update", "plan b", "--clear", "expires_at", "--clear", "name")
    found = json.loads(run("get", done["id"], "--json"))
    assert "name" not in found
    assert not found["expires_at"].startswith("2099")
    run("forget", done["id"])


def test_an_update_says_what_is_wrong(run: Any) -> None:
    assert "There is no memory 'nobody'" in run("update", "nobody", "--pinned", fails=1)
    assert "Nothing to change" in run("update", "m0", fails=1)
    assert "Another memory has the name" in run("update", "m0", "--name", "m1", fails=1)


def test_pin_and_unpin(run: Any, capsys: Capture, daemon: Daemon) -> None:
    assert ", kept until forgotten\n" in run("pin", "talk", "m0")
    assert json.loads(run("get", "talk", "--json"))["pinned"] is True
    said = run("unpin", "talk")
    assert re.search(r", kept until \d{4}-", said)
    assert "pinned" not in json.loads(run("get", "talk", "--json"))
    code = main(["pin", "nobody", "m1", "--json", "--socket", str(daemon.socket)])
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (code, first["error"]["code"], second["pinned"]) == (1, "not_found", True)


def test_a_chain_is_shown_oldest_first(run: Any) -> None:
    old = json.loads(run("store", "chain one", "--json"))["id"]
    new = json.loads(run("store", "chain two", "--meta", f'supersedes=["{old}"]', "--json"))["id"]
    chain = json.loads(run("chain", old, "--json"))
    assert [memory["id"] for memory in chain["memories"]] == [old, new]
    said = run("chain", new)
    assert said.index("chain one") < said.index("chain two")
    assert "There is no memory" in run("chain", "nobody", fails=1)
    assert old not in run("search", "chain", "--limit", "50")
    assert old in run("search", "chain", "--limit", "50", "--include-superseded")
