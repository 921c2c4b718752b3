"""What an import would bring (`memoryd import --dry-run`): by type, kind, project and date."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from memoryd.cli.output import DIM, clean, counted, paint
from memoryd.fields import KIND, PROJECT

COLUMNS = ("type", "kind", "project", "from", "to", "memories")
NONE = "-"
MAX_WIDTH = 40  # characters of a column
MAX_ROWS = 60  # of the table; the smallest groups are summed up


class Preview:
    """Counts memories. `lifetime`: seconds after which a conversation has expired; None: never."""

    def __init__(self, lifetime: float | None) -> None:
        self._lifetime = lifetime
        self._now = time.time()
        self._groups: Counter[tuple[str, str, str]] = Counter()
        self._spans: dict[tuple[str, str, str], tuple[float, float]] = {}
        self._months: Counter[str] = Counter()
        self.expired = 0

    def take(self, type: str, metadata: Mapping[str, Any], created_at: float | None) -> None:
        """Count one memory."""
        is_conversation = type == "conversation" and self._lifetime is not None
        if is_conversation and (created_at or self._now) + (self._lifetime or 0) <= self._now:
            self.expired += 1
            return
        kind, project = (str(metadata.get(key) or NONE) for key in (KIND, PROJECT))
        group = (type, kind, project)
        self._groups[group] += 1
        if created_at is not None:
            first, last = self._spans.get(group, (created_at, created_at))
            self._spans[group] = (min(first, created_at), max(last, created_at))
        self._months[_day(created_at)[:7]] += 1

    def facts(self) -> dict[str, Any]:
        """The counts for a program."""
        rows = [dict(zip(COLUMNS, self._row(group), strict=True)) for group in self._ordered()]
        months = dict(sorted(self._months.items()))
        return {"memories": self._groups.total(), "expired": self.expired} | {
            "groups": [row | {"memories": int(row["memories"])} for row in rows],
            "months": months,
        }

    def lines(self) -> Iterator[str]:
        """The counts as a table, and as sentences."""
        total = self._groups.total()
        if total:
            yield from self._table()
            months = (f"{month} {count}" for month, count in sorted(self._months.items()))
            yield f"By month: {', '.join(months)}."
        yield f"{counted(total)} would come; those that are here already are not added again."
        if self.expired:
            yield (
                f"{counted(self.expired)} would be left out: conversations that have expired. "
                "--keep imports them for good."
            )

    def _table(self) -> Iterator[str]:
        groups = self._ordered()
        rows = [COLUMNS, *(self._row(group) for group in groups[:MAX_ROWS])]
        if rest := groups[MAX_ROWS:]:
            count = sum(self._groups[group] for group in rest)
            rows.append((f"{len(rest)} more", NONE, NONE, NONE, NONE, str(count)))
        widths = [max(len(row[place]) for row in rows) for place in range(len(COLUMNS))]
        for number, row in enumerate(rows):
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            line = "  " + "  ".join(cells).rstrip()
            yield line if number else paint(line, DIM)

    def _ordered(self) -> list[tuple[str, str, str]]:
        return [group for group, _ in self._groups.most_common()]

    def _row(self, group: tuple[str, str, str]) -> tuple[str, ...]:
        first, last = self._spans.get(group, (None, None))
        names = (clean(name)[:MAX_WIDTH] for name in group)
        return (*names, _day(first), _day(last), str(self._groups[group]))


def _day(at: float | None) -> str:
    try:
        return NONE if at is None else datetime.fromtimestamp(at).strftime("%Y-%m-%d")
    except (ValueError, OverflowError, OSError):
        return NONE
