"""Ask in a real browser: an answer with its sources, or that there is none."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.daemons import Daemon, ForkedDaemon
from tests.page.browser import CANARIES, PHONE, opened, overflows, owner

DOCK = "The charging dock of the robot is in the laundry room."
LANTERN = "The lantern of the pier is lit at seven in the evening."
CACHE = "The cache of the shop is cleared every night."


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    running = ForkedDaemon(tmp_path_factory.mktemp("ask") / "data").start()
    owner(running, "store_memory", content=DOCK, metadata={"project": "house/robot"})
    owner(running, "store_memory", content=CACHE, metadata={"project": "shop/web"})
    owner(running, "add_turn", session_id="s-1", role="assistant", content=LANTERN)
    for number, canary in enumerate(CANARIES):
        text = f"The canary song {number} is {canary}"
        owner(running, "store_memory", content=text, metadata={"project": canary[:60]})
    yield running
    assert running.stop() == 0, running.log.read_text()


def ask(page: Page, question: str) -> None:
    page.get_by_role("textbox", name="Question").fill(question)
    page.keyboard.press("Enter")
    expect(page.locator(".ask-asked")).to_have_text(question)


def test_an_answer_names_its_sources(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "ask") as page:
        ask(page, "Where is the charging dock of the robot?")
        expect(page.locator(".ask-text")).to_contain_text(DOCK)
        expect(page.locator(".ask-answer")).to_contain_text("quoted from memories")
        page.get_by_role("button", name="Go to source 1").click()
        expect(page.locator(".ask-source.marked")).to_contain_text(DOCK)
        expect(page.locator(".ask-source.marked")).to_be_focused()
        assert "dock" not in page.url
        page.locator(".ask-source.marked a").click()
        expect(page).to_have_url(re.compile("/memory/"))


@pytest.mark.slow
def test_a_message_is_quoted_with_who_said_it(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "ask") as page:
        ask(page, "When is the lantern of the pier lit?")
        expect(page.locator(".ask-text")).to_contain_text(f"(assistant) {LANTERN}")


@pytest.mark.slow
def test_it_says_when_memory_holds_nothing(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "ask") as page:
        ask(page, "Who won the chess olympiad of Skopje?")
        expect(page.locator(".notice")).to_contain_text("Memory holds nothing about this.")
        expect(page.locator(".ask-text")).to_have_count(0)


@pytest.mark.slow
def test_filters_are_in_the_address_and_narrow_the_answer(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "ask") as page:
        page.get_by_label("Project").select_option("shop/web")
        expect(page).to_have_url(re.compile("project=shop%2Fweb"))
        page.get_by_label("Type").select_option("fact")
        expect(page).to_have_url(re.compile("type=fact"))
        ask(page, "Where is the charging dock of the robot?")
        expect(page.locator(".ask-answer")).not_to_contain_text(DOCK)
        page.get_by_label("Project").select_option("house/robot")
        page.get_by_role("button", name="Ask", exact=True).click()
        expect(page.locator(".ask-text")).to_contain_text(DOCK)


@pytest.mark.slow
def test_the_questions_of_this_visit_can_be_looked_at_again(
    browser: Browser, daemon: Daemon
) -> None:
    first, second = "Where is the charging dock of the robot?", "When is the cache cleared?"
    with opened(browser, daemon, "ask") as page:
        ask(page, first)
        ask(page, second)
        expect(page.locator(".ask-before li")).to_have_count(2)
        page.get_by_role("button", name=first).click()
        expect(page.locator(".ask-text")).to_contain_text(DOCK)
        expect(page.get_by_role("textbox", name="Question")).to_have_value(first)
        page.reload()
        expect(page.get_by_text("Ask in your own words.")).to_be_visible()
        expect(page.locator(".ask-before")).to_have_count(0)


@pytest.mark.slow
def test_an_error_is_told_beside_the_question(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "ask?type=nonsense") as page:
        page.get_by_role("textbox", name="Question").fill("Where is the dock?")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("nonsense")


@pytest.mark.slow
def test_texts_that_look_like_html_stay_texts(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "ask") as page:
        for number in range(len(CANARIES)):
            ask(page, f"What is the canary song {number} {CANARIES[0]}")
        expect(page.locator(".ask-source").first).to_contain_text("canary song")
        shown = page.locator(".ask-columns").inner_text()
        assert "<img src=x onerror" in shown
        assert page.locator(".content img, .content svg[onload], .content b").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_shows_it_without_scrolling_sideways(
    browser: Browser, daemon: Daemon, theme: str
) -> None:
    with opened(browser, daemon, "ask", size=PHONE, theme=theme, language="fr") as page:
        ask(page, "Where is the charging dock of the robot?")
        expect(page.locator(".ask-source").first).to_be_visible()
        assert not overflows(page)
