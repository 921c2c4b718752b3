"""Writes the reference pages that can be derived: docs/settings.md and docs/cli.md.

A test compares the pages with what this would write, so they cannot drift.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import yaml

from memoryd.cli.verbs import parser
from memoryd.settings import variable

ROOT = Path(__file__).parent.parent


def settings_page() -> str:
    """Every setting with its comment, default and variable."""
    text = (ROOT / "config" / "default.yaml").read_text()
    values = yaml.safe_load(text)
    page = [
        "# Settings",
        "",
        "Set in `~/.config/memoryd/config.yaml`, by a variable, or by a flag; the later wins. ",
        "`memoryd config --default` prints them all as one file, `memoryd config` those in force",
        "and where each was set. An unknown key is an error.",
    ]
    section = ""
    comment: list[str] = []  # its lines so far
    for line in text.splitlines():
        if line and not line.startswith((" ", "#")):
            section = line.rstrip(":")
        elif line.strip().startswith("#") and section:
            comment.append(line.strip("# "))
        elif line[:2] == "  " and line[2:3] not in ("", " ") and section:
            name = line.split(":")[0].strip()
            key, value = f"{section}.{name}", values[section][name]
            default = yaml.safe_dump(value, default_flow_style=True, width=10_000).split("\n")[0]
            page += ["", f"## {key}", "", *comment, ""]
            page += [f"Default `{default}`, variable `{variable(key)}`."]
            comment = []
    return "\n".join(page).replace(" \n", "\n") + "\n"


def cli_page() -> str:
    """The help of the command and of each verb."""
    return "\n".join(["# Command line", "", *_help(top := parser()), *_verbs(top, "##")]) + "\n"


def _verbs(part: argparse.ArgumentParser, level: str) -> list[str]:
    """The help of each verb of a parser, and of its own verbs below it."""
    page: list[str] = []
    for action in part._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                page += ["", f"{level} {verb.prog}", "", *_help(verb), *_verbs(verb, f"{level}#")]
    return page


def _help(part: argparse.ArgumentParser) -> list[str]:
    part.formatter_class = lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=90)
    return ["```", part.format_help().rstrip(), "```"]


PAGES = {"docs/settings.md": settings_page, "docs/cli.md": cli_page}

if __name__ == "__main__":
    for path, make in PAGES.items():
        (ROOT / path).write_text(make())
        print(f"wrote {path}")
