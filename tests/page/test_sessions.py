"""Sessions and working memories, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.daemons import Daemon, ForkedDaemon
from tests.page.browser import CANARIES, PHONE, opened, overflows, owner

DRILL, SHED, CAMERA = "Where is the drill?", "It is in the shed.", "shelf 2: drill"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with a session of three messages, and room for those of the tests."""
    folder = tmp_path_factory.mktemp("sessions") / "data"
    running = ForkedDaemon(folder, MEMORYD_SESSIONS_AUTO_COMPACT="false").start()
    owner(running, "wake_session", session_id="s-robot", identity="robot")
    say(running, "s-robot", DRILL, speaker="Ana")
    say(running, "s-robot", CAMERA, role="tool", tool="camera")
    say(running, "s-robot", SHED, role="assistant", tools_used=["camera", "map"])
    yield running
    assert running.stop() == 0, running.log.read_text()


def say(daemon: Daemon, session: str, text: str, role: str = "user", **marks: object) -> None:
    owner(daemon, "add_turn", session_id=session, role=role, content=text, **marks)


def talk(daemon: Daemon, session: str, count: int) -> None:
    for number in range(count):
        role = "assistant" if number % 2 else "user"
        say(daemon, session, f"Sentence number {number} of it.", role)


def texts(page: Page) -> list[str]:
    return page.locator(".message .text").all_inner_texts()


def test_a_session_is_a_conversation(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "sessions") as page:
        page.get_by_role("link", name="s-robot").click()
        expect(page.locator(".message")).to_have_count(3)
        assert texts(page) == [DRILL, CAMERA, SHED]
        first = page.locator(".message.user")
        expect(first).to_contain_text("Ana")
        expect(first.locator("time")).to_have_count(1)
        expect(page.locator(".message.tool .message-head")).to_contain_text("camera")
        expect(page.locator(".message.assistant .chip")).to_have_text(["camera", "map"])
        expect(page.locator(".window-mark")).to_contain_text("these 3 messages")
        assert page.url.endswith("/page/sessions/s-robot")


@pytest.mark.slow
def test_what_is_said_appears_while_one_looks(browser: Browser, daemon: Daemon) -> None:
    talk(daemon, "s-live", 2)
    with opened(browser, daemon, "sessions/s-live") as page:
        expect(page.locator(".message")).to_have_count(2)
        say(daemon, "s-live", "And this comes later.")
        expect(page.locator(".message")).to_have_count(3)
        expect(page.locator(".message").last).to_contain_text("And this comes later.")


@pytest.mark.slow
def test_a_long_session_is_read_backwards_and_shows_its_archive(
    browser: Browser, daemon: Daemon
) -> None:
    talk(daemon, "s-long", 75)
    owner(daemon, "compact_session", session_id="s-long", keep=5)
    with opened(browser, daemon, "sessions/s-long") as page:
        expect(page.locator(".message")).to_have_count(50)
        expect(page.locator(".archive-mark")).to_have_count(1)
        last_archived = page.locator(".message.archived").last
        expect(last_archived).to_contain_text("number 69 of it")
        page.get_by_role("button", name="Show older messages").click()
        expect(page.locator(".message")).to_have_count(75)
        assert texts(page) == [f"Sentence number {number} of it." for number in range(75)]
        expect(page.get_by_role("button", name="Show older messages")).to_have_count(0)
        page.locator(".archive-mark summary").click()
        expect(page.locator(".archive-mark .text")).to_contain_text("70 messages")
        # What is loaded stays when something new is said.
        say(daemon, "s-long", "The last word.")
        expect(page.locator(".message")).to_have_count(76)


