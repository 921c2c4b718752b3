"""The map as one SVG file that needs nothing else: points, labels, a legend; light and dark.

All points of one colour and size are one path of dots, which is a tenth of the size of a circle
each. Above some thousands, points that share a cell of a grid become one larger dot, so that the
file stays small and is drawn at once.
"""

from __future__ import annotations

import base64
import math
import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape

from memoryd.client.insight import MapLabel, MemoryMap
from memoryd.sanitize import visible

WIDTH, HEIGHT, MARGIN = 1200, 1000, 32
TOP = 104  # of the map
SIDE = 864  # of the map, a square
FULL = 65_535
MAX_DOTS = 5_000  # points that get a dot each
CELLS = 180  # of a side, above that number
COLOURS = 8  # of a field, the most frequent values; the others are grey
OTHER = COLOURS
AGES = (
    ("today", 1),
    ("this week", 7),
    ("this month", 31),
    ("this quarter", 92),
    ("this year", 366),
    ("older", math.inf),
)
NONE = {"kind": "no kind", "project": "no project"}
SHADES = {"age": ("#d6336c", "#f06595", "#f59f3f", "#74b0d8", "#5c7cba", "#8a93a6")}
LIGHT = ("#3b6fd4", "#e07b39", "#2f9e6e", "#b5489a", "#c9a227", "#5aa9c9", "#8a63d2", "#d1495b")
DARK = ("#7aa5ff", "#ffa466", "#5fd3a2", "#e58bd0", "#ecd06a", "#8ad4ee", "#b79bff", "#ff8a97")
STYLE = """
  .paper { fill: #fbfaf7 } .frame { fill: #ffffff; stroke: #e6e2d8 }
  text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
    fill: #23262d }
  .title { font-size: 30px; font-weight: 650; letter-spacing: -0.4px }
  .quiet { font-size: 15px; fill: #6d717b }
  .head { font-size: 13px; font-weight: 650; fill: #6d717b; letter-spacing: 0.6px }
  .key { font-size: 15px }
  .label { font-weight: 620; text-anchor: middle; paint-order: stroke; stroke: #ffffff;
    stroke-width: 5px; stroke-linejoin: round }
  .dots { fill: none; stroke-linecap: round }
"""
NIGHT = """
    .paper { fill: #14161b } .frame { fill: #1a1d24; stroke: #2b303a }
    text { fill: #eceef2 } .quiet, .head { fill: #9aa1ad }
    .label { stroke: #1a1d24 }
"""


@dataclass(frozen=True, slots=True)
class Columns:
    """The points as the daemon sends them."""

    created: array[int]
    x: array[int]
    y: array[int]
    codes: Mapping[str, array[int]]  # of type, kind and project

    @classmethod
    def of(cls, encoded: str) -> Columns:
        data = memoryview(base64.b64decode(encoded))
        count, at = int.from_bytes(data[4:8], "little"), 8
        found = []
        for code, size in (("I", 4), ("H", 2), ("H", 2), ("H", 2), ("H", 2), ("B", 1)):
            column = array(code, data[at : at + size * count].tobytes())
            if sys.byteorder == "big":
                column.byteswap()
            found.append(column)
            at += size * count
        created, x, y, kind, project, type = found
        return cls(created, x, y, {"type": type, "kind": kind, "project": project})


def drawing(found: MemoryMap, colour: str) -> str:
    """The map, its points coloured by `type`, `kind`, `project` or `age`."""
    columns = Columns.of(found["points"])
    values = _values(found, columns, colour)
    counts = Counter(values)
    places = _colours_of(counts, colour)
    codes = [places.get(value, OTHER) for value in values]
    legend = [(number, value, counts[value]) for value, number in places.items() if counts[value]]
    if others := sum(count for value, count in counts.items() if value not in places):
        legend.append((OTHER, "others", others))
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-labelledby="title">',
            f"<style>{STYLE}{_palette(colour)}</style>",
            f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
            *_heading(found, colour),
            f'<rect class="frame" x="{MARGIN}" y="{TOP}" width="{SIDE}" height="{SIDE}" rx="14"/>',
            *_dots(columns, codes),
            *_labels(found["labels"]),
            *_legend(legend, colour),
            "</svg>",
        )
    )


def _values(found: MemoryMap, columns: Columns, colour: str) -> list[str]:
    """By point, the value that its colour stands for."""
    if colour == "age":
        now = datetime.fromisoformat(found["made_at"]).timestamp()
        return [_age(now - created) for created in columns.created]
    names = {
        "type": found["fields"]["types"],
        "kind": found["fields"]["kinds"],
        "project": found["fields"]["projects"],
    }[colour]
    return [names[code] or NONE.get(colour, "") for code in columns.codes[colour]]


def _colours_of(counts: Counter[str], colour: str) -> dict[str, int]:
    """The values that have a colour of their own, and its number; what has no value is grey."""
    none = NONE.get(colour)
    shown = [name for name, _ in AGES]
    if colour != "age":
        shown = [value for value, _ in counts.most_common(COLOURS + 1) if value != none][:COLOURS]
    found = {value: number for number, value in enumerate(shown)}
    return found if none is None else found | {none: OTHER}


def _age(seconds: float) -> str:
    return next(name for name, days in AGES if seconds < days * 86_400)


