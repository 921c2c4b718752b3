"""`memoryd plugin`: where the plugin for Claude Code is."""

from __future__ import annotations

import argparse
from importlib.resources import files

from memoryd.cli.output import say, say_json


def plugin(options: argparse.Namespace) -> int:
    """Print the folder that Claude Code takes as a marketplace; the plugin is in it."""
    folder = str(files("memoryd") / "data")
    say_json({"marketplace": folder}) if options.json else say(folder)
    return 0
