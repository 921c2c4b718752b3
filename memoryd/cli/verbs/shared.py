"""What the tables of verbs share: a verb, and flags that many of them have."""

from __future__ import annotations

import argparse
from typing import Any

from memoryd.cli import options as values
from memoryd.cli.options import Parser

Verbs = Any  # argparse does not export the type


def add(verbs: Verbs, name: str, place: str, text: str) -> Parser:
    verb: Parser = verbs.add_parser(name, help=text, description=text)
    verb.set_defaults(verb=f"memoryd.cli.{place}", json=False)
    # Suppressed: the verb's default would overwrite the same flag given before the verb.
    add_places(verb, default=argparse.SUPPRESS)
    return verb


def add_places(part: argparse.ArgumentParser, default: str | None) -> None:
    part.add_argument("--config", metavar="FILE", default=default, help="configuration file")
    part.add_argument("--data-dir", metavar="DIR", default=default, help="where memories are kept")
    part.add_argument("--socket", metavar="PATH", default=default, help="where the daemon listens")


def add_filter(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--type", metavar="TYPE", help="only fact, conversation or context")
    verb.add_argument("--session", metavar="ID", help="only this session")
    verb.add_argument("--since", metavar="TIME", help="created at or after, ISO 8601")
    verb.add_argument("--until", metavar="TIME", help="created before, ISO 8601")
    verb.add_argument("--project", metavar="NAME", help="only memories of this project")
    verb.add_argument("--shared", action="store_true", help="only memories of no project")
    add_metadata(verb)
    verb.add_argument(
        "--filter",
        type=values.json_object,
        metavar="JSON",
        help="""on metadata, such as '{"rating": {"$gte": 4}}'""",
    )


def add_metadata(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--metadata",
        "--meta",
        type=values.pair,
        action="append",
        metavar="KEY=VALUE",
        help="may be repeated; a value that is JSON is parsed",
    )


def add_json(*verbs: argparse.ArgumentParser) -> None:
    for verb in verbs:
        verb.add_argument("--json", action="store_true", help="answer in JSON")
