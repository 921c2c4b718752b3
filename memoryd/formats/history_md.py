"""The files HISTORY.md and HISTORY-YYYY-MM.md of the mirror: archives in the order of their times.

    # History

    <!-- memoryd mirror: archives of sessions. Changes to this file are not taken over. -->

    ## 2026-11-18T09:30:00+01:00

    <!-- deploys of november -->

    [2026-11-18 09:30] We moved the deploys to Monday.

A comment has the name of the archive. A line of an archive that looks like a heading gets a
backslash, so every heading of the file is ours. HISTORY.md has the newest month with an archive;
each older month has a file of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, tzinfo

from memoryd.formats.claude_md import fact_text
from memoryd.formats.items import shown

NEWEST = "HISTORY.md"
OLDER = re.compile(r"HISTORY-\d{4,5}-\d\d\.md")
TITLE = "# History"
HEADER = "<!-- memoryd mirror: archives of sessions. Changes to this file are not taken over. -->"
HEADING = re.compile(r"^( {0,3})(?=#)", re.M)


@dataclass(frozen=True, slots=True)
class Section:
    """An archive."""

    at: float
    name: str
    content: str


def files_of(sections: Iterable[Section], zone: tzinfo | None) -> dict[str, str]:
    """The text of each file by its name; no file without a section."""
    months: dict[str, list[str]] = {}
    for section in sorted(sections, key=lambda section: (section.at, section.name)):
        at = datetime.fromtimestamp(section.at, zone).astimezone(zone)
        months.setdefault(f"{at.year:04}-{at.month:02}", []).append(_section(section, at))
    newest = max(months, default="")
    return {
        NEWEST if month == newest else f"HISTORY-{month}.md": _text(parts)
        for month, parts in months.items()
    }


def is_named(name: str) -> bool:
    """Whether a file has the name of one of these files."""
    return name == NEWEST or OLDER.fullmatch(name) is not None


def is_ours(text: str) -> bool:
    """Whether the mirror wrote this file; an empty one may be replaced too."""
    return HEADER in text or not text.strip()


def _text(parts: Iterable[str]) -> str:
    return "\n".join([TITLE, "", HEADER, "", *parts])


def _section(section: Section, at: datetime) -> str:
    name = " ".join(shown(section.name).replace("--", "-").replace(">", "").split())
    text = HEADING.sub(r"\1\\", fact_text(section.content))
    return f"## {at.isoformat(timespec='seconds')}\n\n<!-- {name} -->\n\n{text}\n"
