"""The overview: what it counts, where its links lead, and that it stays current by itself."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from memoryd.doors import health
from memoryd.doors.page.assets import STATIC
from tests.daemons import Daemon, ForkedDaemon
from tests.page.browser import CANARIES, DESKTOP, PHONE, opened, overflows, owner

TYPES = {"fact": 7, "conversation": 4, "context": 2}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with memories whose projects and sources would run if they were HTML."""
    running = ForkedDaemon(tmp_path_factory.mktemp("overview") / "data").start()
    for kind, count in TYPES.items():
        for number in range(count):
            text = CANARIES[number % len(CANARIES)]
            kinds = {"kind": f"kind_{number % len(CANARIES)}"}
            said = {**kinds, "project": text, "source": text[:50]} if kind == "fact" else {}
            content = f"{kind} {number}: {text}"
            owner(running, "store_memory", content=content, memory_type=kind, metadata=said)
    yield running
    assert running.stop() == 0, running.log.read_text()


def card(page: Page, title: str) -> str:
    found = page.locator("section.card", has=page.get_by_role("heading", name=title))
    return found.first.inner_text()


def test_it_shows_health_and_counts(browser: Browser, daemon: Daemon) -> None:
    found = owner(daemon, "overview")
    with opened(browser, daemon, "overview") as page:
        expect(page.locator(".gauge .big")).to_have_text(str(found["health"]["score"]))
        expect(page.locator(".total-all strong")).to_have_text(str(sum(TYPES.values())))
        for kind, count in TYPES.items():
            expect(page.locator(".total-types")).to_contain_text(f"{kind} {count}")
        for reason in found["health"]["reasons"]:
            expect(page.locator(".reasons")).to_contain_text(reason["sentence"])


@pytest.mark.parametrize("language", ["en", "fr"])
def test_every_reason_comes_with_what_to_do(language: str) -> None:
    reasons = set(re.findall(r'Reason\("(\w+)"', inspect.getsource(health)))
    texts = json.loads((STATIC / "strings" / f"{language}.json").read_text(encoding="utf-8"))
    assert reasons == texts["overview"]["todo"].keys()


@pytest.mark.slow
def test_names_that_look_like_html_are_text(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "overview") as page:
        page.wait_for_selector(".shares")
        for title in ("By project", "By source"):
            shown = card(page, title)
            assert all(text[:40] in shown for text in CANARIES), shown
        assert page.locator("main img, main script").count() == 0


@pytest.mark.slow
def test_a_name_leads_to_its_memories(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "overview") as page:
        kinds = page.locator("section.card", has=page.get_by_role("heading", name="By kind"))
        kinds.get_by_role("link").first.click()
        expect(page.locator("li.memory")).to_have_count(2)  # seven facts, five kinds
        assert "/page/browse?kind=" in page.url


@pytest.mark.slow
def test_what_needs_attention_leads_to_it(browser: Browser, daemon: Daemon) -> None:
    flagged = owner(daemon, "store_memory", content="Is this so?")["id"]
    owner(daemon, "review_memory", memory_id=flagged, action="flag", reason="Doubted.")
    with opened(browser, daemon, "overview") as page:
        row = page.get_by_role("link", name="Waiting for a review")
        expect(row).to_contain_text("1")
        row.click()
        expect(page.locator("li.memory")).to_have_count(1)
        expect(page.locator("li.memory")).to_contain_text("Is this so?")
        page.go_back()
        page.get_by_role("link", name="About files that have changed").click()
        page.wait_for_url("**/browse?stale=1")
        expect(page.get_by_role("button", name="About files that have changed")).to_be_visible()
        expect(page.locator("li.memory")).to_have_count(0)
        page.go_back()
        page.get_by_role("link", name="Last backup").click()
        page.wait_for_url("**/doctor/backups")
    owner(daemon, "forget_memory", memory_id=flagged)


@pytest.mark.slow
def test_it_follows_what_is_stored_and_forgotten(browser: Browser, daemon: Daemon) -> None:
    """Without a reload: the counts at once, the days and kinds soon after."""
    with opened(browser, daemon, "overview") as page:
        total = page.locator(".total-all strong")
        before = int(total.inner_text())
        made = owner(
            daemon, "store_memory", content="Stored meanwhile.", metadata={"kind": "meanwhile"}
        )
        expect(total).to_have_text(str(before + 1))
        expect(page.locator(".shares").first).to_contain_text("meanwhile")
        owner(daemon, "forget_memory", memory_id=made["id"])
        expect(total).to_have_text(str(before))
        expect(page.locator(".shares").first).not_to_contain_text("meanwhile")


@pytest.mark.slow
def test_figures_come_by_themselves(browser: Browser, daemon: Daemon) -> None:
    """Each sample is an event: nothing is asked for again."""
    with opened(browser, daemon, "overview") as page:
        line = page.locator("section.card", has=page.get_by_role("heading", name="RAM in use"))
        expect(line).to_contain_text("MB", timeout=20_000)
        asked: list[str] = []
        page.on("request", lambda sent: asked.append(str(sent.post_data)))
        before = line.locator("path").first.get_attribute("d")
        drawn = (
            "before => document.querySelectorAll('.figures path')[2].getAttribute('d') != before"
        )
        page.wait_for_function(drawn, arg=before)
        assert not [sent for sent in asked if "samples" in sent]
        day = page.get_by_role("button", name="Last 24 hours")
        day.click()
        expect(day).to_have_attribute("aria-pressed", "true")
        expect(page.locator(".figures")).to_contain_text("MB")


@pytest.mark.slow
def test_a_day_tells_its_figures_under_the_pointer(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "overview") as page:
        chart = page.get_by_role("img", name="Remembered per day")
        box = chart.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] - 14, box["y"] + box["height"] / 2)
        expect(page.locator(".chart-tip")).to_contain_text("4 conversation")


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_it_fits_and_speaks_french(
    browser: Browser, daemon: Daemon, theme: str, size: tuple[int, int]
) -> None:
    path = "overview"
    with opened(browser, daemon, path, size=size, theme=theme, language="fr") as page:
        expect(page.locator("h1")).to_have_text("Aperçu")
        page.wait_for_selector(".shares")
        assert not overflows(page)
        assert "overview." not in page.locator("main").inner_text()


@pytest.mark.slow
def test_a_chart_without_figures_has_no_numbers(browser: Browser, daemon: Daemon) -> None:
    """As in the first seconds of a daemon."""

    def answer(route: Route) -> None:
        if '"samples"' in (route.request.post_data or ""):
            rings: dict[str, Any] = {"short": {"samples": []}, "long": {"samples": []}}
            route.fulfill(json={"answer": rings | {"now": 1_800_000_000}})
        else:
            route.fallback()

    with opened(browser, daemon) as page:
        page.route("**/page/events", lambda route: route.fulfill(content_type="text/event-stream"))
        page.route("**/page/call", answer)
        page.reload()
        expect(page.locator("body")).to_contain_text("Figures come every 10 seconds.")
        assert not page.get_by_text(re.compile(r"^0 byte")).count()
