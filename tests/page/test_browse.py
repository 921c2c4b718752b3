"""Browse and one memory, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.daemons import Daemon, ForkedDaemon
from tests.page.browser import CANARIES, PHONE, eventually, opened, overflows, owner

TEA = "Ann prefers green tea in the morning"
BUILD = "The build needs Node 22"
STANDUP = "Standup is at half past nine"
DOCK = "We moved the charging dock to the hall"


@pytest.fixture
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with four memories of all types."""
    running = ForkedDaemon(tmp_path_factory.mktemp("browse") / "data").start()
    store(running, TEA, kind="preference", tags=["tea", "ann"], source="user_explicit")
    store(running, BUILD, kind="gotcha", project="web/shop")
    owner(running, "store_memory", content=STANDUP, memory_type="context")
    owner(running, "store_memory", content=DOCK, memory_type="conversation", session_id="s-1")
    yield running
    assert running.stop() == 0, running.log.read_text()


def store(daemon: Daemon, content: str, **metadata: Any) -> str:
    id: str = owner(daemon, "store_memory", content=content, metadata=metadata)["id"]
    return id


def texts(daemon: Daemon) -> set[str]:
    return {memory["content"] for memory in owner(daemon, "list_memories", limit=100)["memories"]}


def found(daemon: Daemon, content: str) -> Any:
    listed = owner(daemon, "list_memories", limit=100)["memories"]
    return next(memory for memory in listed if memory["content"] == content)


def row(page: Page, text: str) -> Any:
    return page.locator(".memory", has_text=text)


def test_all_memories_are_listed_and_found_as_one_types(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "browse") as page:
        expect(page.locator(".memory")).to_have_count(4)
        page.locator("#search").press_sequentially("green tea")
        expect(page.locator(".memory")).to_have_count(1)
        expect(page.locator(".memory mark").first).to_have_text("green")
        page.locator(".why summary").click()
        expect(page.locator(".why")).to_contain_text("Words")
        assert "green" not in page.url  # no text in an address
        page.reload()
        expect(page.locator("#search")).to_have_value("green tea")


@pytest.mark.slow
def test_filters_live_in_the_address_bar(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "browse") as page:
        page.get_by_role("button", name="Context").click()
        expect(page.locator(".memory")).to_have_count(1)
        assert "type=context" in page.url
        page.get_by_role("button", name="All", exact=True).click()
        for name, value, text in (
            ("Kind", "gotcha", BUILD),
            ("Project", "web/shop", BUILD),
            ("Tag", "tea", TEA),
            ("Source", "user_explicit", TEA),
            ("Session", "s-1", DOCK),
        ):
            page.get_by_label(name, exact=True).select_option(value)
            expect(page.locator(".memory")).to_have_count(1)
            expect(row(page, text)).to_be_visible()
            page.reload()  # the address alone says it
            expect(page.locator(".memory")).to_have_count(1)
            page.get_by_role("button", name="Clear filters").click()
            expect(page.locator(".memory")).to_have_count(4)
        page.get_by_label("Age", exact=True).select_option("older")
        expect(page.get_by_text("Nothing matches.")).to_be_visible()
        page.get_by_label("Age", exact=True).select_option("today")
        expect(page.locator(".memory")).to_have_count(4)
        page.get_by_role("button", name="Pinned").click()
        expect(page.get_by_text("Nothing matches.")).to_be_visible()
        page.get_by_role("button", name="Clear filters").click()
        expect(page.locator(".memory")).to_have_count(4)


@pytest.mark.slow
def test_orders_and_the_timeline(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "browse") as page:
        page.get_by_label("Order").select_option("oldest")
        expect(page.locator(".memory").first).to_contain_text(TEA)
        page.get_by_label("Order").select_option("expiring")
        expect(page.locator(".memory").first).to_contain_text(STANDUP)
        page.get_by_role("button", name="Timeline").click()
        expect(page.locator(".moment")).to_have_count(4)
        expect(page.locator(".timeline h2")).to_have_count(1)


@pytest.mark.slow
def test_what_others_store_appears_by_itself(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "browse") as page:
        expect(page.locator(".memory")).to_have_count(4)
        store(daemon, "Another agent has stored this")
        expect(page.locator(".memory")).to_have_count(5)


@pytest.mark.slow
def test_forgetting_can_be_undone_until_it_is_committed(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "browse") as page:
        row(page, TEA).locator("a.words").click()
        page.get_by_role("button", name="Forget").click()
        expect(page.locator(".toast")).to_be_visible()
        expect(row(page, BUILD)).to_be_visible()
        expect(row(page, TEA)).to_have_count(0)
        assert TEA in texts(daemon)  # nothing was sent yet
        page.get_by_role("button", name="Undo").click()
        expect(row(page, TEA)).to_be_visible()
        assert TEA in texts(daemon)


@pytest.mark.slow
def test_a_forget_is_committed_when_the_page_is_left(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "browse") as page:
        row(page, TEA).locator("a.words").click()
        page.get_by_role("button", name="Forget").click()
        expect(page.locator(".toast")).to_be_visible()
        page.goto("about:blank")
        eventually(page, lambda: TEA not in texts(daemon))


@pytest.mark.slow
def test_several_memories_are_forgotten_after_a_preview(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "browse") as page:
        row(page, TEA).locator(".tick").check()
        row(page, STANDUP).locator(".tick").check()
        page.locator(".bulk").get_by_role("button", name="Forget").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text(re.compile("1 . fact"))
        expect(dialog).to_contain_text(re.compile("1 . context"))
        dialog.get_by_role("button", name="Forget 2 memories").click()
        expect(page.locator(".memory")).to_have_count(2)
        eventually(page, lambda: texts(daemon) == {BUILD, DOCK})
        expect(page.locator(".memory")).to_have_count(2)


