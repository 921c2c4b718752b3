"""Projects, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.daemons import Daemon, ForkedDaemon
from tests.page.browser import CANARIES, PHONE, opened, overflows, owner


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with the projects acme/web, of two types, and a shared fact."""
    running = ForkedDaemon(tmp_path_factory.mktemp("projects") / "data").start()
    fill(running, "acme/web", "Deploys need the VPN.", "Images are resized elsewhere.")
    metadata = {"project": "acme/web"}
    owner(running, "store_memory", content="Freeze.", memory_type="context", metadata=metadata)
    owner(running, "store_memory", content="Ana prefers short answers.")
    yield running
    assert running.stop() == 0, running.log.read_text()


def fill(daemon: Daemon, project: str, *facts: str) -> None:
    for fact in facts:
        owner(daemon, "store_memory", content=fact, metadata={"project": project})


def counts(daemon: Daemon) -> dict[str | None, int]:
    found = owner(daemon, "list_projects")["projects"]
    return {one["project"]: one["memories"] for one in found}


def test_projects_are_listed_with_their_counts(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "projects") as page:
        web = page.locator(".project-row", has_text="acme/web")
        expect(web.locator(".project-count")).to_have_text("3")
        expect(web.get_by_role("img")).to_have_accessible_name("2 fact, 1 context")
        expect(page.locator(".project-row", has_text="Shared")).to_have_count(1)
        web.click()
        expect(page.locator(".memory")).to_have_count(3)
        page.get_by_role("link", name="show them in Browse").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Browse")
        assert page.url.endswith("/page/browse?project=acme%2Fweb")


@pytest.mark.slow
def test_a_project_is_renamed_but_not_to_a_name_that_is_taken(
    browser: Browser, daemon: Daemon
) -> None:
    fill(daemon, "~/old", "One of the old.", "Two of the old.")
    with opened(browser, daemon, "projects?project=~/old", refusals=True) as page:
        page.get_by_role("button", name="Rename").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("New name").fill("acme/web")
        dialog.get_by_role("button", name="Rename").click()
        expect(dialog.get_by_role("alert")).to_contain_text("has memories already")
        dialog.get_by_label("New name").fill("/srv/new")
        dialog.get_by_role("button", name="Rename").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("/srv/new")
        expect(page.locator(".memory")).to_have_count(2)
    assert counts(daemon)["/srv/new"] == 2
    assert "~/old" not in counts(daemon)


@pytest.mark.slow
def test_a_merge_says_what_it_does_and_does_it(browser: Browser, daemon: Daemon) -> None:
    fill(daemon, "left", "From the left.", "Also from the left.")
    fill(daemon, "right", "From the right.")
    with opened(browser, daemon, "projects?project=left") as page:
        page.get_by_role("button", name="Merge").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Into").select_option("right")
        expect(dialog).to_contain_text("All 2 memories of left move into right, which then has 3")
        expect(dialog).to_contain_text("Also from the left.")
        assert counts(daemon)["left"] == 2
        dialog.get_by_role("button", name="Merge 2 memories").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("right")
        expect(page.locator(".memory")).to_have_count(3)
    assert counts(daemon)["right"] == 3
    assert "left" not in counts(daemon)


@pytest.mark.slow
def test_chosen_memories_move_to_another_project_or_become_shared(
    browser: Browser, daemon: Daemon
) -> None:
    fill(daemon, "source", "Stays here.", "Goes to a new one.", "Becomes shared.")
    with opened(browser, daemon, "projects?project=source") as page:
        for text, choice in (("Goes to a new one.", "other:"), ("Becomes shared.", "shared:")):
            page.locator(".memory", has_text=text).get_by_role("checkbox").check()
            page.get_by_role("button", name="Move …").click()
            dialog = page.get_by_role("dialog")
            dialog.get_by_label("To", exact=True).select_option(choice)
            if choice == "other:":
                dialog.get_by_label("New name").fill("brand-new")
            dialog.get_by_role("button", name="Move 1 memory").click()
            expect(page.locator(".memory", has_text=text)).to_have_count(0)
        expect(page.locator(".memory")).to_have_count(1)
    now = counts(daemon)
    assert (now["source"], now["brand-new"]) == (1, 1)
    with opened(browser, daemon, "projects?shared=true") as page:
        expect(page.locator(".memory", has_text="Becomes shared.")).to_have_count(1)
        expect(page.get_by_role("button", name="Forget")).to_have_count(0)


@pytest.mark.slow
def test_a_project_is_forgotten_only_after_its_name_was_typed(
    browser: Browser, daemon: Daemon
) -> None:
    fill(daemon, "doomed", "First of the doomed.", "Second of the doomed.")
    with opened(browser, daemon, "projects?project=doomed") as page:
        page.get_by_role("button", name="Forget").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("All 2 memories of doomed")
        expect(dialog).to_contain_text("First of the doomed.")
        forget = dialog.get_by_role("button", name="Forget 2 memories")
        expect(forget).to_be_disabled()
        dialog.get_by_label("To confirm").fill("doome")
        page.keyboard.press("Enter")
        expect(forget).to_be_disabled()
        assert counts(daemon)["doomed"] == 2
        dialog.get_by_label("To confirm").fill("doomed")
        forget.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Projects")
        expect(page.locator(".project-row", has_text="doomed")).to_have_count(0)
    assert "doomed" not in counts(daemon)


@pytest.mark.slow
def test_nothing_is_forgotten_if_there_are_more_than_was_shown(
    browser: Browser, daemon: Daemon
) -> None:
    fill(daemon, "growing", "Seen before.")
    with opened(browser, daemon, "projects?project=growing", refusals=True) as page:
        page.get_by_role("button", name="Forget").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("To confirm").fill("growing")
        fill(daemon, "growing", "Came after the preview.")
        dialog.get_by_role("button", name="Forget 1 memory").click()
        expect(dialog.get_by_role("alert").last).to_contain_text("2")
        expect(dialog.get_by_role("button", name="Forget 2 memories")).to_be_visible()
    assert counts(daemon)["growing"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_of_others_are_shown_as_texts(browser: Browser, daemon: Daemon, theme: str) -> None:
    name = f"{theme} {CANARIES[0]}"
    fill(daemon, name, *CANARIES)
    with opened(browser, daemon, "projects", theme=theme, size=PHONE) as page:
        assert not overflows(page)
        page.locator(".project-row", has_text=name).click()
        expect(page.locator(".memory")).to_have_count(len(CANARIES))
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        assert not overflows(page)
        page.get_by_role("button", name="Forget").click()
        expect(page.get_by_role("dialog")).to_contain_text(CANARIES[1])
        expect(page.locator("main img[src], main script, main b")).to_have_count(0)
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
