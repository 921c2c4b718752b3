"""The part of a filter that a server tests must not leave out what the filter finds."""

from __future__ import annotations

from typing import Any

import pytest

from memoryd.engine.filters import Filter, parse_where
from memoryd.engine.thin.conditions import conditions_of
from memoryd.model import MemoryType
from memoryd.queries import Conditions


@pytest.mark.parametrize(
    ("where", "having"),
    [
        ({"tags": "tea"}, (("tags", ("tea",)),)),
        ({"open": True}, (("open", (True,)),)),
        ({"rank": 1}, ()),  # may be stored as 1.0, which a server keeps as text
        ({"rank": {"$in": [1, "x"]}}, ()),
        ({"rank": {"$gte": 3}}, ()),
        ({"$or": [{"a": "x"}, {"b": "y"}]}, ()),
        ({"a": {"$ne": "x"}}, ()),
        ({"a": None}, ()),
        ({"a": "with\0zero"}, ()),
    ],
)
def test_only_what_a_server_decides_rightly_is_sent(where: dict[str, Any], having: Any) -> None:
    assert conditions_of(Filter(where=parse_where(where))) == Conditions(having=having)


def test_fields_are_sent_and_shared_projects_are_not_lost() -> None:
    asked = Filter(MemoryType.FACT, "s", since=1.0, until=2.0, pinned=False, projects=(None, "p"))
    sent = Conditions(MemoryType.FACT, "s", since=1.0, until=2.0, pinned=False)
    assert conditions_of(asked) == sent
    assert conditions_of(Filter(projects=("p",))).having == (("project", ("p",)),)
