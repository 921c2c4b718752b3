"""What holds in every view: hostile texts stay texts, axe finds no serious fault, nothing
overflows, every text is translated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page

from tests.daemons import Daemon, ForkedDaemon
from tests.page.browser import CANARIES, DESKTOP, PHONE, opened, overflows, owner
from tests.paths import ROOT

AXE = ROOT / ".venv-clients" / "node" / "node_modules" / "axe-core" / "axe.min.js"
SESSION = 'session "><script>x'
ALIAS = ['alias <svg onload="x">']
NOTE = 'note <img src=x onerror="x">'
VIEWS = (
    *("overview", "browse", "browse?shape=timeline", "memory/{memory}", "ask", "map", "sessions"),
    *(
        "sessions/{session}",
        "notes",
        "notes/{note}",
        "projects",
        "projects?project={project}",
        "review",
    ),
    *("pushes", "teach", "doctor", "settings", "nothing"),
)
LOOKS = ((DESKTOP, "light", "en"), (PHONE, "dark", "fr"))
QUIET = 800  # milliseconds for what a view loads after its head


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon whose every field holds a text that would do harm as HTML."""
    running = ForkedDaemon(tmp_path_factory.mktemp("everywhere") / "data").start()
    fill(running)
    yield running
    assert running.stop() == 0, running.log.read_text()


def fill(daemon: Daemon) -> None:
    ids: list[str] = []
    for canary in CANARIES:
        metadata: dict[str, Any] = {"kind": "gotcha", "tags": [canary], "project": canary[:90]}
        metadata |= {"category": canary, "related_files": [canary], "source": "user_explicit"}
        if ids:
            metadata |= {"supersedes": [ids[-1]], "conflicts_with": [ids[0]]}
        stored = owner(daemon, "store_memory", content=canary, metadata=metadata, name=canary)
        ids.append(stored["id"])
        owner(daemon, "review_memory", memory_id=ids[-1], action="flag", reason=canary)
        for role in ("user", "assistant"):
            marks = {"session_id": SESSION, "speaker": f"{canary} {'w' * 120}"}
            owner(daemon, "add_turn", role=role, content=canary, **marks)
    owner(daemon, "rename_session", session_id=SESSION, title=CANARIES[0])
    owner(daemon, "edit_notes", action="add", name=NOTE, content=CANARIES[1], aliases=ALIAS)
    owner(daemon, "working_memory", content=f"## Goals\n{CANARIES[3]}")


def addresses(daemon: Daemon) -> list[str]:
    memory = owner(daemon, "list_memories", limit=1, kind="gotcha")["memories"][0]
    values = {
        "memory": memory["id"],
        "session": quote(SESSION, safe=""),
        "note": quote(NOTE, safe=""),
        "project": quote(memory["metadata"]["project"], safe=""),
    }
    return [view.format(**values) for view in VIEWS]


def visit(page: Page, address: str) -> None:
    base = page.url.partition("/page/")[0]
    page.goto(f"{base}/page/{address}")
    page.wait_for_selector("h1, .empty, .notice")
    page.wait_for_timeout(QUIET)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "theme", "language"), LOOKS)
def test_no_field_of_any_view_runs_or_overflows(
    browser: Browser, daemon: Daemon, size: tuple[int, int], theme: str, language: str
) -> None:
    with opened(browser, daemon, size=size, theme=theme, language=language) as page:
        for address in addresses(daemon):
            visit(page, address)
            assert page.title() != "pwned", address
            assert page.locator("#app script, #app img, #app iframe, #app b").count() == 0, address
            assert not overflows(page), address
            text = page.inner_text("body")
            assert not re.search(r"\b(?:common|nav|browse|bulk|edit|why)\.[a-z_]{3,}\b", text)
            assert page.evaluate("document.documentElement.lang") == language


@pytest.mark.slow
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_text_of_twice_the_size_stays_in_the_window(
    browser: Browser, daemon: Daemon, size: tuple[int, int]
) -> None:
    """Who has chosen large text in the browser gets it here too."""
    with opened(browser, daemon, size=size) as page:
        for address in addresses(daemon):
            visit(page, address)
            before = text_size(page)
            page.evaluate("document.documentElement.style.fontSize = '200%'")
            page.wait_for_timeout(QUIET / 4)
            assert text_size(page) == 2 * before, address
            assert not overflows(page), address


def text_size(page: Page) -> float:
    """Of what a view says first."""
    found = "document.querySelector('main h1, main p, main .empty')"
    return float(page.evaluate(f"parseFloat(getComputedStyle({found}).fontSize)"))


@pytest.mark.slow
@pytest.mark.parametrize(("size", "theme", "language"), LOOKS)
def test_axe_finds_no_serious_fault(
    browser: Browser, daemon: Daemon, size: tuple[int, int], theme: str, language: str
) -> None:
    if not AXE.exists():
        pytest.fail("axe-core is not installed: run scripts/clients")
    script = Path(AXE).read_text()
    faults: dict[str, list[str]] = {}
    with opened(browser, daemon, size=size, theme=theme, language=language) as page:
        for address in addresses(daemon):
            visit(page, address)
            page.evaluate(script)
            found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
            serious = [
                f"{one['id']}: {one['nodes'][0]['html'][:120]}"
                for one in found["violations"]
                if one["impact"] in ("serious", "critical")
            ]
            if serious:
                faults[address] = serious
    assert faults == {}


@pytest.mark.slow
def test_the_theme_and_the_language_can_be_chosen(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "browse") as page:
        page.get_by_label("Theme").select_option("dark")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.get_by_label("Language").select_option("fr")
        page.wait_for_selector("h1:has-text('Parcourir')")
        page.reload()
        page.wait_for_selector("h1:has-text('Parcourir')")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.slow
def test_the_page_says_when_the_daemon_is_gone(browser: Browser, tmp_path: Path) -> None:
    daemon = ForkedDaemon(tmp_path / "data").start()
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(owner(daemon, "open_page")["url"])
        page.wait_for_selector(".frame")
        daemon.stop()
        page.wait_for_selector("text=Not connected")
        page.get_by_role("link", name="Projects", exact=True).click()
        page.wait_for_selector("text=The daemon cannot be reached.")
        page.wait_for_selector(
            "text=The connection to the daemon is lost, so what you see may be out of date."
        )
        page.wait_for_selector("text=opens the page anew: memoryd dashboard")
    finally:
        context.close()
