"""`memoryd config`: every setting, its value now, and where it was set."""

from __future__ import annotations

import argparse

from memoryd.cli.output import DIM, paint, say, say_json
from memoryd.cli.target import setting_origins, settings
from memoryd.setting_view import default_file, explained


def config(options: argparse.Namespace) -> int:
    """Show the settings that are in force, or the commented default file."""
    if options.default:
        text = default_file()
        say_json({"default": text}) if options.json else say(text.rstrip("\n"))
        return 0
    found = list(explained(settings(options), setting_origins(options).where))
    if options.json:
        say_json({one.key: {"value": one.value, "from": one.where} for one in found})
        return 0
    width = max(len(one.key) for one in found)
    for one in found:
        value = one.value
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        say(f"{one.key.ljust(width)}  {shown}  {paint(f'({one.where})', DIM)}")
    return 0