@pytest.mark.slow
def test_a_session_is_renamed_compacted_and_put_to_sleep(browser: Browser, daemon: Daemon) -> None:
    talk(daemon, "s-acts", 6)
    with opened(browser, daemon, "sessions/s-acts") as page:
        page.get_by_role("button", name="Rename").click()
        page.get_by_label("Title").fill("Repairs in the shed")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("Repairs in the shed")
        page.get_by_role("button", name="Compact", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Last messages").fill("2")
        dialog.get_by_role("button", name="Compact").click()
        expect(page.locator(".notice.good")).to_contain_text("4 messages are in the archive")
        expect(page.locator(".archive-mark")).to_have_count(1)
        expect(page.locator(".message.archived")).to_have_count(4)
        page.get_by_role("button", name="Put to sleep").click()
        page.get_by_role("dialog").get_by_role("button", name="Put to sleep").click()
        expect(page.locator(".archive-mark")).to_have_count(2)
        expect(page.get_by_role("button", name="Put to sleep")).to_be_disabled()
    known = owner(daemon, "list_sessions", limit=100)["sessions"]
    (session,) = (one for one in known if one["session_id"] == "s-acts")
    assert (session["title"], session["archives"], session["state"]) == (
        "Repairs in the shed",
        2,
        "asleep",
    )


@pytest.mark.slow
def test_the_list_is_narrowed_by_identity_and_text(browser: Browser, daemon: Daemon) -> None:
    owner(daemon, "wake_session", session_id="s-coder", identity="coder")
    say(daemon, "s-coder", "Let us move the export.")
    with opened(browser, daemon, "sessions") as page:
        expect(page.locator(".session-row", has_text="s-robot")).to_have_count(1)
        page.get_by_label("Identity").select_option("coder")
        expect(page.locator(".session-row")).to_have_count(1)
        assert page.url.endswith("?identity=coder")
        page.get_by_label("Identity").select_option("")
        page.get_by_label("Filter by title or id").fill("s-rob")
        expect(page.locator(".session-row")).to_have_count(1)
        page.get_by_label("Filter by title or id").fill("nothing has this")
        expect(page.get_by_text("No session matches.")).to_be_visible()


@pytest.mark.slow
def test_a_working_memory_is_edited_section_by_section(browser: Browser, daemon: Daemon) -> None:
    text = "A robot.\n\n## Goals\nFind the drill.\n\n## People\nAna lives here."
    owner(daemon, "working_memory", identity="keeper", content=text)
    with opened(browser, daemon, "sessions?tab=memory&identity=keeper") as page:
        expect(page.locator(".memory-section h2")).to_have_text(["Beginning", "Goals", "People"])
        page.get_by_role("button", name="Edit the section Goals").click()
        page.get_by_label("Text").fill("Find the saw.")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".memory-section", has_text="Goals")).to_contain_text("Find the saw.")
        page.get_by_role("button", name="Edit the section Beginning").click()
        page.get_by_label("Text").fill("A helpful robot.")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".memory-section").first).to_contain_text("A helpful robot.")
        page.get_by_role("button", name="Add a section").click()
        page.get_by_label("Title of the section").fill("Now")
        page.get_by_label("Text").fill("It rains.")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".memory-section")).to_have_count(4)
        page.get_by_role("button", name="Remove the section People").click()
        expect(page.get_by_role("dialog")).to_contain_text("Ana lives here.")
        page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
        expect(page.locator(".memory-section h2")).to_have_text(["Beginning", "Goals", "Now"])
    kept = owner(daemon, "working_memory", identity="keeper")["content"]
    assert kept == "A helpful robot.\n\n## Goals\nFind the saw.\n\n## Now\nIt rains."


@pytest.mark.slow
def test_a_change_by_an_agent_is_not_overwritten_by_the_whole_text(
    browser: Browser, daemon: Daemon
) -> None:
    owner(daemon, "working_memory", identity="racer", content="## Now\nFirst.")
    with opened(browser, daemon, "sessions?tab=memory&identity=racer") as page:
        page.get_by_role("button", name="Edit as one text").click()
        expect(page.get_by_label("Text")).to_have_value("## Now\nFirst.")
        with page.expect_response("**/page/call"):
            owner(daemon, "working_memory", identity="racer", content="## Now\nSecond.")
        page.get_by_label("Text").fill("## Now\nThird.")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("meanwhile")
    assert owner(daemon, "working_memory", identity="racer")["content"] == "## Now\nSecond."


@pytest.mark.slow
def test_another_identity_is_chosen_and_gets_a_working_memory(
    browser: Browser, daemon: Daemon
) -> None:
    with opened(browser, daemon, "sessions") as page:
        page.get_by_role("button", name="Working memory").click()
        page.get_by_label("Identity").select_option("")
        page.get_by_role("dialog").get_by_label("Identity").fill("newcomer")
        page.get_by_role("dialog").get_by_role("button", name="Show").click()
        expect(page.get_by_text("newcomer has no working memory yet")).to_be_visible()
        page.get_by_role("button", name="Edit as one text").click()
        page.get_by_label("Text").fill("## Goals\nLearn.")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".memory-section h2")).to_have_text(["Goals"])
        assert "identity=newcomer" in page.url
    assert owner(daemon, "working_memory", identity="newcomer")["sections"] == {"Goals": "Learn."}


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_of_others_are_shown_as_texts(browser: Browser, daemon: Daemon, theme: str) -> None:
    session, who = f"s-canary-{theme}", f"<b>canary {theme}</b>"
    owner(daemon, "wake_session", session_id=session, identity=who)
    for canary in CANARIES:
        say(daemon, session, canary, speaker=canary[:100], tool=canary[:50], tools_used=[canary])
    owner(daemon, "rename_session", session_id=session, title=CANARIES[0])
    owner(daemon, "compact_session", session_id=session, keep=1)
    written = "\n".join(f"## {canary}\n{canary}" for canary in CANARIES)
    owner(daemon, "working_memory", identity=who, content=written)
    with opened(browser, daemon, f"sessions/{session}", theme=theme, size=PHONE) as page:
        expect(page.locator(".message")).to_have_count(len(CANARIES))
        assert texts(page) == list(CANARIES)
        expect(page.get_by_role("heading", level=1)).to_have_text(CANARIES[0])
        page.locator(".archive-mark summary").click()
        assert not overflows(page)
        page.get_by_role("link", name=who).click()
        expect(page.locator(".memory-section")).to_have_count(len(CANARIES))
        assert not overflows(page)
        expect(page.locator("main img, main script")).to_have_count(0)
