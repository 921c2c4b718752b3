"""The Chromium of the system, for tests, pictures and benchmarks of the page."""

from __future__ import annotations

import shutil

from playwright.sync_api import Browser, Playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def launch(playwright: Playwright) -> Browser | None:
    """A browser without a window; None if the system has none (see scripts/browser)."""
    program = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if program is None:
        return None
    return playwright.chromium.launch(executable_path=program, args=FLAGS)
