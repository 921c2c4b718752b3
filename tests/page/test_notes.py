"""Notes, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.daemons import Daemon, ForkedDaemon
from tests.page.browser import CANARIES, PHONE, opened, overflows, owner

STEPS = "Build, then ship to the canary."


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with a note that has two aliases, and another one."""
    running = ForkedDaemon(tmp_path_factory.mktemp("notes") / "data").start()
    add(running, "Deploy steps", STEPS, aliases=["rollout", "Café"])
    add(running, "Garden plan", "Tomatoes along the south wall.")
    yield running
    assert running.stop() == 0, running.log.read_text()


def add(daemon: Daemon, name: str, content: str, **rest: Any) -> str:
    given = {"action": "add", "name": name, "content": content, **rest}
    id: str = owner(daemon, "edit_notes", **given)["note"]["id"]
    return id


def read(daemon: Daemon, name: str) -> Any:
    return owner(daemon, "read_notes", name=name)["notes"][0]


def test_a_note_is_chosen_and_read(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "notes") as page:
        page.locator(".note-row", has_text="Deploy steps").click()
        expect(page.locator(".note-text")).to_have_text(STEPS)
        expect(page.locator(".aliases .chip")).to_have_count(2)
        assert "Deploy" not in page.url


@pytest.mark.slow
def test_notes_are_found_by_name_alias_and_text(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "notes") as page:
        box = page.get_by_role("searchbox")
        for typed, name in (
            ("gard", "Garden plan"),
            ("ROLL", "Deploy steps"),
            ("cafe", "Deploy steps"),
            ("tomatoes", "Garden plan"),
        ):
            box.fill(typed)
            expect(page.locator(".note-row strong")).to_have_text([name])
            assert typed not in page.url
        box.fill("nothing has these words")
        expect(page.get_by_text("No note matches.")).to_be_visible()


@pytest.mark.slow
def test_a_note_is_added_and_a_taken_name_is_refused(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "notes", refusals=True) as page:
        page.get_by_role("button", name="Add a note").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill("ROLLOUT")
        dialog.get_by_label("Text").fill("Milk, my password is Xk29vLq8Tz.")
        dialog.get_by_label("Aliases").fill("groceries, list")
        dialog.get_by_role("button", name="Save").click()
        expect(dialog.get_by_role("alert")).to_contain_text("Deploy steps")
        dialog.get_by_label("Name").fill("Shopping")
        dialog.get_by_role("button", name="Save").click()
        expect(page.locator(".note-name")).to_have_text("Shopping")
        expect(page.locator(".toast")).to_contain_text("secret")
        expect(page.locator(".note-row", has_text="Shopping")).to_have_count(1)
    note = read(daemon, "groceries")
    assert note["aliases"] == ["groceries", "list"]
    assert "Xk29vLq8Tz" not in note["content"]


@pytest.mark.slow
def test_a_note_is_written_renamed_and_removed(browser: Browser, daemon: Daemon) -> None:
    id = add(daemon, "Draft", "First words.", aliases=["sketch"])
    with opened(browser, daemon, f"notes/{id}") as page:
        page.get_by_role("button", name="Edit", exact=True).click()
        page.get_by_role("dialog").get_by_label("Text").fill("Better words.\n\nAnd more.")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".note-text")).to_contain_text("And more.")
        page.get_by_role("button", name="Rename").click()
        page.get_by_role("dialog").get_by_label("Name").fill("Final")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".note-name")).to_have_text("Final")
        expect(page.locator(".aliases .chip > span")).to_have_text(["sketch", "Draft"])
        assert read(daemon, "draft")["content"] == "Better words.\n\nAnd more."
        page.get_by_role("button", name="Remove", exact=True).click()
        expect(page.get_by_role("dialog")).to_contain_text("Better words.")
        expect(page.get_by_role("dialog")).to_contain_text("sketch, Draft")
        page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
        expect(page.locator(".note-card")).to_have_count(0)
        expect(page.locator(".note-row", has_text="Final")).to_have_count(0)
    listed = owner(daemon, "read_notes")["notes"]
    assert "Final" not in [note["name"] for note in listed]


@pytest.mark.slow
def test_aliases_are_added_and_removed(browser: Browser, daemon: Daemon) -> None:
    id = add(daemon, "Wifi", "Nordlicht", aliases=["wlan"])
    with opened(browser, daemon, f"notes/{id}", refusals=True) as page:
        page.get_by_label("Another name").fill("network")
        page.keyboard.press("Enter")
        expect(page.locator(".aliases .chip")).to_have_count(2)
        page.get_by_role("button", name="Remove the alias wlan").click()
        expect(page.locator(".aliases .chip > span")).to_have_text(["network"])
        page.get_by_label("Another name").fill("garden PLAN")
        page.get_by_role("button", name="Add", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("Garden plan")
    assert read(daemon, "wifi")["aliases"] == ["network"]


@pytest.mark.slow
def test_archives_have_a_list_of_their_own(browser: Browser, daemon: Daemon) -> None:
    add(daemon, "2026-07-01 Old talk", "They talked.", kind="archive")
    with opened(browser, daemon, "notes") as page:
        expect(page.locator(".note-row", has_text="Deploy steps")).to_have_count(1)
        page.get_by_role("button", name="Archives").click()
        expect(page.locator(".note-row strong")).to_have_text(["2026-07-01 Old talk"])
        assert page.url.endswith("?kind=archive")


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_of_others_are_shown_as_texts(browser: Browser, daemon: Daemon, theme: str) -> None:
    ids = [
        add(daemon, f"{theme} {canary}", canary, aliases=[f"alias {theme} {canary}"])
        for canary in CANARIES
    ]
    with opened(browser, daemon, "notes", theme=theme, size=PHONE) as page:
        expect(page.locator(".note-row", has_text=f"{theme} {CANARIES[0]}")).not_to_have_count(0)
        assert not overflows(page)
        page.get_by_role("searchbox").fill(CANARIES[0])
        expect(page.locator(".note-row").first).to_contain_text("img")
    for id, canary in zip(ids, CANARIES, strict=True):
        with opened(browser, daemon, f"notes/{id}", theme=theme, size=PHONE) as page:
            expect(page.locator(".note-text")).to_have_text(canary)
            expect(page.locator(".note-name")).to_have_text(f"{theme} {canary}")
            assert not overflows(page)
            expect(page.locator("main img, main script, main b")).to_have_count(0)
