"""Review in a real browser: one memory after another, by buttons and by keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.daemons import Daemon, ForkedDaemon
from tests.page.browser import CANARIES, PHONE, eventually, opened, overflows, owner

TEXTS = [f"The number {number} is drawn on the wall." for number in range(4)]


@pytest.fixture
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with four memories that need a review, and one that does not."""
    running = ForkedDaemon(tmp_path_factory.mktemp("review") / "data").start()
    for number, text in enumerate(TEXTS):
        flagged(running, text, f"Reason {number}.", project="wall")
    owner(running, "store_memory", content="Nobody doubts this.")
    yield running
    assert running.stop() == 0, running.log.read_text()


def flagged(daemon: Daemon, text: str, reason: str, **metadata: Any) -> str:
    id: str = owner(daemon, "store_memory", content=text, metadata=metadata)["id"]
    owner(daemon, "review_memory", memory_id=id, action="flag", reason=reason)
    return id


def waiting(daemon: Daemon) -> list[str]:
    found = owner(daemon, "list_memories", metadata={"needs_review": True}, order="oldest")
    return [memory["content"] for memory in found["memories"]]


def stored(daemon: Daemon) -> set[str]:
    return {memory["content"] for memory in owner(daemon, "list_memories", limit=100)["memories"]}


def shows(page: Page, text: str, place: str) -> None:
    expect(page.locator(".review-words")).to_have_text(text)
    expect(page.locator(".review-progress")).to_have_text(place)


def test_keys_confirm_skip_and_go_back(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "review") as page:
        shows(page, TEXTS[0], "1 of 4")
        expect(page.locator(".review-reason")).to_contain_text("Reason 0.")
        page.keyboard.press("c")
        shows(page, TEXTS[1], "2 of 4")
        eventually(page, lambda: waiting(daemon) == TEXTS[1:])
        page.keyboard.press("s")
        shows(page, TEXTS[2], "3 of 4")
        page.keyboard.press("ArrowRight")
        shows(page, TEXTS[3], "4 of 4")
        page.keyboard.press("ArrowLeft")
        shows(page, TEXTS[2], "3 of 4")
    assert waiting(daemon) == TEXTS[1:]


@pytest.mark.slow
def test_a_correction_is_written_in_place(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "review") as page:
        shows(page, TEXTS[0], "1 of 4")
        page.keyboard.press("e")
        box = page.get_by_role("textbox", name="The right text")
        expect(box).to_be_focused()
        expect(box).to_have_value(TEXTS[0])
        box.fill("")
        page.keyboard.type("screech c r s")  # keys are letters while one writes
        page.keyboard.press("Escape")
        shows(page, TEXTS[0], "1 of 4")
        page.get_by_role("button", name="Correct").click()
        box.fill("The number 10 is drawn on the wall.")
        page.keyboard.press("Control+Enter")
        shows(page, TEXTS[1], "2 of 4")
    assert "The number 10 is drawn on the wall." in stored(daemon)
    assert TEXTS[0] not in stored(daemon)
    assert waiting(daemon) == TEXTS[1:]


@pytest.mark.slow
def test_a_refused_correction_keeps_what_was_written(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "review") as page:
        shows(page, TEXTS[0], "1 of 4")
        page.keyboard.press("e")
        box = page.get_by_role("textbox", name="The right text")
        long = "x" * 1_200_000
        box.fill(long)
        page.get_by_role("button", name="Save the correction").click()
        expect(page.get_by_role("alert")).to_be_visible()
        assert len(box.input_value()) == len(long)
    assert waiting(daemon) == TEXTS


@pytest.mark.slow
def test_a_rejection_can_be_undone_until_it_is_committed(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "review") as page:
        shows(page, TEXTS[0], "1 of 4")
        page.keyboard.press("r")
        shows(page, TEXTS[1], "2 of 4")
        assert TEXTS[0] in stored(daemon)
        page.get_by_role("button", name="Undo").click()
        shows(page, TEXTS[0], "1 of 4")
        page.get_by_role("button", name="Reject").click()
        shows(page, TEXTS[1], "2 of 4")
        page.goto(page.url)  # leaving the page commits
        shows(page, TEXTS[1], "1 of 3")
    assert stored(daemon) == {*TEXTS[1:], "Nobody doubts this."}