def _palette(colour: str) -> str:
    light, dark = SHADES.get(colour, LIGHT), SHADES.get(colour, DARK)
    rules = [f".c{n} {{ stroke: {shade}; color: {shade} }}" for n, shade in enumerate(light)]
    night = [f".c{n} {{ stroke: {shade}; color: {shade} }}" for n, shade in enumerate(dark)]
    grey = f".c{OTHER} {{ stroke: #9a9ea8; color: #9a9ea8 }}"
    day = "\n  ".join([*rules, grey])
    return f"  {day}\n  @media (prefers-color-scheme: dark) {{{NIGHT}    {' '.join(night)}\n  }}\n"


def _heading(found: MemoryMap, colour: str) -> Sequence[str]:
    made = datetime.fromisoformat(found["made_at"])
    parts = [f"{found['count']:,} {'memory' if found['count'] == 1 else 'memories'}"]
    if found["left_out"]:
        parts.append(f"{found['left_out']:,} without a vector left out")
    parts += [f"{made:%Y-%m-%d}", "what is alike lies together"]
    return (
        f'<text class="title" id="title" x="{MARGIN}" y="54">Map of the memory</text>',
        f'<text class="quiet" x="{MARGIN}" y="82">{escape(" · ".join(parts))}</text>',
    )


def _dots(columns: Columns, codes: Sequence[int]) -> list[str]:
    """One path for each colour and size, the large dots below the small ones."""
    paths: dict[tuple[float, int], list[str]] = defaultdict(list)
    scale = SIDE / FULL
    if len(codes) <= MAX_DOTS:
        size = max(3.0, min(9.0, 260 / math.sqrt(max(1, len(codes)))))
        for x, y, code in zip(columns.x, columns.y, codes, strict=True):
            paths[size, code].append(f"M{MARGIN + x * scale:.1f} {TOP + y * scale:.1f}h0")
    else:
        step = SIDE / CELLS
        for inside in _cells(columns, codes):
            code, _ = inside.codes.most_common(1)[0]
            count = inside.codes.total()
            share = min(1.0, math.log2(1 + count) / 6)
            size = round(step * (0.65 + 0.85 * share), 1)
            left, top = MARGIN + inside.x / count * scale, TOP + inside.y / count * scale
            paths[size, code].append(f"M{left:.1f} {top:.1f}h0")
    opacity = 0.8 if len(codes) <= MAX_DOTS else 0.9
    return [
        f'<path class="dots c{code}" stroke-width="{size:g}" opacity="{opacity}" '
        f'd="{"".join(marks)}"/>'
        for (size, code), marks in sorted(paths.items(), key=lambda pair: (-pair[0][0], pair[0][1]))
    ]


@dataclass(slots=True)
class Cell:
    """The points in a cell of the grid: sums of their coordinates, and how many of each colour."""

    x: int = 0
    y: int = 0
    codes: Counter[int] = field(default_factory=Counter)


def _cells(columns: Columns, codes: Sequence[int]) -> Collection[Cell]:
    found: dict[int, Cell] = defaultdict(Cell)
    for x, y, code in zip(columns.x, columns.y, codes, strict=True):
        cell = found[x * CELLS // (FULL + 1) * CELLS + y * CELLS // (FULL + 1)]
        cell.x += x
        cell.y += y
        cell.codes[code] += 1
    return found.values()


def _labels(labels: Sequence[MapLabel]) -> list[str]:
    """The labels, the largest groups first; one that would cover another moves down or up."""
    drawn: list[str] = []
    boxes: list[tuple[float, float, float, float]] = []
    most = max((label["count"] for label in labels), default=1)
    for label in sorted(labels, key=lambda label: -label["count"]):
        text = visible(label["text"])
        size = 12 + 6 * math.sqrt(label["count"] / most)
        half = len(text) * size * 0.29
        left, right = MARGIN + half + 8, MARGIN + SIDE - half - 8
        x = min(max(MARGIN + label["x"] * SIDE / FULL, left), max(left, right))
        y = min(max(TOP + label["y"] * SIDE / FULL, TOP + 2 * size), TOP + SIDE - size)
        for shift in (0.0, 1.2, -1.2, 2.4, -2.4, 3.6, -3.6):
            box = (x - half, x + half, y + (shift - 0.9) * size, y + (shift + 0.25) * size)
            if not any(_overlap(box, other) for other in boxes):
                break
        else:
            continue  # no room: the group stays without its words
        boxes.append(box)
        drawn.append(
            f'<text class="label" x="{x:.0f}" y="{y + shift * size:.0f}" '
            f'font-size="{size:.1f}">{escape(text)}</text>'
        )
    return drawn


def _overlap(
    one: tuple[float, float, float, float], other: tuple[float, float, float, float]
) -> bool:
    is_beside = one[1] < other[0] or other[1] < one[0]
    return not (is_beside or one[3] < other[2] or other[3] < one[2])


def _legend(legend: Sequence[tuple[int, str, int]], colour: str) -> list[str]:
    x, y = MARGIN + SIDE + 36, TOP + 24
    drawn = [f'<text class="head" x="{x}" y="{y}">{escape(colour.upper())}</text>']
    for number, value, count in legend:
        y += 32
        name = visible(value)
        shown = name if len(name) <= 20 else name[:19] + "\u2026"
        drawn += [
            f'<path class="dots c{number}" stroke-width="14" d="M{x + 7} {y - 5}h0"/>',
            f'<text class="key" x="{x + 26}" y="{y}">{escape(shown)}</text>',
            f'<text class="quiet" x="{WIDTH - MARGIN}" y="{y}" text-anchor="end">{count:,}</text>',
        ]
    return drawn
