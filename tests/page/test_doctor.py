"""The doctor: what is wrong and its repair; backups, made and restored from the page."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.daemons import Daemon, ForkedDaemon
from tests.page.browser import CANARIES, DESKTOP, PHONE, opened, overflows, owner


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon on a folder whose name would run if it were HTML."""
    folder = tmp_path_factory.mktemp("doctor") / "<img src=x onerror=alert(1)>"
    running = ForkedDaemon(folder).start()
    for text in CANARIES:
        owner(running, "store_memory", content=f"Kept: {text}")
    owner(running, "backup")
    yield running
    assert running.stop() == 0, running.log.read_text()


@pytest.fixture
def loose(daemon: Daemon) -> Iterator[Path]:
    """A file of the daemon that other users can read."""
    file = daemon.folder / "notes.txt"
    file.write_text("anything")
    file.chmod(0o644)
    yield file
    file.unlink()


def test_it_says_that_all_is_well(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "doctor") as page:
        expect(page.get_by_role("heading", name="No faults found")).to_be_visible()


@pytest.mark.slow
def test_a_fault_is_repaired_after_a_question(
    browser: Browser, daemon: Daemon, loose: Path
) -> None:
    with opened(browser, daemon, "doctor") as page:
        finding = page.locator("li.finding")
        expect(finding).to_contain_text(str(loose))  # with the folder's name as text
        expect(finding).to_contain_text("chmod 600")
        finding.get_by_role("button", name="Repair").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text(str(loose))
        dialog.get_by_role("button", name="Cancel").click()
        assert stat.S_IMODE(loose.stat().st_mode) == 0o644
        finding.get_by_role("button", name="Repair").click()
        dialog.get_by_role("button", name="Repair").click()
        expect(page.get_by_role("heading", name="No faults found")).to_be_visible()
        assert stat.S_IMODE(loose.stat().st_mode) == 0o600


@pytest.mark.slow
def test_a_repair_that_is_not_due_any_more_says_so(
    browser: Browser, daemon: Daemon, loose: Path
) -> None:
    with opened(browser, daemon, "doctor") as page:
        page.locator("li.finding").get_by_role("button", name="Repair").click()
        loose.chmod(0o600)
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Repair").click()
        expect(dialog.get_by_role("alert")).to_contain_text("There is no finding")
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Check again").click()
        expect(page.get_by_role("heading", name="No faults found")).to_be_visible()


@pytest.mark.slow
def test_a_repair_that_deletes_says_how_much(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """After a leap of the clock expired memories are kept until somebody says that it is right."""
    daemon = ForkedDaemon(tmp_path_factory.mktemp("clock") / "data").start()
    daemon.store_brief("Gone soon.")
    assert daemon.stop() == 0
    times = daemon.folder / "clock.json"
    before = json.loads(times.read_text())
    long_ago = before["believed"] - 10 * 86_400
    times.write_text(json.dumps(before | {"believed": long_ago, "latest": long_ago}))
    daemon.start()
    with opened(browser, daemon, "doctor") as page:
        finding = page.locator("li.finding", has_text="clock_doubted")
        finding.get_by_role("button", name="Repair").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("1 memory that has expired by it is deleted for good")
        assert owner(daemon, "overview")["totals"]["expired_waiting"] == 1
        dialog.get_by_role("button", name="Repair").click()
        expect(finding).to_have_count(0)
        assert owner(daemon, "overview")["totals"]["expired_waiting"] == 0
    assert daemon.stop() == 0, daemon.log.read_text()


def restore_from_newest(page: Page) -> None:
    page.locator(".backup-table").get_by_role("button", name="Restore").first.click()
    expect(page.get_by_role("dialog").locator(".counts")).to_be_visible()


@pytest.mark.slow
def test_a_backup_is_made_and_listed(browser: Browser, daemon: Daemon) -> None:
    before = owner(daemon, "backups")["backups"]
    with opened(browser, daemon, "doctor/backups") as page:
        rows = page.locator(".backup-table tbody tr")
        expect(rows).to_have_count(len(before))
        owner(daemon, "store_memory", content="Stored before the backup.")
        page.get_by_role("button", name="Back up now").click()
        expect(page.locator(".toast")).to_contain_text("Backup made")
        expect(rows).to_have_count(len(owner(daemon, "backups")["backups"]))
        newest = owner(daemon, "backups")["backups"][0]
        expect(rows.first).to_contain_text(newest["name"])
        expect(rows.first).to_contain_text(str(newest["memories"]))


@pytest.mark.slow
def test_what_was_forgotten_is_brought_back(browser: Browser, daemon: Daemon) -> None:
    """The preview names it as text; what was stored since stays."""
    lost = owner(daemon, "store_memory", content=f"Lost: {CANARIES[1]}")["id"]
    owner(daemon, "backup")
    owner(daemon, "forget_memory", memory_id=lost)
    newer = owner(daemon, "store_memory", content="Stored after the backup.")["id"]
    with opened(browser, daemon, "doctor/backups") as page:
        restore_from_newest(page)
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text(f"Lost: {CANARIES[1]}")
        dialog.get_by_role("button", name="Bring back").click()
        expect(page.locator(".notice.good")).to_contain_text("Restored: 1")
    ids = {memory["id"] for memory in owner(daemon, "list_memories", limit=100)["memories"]}
    assert {lost, newer} <= ids


@pytest.mark.slow
def test_replacing_everything_needs_a_yes_to_what_is_lost(browser: Browser, daemon: Daemon) -> None:
    owner(daemon, "backup")
    newer = owner(daemon, "store_memory", content=f"Only here: {CANARIES[2]}")["id"]
    with opened(browser, daemon, "doctor/backups") as page:
        restore_from_newest(page)
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("radio", name="Replace everything").check()
        button = dialog.get_by_role("button", name="Replace everything")
        expect(button).to_be_disabled()
        expect(dialog).to_contain_text(f"Only here: {CANARIES[2]}")
        dialog.get_by_role("checkbox").check()
        button.click()
        expect(page.locator(".notice.good")).to_contain_text("What was here before is kept in")
    ids = {memory["id"] for memory in owner(daemon, "list_memories", limit=100)["memories"]}
    assert newer not in ids


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_it_fits_and_speaks_french(
    browser: Browser, daemon: Daemon, loose: Path, theme: str, size: tuple[int, int]
) -> None:
    with opened(browser, daemon, "doctor", size=size, theme=theme, language="fr") as page:
        expect(page.locator("h1")).to_have_text("Diagnostic")
        page.wait_for_selector("li.finding")
        page.wait_for_selector(".backup-table")
        assert not overflows(page)
        assert "doctor." not in page.locator("main").inner_text()
        page.locator(".backup-table button").first.click()
        page.wait_for_selector(".counts")
        assert not overflows(page)
