"""Who gets to the page: the one-time link, the login, and everybody else."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser

from memoryd.doors.page.app import HEADERS, TOKEN_HEADER
from memoryd.doors.page.assets import STATIC, choose_language
from memoryd.doors.page.logins import IDLE_SECONDS, MAX_BROWSERS, TICKET_SECONDS, Logins
from memoryd.doors.page.peers import uid_of
from memoryd.shim.lines import SESSION
from tests.daemons import Daemon, ForkedDaemon, Lines
from tests.page.browser import opened, owner
from tests.processes import free_port


class Visitor:
    """A browser without a window: it keeps cookies and says where its requests come from."""

    def __init__(self, daemon: Daemon) -> None:
        url, _, ticket = owner(daemon, "open_page")["url"].partition("#ticket=")
        self.origin = url.removesuffix("/page/")
        self.ticket = ticket
        self.token = ""
        self.http = httpx.Client(base_url=self.origin, headers={"Origin": self.origin})

    def log_in(self) -> httpx.Response:
        answer = self.http.post("/page/login", json={"ticket": self.ticket})
        self.token = answer.json().get("token", "")
        return answer

    def call(self, tool: str, arguments: Any = None, **headers: str) -> httpx.Response:
        body = {"tool": tool, "arguments": arguments or {}}
        return self.http.post(
            "/page/call", json=body, headers={TOKEN_HEADER: self.token, **headers}
        )


@pytest.fixture
def visitor(daemon: Daemon) -> Iterator[Visitor]:
    visitor = Visitor(daemon)
    with visitor.http:
        yield visitor


def test_a_link_logs_one_browser_in_and_leaves_the_address(
    browser: Browser, daemon: Daemon
) -> None:
    link = owner(daemon, "open_page")["url"]
    with opened(browser, daemon) as page:
        assert "ticket" not in page.url
        used = page.context.new_page()
        used.goto(link)
        used.wait_for_selector(".frame")
    fresh = browser.new_context().new_page()
    fresh.goto(link)  # which was used above
    fresh.wait_for_selector(".login")
    fresh.context.close()


def test_a_ticket_works_once(visitor: Visitor) -> None:
    assert visitor.log_in().status_code == 200
    again = visitor.http.post("/page/login", json={"ticket": visitor.ticket})
    assert (again.status_code, again.json()["error"]["code"]) == (401, "not_logged_in")


@pytest.mark.parametrize("ticket", ["", "x" * 43, None, 7, ["a"]])
def test_no_other_ticket_works(visitor: Visitor, ticket: object) -> None:
    assert visitor.http.post("/page/login", json={"ticket": ticket}).status_code == 401


def test_the_cookie_is_for_the_page_alone_and_no_script_reads_it(visitor: Visitor) -> None:
    cookie = visitor.log_in().headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/page"} <= set(cookie.split("; "))
    assert visitor.token not in cookie


def test_cookie_and_token_are_needed_both(visitor: Visitor) -> None:
    visitor.log_in()
    assert visitor.call("list_memories").status_code == 200
    assert visitor.call("list_memories", **{TOKEN_HEADER: "x"}).status_code == 401
    visitor.http.cookies.clear()
    assert visitor.call("list_memories").status_code == 401


def test_no_other_page_can_call(visitor: Visitor) -> None:
    visitor.log_in()
    foreign = {"Origin": "https://evil.example"}
    assert visitor.call("list_memories", **foreign).status_code == 403
    assert visitor.call("list_memories", Host="evil.example").status_code == 421
    assert visitor.call("list_memories", **{"Sec-Fetch-Site": "cross-site"}).status_code == 403
    del visitor.http.headers["Origin"]
    assert visitor.call("list_memories").status_code == 403


def test_calls_are_posts_so_no_text_is_in_an_address(visitor: Visitor) -> None:
    visitor.log_in()
    for path in ("/page/call", "/page/login", "/page/logout"):
        answer = visitor.http.get(path, headers={TOKEN_HEADER: visitor.token})
        assert "application/json" not in answer.headers["content-type"]


def test_the_page_may_do_what_the_owner_may(visitor: Visitor) -> None:
    visitor.log_in()
    stored = visitor.call("store_memory", {"content": "The page can store."}).json()["answer"]
    listed = visitor.call("list_memories").json()["answer"]
    assert stored["id"] in [memory["id"] for memory in listed["memories"]]
    assert (
        visitor.call("export_memories").json()["answer"]["total"] == 1
    )  # an operation for the owner
    refused = visitor.call("store_memory", {"content": ""})
    assert {"code", "message"} <= refused.json()["error"].keys()
    assert visitor.call("made_up").json()["error"]["code"] == "tool_unknown"


@pytest.mark.parametrize("body", [b"", b"[]", b"nonsense", b'{"tool": 1}', b'{"arguments": []}'])
def test_a_bad_body_is_refused(visitor: Visitor, body: bytes) -> None:
    visitor.log_in()
    answer = visitor.http.post("/page/call", content=body, headers={TOKEN_HEADER: visitor.token})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "call_invalid")


def test_who_logs_out_is_out(visitor: Visitor) -> None:
    visitor.log_in()
    headers = {TOKEN_HEADER: visitor.token}
    assert visitor.http.post("/page/logout", json={}, headers=headers).status_code == 200
    assert visitor.call("list_memories").status_code == 401


def test_the_page_does_not_open_the_rest_of_the_door(visitor: Visitor) -> None:
    visitor.log_in()
    for path in ("/mcp", "/metrics"):
        answer = visitor.http.post(path, json={}, headers={TOKEN_HEADER: visitor.token})
        assert answer.status_code == 401


def test_every_answer_forbids_what_is_not_ours(visitor: Visitor) -> None:
    for path in ("/page/", "/page/browse", "/page/static/js/main.js", "/page/static/nothing.js"):
        answer = visitor.http.get(path)
        assert (
            HEADERS.items() <= dict(answer.headers).items()
            or {key.lower(): value for key, value in HEADERS.items()}.items()
            <= dict(answer.headers).items()
        )
    assert "unsafe" not in HEADERS["Content-Security-Policy"]


def test_no_file_outside_of_the_page_is_served(visitor: Visitor) -> None:
    for name in ("../app.py", "%2e%2e/app.py", "..%2f..%2fserver.py", "/etc/passwd", ""):
        answer = visitor.http.get(f"/page/static/{name}")  # some clients shorten ".." themselves
        assert answer.status_code == 404 or answer.text == visitor.http.get("/page/").text


def test_an_agent_gets_no_link(daemon: Daemon) -> None:
    """Only the local socket does, and the shim says that an agent is behind it."""
    with Lines(daemon.connect()) as lines:
        lines.send(SESSION % b"agent")
        lines.open("all")
        answer = lines.tool("open_page")
    assert answer["_meta"]["memoryd/error"]["code"] == "not_local"


def test_the_page_is_on_loopback_only(tmp_path: Path) -> None:
    """A door for other machines does not serve it: it gets one of its own."""
    port = free_port()
    settings = {
        "MEMORYD_DOORS_HTTP_PORT": str(port),
        "MEMORYD_DOORS_HTTP_HOST": "0.0.0.0",
        "MEMORYD_DOORS_HTTP_ALLOWED_HOSTS": "memory.lan",
    }
    daemon = ForkedDaemon(tmp_path / "data", **settings).start()
    try:
        link = owner(daemon, "open_page")["url"]
        assert link.startswith("http://127.0.0.1:")
        assert f":{port}/" not in link
        asked = httpx.get(f"http://127.0.0.1:{port}/page/", headers={"Host": f"memory.lan:{port}"})
        assert asked.status_code == 401
        assert httpx.get(link.partition("#")[0]).status_code == 200
    finally:
        assert daemon.stop() == 0


def test_the_page_uses_a_door_that_is_open_on_loopback(tmp_path: Path) -> None:
    port = free_port()
    daemon = ForkedDaemon(tmp_path / "data", MEMORYD_DOORS_HTTP_PORT=str(port)).start()
    try:
        assert owner(daemon, "open_page")["url"].startswith(f"http://127.0.0.1:{port}/page/#")
    finally:
        assert daemon.stop() == 0


def test_a_login_ends_when_it_is_not_used() -> None:
    now = [0.0]
    logins = Logins(lambda: now[0])
    ticket = logins.new_ticket()
    now[0] += TICKET_SECONDS
    assert logins.redeem(ticket) is None
    login = logins.redeem(logins.new_ticket())
    assert login is not None
    now[0] += IDLE_SECONDS - 1
    assert logins.knows(login.cookie, login.token)
    now[0] += IDLE_SECONDS - 1
    assert logins.knows(login.cookie, login.token)
    now[0] += IDLE_SECONDS
    assert not logins.knows(login.cookie, login.token)


def test_the_number_of_logins_is_bounded() -> None:
    logins = Logins()
    made = [logins.redeem(logins.new_ticket()) for _ in range(MAX_BROWSERS + 1)]
    known = [login for login in made if login and logins.knows(login.cookie, login.token)]
    assert known == made[1:]


def test_the_user_of_a_connection_is_known_on_linux() -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux tells")
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        assert uid_of(*client.getsockname()) == os.getuid()
        client.close()
    assert uid_of("127.0.0.1", 1) is None


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("fr-FR,fr;q=0.9,en;q=0.8", "fr"),
        ("en-GB,en;q=0.9,fr;q=0.8", "en"),
        ("de, fr;q=0.5", "fr"),
        ("de", "en"),
        ("", "en"),
        ("fr;q=x, *;q=0", "en"),
    ],
)
def test_the_language_is_the_one_that_the_browser_likes(header: str, expected: str) -> None:
    assert choose_language(header, ("en", "fr")) == expected


def files_of(*suffixes: str) -> list[Path]:
    return [path for path in sorted(STATIC.rglob("*")) if path.suffix in suffixes]


def test_nothing_of_the_page_comes_from_elsewhere() -> None:
    """It works offline, and no other host learns that it is open."""
    outside = re.compile(r"https?://(?!www\.w3\.org/)|(?:src|href)=\"//|@import")
    for path in files_of(".html", ".js", ".css", ".svg"):
        if "vendor" not in path.parts:
            assert not outside.search(path.read_text()), path


def test_no_text_becomes_html() -> None:
    dangerous = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|srcdoc"
    )
    for path in files_of(".js"):
        if "vendor" not in path.parts:
            assert not dangerous.search(path.read_text()), path
