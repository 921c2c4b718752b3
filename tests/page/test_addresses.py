"""Addresses: every name leads to what has it, also after a reload, and none breaks the page."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.daemons import Daemon
from tests.page.browser import opened, owner

# Names that a browser would change if they stood in an address as they are.
NAMES = ("..", ".", "~..", "/tmp/x//y", "a/../b/", "100%", "what?&#x=1", "日本 語")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_session_opens_by_its_link_and_its_address(
    browser: Browser, daemon: Daemon, name: str
) -> None:
    owner(daemon, "add_turn", session_id=name, role="user", content=f"Said in {name}")
    with opened(browser, daemon, "sessions") as page:
        page.locator(".session-row", has=page.get_by_text(name, exact=True)).click()
        expect(page.locator(".message .text")).to_have_text(f"Said in {name}")
        page.reload()
        expect(page.locator(".message .text")).to_have_text(f"Said in {name}")
        page.go_back()
        expect(page.locator(".session-row").first).to_be_visible()


@pytest.mark.slow
def test_an_address_that_is_no_address_leaves_the_page_whole(
    browser: Browser, daemon: Daemon
) -> None:
    with opened(browser, daemon, "%", refusals=True) as page:
        expect(page.get_by_text("There is no such page.")).to_be_visible()
        page.goto(page.url.replace("%", "sessions/%E0%A4"))
        expect(page.get_by_text("There is no session '%E0%A4'.")).to_be_visible()


@pytest.mark.slow
def test_the_history_keeps_the_search_of_each_entry(browser: Browser, daemon: Daemon) -> None:
    """The link in the navigation begins anew; going back finds the search again."""
    owner(daemon, "store_memory", content="The kettle is in the cupboard")
    with opened(browser, daemon, "browse") as page:
        box = page.locator("#search")
        box.press_sequentially("kettle")
        expect(page.locator(".memory mark")).to_have_text("kettle")
        page.get_by_role("link", name="Browse", exact=True).click()
        expect(box).to_have_value("")
        page.go_back()
        expect(box).to_have_value("kettle")
        expect(page.locator(".memory mark")).to_have_text("kettle")
