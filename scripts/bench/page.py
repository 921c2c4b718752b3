"""The page at 1,000 and at 100,000 memories, in a real browser, and what it costs other clients.

For each size a daemon with the real model is started on a filled store. The browser reports, for
each view, the first paint, when the content was there, and the longest task of its main thread;
for Browse also while a query is typed. Another client searches, without the page and with it.

Run: .venv/bin/python -m scripts.bench.page [--sizes 1000 100000] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from playwright.sync_api import Page, sync_playwright

from memoryd.client import SyncClient
from memoryd.logs import log_to_stderr
from memoryd.settings import LogSettings
from scripts import chromium
from scripts.bench.corpus import records, texts
from scripts.bench.start import fill

VIEWS = {
    "overview": ".gauge",  # cards are there before the answer is
    "browse": ".memory",
    "map": "canvas",
    "sessions": ".card, .empty",
    "review": ".card, .empty",
}
QUERY = "ba ce di fo"  # frequent words of the corpus: the most work
SEARCHES = 300
WATCH = """
window.longest = 0;
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
}).observe({ type: "longtask", buffered: true });
"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"


@contextmanager
def daemon(folder: Path) -> Iterator[list[str]]:
    """The command line of a daemon that is ready."""
    command = [sys.executable, "-m", "memoryd", "--data-dir", str(folder)]
    subprocess.run([*command, "start"], check=True, stdout=subprocess.DEVNULL)
    try:
        yield command
    finally:
        subprocess.run([*command, "stop"], check=True, stdout=subprocess.DEVNULL)


def search_p99(folder: Path) -> float:
    """Milliseconds, of searches one after the other."""
    taken = []
    with SyncClient(data_dir=str(folder)) as client:
        for query in texts(SEARCHES, seed=7, words=(3, 6)):
            began = time.perf_counter()
            client.search(query)
            taken.append(1000 * (time.perf_counter() - began))
    return sorted(taken)[int(0.99 * len(taken))]


def measure_views(page: Page, base: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for view, content in VIEWS.items():
        page.goto(base + view)
        page.wait_for_selector(content)
        found[f"{view}: content"] = float(page.evaluate("performance.now()"))
        page.wait_for_timeout(2000)  # work that comes after the content counts too
        found[f"{view}: first paint"] = float(page.evaluate(PAINT))
        found[f"{view}: longest task"] = float(page.evaluate("window.longest"))
    return found


def measure_typing(page: Page, base: str) -> dict[str, float]:
    page.goto(base + "browse")
    page.wait_for_selector(".memory")
    page.evaluate("window.longest = 0")
    page.locator("#search").press_sequentially(QUERY, delay=80)
    began = time.perf_counter()
    page.wait_for_selector(".meter")
    shown = 1000 * (time.perf_counter() - began)
    page.wait_for_timeout(2000)
    longest = float(page.evaluate("window.longest"))
    return {"typing: results after the last key": shown, "typing: longest task": longest}


def measure(count: int, folder: Path) -> dict[str, float]:
    """Milliseconds of everything at this size."""
    anyio.run(fill, folder, list(records(count, time.time())))
    with daemon(folder) as command, sync_playwright() as playwright:
        found = {"search p99 without the page": search_p99(folder)}
        made = subprocess.run([*command, "dashboard", "--json"], check=True, capture_output=True)
        url = json.loads(made.stdout)["url"]
        browser = chromium.launch(playwright)
        if browser is None:
            sys.exit("There is no Chromium. Run: scripts/browser")
        page = browser.new_page()
        page.add_init_script(WATCH)
        page.goto(url)
        page.wait_for_selector(".frame")
        base = url.partition("#")[0]
        found |= measure_views(page, base) | measure_typing(page, base)
        page.goto(base)
        page.wait_for_selector(".card")
        found["search p99 with the page open"] = search_p99(folder)
        browser.close()
    return found


def main() -> None:
    log_to_stderr(LogSettings(level="warning"))  # stdout is for the figures
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    os.environ.pop("MEMORYD_DATA_DIR", None)
    found: dict[int, dict[str, float]] = {}
    for size in given.sizes:
        with tempfile.TemporaryDirectory() as folder:
            found[size] = measure(size, Path(folder) / "data")
    if given.json:
        print(json.dumps(found, indent=1))
        return
    show(found)


def show(found: dict[int, dict[str, Any]]) -> None:
    sizes = list(found)
    print("\n| milliseconds | " + " | ".join(f"{size:,}" for size in sizes) + " | ratio |")
    print("|---|" + "---|" * (len(sizes) + 1))
    for name in found[sizes[0]]:
        row = [found[size][name] for size in sizes]
        ratio = f"{row[-1] / row[0]:.2f}" if row[0] else "-"
        print(f"| {name} | " + " | ".join(f"{value:.0f}" for value in row) + f" | {ratio} |")


if __name__ == "__main__":
    main()
