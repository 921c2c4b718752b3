"""The settings: all of them, where each comes from, how to change it, and no secret."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from memoryd.settings import keys
from tests.daemons import Daemon, ForkedDaemon
from tests.page.browser import CANARIES, DESKTOP, PHONE, opened, overflows, owner

SECRET = "key-that-nobody-may-see"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with a value that would run if it were HTML, and a secret."""
    running = ForkedDaemon(
        tmp_path_factory.mktemp("settings") / "data",
        MEMORYD_LLM_MODEL=CANARIES[0],
        MEMORYD_STORE_HEADERS=f'{{"Authorization": "{SECRET}"}}',
    ).start()
    yield running
    assert running.stop() == 0, running.log.read_text()


def setting(page: Page, key: str) -> str:
    row = page.locator("li.setting", has=page.get_by_text(key, exact=True))
    return row.inner_text()


def test_every_setting_is_there(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "settings") as page:
        expect(page.locator(".setting .key")).to_have_text(list(keys()))


@pytest.mark.slow
def test_it_says_where_a_value_comes_from_and_how_to_change_it(
    browser: Browser, daemon: Daemon
) -> None:
    with opened(browser, daemon, "settings/embedding") as page:
        expect(page.locator(".setting").first).to_be_visible()
        said = setting(page, "embedding.backend")
        for part in ("hash", "variable", "Default: onnx", "MEMORYD_EMBEDDING_BACKEND"):
            assert part in said
        row = page.locator("li.setting", has=page.get_by_text("embedding.threads", exact=True))
        expect(row).to_contain_text("default")
        row.get_by_text("How to change it").click()
        expect(row.locator("pre")).to_have_text("embedding:\n  threads: 0")
        expect(row).to_contain_text("MEMORYD_EMBEDDING_THREADS")
        expect(row).to_contain_text("config.yaml")


@pytest.mark.slow
def test_it_names_the_flag_and_the_file(browser: Browser, daemon: Daemon) -> None:
    file = owner(daemon, "settings")["file"]
    with opened(browser, daemon, "settings/memory") as page:
        expect(page.locator(".how")).to_contain_text(file)
        expect(page.locator(".how")).to_contain_text("No setting comes from a file now.")
        assert "Set by --data-dir when the daemon was started" in setting(page, "memory.path")


@pytest.mark.slow
def test_secrets_are_not_shown(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "settings/store") as page:
        expect(page.locator(".setting").first).to_be_visible()
        assert "set, not shown" in setting(page, "store.headers")
        row = page.locator("li.setting", has=page.get_by_text("store.headers", exact=True))
        row.get_by_text("How to change it").click()
        assert SECRET not in page.content()


@pytest.mark.slow
def test_a_search_finds_keys_words_and_values_and_stays_out_of_the_address(
    browser: Browser, daemon: Daemon
) -> None:
    with opened(browser, daemon, "settings") as page:
        box = page.get_by_role("searchbox")
        found = page.locator(".setting .key")
        for text, key in (
            ("MEMORYD_LOG_KEEP", "log.keep"),
            ("every hours", "backup.every_hours"),
            ("img onerror", "llm.model"),
        ):
            box.fill(text)
            expect(found).to_have_text([key])
        assert "onerror" not in page.url
        page.reload()
        expect(found).to_have_text(["llm.model"])
        expect(page.locator("li.setting code.value")).to_have_text(CANARIES[0])
        box.fill("nothing is called so")
        expect(page.get_by_text("No setting found")).to_be_visible()


@pytest.mark.slow
def test_filters_are_in_the_address(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "settings") as page:
        page.get_by_role("button", name="Changed").click()
        page.wait_for_url("**/settings?changed=1")
        expect(page.locator(".setting .key", has_text="llm.model")).to_be_visible()
        expect(page.locator(".setting .key", has_text="log.keep")).to_have_count(0)
        page.get_by_label("Section").select_option("llm")
        page.wait_for_url("**/settings/llm?changed=1")
        expect(page.locator(".setting .key")).to_have_text(["llm.model"])


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_it_fits_and_speaks_french(
    browser: Browser, daemon: Daemon, theme: str, size: tuple[int, int]
) -> None:
    with opened(browser, daemon, "settings", size=size, theme=theme, language="fr") as page:
        expect(page.locator("h1")).to_have_text("Réglages")
        page.wait_for_selector(".setting")
        assert not overflows(page)
        assert "settings." not in page.locator("main").inner_text()