@pytest.mark.slow
def test_the_end_tells_what_was_done_and_leads_to_what_was_skipped(
    browser: Browser, daemon: Daemon
) -> None:
    with opened(browser, daemon, "review") as page:
        shows(page, TEXTS[0], "1 of 4")
        page.keyboard.press("s")
        for text in TEXTS[1:]:
            expect(page.locator(".review-words")).to_have_text(text)
            page.keyboard.press("c")
        expect(page.locator(".empty")).to_contain_text("You reached the end.")
        expect(page.locator(".empty")).to_contain_text("3 memories reviewed")
        page.get_by_role("button", name="Look at what you skipped").click()
        shows(page, TEXTS[0], "1 of 4")
        page.keyboard.press("c")
        expect(page.locator(".empty")).to_contain_text("All reviewed.")
        eventually(page, lambda: not waiting(daemon))
        page.goto(page.url)
        expect(page.locator(".empty")).to_contain_text("Nothing waits for a review.")


@pytest.mark.slow
def test_the_list_and_the_context_go_with_it(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "review") as page:
        listed = page.get_by_role("navigation", name="Waiting").get_by_role("button")
        expect(listed).to_have_count(4)
        listed.nth(2).click()
        shows(page, TEXTS[2], "3 of 4")
        context = page.get_by_role("region", name="Context")
        expect(context).to_contain_text("wall")
        expect(context.locator(".short-memory").first).to_be_visible()
        flagged(daemon, "A late doubt.", "Late.")
        expect(listed).to_have_count(5)
        shows(page, TEXTS[2], "3 of 5")
        first = owner(daemon, "list_memories", metadata={"needs_review": True}, order="oldest")
        id = first["memories"][0]["id"]
        owner(daemon, "review_memory", memory_id=id, action="confirm")  # somebody else
        expect(listed).to_have_count(4)
        shows(page, TEXTS[2], "2 of 4")


@pytest.mark.slow
def test_an_action_that_fails_brings_the_memory_back(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "review") as page:
        shows(page, TEXTS[0], "1 of 4")

        def refuse(route: Any) -> None:
            if "review_memory" not in route.request.post_data:
                route.continue_()
                return
            told = {"error": {"code": "store_busy", "message": "The store is busy.", "hint": ""}}
            route.fulfill(json=told)

        page.route("**/page/call", refuse)
        page.keyboard.press("c")
        expect(page.get_by_role("alert")).to_contain_text("The store is busy.")
        shows(page, TEXTS[0], "1 of 4")


@pytest.mark.slow
def test_texts_that_look_like_html_stay_texts(browser: Browser, daemon: Daemon) -> None:
    for canary in CANARIES:
        flagged(
            daemon, f"Seen: {canary}", f"Why {canary}", related_files=[canary[:60]], source="user"
        )
    with opened(browser, daemon, "review") as page:
        expect(page.locator(".review-progress")).to_have_text("1 of 9")
        for _ in TEXTS:
            page.keyboard.press("s")
        for canary in CANARIES:
            expect(page.locator(".review-words")).to_have_text(f"Seen: {canary}")
            expect(page.locator(".review-reason")).to_contain_text("Why ")
            expect(page.get_by_role("region", name="Context")).to_contain_text("Files")
            page.keyboard.press("s")
        assert page.locator(".content img, .content b").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_shows_it_without_scrolling_sideways(
    browser: Browser, daemon: Daemon, theme: str
) -> None:
    with opened(browser, daemon, "review", size=PHONE, theme=theme, language="fr") as page:
        expect(page.locator(".review-words")).to_have_text(TEXTS[0])
        page.get_by_role("button", name="Confirmer").click()
        expect(page.locator(".review-words")).to_have_text(TEXTS[1])
        assert not overflows(page)
