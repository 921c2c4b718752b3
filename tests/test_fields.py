"""The well-known metadata keys: what they may hold, what is made, how they are read."""

from __future__ import annotations

from typing import Any

import pytest

from memoryd import fields, lead
from memoryd.errors import InvalidInput
from memoryd.model import Memory, MemoryType
from memoryd.settings import Config

ID = "0123456789abcdef0123"


def memory(content: str = "the pool leaks", name: str | None = None, **metadata: Any) -> Memory:
    return Memory("a" * 20, MemoryType.FACT, content, 0.0, metadata=metadata, name=name)


@pytest.mark.parametrize(
    "given",
    [
        {
            "kind": "gotcha",
            "source": "user_taught",
            "confidence": 1,
            "tags": ["a"],
            "category": "c",
        },
        {"related_files": ["src/db.ts"], "related_modules": ["auth"], "commit_sha": "a1b2c3d"},
        {"scope": "work_unit", "citation": "x" * 40, "project": "me/it", "validates": [ID]},
        {"kind": "a_new_one", "steps": 5, "tried": 1},  # not fields of this kind
        {"kind": None, "tags": None},
        {"kind": "workflow_recipe", "steps": ["build", "test"]},
        {"kind": "dead_end", "tried": "x", "why_failed": "y", "used_instead": "z"},
        {"kind": "task_calibration", "estimate": 2, "actual": 3.5, "ratio": 1.75},
    ],
)
def test_right_values_are_accepted(given: dict[str, Any]) -> None:
    fields.check_fields(given)


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"kind": "Gotcha"}, "kind"),
        ({"kind": "x" * 51}, "kind"),
        ({"kind": ["gotcha"]}, "kind"),
        ({"source": ""}, "source"),
        ({"confidence": 1.1}, "confidence"),
        ({"confidence": True}, "confidence"),
        ({"tags": "tea"}, "tags"),
        ({"tags": [1]}, "tags"),
        ({"category": 5}, "category"),
        ({"related_files": [""]}, "related_files"),
        ({"commit_sha": "xyz"}, "commit_sha"),
        ({"scope": "all"}, "scope"),
        ({"citation": "x" * 41}, "citation"),
        ({"supersedes": ID}, "supersedes"),
        ({"derived_from": ["a name"]}, "derived_from"),
        ({"kind": "workflow_recipe", "steps": "build"}, "steps"),
        ({"kind": "dead_end", "why_failed": 3}, "why_failed"),
        ({"kind": "task_calibration", "actual": 0}, "actual"),
    ],
)
def test_wrong_values_are_refused_with_the_name_of_the_field(
    given: dict[str, Any], key: str
) -> None:
    with pytest.raises(InvalidInput, match=f"'{key}'") as caught:
        fields.check_fields(given)
    assert caught.value.code == "field_invalid"


@pytest.mark.parametrize(
    ("content", "citation"),
    [
        ("short", "short"),
        ("two\n lines", "two lines"),
        ("x" * 40, "x" * 40),
        ("x" * 41, "x" * 39 + "…"),
        ("close the pool before you fork, or it hangs", "close the pool before you fork, or it…"),
    ],
)
def test_a_citation_has_at_most_forty_characters_and_ends_after_a_word(
    content: str, citation: str
) -> None:
    assert fields.citation_of(content) == citation
    assert len(citation) <= fields.MAX_CITATION


def test_what_is_missing_is_made_for_a_memory_with_a_kind_only() -> None:
    assert fields.completed(memory()) == {}
    assert fields.completed(memory(kind="gotcha"))["citation"] == "the pool leaks"
    assert fields.completed(memory(kind="gotcha", citation="leak"))["citation"] == "leak"
    made = fields.completed(memory(kind="task_calibration", estimate=2, actual=3))
    assert made["ratio"] == 1.5


def test_a_citation_that_was_made_follows_the_text() -> None:
    before = memory(kind="gotcha", citation="the pool leaks")
    after = memory("the pool is tight", kind="gotcha", citation="the pool leaks")
    assert fields.completed(after, before)["citation"] == "the pool is tight"
    given = memory("the pool is tight", kind="gotcha", citation="mine")
    assert fields.completed(given, before)["citation"] == "mine"


def test_a_memory_without_fields_is_read_as_before() -> None:
    """So that no memory of a retrieval set is embedded in another way."""
    assert lead.lead_of(memory(), lead.KNOWN) == ""
    said = memory(speaker="Anna", rating=5, source="chat", confidence=0.5)
    assert lead.lead_of(said, lead.KNOWN) == "Anna: "


def test_the_configured_fields_are_read_before_the_speaker() -> None:
    found = memory(
        speaker="Anna", related_files=["a.py", "b.py"], related_modules=["auth"], kind="dead_end"
    )
    assert lead.lead_of(found, lead.DEFAULT) == (
        "Files: a.py, b.py | Module: auth | Kind: dead end\nAnna: "
    )
    assert lead.lead_of(found, ["kind"]) == "Kind: dead end\nAnna: "
    assert lead.lead_of(memory(name="context:task"), lead.DEFAULT) == "Name: task\n"


def test_the_lead_is_short_whatever_a_memory_has() -> None:
    found = memory(related_files=[f"src/{'x' * 90}/{n}.py" for n in range(50)], tags=["t" * 500])
    assert len(lead.lead_of(found, lead.KNOWN)) < lead.MAX_LEAD + 50


def test_readers_accept_what_an_import_may_bring() -> None:
    odd = memory(kind=5, tags="tea", confidence="high", supersedes="x", project=[1])
    assert (fields.kind_of(odd), fields.project_of(odd)) == (None, None)
    assert fields.tags_of(odd) == ["tea"]
    assert fields.confidence_of(odd) == 0.8
    assert fields.related_ids(odd) == set()


def test_half_lives_and_trust() -> None:
    assert fields.half_life_of(memory(kind="work_state")) == 7
    assert fields.half_life_of(memory(kind="decision")) is None
    assert fields.half_life_of(memory(kind="of my own")) is None
    trust = Config().lifecycle.trust
    assert fields.trust_of(memory(source="user_taught"), trust) == 1.4
    assert fields.trust_of(memory(source="a friend"), trust) == 1.0
