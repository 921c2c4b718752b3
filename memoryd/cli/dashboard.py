"""`memoryd dashboard`: opens the page in a browser."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import webbrowser

from memoryd.cli.output import say, say_json
from memoryd.cli.target import where
from memoryd.client.owner import OwnerClient

ONCE = "The link works once, within two minutes. For another one, run: memoryd dashboard"


def dashboard(options: argparse.Namespace) -> int:
    """Open the page, and start the daemon if need be. Without a browser, print the link."""
    url = asyncio.run(_link(options))
    opened = not options.no_browser and not options.json and has_browser() and webbrowser.open(url)
    if options.json:
        say_json({"url": url})
    elif opened:
        say("The page is open in your browser.")
    else:
        say(url)
        say(ONCE)
    return 0


async def _link(options: argparse.Namespace) -> str:
    async with OwnerClient(**where(options), start=True) as client:
        return await client.open_page()


def has_browser() -> bool:
    """Whether a browser with a window can be opened. One that runs in the terminal would take it
    over, and could not show the page."""
    if sys.platform in ("darwin", "win32") or os.environ.get("BROWSER"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
