"""The map in a real browser: drawn, explored by mouse, keys and fingers, and acted on."""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from memoryd.doors.page.app import TOKEN_HEADER
from tests.daemons import Daemon, ForkedDaemon
from tests.page.browser import CANARIES, PHONE, eventually, opened, overflows, owner
from tests.page.test_door import Visitor

SIDE = 65_536
STEP = 60  # pixels that an arrow key moves
TOPICS = ("The robot cleans the kitchen", "The shop ships parcels", "Rain falls on the station")
EACH = 12
TYPES = ("fact", "conversation", "context")
ALL = len(TOPICS) * EACH + len(CANARIES)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with memories of three topics, and some that would break a page."""
    running = ForkedDaemon(tmp_path_factory.mktemp("map") / "data").start()
    for topic, (text, type) in enumerate(zip(TOPICS, TYPES, strict=True)):
        for number in range(EACH):
            where = {"project": f"topic/{topic}", "kind": "decision" if number % 2 else "pattern"}
            content = f"{text} on day {number} of the week."
            owner(running, "store_memory", content=content, memory_type=type, metadata=where)
    for canary in CANARIES:
        given = {"project": canary[:60], "tags": [canary]}
        owner(running, "store_memory", content=canary, metadata=given)
    yield running
    assert running.stop() == 0, running.log.read_text()


class Places:
    """Where the points are, read from the daemon, on the canvas of a page that shows all."""

    def __init__(self, daemon: Daemon, page: Page) -> None:
        found = drawn(daemon, points=True)
        blob = base64.b64decode(found["points"])
        count = struct.unpack_from("<I", blob, 4)[0]
        self.xs = struct.unpack_from(f"<{count}H", blob, 8 + 4 * count)
        self.ys = struct.unpack_from(f"<{count}H", blob, 8 + 6 * count)
        asked = {"revision": found["revision"], "indexes": list(range(count))}
        self.points = owner(daemon, "map_points", **asked)["points"]
        box = page.locator(".map-stage canvas").bounding_box()
        assert box is not None
        self.box = box

    def __getitem__(self, index: int) -> tuple[float, float]:
        scale = min(self.box["width"], self.box["height"]) / SIDE
        x = (self.xs[index] - SIDE / 2) * scale + self.box["x"] + self.box["width"] / 2
        y = (self.ys[index] - SIDE / 2) * scale + self.box["y"] + self.box["height"] / 2
        return x, y

    def free(self, page: Page, apart: float = 14) -> int:
        """A point that no label and no button covers, and no other point is near."""
        for index in range(len(self.points)):
            x, y = self[index]
            near = [self[other] for other in range(len(self.points)) if other != index]
            alone = all(abs(x - a) + abs(y - b) > apart for a, b in near)
            at = page.evaluate("([x, y]) => document.elementFromPoint(x, y)?.tagName", [x, y])
            if alone and at == "CANVAS":
                return index
        raise AssertionError("every point is covered")


def drawn(daemon: Daemon, **arguments: Any) -> Any:
    """The map, once there is one that is up to date."""
    for _ in range(600):
        found = owner(daemon, "map", **arguments)
        if found["state"] == "ready" and not found["updating"]:
            return found
    raise AssertionError("there is no map")


def show(page: Page) -> None:
    page.wait_for_selector(".map-stage canvas[data-painted]")


def pixels(page: Page, of: str) -> Any:
    """Of the canvas: its `ink`, or how bright its `corner` is."""
    return page.evaluate(
        """(of) => {
        const canvas = document.querySelector(".map-stage canvas");
        const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
        copy.drawImage(canvas, 0, 0);
        const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
        const pixels = new Uint32Array(data.buffer);
        const ink = pixels.reduce((sum, pixel) => sum + (pixel !== pixels[0] ? 1 : 0), 0);
        return { ink, corner: data[0] + data[1] + data[2] }[of];
        }""",
        of,
    )


def ink(page: Page) -> int:
    """How many pixels of the canvas are not its ground."""
    return int(pixels(page, "ink"))


def lasso(page: Page, *, key: bool = True) -> None:
    """Around everything."""
    box = page.locator(".map-stage canvas").bounding_box()
    assert box is not None
    left, top = box["x"] + 3, box["y"] + 3
    right, bottom = box["x"] + box["width"] - 3, box["y"] + box["height"] - 3
    if key:
        page.keyboard.down("Shift")
    page.mouse.move(left, top)
    page.mouse.down()
    for x, y in ((right, top), (right, bottom), (left, bottom), (left, top + 5)):
        page.mouse.move(x, y, steps=4)
    page.mouse.up()
    if key:
        page.keyboard.up("Shift")


def selected(page: Page) -> Any:
    return page.get_by_role("region", name="Selection")


def test_all_memories_are_drawn_with_legend_and_clusters(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "map") as page:
        show(page)
        expect(page.locator(".lead")).to_contain_text(str(ALL))
        assert ink(page) > 100
        for type in TYPES:
            expect(page.get_by_role("button", name=re.compile(f"^{type}"))).to_be_visible()
        assert page.locator("section[aria-label=Clusters] button").count() >= 1


def test_only_a_browser_that_is_logged_in_gets_the_points(daemon: Daemon) -> None:
    revision = drawn(daemon)["revision"]
    visitor = Visitor(daemon)
    with visitor.http:

        def post(body: Any, **headers: str) -> Any:
            sent = {TOKEN_HEADER: visitor.token, **headers}
            return visitor.http.post("/page/map", json=body, headers=sent)

        assert post({"revision": revision}).status_code == 401
        visitor.log_in()
        found = post({"revision": revision})
        assert found.headers["content-type"] == "application/octet-stream"
        assert (found.content[:4], len(found.content)) == (b"MAP1", 8 + 14 * ALL)
        assert found.headers["cache-control"] == "no-store"
        assert post({"revision": revision}, Origin="https://evil.example").status_code == 403
        assert post({"revision": revision}, **{TOKEN_HEADER: "x"}).status_code == 401
        assert post({"revision": "gone-1"}).json()["error"]["code"] == "map_changed"
        assert post({"revision": 7}).status_code == 400
        visitor.http.cookies.clear()
        assert post({"revision": revision}).status_code == 401


@pytest.mark.slow
def test_pointing_reads_a_memory_and_a_click_opens_it(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "map") as page:
        show(page)
        places = Places(daemon, page)
        index = places.free(page)
        page.mouse.move(*places[index])
        expect(page.locator(".map-tip .words")).to_have_text(places.points[index]["text"])
        page.mouse.click(*places[index])
        expect(page).to_have_url(re.compile(f"/memory/{places.points[index]['memory_id']}$"))


@pytest.mark.slow
def test_the_map_is_moved_and_read_by_keys(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "map") as page:
        show(page)
        page.locator(".map-stage canvas").focus()
        before = ink(page)
        page.keyboard.press("+")
        eventually(page, lambda: ink(page) != before)
        page.keyboard.press("0")
        eventually(page, lambda: ink(page) == before)
        places = Places(daemon, page)
        x, y = places[0]
        right = round((x - places.box["x"] - places.box["width"] / 2) / STEP)
        down = round((y - places.box["y"] - places.box["height"] / 2) / STEP)
        for _ in range(abs(right)):
            page.keyboard.press("ArrowRight" if right > 0 else "ArrowLeft")
        for _ in range(abs(down)):
            page.keyboard.press("ArrowDown" if down > 0 else "ArrowUp")
        expect(page.locator(".map-tip .words")).to_be_visible()
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile("/memory/"))


@pytest.mark.slow
def test_wheel_drag_and_buttons_move_the_map(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "map") as page:
        show(page)
        before = ink(page)
        places = Places(daemon, page)
        index = places.free(page)
        x, y = places[index]
        page.mouse.move(x, y)
        page.mouse.wheel(0, -600)
        page.mouse.move(x + 1, y)  # what is under the mouse stays there
        expect(page.locator(".map-tip .words")).to_have_text(places.points[index]["text"])
        page.get_by_role("button", name="Show all").click()
        eventually(page, lambda: ink(page) == before)
        page.mouse.move(x, y)
        expect(page.locator(".map-tip .words")).to_have_text(places.points[index]["text"])
        page.mouse.move(places.box["x"] + 5, places.box["y"] + 5)
        page.mouse.down()
        page.mouse.move(places.box["x"] + 25, places.box["y"] + 45, steps=4)
        page.mouse.up()
        page.mouse.move(x + 20, y + 40)
        expect(page.locator(".map-tip .words")).to_have_text(places.points[index]["text"])


@pytest.mark.slow
def test_the_legend_filters_and_lives_in_the_address(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "map") as page:
        show(page)
        before = ink(page)
        page.get_by_role("button", name=re.compile("^conversation")).click()
        expect(page).to_have_url(re.compile("only=conversation"))
        eventually(page, lambda: 0 < ink(page) < before)
        page.reload()
        show(page)
        assert 0 < ink(page) < before
        page.get_by_role("button", name="Show all again").click()
        for name in ("Kind", "Project", "Age"):
            page.get_by_role("button", name=name, exact=True).click()
            expect(page).to_have_url(re.compile(f"colour={name.lower()}$"))
        expect(page.get_by_role("button", name=re.compile("last 24 hours"))).to_be_visible()


@pytest.mark.slow
def test_a_lasso_selects_and_what_is_selected_is_tagged(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "map?only=context") as page:
        show(page)
        page.get_by_role("button", name="Select with a lasso").click()
        lasso(page, key=False)
        expect(selected(page)).to_contain_text(f"{EACH} memories selected")
        expect(selected(page).locator(".map-list li")).to_have_count(EACH)
        selected(page).get_by_role("button", name="Tag", exact=True).click()
        page.get_by_label("Add", exact=True).fill("weather")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".toast")).to_be_visible()
    found = owner(daemon, "list_memories", metadata={"tags": "weather"})
    assert found["total"] == EACH


@pytest.mark.slow
def test_a_selection_is_exported_and_opened_in_browse(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "map?only=conversation") as page:
        show(page)
        lasso(page)
        selected(page).get_by_role("button", name="Export").click()
        with page.expect_download() as saved:
            page.locator("dialog").get_by_role("button", name="Export").click()
        lines = saved.value.path().read_text().splitlines()
        assert sum(TOPICS[1] in line for line in lines) == EACH
        selected(page).get_by_role("button", name="Open in Browse").click()
        expect(page).to_have_url(re.compile("/browse$"))
        expect(page.locator(".memory")).to_have_count(EACH)
        page.reload()
        expect(page.locator(".memory")).to_have_count(EACH)
        page.get_by_role("button", name="Show all memories").click()
        expect(page.locator(".memory")).to_have_count(min(ALL, 40))


@pytest.mark.slow
def test_a_cluster_lists_its_memories(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "map") as page:
        show(page)
        first = page.locator("section[aria-label=Clusters] button").first
        count = int(first.locator(".number").inner_text())
        first.click()
        expect(selected(page)).to_contain_text(f"{count} memories")
        expect(selected(page).locator(".map-list li")).to_have_count(min(count, 20))
        page.locator(".map-stage canvas").focus()
        page.keyboard.press("Escape")
        expect(selected(page)).to_have_count(0)


@pytest.mark.slow
def test_forgetting_can_be_undone_until_it_is_committed(browser: Browser, daemon: Daemon) -> None:
    texts = [f"A comet number {number} crosses the sky." for number in range(4)]
    for text in texts:
        owner(daemon, "store_memory", content=text, metadata={"kind": "comet"})
    drawn(daemon)
    with opened(browser, daemon, "map?colour=kind&only=comet") as page:
        show(page)
        assert ink(page) > 0
        for ends in ("undone", "committed"):
            lasso(page)
            expect(selected(page)).to_contain_text("4 memories selected")
            selected(page).get_by_role("button", name="Forget").click()
            page.get_by_role("button", name="Forget 4 memories").click()
            page.wait_for_function("() => document.querySelector('.toast')")
            eventually(page, lambda: ink(page) == 0)
            if ends == "undone":
                page.get_by_role("button", name="Undo").click()
                eventually(page, lambda: ink(page) > 0)
        assert owner(daemon, "list_memories", metadata={"kind": "comet"})["total"] == 4
        page.goto(page.url.partition("?")[0])  # leaving the page commits
        expect(page.locator(".lead")).to_contain_text(f"{ALL} memories")
    assert owner(daemon, "list_memories", metadata={"kind": "comet"})["total"] == 0


@pytest.mark.slow
def test_a_new_memory_appears_by_itself(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "map") as page:
        show(page)
        expect(page.locator(".lead")).to_contain_text(f"{ALL} memories")
        id = owner(daemon, "store_memory", content="A late guest arrives at noon.")["id"]
        expect(page.locator(".lead")).to_contain_text(f"{ALL + 1} memories")
        owner(daemon, "forget_memory", memory_id=id)
        expect(page.locator(".lead")).to_contain_text(f"{ALL} memories")


@pytest.mark.slow
def test_the_map_follows_the_theme(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "map", theme="light") as page:
        show(page)
        assert pixels(page, "corner") > 600
        page.get_by_label("Theme").select_option("dark")
        eventually(page, lambda: pixels(page, "corner") < 150)


@pytest.mark.slow
def test_texts_that_look_like_html_stay_texts(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "map?colour=project") as page:
        show(page)
        shown = page.locator(".map-legend").first.inner_text()
        projects = [project for project in drawn(daemon)["fields"]["projects"] if project]
        assert len(projects) == len(TOPICS) + len(CANARIES)
        assert all(project in shown for project in projects)
        lasso(page)
        expect(page.locator(".map-list li")).to_have_count(20)
        while page.get_by_role("button", name=re.compile("^Show more|^Show . more")).count():
            count = page.locator(".map-list li").count()
            page.get_by_role("button", name=re.compile("^Show more|^Show . more")).click()
            expect(page.locator(".map-list li").nth(count)).to_be_visible()
        listed = page.locator(".map-list").inner_text()
        texts = [point["text"] for point in Places(daemon, page).points]
        assert all(text in listed for text in texts)


@pytest.mark.slow
def test_a_phone_reads_by_a_tap_without_scrolling_sideways(
    browser: Browser, daemon: Daemon
) -> None:
    with opened(browser, daemon, "map", size=PHONE, theme="dark", language="fr") as page:
        show(page)
        assert not overflows(page)
        places = Places(daemon, page)
        x, y = places[places.free(page, apart=0)]
        page.evaluate(
            """([x, y]) => {
            const at = { clientX: x, clientY: y, pointerType: "touch", pointerId: 5 };
            const canvas = document.querySelector(".map-stage canvas");
            for (const name of ["pointerdown", "pointerup"])
                canvas.dispatchEvent(new PointerEvent(name, { ...at, bubbles: true }));
            }""",
            [x, y],
        )
        expect(page.locator(".map-tip a")).to_have_text("Ouvrir")


@pytest.mark.slow
def test_two_fingers_zoom(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, "map", size=PHONE) as page:
        show(page)
        before = ink(page)
        page.evaluate(
            """() => {
            const canvas = document.querySelector(".map-stage canvas");
            const { left, top, width, height } = canvas.getBoundingClientRect();
            const send = (name, pointerId, dx) => canvas.dispatchEvent(new PointerEvent(name, {
                clientX: left + width / 2 + dx, clientY: top + height / 2,
                pointerType: "touch", pointerId, bubbles: true }));
            send("pointerdown", 5, -20);
            send("pointerdown", 6, 20);
            for (let by = 30; by <= 90; by += 10) send("pointermove", 6, by);
            send("pointerup", 5, -20);
            send("pointerup", 6, 90);
            }"""
        )
        eventually(page, lambda: ink(page) != before)
        expect(page.locator(".map-tip")).to_have_count(0)
        page.get_by_role("button", name="Show all").click()
        eventually(page, lambda: ink(page) == before)
