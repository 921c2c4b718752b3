"""The verbs `ask` and `map` on a real daemon."""

from __future__ import annotations

import base64
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memoryd.cli.map_svg import drawing
from memoryd.client.insight import MapLabel, MemoryMap
from tests.daemons import Daemon, ForkedDaemon

FACT = "The billing service uses the database Postgres."
QUESTION = "Which database does the billing service use?"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    running = ForkedDaemon(tmp_path_factory.mktemp("insight") / "data").start()
    running.tool("store_memory", content=FACT, metadata={"project": "billing & <co>"})
    for number in range(20):
        running.tool("store_memory", content=f"violin concert {number}")
        running.tool("store_memory", content=f"orchard apples harvest {number}")
    yield running
    assert running.stop() == 0, running.log.read_text()


def test_ask_shows_the_answer_and_its_sources(run: Any) -> None:
    answer, gap, source, passage = run("ask", *QUESTION.split()).splitlines()
    assert (answer, gap) == (f"{FACT} [1]", "")
    assert re.match(r"\[1\]  [01]\.\d\d  fact  20\S+  [0-9a-f]{20}  \[billing & <co>\]", source)
    assert passage.strip() == FACT


def test_ask_says_when_memory_holds_nothing(run: Any) -> None:
    said = run("ask", "Who won the chess tournament in Reykjavik?")
    assert said.startswith("Memory holds nothing that answers this.")


def test_ask_takes_a_filter_and_answers_in_json(run: Any) -> None:
    found = json.loads(run("ask", QUESTION, "--project", "billing & <co>", "--json"))
    assert found["known"] is True
    assert json.loads(run("ask", QUESTION, "--project", "other", "--json"))["known"] is False


def test_ask_needs_a_question(run: Any) -> None:
    assert "QUESTION is missing." in run("ask", fails=2)


def test_map_shows_the_groups(run: Any) -> None:
    *groups, total = run("map").splitlines()
    assert total == f"41 memories in {len(groups)} groups."
    assert any("violin" in group for group in groups)
    assert any("apples" in group for group in groups)


def test_map_in_json_has_no_points(run: Any) -> None:
    found = json.loads(run("map", "--json"))
    assert found["count"] == 41
    assert "points" not in found


@pytest.mark.parametrize("colour", ["type", "kind", "project", "age"])
def test_map_draws_an_svg_that_stands_alone(run: Any, tmp_path: Path, colour: str) -> None:
    file = tmp_path / "map.svg"
    assert "Drew 41 memories" in run("map", "--svg", str(file), "--colour", colour)
    text = file.read_text()
    root = ElementTree.fromstring(text)  # well-formed, whatever a project is called
    assert text.count("h0") >= 41
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"href|url\(|<script|@import", text)
    shown = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert any("violin" in text for text in shown)
    assert colour != "project" or "billing & <co>" in shown


def test_map_draws_to_stdout(run: Any) -> None:
    assert run("map", "--svg", "-").startswith("<svg ")


def test_map_says_when_the_file_cannot_be_written(run: Any, tmp_path: Path) -> None:
    said = run("map", "--svg", str(tmp_path / "none" / "map.svg"), fails=1)
    assert "cannot be written" in said


def test_a_drawing_of_very_many_stays_small() -> None:
    count = 100_000
    created = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    columns = (
        b"".join((created + n).to_bytes(4, "little") for n in range(count)),
        b"".join((n * 7919 % 65_536).to_bytes(2, "little") for n in range(count)),
        b"".join((n * 104_729 % 65_536).to_bytes(2, "little") for n in range(count)),
        bytes(2 * count),
        bytes(2 * count),
        bytes(n % 3 for n in range(count)),
        bytes(count),
    )
    text = drawing(big_map(count, b"".join(columns)), "type")
    assert len(text) < 1_000_000
    ElementTree.fromstring(text)


def big_map(count: int, columns: bytes) -> MemoryMap:
    blob = b"MAP1" + count.to_bytes(4, "little") + columns
    return MemoryMap(
        state="ready",
        revision="a-1",
        made_at="2026-11-18T10:00:00+00:00",
        count=count,
        left_out=3,
        updating=False,
        labels=[MapLabel(x=n * 3000, y=30_000, text=f"group {n}", count=n + 1) for n in range(20)],
        fields={"types": ["conversation", "fact", "context"], "kinds": [""], "projects": [""]},
        points=base64.b64encode(blob).decode(),
    )
