"""One browser and one daemon for the tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.daemons import Daemon, ForkedDaemon
from tests.page.browser import launch

expect.set_options(timeout=30_000)  # a busy machine is no fault


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """For one module: while it is open no event loop of another test can run."""
    with sync_playwright() as playwright:
        found = launch(playwright)
        yield found
        found.close()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon for the tests of one module, without any memories."""
    running = ForkedDaemon(tmp_path_factory.mktemp("page") / "data").start()
    yield running
    assert running.stop() == 0, running.log.read_text()
