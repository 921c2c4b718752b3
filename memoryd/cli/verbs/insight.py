"""The verbs that show what memory knows."""

from __future__ import annotations

from memoryd.cli import options as values
from memoryd.cli.verbs.shared import Verbs, add, add_filter, add_json

COLOURS = ("type", "kind", "project", "age")


def add_insight_verbs(verbs: Verbs) -> None:
    ask = add(verbs, "ask", "ask:ask", "answer a question from memory, with its sources")
    ask.add_argument("question", metavar="QUESTION", nargs="+", help="in plain words")
    ask.add_argument(
        "--limit", type=values.whole, metavar="N", help="how many memories it cites at most"
    )
    ask.add_argument(
        "--extract",
        action="store_true",
        help="in the memories' own sentences, without the language model",
    )
    add_filter(ask)
    map = add(verbs, "map", "map:map", "show what memory is about, or draw all of it")
    map.add_argument("--svg", metavar="FILE", help="draw the map into this file; - for stdout")
    map.add_argument(
        "--colour",
        "--color",
        choices=COLOURS,
        metavar="FIELD",
        default="type",
        help="what the colours of the drawing mean: type (default), kind, project or age",
    )
    map.add_argument("--renew", action="store_true", help="lay out all memories anew")
    add_json(ask, map)
