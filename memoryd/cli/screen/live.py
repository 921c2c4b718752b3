"""A view that is drawn again and again, and the tables in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from memoryd.cli.screen.view import Section, View


class Screen:
    """The drawn view."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, view: View) -> None:
        """Draw a view in place of the one before."""
        self._live.update(rendered(view.fitted(self._live.console.height)), refresh=True)


@contextmanager
def screen() -> Iterator[Screen]:
    """A screen of its own: at the end, however it comes, the terminal shows what it did before."""
    with Live(console=Console(), screen=True, auto_refresh=False) as live:
        yield Screen(live)


def rendered(view: View) -> RenderableType:
    """The view for rich. Text, never markup: a session id could hold some."""
    parts: list[RenderableType] = [Text(view.head[0], style="bold", overflow="ellipsis")]
    parts += [Text(line, overflow="ellipsis", no_wrap=True) for line in view.head[1:]]
    for section in view.sections:
        parts += [Text(), Text(section.title, style="bold cyan"), _table(section)]
    return Group(*parts, Text(), Text(view.foot, style="dim"))


def _table(section: Section) -> Table:
    """Every column as wide as it needs but the last one, which is cut at the terminal's edge."""
    table = Table(box=None, pad_edge=False, header_style="dim", expand=False)
    columns = zip(section.columns, zip(*section.rows, strict=True), strict=True)
    last = len(section.columns) - 1
    for place, (name, cells) in enumerate(columns):
        is_right, title = name.endswith(">"), name.rstrip(">")
        table.add_column(
            Text(title),
            justify="right" if is_right else "left",
            no_wrap=True,
            overflow="ellipsis",
            min_width=None if place == last else max(map(len, (title, *cells))),
        )
    for row in section.rows:
        table.add_row(*map(Text, row))
    return table
