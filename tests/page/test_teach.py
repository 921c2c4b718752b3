"""Teach: facts in a batch and files, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from memoryd.export_file import Header, Writer
from tests.daemons import Daemon
from tests.page.browser import CANARIES, PHONE, eventually, opened, overflows, owner

# Drops a file on the page as a browser does.
DROP = """({name, text}) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name));
  const target = document.querySelector('main');
  for (const kind of ['dragover', 'drop'])
    target.dispatchEvent(
      new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true}));
}"""


def write(page: Page, text: str) -> None:
    page.get_by_label("What to remember").fill(text)


def drop(page: Page, name: str, text: str) -> None:
    page.wait_for_selector(".drop-zone")
    page.evaluate(DROP, {"name": name, "text": text})


def rows(page: Page) -> Locator:
    return page.locator(".teach-list li")


def found(daemon: Daemon, **filters: Any) -> list[Any]:
    listed: list[Any] = owner(daemon, "list_memories", limit=1000, **filters)["memories"]
    return listed


def texts(daemon: Daemon, **filters: Any) -> set[str]:
    return {memory["content"] for memory in found(daemon, **filters)}


def total(daemon: Daemon) -> int:
    count: int = owner(daemon, "list_memories", limit=1)["total"]
    return count


def exported(path: Path, *memories: dict[str, Any]) -> Path:
    """An export of these memories."""
    with path.open("wb") as file:
        writer = Writer(file, Header())
        for memory in memories:
            writer.memory(memory)
        writer.end()
    return path


def test_lines_become_memories_with_what_was_chosen_for_all(
    browser: Browser, daemon: Daemon
) -> None:
    with opened(browser, daemon, "teach") as page:
        write(page, "# \n- The office moved.\n\n2. The lift is slow.\n")
        expect(rows(page)).to_have_text(["The office moved.", "The lift is slow."])
        page.get_by_label("Type").select_option("context")
        page.get_by_label("Kind").fill("decision")
        page.get_by_label("Project").fill("acme/office")
        page.get_by_label("Tags").fill("moving, #office")
        assert not texts(daemon, project="acme/office")
        page.get_by_role("button", name="Remember 2 memories").click()
        expect(page.get_by_text("2 remembered")).to_be_visible()
        expect(page.get_by_label("What to remember")).to_have_value("")
    stored = found(daemon, project="acme/office")
    assert {memory["content"] for memory in stored} == {"The office moved.", "The lift is slow."}
    for memory in stored:
        assert memory["type"] == "context"
        assert memory["metadata"]["kind"] == "decision"
        assert memory["metadata"]["tags"] == ["moving", "office"]
        assert memory["metadata"]["source"] == "user_taught"


@pytest.mark.slow
def test_each_line_tells_what_became_of_it(browser: Browser, daemon: Daemon) -> None:
    owner(daemon, "store_memory", content="Known before.")
    secret = "Xk29vLq8Tz"
    with opened(browser, daemon, "teach") as page:
        write(page, f"Known before.\nBrand new.\nBrand new.\nMy password is {secret}.")
        expect(rows(page).nth(2)).to_contain_text("twice in this text")
        page.keyboard.press("Control+Enter")
        expect(rows(page)).to_have_count(4)
        expect(page.locator(".teach-list .chip")).to_have_text(
            ["changed", "known", "known", "remembered"]
        )
        expect(rows(page).first).to_contain_text("secret")
        assert secret not in page.locator(".teach-list").inner_text()
    assert sum(memory["content"] == "Brand new." for memory in found(daemon)) == 1


@pytest.mark.slow
def test_what_is_refused_stays_to_be_corrected(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "teach", refusals=True) as page:
        write(page, "A fact of a bad kind.")
        page.get_by_label("Kind").fill("No such KIND!")
        page.get_by_role("button", name="Remember 1 memory").click()
        expect(page.locator(".teach-list .danger-text")).to_contain_text("kind")
        expect(page.get_by_label("What to remember")).to_have_value("A fact of a bad kind.")
        assert "A fact of a bad kind." not in texts(daemon)
        page.get_by_label("Kind").fill("gotcha")
        page.get_by_role("button", name="Remember 1 memory").click()
        expect(page.get_by_text("1 remembered")).to_be_visible()
    assert "A fact of a bad kind." in texts(daemon, kind="gotcha")


@pytest.mark.slow
def test_paragraphs_stay_whole_and_can_be_forgotten_again(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "teach") as page:
        page.get_by_role("button", name="Each paragraph").click()
        write(page, "First line.\n- second line.\n\nAnother paragraph.")
        expect(rows(page)).to_have_count(2)
        page.get_by_role("button", name="Remember 2 memories").click()
        expect(page.get_by_text("2 remembered")).to_be_visible()
        assert {"First line.\n- second line.", "Another paragraph."} <= texts(daemon)
        page.get_by_role("button", name="Forget them again").click()
        expect(page.locator(".toast")).to_contain_text("2 memories forgotten.")
        gone = {"First line.\n- second line.", "Another paragraph."}
        eventually(page, lambda: not gone & texts(daemon))


@pytest.mark.slow
def test_a_dropped_file_is_seen_before_it_is_imported(browser: Browser, daemon: Daemon) -> None:
    text = "# Rules\n\n- Use tabs here.\n- Tests run with make.\n"
    with opened(browser, daemon, "teach") as page:
        drop(page, "CLAUDE.md", text)
        card = page.locator(".import-file")
        expect(card.locator(".first-text")).to_have_text(["Use tabs here.", "Tests run with make."])
        assert not {"Use tabs here."} & texts(daemon)
        card.get_by_role("button", name="Import 2 memories").click()
        expect(card.locator(".notice.good")).to_contain_text("2 memories were imported.")
        assert {"Use tabs here.", "Tests run with make."} <= texts(daemon)
        card.get_by_role("button", name="Put CLAUDE.md away").click()
        expect(card).to_have_count(0)


@pytest.mark.slow
def test_a_large_export_is_uploaded_in_pieces_and_reported(
    browser: Browser, daemon: Daemon, tmp_path: Path
) -> None:
    before = total(daemon)
    words = "of a long text that fills the file " * 120
    given = [
        {
            "id": f"{place:020x}",
            "type": "fact",
            "content": f"Number {place} {words}",
            "metadata": {},
        }
        | {"created_at": 1760000000.0 + place * 86400 * 20, "expires_at": None}
        for place in range(1, 401)
    ]
    unusable = given[0] | {"id": "f" * 20, "type": "wish"}
    path = exported(tmp_path / "backup.jsonl", *given, unusable)
    assert path.stat().st_size > 1_600_000  # more than one piece
    with opened(browser, daemon, "teach", refusals=True) as page:
        page.locator("input[type=file]").set_input_files(path)
        card = page.locator(".import-file")
        expect(card.get_by_text("1 unusable")).to_be_visible()
        expect(card.get_by_role("img", name="Memories by month")).to_be_visible()
        expect(card.locator(".import-first li")).to_have_count(20)
        assert total(daemon) == before
        card.get_by_role("button", name="Import 400 memories").click()
        expect(card.locator(".notice.good")).to_contain_text("400 memories were imported.")
    assert total(daemon) == before + 400


@pytest.mark.slow
def test_a_file_that_cannot_be_read_says_why(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "teach", refusals=True) as page:
        drop(page, "photo.json", '{"what": "is this"}')
        expect(page.locator(".import-file").get_by_role("alert")).not_to_have_text("")
        expect(page.get_by_role("button", name="Import", exact=True)).to_be_disabled()


@pytest.mark.slow
def test_a_memory_that_differs_is_replaced_only_if_one_says_so(
    browser: Browser, daemon: Daemon, tmp_path: Path
) -> None:
    id = owner(daemon, "store_memory", content="The old text.")["id"]
    fields = {"id": id, "type": "fact", "content": "The new text.", "metadata": {}}
    path = exported(
        tmp_path / "one.jsonl", fields | {"created_at": 1760000000.0, "expires_at": None}
    )
    with opened(browser, daemon, "teach") as page:
        for overwrite, told, content in (
            (False, "1 differs and was kept", "The old text."),
            (True, "1 replaced", "The new text."),
        ):
            page.locator("input[type=file]").set_input_files(path)
            card = page.locator(".import-file").first
            expect(card.get_by_text("1 of them is here already")).to_be_visible()
            card.get_by_label("Replace memories that differ here").set_checked(overwrite)
            card.get_by_role("button", name="Import 1 memory").click()
            expect(card.get_by_text(told)).to_be_visible()
            assert owner(daemon, "read_memory", memory_id=id)["content"] == content


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_of_others_are_shown_as_texts(browser: Browser, daemon: Daemon, theme: str) -> None:
    lines = [f"{theme} {canary}" for canary in CANARIES]
    with opened(browser, daemon, "teach", theme=theme, size=PHONE) as page:
        write(page, "\n".join(lines))
        page.get_by_label("Tags").fill(CANARIES[0])
        expect(rows(page)).to_have_text(lines)
        drop(page, f"{CANARIES[0][:60]}.md", f"- {CANARIES[1]}\n")
        expect(page.locator(".first-text")).to_have_text([CANARIES[1]])
        assert not overflows(page)
        page.get_by_role("button", name=f"Remember {len(lines)} memories").click()
        expect(page.get_by_text(f"{len(lines)} remembered")).to_be_visible()
        assert not overflows(page)
        expect(page.locator("main img[src], main script, main b")).to_have_count(0)