@pytest.mark.slow
def test_several_memories_are_tagged_changed_and_exported(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "browse") as page:
        for text in (TEA, BUILD):
            row(page, text).locator(".tick").check()
        page.locator(".bulk").get_by_role("button", name="Tag").click()
        page.get_by_label("Add").fill("kept, home")
        page.get_by_label("Remove").fill("ann")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".toast")).to_contain_text("2 memories changed")
        assert found(daemon, TEA)["metadata"]["tags"] == ["tea", "kept", "home"]

        for text in (TEA, BUILD):
            row(page, text).locator(".tick").check()
        page.locator(".bulk").get_by_role("button", name="Change").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("pinned").select_option("yes")
        dialog.get_by_label("Project").fill("home")
        dialog.get_by_role("button", name="Save").click()
        expect(row(page, TEA)).to_contain_text("pinned")
        assert found(daemon, BUILD)["metadata"]["project"] == "home"

        row(page, TEA).locator(".tick").check()
        page.locator(".bulk").get_by_role("button", name="Export").click()
        with page.expect_download() as download:
            page.get_by_role("dialog").get_by_role("button", name="Export").click()
        assert TEA in download.value.path().read_text()


@pytest.mark.slow
def test_one_memory_is_edited_pinned_and_moved(browser: Browser, daemon: Daemon) -> None:
    id = found(daemon, TEA)["id"]
    with opened(browser, daemon, f"memory/{id}") as page:
        page.get_by_role("button", name="Pin").click()
        expect(page.get_by_role("button", name="Unpin")).to_be_visible()
        page.get_by_role("button", name="Edit").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Text").fill("Ann prefers black tea")
        dialog.get_by_label("Name").fill("drink of Ann")
        dialog.get_by_label("Type").select_option("context")
        dialog.get_by_label("Kind").fill("decision")
        dialog.get_by_label("Project").fill("home")
        dialog.get_by_label("Tags").fill("tea")
        dialog.get_by_role("button", name="Save").click()
        expect(page.get_by_role("heading", name="drink of Ann")).to_be_visible()
        expect(page.locator(".content-text")).to_have_text("Ann prefers black tea")
    memory = owner(daemon, "memory_detail", memory_id=id)["memory"]
    assert (memory["type"], memory["name"], memory["pinned"]) == ("context", "drink of Ann", True)
    assert memory["metadata"]["kind"] == "decision"
    assert memory["metadata"]["project"] == "home"
    assert memory["metadata"]["tags"] == ["tea"]


@pytest.mark.slow
def test_a_refusal_is_told_beside_the_form(browser: Browser, daemon: Daemon) -> None:
    id = found(daemon, TEA)["id"]
    owner(daemon, "update_memory", memory_id=found(daemon, BUILD)["id"], name="taken")
    with opened(browser, daemon, f"memory/{id}") as page:
        page.get_by_role("button", name="Edit").click()
        page.get_by_role("dialog").get_by_label("Name").fill("taken")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("taken")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.slow
def test_a_memory_shows_its_versions_relations_and_neighbours(
    browser: Browser, daemon: Daemon
) -> None:
    old = found(daemon, TEA)["id"]
    new = store(daemon, "Ann prefers cocoa", supersedes=[old], conflicts_with=[old])
    for role, text in (("user", "Where is the dock?"), ("assistant", "In the hall.")):
        turn = owner(daemon, "add_turn", role=role, content=text, session_id="talk")
    with opened(browser, daemon, f"memory/{new}") as page:
        expect(page.locator("section", has_text="How it changed")).to_contain_text(TEA)
        expect(page.locator("section", has_text="Related memories")).to_contain_text("conflicts")
        page.goto(page.url.replace(new, turn["id"]))
        expect(page.locator("section", has_text="Before and after")).to_contain_text("Where is")


@pytest.mark.slow
def test_a_memory_that_is_gone_is_told(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "memory/nothing") as page:
        expect(page.get_by_role("alert")).to_contain_text("There is no memory")


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_text_runs_and_nothing_overflows(browser: Browser, daemon: Daemon, theme: str) -> None:
    for canary in CANARIES:
        id = store(daemon, canary, kind="decision", tags=[canary], category=canary, project=canary)
    long = "word" * 200
    store(daemon, long, tags=[long[:60]], project=long[:90])
    with opened(browser, daemon, "browse", size=PHONE, theme=theme) as page:
        expect(page.locator(".memory").first).to_contain_text("wordword")
        assert not overflows(page)
        page.get_by_role("button", name="Timeline").click()
        expect(page.locator(".moment")).to_have_count(10)
        assert not overflows(page)
        page.goto(page.url.partition("browse")[0] + f"memory/{id}")
        expect(page.locator(".content-text")).to_have_text(CANARIES[-1])
        expect(page.locator(".content-text b")).to_have_count(0)
        assert not overflows(page)


@pytest.mark.slow
def test_it_can_be_used_by_keyboard(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "browse") as page:
        expect(page.locator(".memory")).to_have_count(4)
        page.keyboard.press("/")
        page.keyboard.type("Node 22")
        expect(page.locator(".memory")).to_have_count(1)
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.classList.contains('words')"):
                break
        page.keyboard.press("Enter")
        expect(page.locator(".content-text")).to_have_text(BUILD)
