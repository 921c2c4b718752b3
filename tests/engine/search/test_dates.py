"""The times that questions name. The clock stands at Wednesday, 14 June 2023, noon UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from memoryd.engine.search.dates import asked_times

NOW = datetime(2023, 6, 14, 12, tzinfo=UTC).timestamp()


def days(query: str, now: float = NOW) -> list[tuple[str, str]]:
    """The first and the last day of every span."""
    spans = asked_times(query, now, UTC).spans
    return [
        (
            datetime.fromtimestamp(start, UTC).date().isoformat(),
            datetime.fromtimestamp(end - 1, UTC).date().isoformat(),
        )
        for start, end in spans
    ]


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ("What did Anna say on 2023-05-25?", "2023-05-25", "2023-05-25"),
        ("what happened on 25.5.2023", "2023-05-25", "2023-05-25"),
        ("the minutes of 2023-04", "2023-04-01", "2023-04-30"),
        ("Who called on 25 May 2023?", "2023-05-25", "2023-05-25"),
        ("Who called on the 25th of May, 2023?", "2023-05-25", "2023-05-25"),
        ("Who called on May 25th?", "2023-05-25", "2023-05-25"),
        ("Who called on May 25, 2022?", "2022-05-25", "2022-05-25"),
        ("Who called on 3 December?", "2022-12-03", "2022-12-03"),
        ("our trip of the 29th of February", "2020-02-29", "2020-02-29"),
        ("wer hat am 25. Mai 2023 angerufen", "2023-05-25", "2023-05-25"),
        ("qui a appelé le 3 février 2023", "2023-02-03", "2023-02-03"),
        ("quién llamó el 3 de enero de 2023", "2023-01-03", "2023-01-03"),
        ("What was planned in May 2022?", "2022-05-01", "2022-05-31"),
        ("What was planned in May?", "2023-05-01", "2023-05-31"),
        ("What was planned in September?", "2022-09-01", "2022-09-30"),
        ("What was planned last December?", "2022-12-01", "2022-12-31"),
        ("Where did I live in 2019?", "2019-01-01", "2019-12-31"),
        ("the wedding in the summer of 2022", "2022-06-01", "2022-08-31"),
        ("the wedding last summer", "2022-06-01", "2022-08-31"),
        ("the plan for this summer", "2023-06-01", "2023-08-31"),
        ("what did we do last winter", "2022-12-01", "2023-02-28"),
        ("what did I eat yesterday", "2023-06-13", "2023-06-13"),
        ("what did I eat the day before yesterday", "2023-06-12", "2023-06-12"),
        ("the call last night", "2023-06-13", "2023-06-13"),
        ("the decision of today", "2023-06-14", "2023-06-14"),
        ("the decision of this morning", "2023-06-14", "2023-06-14"),
        ("what did we decide last Tuesday", "2023-06-13", "2023-06-13"),
        ("what did we decide last Wednesday", "2023-06-07", "2023-06-07"),
        ("what did we decide on Wednesday", "2023-06-14", "2023-06-14"),
        ("what did we decide on Friday", "2023-06-09", "2023-06-09"),
        ("what did I learn last week", "2023-06-05", "2023-06-11"),
        ("what did I learn this week", "2023-06-12", "2023-06-18"),
        ("what did I read last weekend", "2023-06-10", "2023-06-11"),
        ("what did I learn last month", "2023-05-01", "2023-05-31"),
        ("what did I learn last year", "2022-01-01", "2022-12-31"),
        ("3 days ago", "2023-06-11", "2023-06-11"),
        ("two weeks ago", "2023-05-28", "2023-06-03"),
        ("a month ago", "2023-04-30", "2023-05-30"),
        ("in the last ten days", "2023-06-04", "2023-06-14"),
        ("over the past 2 weeks", "2023-05-31", "2023-06-14"),
        ("the invoice that came on the 25th", "2023-05-25", "2023-05-25"),
        ("the invoice that came on the 31st", "2023-05-31", "2023-05-31"),
    ],
)
def test_a_question_that_names_a_time(query: str, first: str, last: str) -> None:
    assert days(query) == [(first, last)]


@pytest.mark.parametrize(
    "query",
    [
        "how long do the rotor blades last",
        "it may rain, march on",
        "the second floor, flat 25",
        "version 2023.4 of the tool",
        "error 2023-13-45",
        "the 31st of February 2023",
        "what will we do in May 2031",
        "she sat in the sun, mon ami",
        "part 2019-XK",
        "the top ten days out",
        "",
    ],
)
def test_a_question_that_names_no_time(query: str) -> None:
    """Words that only look like a time, impossible dates and the future change nothing."""
    assert days(query) == []


def test_two_times_are_two_spans() -> None:
    asked = "compare May 2022 with 3 June 2023"
    assert days(asked) == [("2022-05-01", "2022-05-31"), ("2023-06-03", "2023-06-03")]


@pytest.mark.parametrize(
    ("query", "is_all"),
    [
        ("What did we discuss last Tuesday?", True),
        ("what happened on 25 May 2023", True),
        ("What did Anna say last Tuesday?", False),
        ("the budget of May 2023", False),
        ("What did we discuss?", False),
    ],
)
def test_a_question_that_asks_for_a_time_alone(query: str, is_all: bool) -> None:
    assert asked_times(query, NOW, UTC).is_all is is_all


def test_days_are_days_of_the_zone() -> None:
    """Yesterday begins at midnight of the user, not of Greenwich."""
    zone = ZoneInfo("Asia/Tokyo")
    late = datetime(2023, 6, 15, 0, 30, tzinfo=zone).timestamp()
    ((start, end),) = asked_times("yesterday", late, zone).spans
    assert datetime.fromtimestamp(start, zone) == datetime(2023, 6, 14, tzinfo=zone)
    assert datetime.fromtimestamp(end, zone) == datetime(2023, 6, 15, tzinfo=zone)
