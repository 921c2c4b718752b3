"""More memories at once than one call takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.daemons import ForkedDaemon, Lines
from tests.page.browser import opened
from tests.page.test_map import lasso, selected, show


@pytest.mark.slow
def test_the_preview_counts_all_of_a_large_selection(browser: Browser, tmp_path: Path) -> None:
    """One call takes a thousand ids."""
    many = ForkedDaemon(tmp_path / "data").start()
    with Lines(many.connect()) as lines:
        lines.open("all")
        for number in range(1100):
            lines.tool("store_memory", content=f"Shelf {number} holds box {number * 7}.")
    with opened(browser, many, "map") as page:
        page.set_default_timeout(120_000)
        show(page)
        lasso(page)
        selected(page).get_by_role("button", name="Forget").click()
        expect(page.locator("dialog .chip")).to_contain_text("1,100")
    assert many.stop() == 0, many.log.read_text()
