"""What an import would bring (`memoryd import --dry-run`): as a table, and as sentences."""

from __future__ import annotations

from collections.abc import Iterator

from memoryd.cli.output import DIM, counted, paint
from memoryd.imports.report import COLUMNS, NONE, Preview

MAX_ROWS = 60  # of the table; the smallest groups are summed up


def lines(preview: Preview) -> Iterator[str]:
    """The counts of a preview for people."""
    if preview.total:
        yield from _table(preview)
        months = (f"{month} {count}" for month, count in sorted(preview.months.items()))
        yield f"By month: {', '.join(months)}."
    yield f"{counted(preview.total)} would come; those that are here already are not added again."
    if preview.expired:
        yield (
            f"{counted(preview.expired)} would be left out: conversations that have expired. "
            "--keep imports them for good."
        )


def _table(preview: Preview) -> Iterator[str]:
    groups = preview.rows()
    rows = [COLUMNS, *groups[:MAX_ROWS]]
    if rest := groups[MAX_ROWS:]:
        count = sum(int(row[-1]) for row in rest)
        rows.append((f"{len(rest)} more", NONE, NONE, NONE, NONE, str(count)))
    widths = [max(len(row[place]) for row in rows) for place in range(len(COLUMNS))]
    for number, row in enumerate(rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        line = "  " + "  ".join(cells).rstrip()
        yield line if number else paint(line, DIM)
