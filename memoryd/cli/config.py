"""`memoryd config`: every setting, its value now, and where it was set."""

from __future__ import annotations

import argparse
from importlib.resources import files
from pathlib import Path

from memoryd.cli.output import DIM, paint, say, say_json
from memoryd.cli.target import config_file, setting_flags, settings
from memoryd.config import sources
from memoryd.settings import keys

SECRET = {"store.headers"}  # may hold the key to a server


def config(options: argparse.Namespace) -> int:
    """Show the settings that are in force, or the commented default file."""
    if options.default:
        text = (files("memoryd") / "data" / "default.yaml").read_text(encoding="utf-8")
        say_json({"default": text}) if options.json else say(text.rstrip("\n"))
        return 0
    found = _explained(options)
    if options.json:
        say_json({key: {"value": value, "from": where} for key, (value, where) in found.items()})
        return 0
    width = max(map(len, found))
    for key, (value, where) in found.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        say(f"{key.ljust(width)}  {shown}  {paint(f'({where})', DIM)}")
    return 0


def _explained(options: argparse.Namespace) -> dict[str, tuple[object, str]]:
    """Every setting with its value and where it was set. Raises ConfigError."""
    now = settings(options)
    where: dict[str, str] = {}
    for source in sources(config_file(options), flags=setting_flags(options)):
        where |= {key: place for key, (_, place) in source.items()}
    found = {}
    for key in keys():
        section, _, name = key.partition(".")
        value = getattr(getattr(now, section), name)
        found[key] = _plain(key, value), where.get(key, "default")
    return found


def _plain(key: str, value: object) -> object:
    if key in SECRET and isinstance(value, dict):
        return dict.fromkeys(value, "***")
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value
