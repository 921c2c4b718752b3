"""The HTTP door: who gets in, and who does not."""

from __future__ import annotations

import json
from typing import Any

import anyio
import httpx
import pytest

from memoryd.doors.lines import MAX_VALUES
from memoryd.doors.web.body import Bodies
from tests.daemons import Daemon
from tests.doors.clients import address, get, post


def test_the_token_opens_the_door(daemon: Daemon, token: str) -> None:
    assert post(daemon, Authorization=f"Bearer {token}").status_code == 200


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer wrong", "Basic abc", "bearer {token}x", "{token}"]
)
def test_without_the_token_nobody_gets_in(daemon: Daemon, token: str, header: str) -> None:
    headers = {"Authorization": header.format(token=token)} if header else {}
    answer = post(daemon, **headers)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "token_refused"
    assert token not in answer.text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", ""])
def test_a_foreign_host_is_refused(daemon: Daemon, token: str, host: str) -> None:
    """DNS rebinding: the browser connects to us but believes it talks to its own site."""
    named = host.format(port=daemon.settings["MEMORYD_DOORS_HTTP_PORT"])
    answer = post(daemon, Authorization=f"Bearer {token}", Host=named)
    assert answer.status_code in (400, 421)


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1.evil.example"],
)
def test_a_foreign_page_is_refused(daemon: Daemon, token: str, origin: str) -> None:
    answer = post(daemon, Authorization=f"Bearer {token}", Origin=origin)
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "origin_refused"


def test_our_own_origin_is_welcome(daemon: Daemon, token: str) -> None:
    origin = f"http://127.0.0.1:{daemon.settings['MEMORYD_DOORS_HTTP_PORT']}"
    assert post(daemon, Authorization=f"Bearer {token}", Origin=origin).status_code == 200


def test_health_says_that_it_lives_and_nothing_else(daemon: Daemon) -> None:
    found: dict[str, Any] = get(daemon, "/health").json()
    assert found["health"] == "ready"
    assert set(found) == {"health", "version"}
    assert get(daemon, "/health", Host="evil.example").status_code == 421


def test_metrics_are_told_behind_the_token(daemon: Daemon, token: str) -> None:
    assert get(daemon, "/metrics").status_code == 401
    daemon.tool("search_memories", query="anything")
    answer = get(daemon, "/metrics", Authorization=f"Bearer {token}")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    names = {line.partition("{")[0].partition(" ")[0] for line in answer.text.splitlines()}
    assert {"memoryd_ready", "memoryd_memories", "memoryd_resident_bytes"} <= names
    searched = 'memoryd_calls_total{tool="search_memories",outcome="ok"}'
    assert any(line.startswith(searched) for line in answer.text.splitlines())


def test_every_call_is_one_event_in_the_log(daemon: Daemon) -> None:
    """What it cost and how it ended; an unknown name could be anything, so it is not written."""
    daemon.tool("search_memories", query="a kettle")
    daemon.call("tools/call", name="store_memory", arguments={"content": ""})
    daemon.call("tools/call", name="made_up", arguments={})
    logged = [json.loads(line) for line in daemon.log.read_text().splitlines() if "{" in line]
    calls = [event for event in logged if event["event"] == "call"][-3:]
    assert [call["tool"] for call in calls] == ["search_memories", "store_memory", "unknown"]
    assert [call["outcome"] for call in calls] == ["ok", "content_empty", "tool_unknown"]
    assert all(call["ms"] >= 0 for call in calls)
    assert calls[0]["results"] >= 0
    figures = daemon.status()["calls"]["store_memory"]
    assert figures["errors"] >= 1
    assert figures["p99_ms"] >= figures["p50_ms"]


def test_other_paths_are_closed(daemon: Daemon, token: str) -> None:
    assert get(daemon, "/").status_code == 401
    assert get(daemon, "/", Authorization=f"Bearer {token}").status_code == 404


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b'{"k": [' + b"0," * 140_000 + b"0]}", 400, str(MAX_VALUES)),
        (b'{"k": "' + b"x" * 1_000_000 + b'"}', 413, "1000000 bytes"),
    ],
    ids=["values", "bytes"],
)
def test_a_body_over_the_limits_is_refused_before_it_is_parsed(
    daemon: Daemon, token: str, body: bytes, status: int, said: str
) -> None:
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
    }
    with httpx.Client(trust_env=False, timeout=60, headers=headers) as client:
        answer = client.post(address(daemon) + "/mcp", content=body)
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == -32600
    assert said in answer.json()["error"]["message"]


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    sent: list[Any] = []

    async def never() -> Any:
        await anyio.sleep_forever()

    async def send(message: Any) -> None:
        sent.append(message)

    async def app(*args: Any) -> None:
        raise AssertionError("there is no body to serve")

    scope = {"type": "http", "method": "POST"}
    with anyio.fail_after(60):
        await Bodies(app, 1000, seconds=0.01)(scope, never, send)
    assert sent[0]["status"] == 408
