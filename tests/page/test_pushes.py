"""Pushes in a real browser: what was put into prompts, and what a prompt would get."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.daemons import Daemon, ForkedDaemon
from tests.page.browser import CANARIES, PHONE, opened, overflows, owner

ERROR = "Motor error 17 goes away after the brush of the robot is cleaned."
PROMPT = "motor error 17 of the robot brush came again, what to clean?"
CANARY = f"The parrot of the harbour says {CANARIES[0]}"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon whose hooks have pushed into two sessions."""
    settings = {"MEMORYD_HOOKS_PROMPT_MIN_SCORE": "0.1"}  # hashes score lower than meanings
    running = ForkedDaemon(tmp_path_factory.mktemp("pushes") / "data", **settings).start()
    owner(running, "store_memory", content=ERROR)
    owner(running, "store_memory", content=CANARY)
    push(running, "morning-run", PROMPT)
    push(running, f"evening {CANARIES[1]}", "what does the parrot of the harbour say?")
    yield running
    assert running.stop() == 0, running.log.read_text()


def push(daemon: Daemon, session: str, prompt: str) -> None:
    payload = {"hook_event_name": "UserPromptSubmit", "session_id": session, "prompt": prompt}
    given = {"event": "prompt", "client": "claude-code", "payload": json.dumps(payload)}
    answer = owner(daemon, "hook", cwd="", no_project=True, **given)
    assert answer["output"], "nothing was pushed"


def explain(page: Page, prompt: str) -> None:
    page.get_by_role("textbox", name="Prompt").fill(prompt)
    page.get_by_role("button", name="Show", exact=True).click()


def test_what_was_pushed_is_listed_with_its_costs(browser: Browser, daemon: Daemon) -> None:
    found = owner(daemon, "list_pushes")
    with opened(browser, daemon, "pushes") as page:
        expect(page.locator(".pushes-row")).to_have_count(2)
        expect(page.locator(".pushes-figures")).to_contain_text(str(found["tokens"]))
        row = page.locator(".pushes-row", has_text="morning-run")
        row.locator("[aria-expanded]").click()
        expect(row.locator(".pushes-texts")).to_contain_text(ERROR)
        row.get_by_role("link", name=ERROR).click()
        expect(page).to_have_url(re.compile("/memory/"))


@pytest.mark.slow
def test_one_session_is_chosen_in_the_address(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "pushes") as page:
        page.locator("table").get_by_role("button", name="morning-run").click()
        expect(page).to_have_url(re.compile("session=morning-run"))
        expect(page.locator(".pushes-row")).to_have_count(1)
        page.get_by_role("button", name="All sessions").click()
        expect(page.locator(".pushes-row")).to_have_count(2)


@pytest.mark.slow
def test_a_prompt_shows_exactly_what_an_agent_would_get(browser: Browser, daemon: Daemon) -> None:
    expected = owner(daemon, "explain_push", prompt=PROMPT, no_project=True)
    assert expected["text"]
    with opened(browser, daemon, "pushes") as page:
        explain(page, PROMPT)
        expect(page.locator(".pushes-text")).to_have_text(expected["text"])
        shown = page.locator(".pushes-candidates li")
        expect(shown).to_have_count(len(expected["candidates"]))
        expect(shown.first).to_contain_text("pushed")
        for one in expected["candidates"]:
            if one["refused"]:
                expect(shown.filter(has_text=one["content"])).to_contain_text(one["refused"])
        explain(page, "go on")
        expect(page.locator(".pushes-explain")).to_contain_text("Nothing is added.")
        expect(page.locator(".pushes-explain")).to_contain_text("less than 3 words")
        assert "motor" not in page.url
    assert owner(daemon, "list_pushes")["total"] == 2  # explaining pushes nothing


@pytest.mark.slow
def test_a_forgotten_memory_is_told(browser: Browser, daemon: Daemon) -> None:
    text = "The lantern of the pier is lit at seven."
    id = owner(daemon, "store_memory", content=text)["id"]
    push(daemon, "night-run", "when is the lantern of the pier lit at night?")
    with opened(browser, daemon, "pushes?session=night-run") as page:
        owner(daemon, "forget_memory", memory_id=id)
        page.locator(".pushes-row button[aria-expanded]").first.click()
        expect(page.locator(".pushes-texts")).to_contain_text("Forgotten since.")


@pytest.mark.slow
def test_texts_that_look_like_html_stay_texts(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "pushes") as page:
        explain(page, "what does the parrot of the harbour say?")
        expect(page.locator(".pushes-text")).to_contain_text("parrot")
        page.locator(".pushes-row", has_text="evening").locator("[aria-expanded]").click()
        expect(page.locator(".pushes-texts")).to_contain_text("<img src=x")
        assert page.locator(".content img").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_shows_it_without_scrolling_sideways(
    browser: Browser, daemon: Daemon, theme: str
) -> None:
    with opened(browser, daemon, "pushes", size=PHONE, theme=theme, language="fr") as page:
        expect(page.locator(".pushes-row").first).to_be_visible()
        assert not overflows(page)
