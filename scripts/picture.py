"""Makes docs/page.png and docs/page-map.png: the overview in light and the map in dark, of a daemon
with invented memories. Run it by scripts/picture."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, cast

from playwright.sync_api import Browser, ViewportSize, sync_playwright

from scripts import chromium

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
WIDTH, HEIGHT = 1360, 930


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        demo = Path(folder) / "demo"
        command = [sys.executable, "-m", "memoryd", "--data-dir", str(demo)]
        subprocess.run([*command, "demo"], check=True)
        command += ["--config", str(demo / "config.yaml")]
        subprocess.run([*command, "backup"], check=True)
        browser = chromium.launch(playwright)
        if browser is None:
            sys.exit("There is no Chromium. Run: scripts/browser")
        try:
            shoot(browser, link(command), "", ".chart", "page.png", "light")
            shoot(browser, link(command), "map", "canvas", "page-map.png", "dark")
        finally:
            browser.close()
            subprocess.run([*command, "stop"], check=False)


def link(command: list[str]) -> str:
    """A link to the page that logs a browser in."""
    made = subprocess.run([*command, "dashboard", "--json"], check=True, capture_output=True)
    return str(json.loads(made.stdout)["url"])


def shoot(browser: Browser, url: str, view: str, content: str, name: str, theme: str) -> None:
    """Write a picture of a view, once its content is there."""
    size, scheme = ViewportSize(width=WIDTH, height=HEIGHT), cast(Any, theme)
    page = browser.new_page(viewport=size, color_scheme=scheme)
    page.goto(url)
    page.wait_for_selector(".frame")
    page.goto(url.partition("#")[0] + view)
    page.wait_for_selector(content)
    page.wait_for_timeout(1500)  # charts
    page.screenshot(path=DOCS / name)
    page.close()
    print(f"wrote docs/{name}")


if __name__ == "__main__":
    main()
