"""A real browser that is logged in to the page of a real daemon."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Playwright

from scripts import chromium
from tests.daemons import Daemon, Lines

DESKTOP, PHONE = (1280, 860), (390, 844)
# Texts that would run, or break the page, if any of them became HTML.
CANARIES = (
    "<img src=x onerror=\"document.title='pwned'\">",
    "\"><script>document.title='pwned'</script>",
    "javascript:document.title='pwned'",
    "</textarea></title><svg onload=document.title='pwned'>",
    "{{constructor.constructor('document.title=1')()}} ${7*7} <b>bold</b>",
)


def launch(playwright: Playwright) -> Browser:
    """Chromium as the system has it. Without one the test is skipped, in CI it fails."""
    if (browser := chromium.launch(playwright)) is not None:
        return browser
    said = "There is no Chromium: run scripts/browser. The page was NOT tested."
    if os.environ.get("CI"):
        pytest.fail(said)
    pytest.skip(said)


def owner(daemon: Daemon, name: str, /, **arguments: Any) -> Any:
    """The answer of any tool or operation, called as the owner; fails if it is an error."""
    with Lines(daemon.connect()) as lines:
        lines.open("all")
        answer = lines.call("tools/call", name=name, arguments=arguments)
    assert not answer.get("isError"), answer
    return answer["structuredContent"]


@contextmanager
def opened(
    browser: Browser,
    daemon: Daemon,
    path: str = "",
    *,
    size: tuple[int, int] = DESKTOP,
    theme: str = "light",
    language: str = "en",
    refusals: bool = False,
) -> Iterator[Page]:
    """The page at a path such as `browse?type=fact`, logged in. The test fails if the browser
    complains about anything; with `refusals` it may report calls that the daemon refuses."""
    scheme: Any = theme
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, locale=language
    )
    complaints: list[str] = []
    try:
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda said: complaints.append(said.text) if _bad(said.type) else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"a dialog: {dialog.message}"))
        link = owner(daemon, "open_page")["url"]
        page.goto(link)
        page.wait_for_selector(".frame")
        if path:
            page.goto(f"{link.partition('#')[0]}{path}")
            page.wait_for_selector(".frame")
        yield page
        assert "pwned" not in page.title()
        if refusals:
            complaints = [said for said in complaints if "status of 400" not in said]
        assert not complaints, complaints
    finally:
        context.close()


def _bad(kind: str) -> bool:
    return kind in ("error", "warning")


def overflows(page: Page) -> bool:
    """Whether the page is wider than its window."""
    return bool(page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"))


def eventually(page: Page, holds: Callable[[], bool]) -> None:
    """Wait for something that is not in the page's HTML."""
    for _ in range(300):
        if holds():
            return
        page.wait_for_timeout(100)
    raise AssertionError("it never held")
