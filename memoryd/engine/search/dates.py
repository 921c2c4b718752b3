"""The times that a question names: "last Tuesday", "in May 2023", "on the 25th", "2 weeks ago".

A table of patterns, each with a function from the match to days of the calendar. What is not
certain is left alone: "may" and "march" are months only beside a number or a word such as "in".
A date without a year, or a weekday, is the latest one that is not in the future, because memories
are of the past. Relative words are English; dates with a month's name are read in five languages.
A library for dates was rejected: those that parse dates of many languages take tens of milliseconds
a text, and find dates in words such as "may", "sat" and "second".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo

from memoryd.engine.index.terms import QUIET, terms

MAX_CHARS = 1_000
# Words of a question that asks for a time and nothing else.
GENERIC = QUIET.union(
    terms(
        "talk talked speak spoke discuss say said mention happen go going went chat conversation "
        "session message remember know memory anything everything something thing all list show "
        "give summary summarise summarize recap new learn up to get"
    )
)
Days = tuple[date, date]  # the first day, and the one after the last

_MONTHS = (
    "january jan januar janvier enero gennaio",
    "february feb februar février fevrier febrero febbraio",
    "march mar märz maerz mars marzo",
    "april apr avril abril aprile",
    "may mai mayo maggio",
    "june jun juni juin junio giugno",
    "july jul juli juillet julio luglio",
    "august aug août aout agosto",
    "september sep sept septembre septiembre settembre",
    "october oct oktober octobre octubre ottobre",
    "november nov novembre noviembre",
    "december dec dezember décembre decembre diciembre dicembre",
)
MONTHS = {name: number for number, row in enumerate(_MONTHS, start=1) for name in row.split()}
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}  # their first month
NUMBERS = {
    word: number
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve".split()
    )
} | {"a": 1, "an": 1, "a couple of": 2, "a few": 3, "several": 4}

_MONTH = "(?P<month>" + "|".join(sorted(MONTHS, key=len, reverse=True)) + r")\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th|\.|º)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_LINK = r"(?: (?:of|de|del))? "
_BEFORE = r"(?:in|during|since|of|from|last|this|early|late|mid|throughout|en|im|dans)"
_COUNT = r"(?P<count>\d{1,3}|" + "|".join(sorted(NUMBERS, key=len, reverse=True)) + ")"
_UNIT = r"(?P<unit>day|week|month|year)"


@dataclass(frozen=True, slots=True)
class AskedTimes:
    """The spans of time that a query names, in epoch seconds."""

    spans: tuple[tuple[float, float], ...] = ()  # start <= time < end
    is_all: bool = False  # the query asks for nothing else: "What happened yesterday?"


NO_TIMES = AskedTimes()


def asked_times(query: str, now: float, zone: tzinfo | None) -> AskedTimes:
    """The times that the query names; no spans if it names none."""
    today = datetime.fromtimestamp(now, zone).date()
    # One space between words: the patterns would be slow on many. A longer text is no question.
    text = " ".join(query[:MAX_CHARS].casefold().split())
    taken: list[tuple[int, int]] = []  # also impossible dates: "May 2031" is not "in May"
    found: list[tuple[int, int, Days]] = []
    for pattern, days_of in RULES:
        for match in pattern.finditer(text):
            if any(match.start() < end and start < match.end() for start, end in taken):
                continue
            taken.append(match.span())
            if days := _days(days_of, match, today):
                found.append((*match.span(), days))
    spans = tuple(_seconds(days, zone) for *_, days in sorted(found))
    rest = terms(" ".join(_outside(text, found))) if found else [0]
    return AskedTimes(spans, is_all=GENERIC.issuperset(rest))


def _days(days_of: Rule, match: re.Match[str], today: date) -> Days | None:
    try:
        first, end = days_of(match, today)
    except (ValueError, OverflowError):  # the 31st of February, the year 0
        return None
    return (first, end) if first <= today else None


def _seconds(days: Days, zone: tzinfo | None) -> tuple[float, float]:
    start, end = (datetime.combine(day, datetime.min.time(), zone).timestamp() for day in days)
    return start, end


def _outside(text: str, found: list[tuple[int, int, Days]]) -> Iterator[str]:
    """The pieces of the text that name no time."""
    at = 0
    for start, end, _ in sorted(found):
        yield text[at:start]
        at = end
    yield text[at:]


def _one_day(day: date) -> Days:
    return day, day + timedelta(days=1)


def _whole_month(year: int, month: int, count: int = 1) -> Days:
    last = year * 12 + month - 1 + count
    return date(year, month, 1), date(last // 12, last % 12 + 1, 1)


def _iso(match: re.Match[str], today: date) -> Days:
    return _one_day(date(int(match["year"]), int(match["month"]), int(match["day"])))


def _iso_month(match: re.Match[str], today: date) -> Days:
    return _whole_month(int(match["year"]), int(match["month"]))


def _month_and_day(match: re.Match[str], today: date) -> Days:
    month, day = MONTHS[match["month"]], int(match["day"])
    if match["year"]:
        return _one_day(date(int(match["year"]), month, day))
    # The 29th of February exists every four years, once in a while every eight.
    for year in range(today.year, today.year - 9, -1):
        try:
            if (then := date(year, month, day)) <= today:
                return _one_day(then)
        except ValueError:
            continue
    raise ValueError(match.group())


def _named_month(match: re.Match[str], today: date) -> Days:
    month = MONTHS[match["month"]]
    if year := match.groupdict().get("year"):
        return _whole_month(int(year), month)
    return _whole_month(today.year - (month > today.month), month)


def _year(match: re.Match[str], today: date) -> Days:
    year = int(match["year"])
    return date(year, 1, 1), date(year + 1, 1, 1)


def _day_of_month(match: re.Match[str], today: date) -> Days:
    day, year, month = int(match["day"]), today.year, today.month
    for _ in range(3):  # one of three months in a row has a 31st
        try:
            if (then := date(year, month, day)) <= today:
                return _one_day(then)
        except ValueError:
            pass
        year, month = (year, month - 1) if month > 1 else (year - 1, 12)
    raise ValueError(match.group())


def _weekday(match: re.Match[str], today: date) -> Days:
    """The latest such day; with "last" never today itself."""
    back = (today.weekday() - WEEKDAYS.index(match["weekday"])) % 7
    if back == 0 and match["last"]:
        back = 7
    return _one_day(today - timedelta(days=back))


def _near_day(match: re.Match[str], today: date) -> Days:
    words = match.group()
    back = 2 if "before" in words else int(words.startswith(("yesterday", "last")))
    return _one_day(today - timedelta(days=back))


def _near_unit(match: re.Match[str], today: date) -> Days:
    """This or last week, weekend, month or year. Weeks begin on Monday."""
    back = int(match["which"] in ("last", "past", "previous"))
    if match["unit"] == "year":
        return date(today.year - back, 1, 1), date(today.year - back + 1, 1, 1)
    if match["unit"] == "month":
        months = today.year * 12 + today.month - 1 - back
        return _whole_month(months // 12, months % 12 + 1)
    monday = today - timedelta(days=today.weekday() + 7 * back)
    first = monday + timedelta(days=5 if match["unit"] == "weekend" else 0)
    return first, monday + timedelta(days=7)


def _past_units(match: re.Match[str], today: date) -> Days:
    """ "In the last three weeks": until today."""
    days = _count(match) * {"day": 1, "week": 7, "month": 30, "year": 365}[match["unit"]]
    return today - timedelta(days=days), today + timedelta(days=1)


def _ago(match: re.Match[str], today: date) -> Days:
    """ "Two weeks ago" is not exact: half a unit on either side, but for days."""
    size = {"day": 1, "week": 7, "month": 30, "year": 365}[match["unit"]]
    then, slack = today - timedelta(days=_count(match) * size), size // 2
    return then - timedelta(days=slack), min(then + timedelta(days=slack), today) + timedelta(1)


def _season(match: re.Match[str], today: date) -> Days:
    """The latest such season that has begun; with "last" one that has ended."""
    month, year = SEASONS[match["season"]], today.year
    if match["year"]:
        return _whole_month(int(match["year"]), month, 3)
    first, end = _whole_month(year, month, 3)
    while first > today or (match["which"] == "last" and end > today):
        year -= 1
        first, end = _whole_month(year, month, 3)
    return first, end


def _count(match: re.Match[str]) -> int:
    word = match["count"]
    return int(word) if word.isdigit() else NUMBERS[word]


Rule = Callable[[re.Match[str], date], Days]


def _rule(pattern: str, days_of: Rule) -> tuple[re.Pattern[str], Rule]:
    return re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])"), days_of


# In this order: a longer expression before a shorter one that is part of it.
RULES: tuple[tuple[re.Pattern[str], Rule], ...] = (
    _rule(_YEAR + r"[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})", _iso),
    _rule(r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\." + _YEAR, _iso),
    _rule(_YEAR + r"-(?P<month>\d\d)", _iso_month),
    _rule(rf"(?:the )?{_DAY}{_LINK}{_MONTH}(?:,?{_LINK}{_YEAR})?", _month_and_day),
    _rule(rf"{_MONTH} (?:the )?{_DAY}(?:,? {_YEAR})?", _month_and_day),
    _rule(rf"{_MONTH},?{_LINK}{_YEAR}", _named_month),
    _rule(rf"{_BEFORE} {_MONTH}", _named_month),
    _rule(rf"(?P<which>)(?P<season>{'|'.join(SEASONS)})(?: of)? {_YEAR}", _season),
    _rule(rf"(?P<which>last|this) (?P<season>{'|'.join(SEASONS)})(?P<year>)", _season),
    _rule(rf"(?:in|during|since|of|from|throughout) {_YEAR}", _year),
    _rule(
        r"(?:the )?day before yesterday|yesterday|last night|today|tonight"
        r"|this (?:morning|afternoon|evening)",
        _near_day,
    ),
    _rule(rf"{_COUNT} {_UNIT}s? ago", _ago),
    _rule(rf"(?:last|past|previous) {_COUNT} {_UNIT}s?", _past_units),
    _rule(r"(?P<which>last|past|previous|this) (?P<unit>week|weekend|month|year)", _near_unit),
    _rule(rf"(?:on )?(?P<last>last|past|previous) (?P<weekday>{'|'.join(WEEKDAYS)})", _weekday),
    _rule(rf"(?:on|since|this)(?P<last>) (?P<weekday>{'|'.join(WEEKDAYS)})", _weekday),
    _rule(r"on the (?P<day>\d{1,2})(?:st|nd|rd|th)", _day_of_month),
)
