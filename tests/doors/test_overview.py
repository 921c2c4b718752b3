"""What an owner looks at, on a real daemon: overview, samples, details, menus and transcripts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import anyio
import pytest

from memoryd.doors.calls import CallFacts, CallLog
from memoryd.doors.live import LONG_SECONDS, SHORT_COUNT, Live
from memoryd.doors.readiness import Readiness
from memoryd.engine.run import run_engine
from memoryd.settings import Config
from tests.daemons import Daemon, ForkedDaemon
from tests.ramstore import RamStore


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("overview") / "data"
    running = ForkedDaemon(folder, MEMORYD_DOORS_TOOLSETS="all").start()
    yield running
    assert running.stop() == 0, running.log.read_text()


def store(owner: Daemon, content: str, **given: Any) -> str:
    found: str = owner.tool("store_memory", content=content, **given)["id"]
    return found


def error(owner: Daemon, name: str, /, **arguments: Any) -> Any:
    answer = owner.call("tools/call", name=name, arguments=arguments)
    assert answer["isError"], answer
    return answer["_meta"]["memoryd/error"]


def counted(found: list[dict[str, Any]]) -> dict[str | None, int]:
    return {one["value"]: one["memories"] for one in found}


def test_overview_counts_what_is_there(owner: Daemon) -> None:
    """Every count changes by exactly what was stored, forgotten and pinned."""
    before = owner.tool("overview")
    kept = store(
        owner, "Tea at four.", metadata={"kind": "decision", "project": "tea"}, pinned=True
    )
    gone = store(owner, "Cake at five.", metadata={"kind": "decision", "source": "user_taught"})
    store(owner, "Said today.", memory_type="conversation")
    owner.tool("review_memory", memory_id=kept, action="flag", reason="Is it still four?")
    between = owner.tool("overview")
    owner.tool("forget_memory", memory_id=gone)
    after = owner.tool("overview")

    def change(one: Any, other: Any, *path: str) -> int:
        for key in path:
            one, other = one[key], other[key]
        return int(other - one)

    assert change(before, between, "totals", "memories") == 3
    assert change(before, between, "totals", "pinned") == 1
    assert change(before, between, "totals", "projects") == 1
    assert change(before, between, "by_type", "fact") == 2
    assert change(before, between, "attention", "needs_review") == 1
    assert counted(between["by_kind"])["decision"] == 2
    assert counted(after["by_kind"])["decision"] == 1
    assert counted(between["by_source"])["user_taught"] == 1
    assert "user_taught" not in counted(after["by_source"])
    assert counted(after["by_project"])["tea"] == 1
    for found in (before, between, after):
        assert sum(found["by_type"].values()) == found["totals"]["memories"]
        assert sum(one["memories"] for one in found["by_kind"]) == found["totals"]["memories"]
    assert before["revision"] != between["revision"] != after["revision"]
    owner.tool("forget_memory", memory_id=kept)


def test_overview_has_the_days(owner: Daemon) -> None:
    """Today is the last day of what was remembered, and the first of what expires."""
    before = owner.tool("overview")
    store(owner, "A context ends with its day.", memory_type="context")
    after = owner.tool("overview")
    today = datetime.now().date().isoformat()
    if before["remembered"][-1]["day"] != today or after["remembered"][-1]["day"] != today:
        pytest.skip("midnight came in between")
    assert len(after["remembered"]) == len(after["expiring"]) == 30
    assert after["expiring"][0]["day"] == today
    assert after["remembered"][-1]["context"] == before["remembered"][-1]["context"] + 1
    ends = [sum(day["context"] for day in found["expiring"]) for found in (before, after)]
    assert ends[1] == ends[0] + 1
    days = [day["day"] for day in after["remembered"]]
    assert days == sorted(set(days))


def test_health_is_told_with_its_reasons(owner: Daemon) -> None:
    """The number is 100 minus the points of the reasons."""
    found = owner.tool("overview")["health"]
    assert found["score"] == 100 - sum(reason["points"] for reason in found["reasons"])
    for reason in found["reasons"]:
        assert reason.keys() == {"code", "points", "severity", "sentence"}


@pytest.mark.parametrize("name", ["overview", "memory_detail", "transcript", "filters", "samples"])
def test_owner_operations_are_not_for_agents(owner: Daemon, name: str) -> None:
    """None is listed, so none costs room in a prompt."""
    assert name not in {tool["name"] for tool in owner.call("tools/list")["tools"]}


def test_detail_has_all_surroundings(owner: Daemon) -> None:
    """Relations both ways, chain, provenance, files, review and nearest memories."""
    old = store(owner, "The port is 80.", metadata={"kind": "gotcha", "related_files": ["a/b.py"]})
    new = store(owner, "The port is 8080.", metadata={"kind": "gotcha", "supersedes": [old]})
    owner.tool("review_memory", memory_id=new, action="flag", reason="Check it.")
    seen = owner.tool("memory_detail", memory_id=new)
    assert seen["memory"]["content"] == "The port is 8080."
    assert [(one["relation"], one["direction"], one["id"]) for one in seen["relations"]] == [
        ("supersedes", "out", old)
    ]
    assert [(one["id"], one["is_this"]) for one in seen["chain"]] == [(old, False), (new, True)]
    assert seen["review"]["needs_review"]
    assert seen["review"]["reason"] == "Check it."
    assert seen["confidence"]["half_life_days"] == 60
    assert seen["nearest"] is not None
    assert new not in {one["id"] for one in seen["nearest"]}
    assert len(seen["provenance"]["sha256"]) == 64
    other = owner.tool("memory_detail", memory_id=old)
    assert [(one["relation"], one["direction"]) for one in other["relations"]] == [
        ("supersedes", "in")
    ]
    assert other["files"] == [{"file": "a/b.py", "stale": False, "changed_at": None}]


def test_detail_is_exact_and_no_use(owner: Daemon) -> None:
    """The text is as it was stored, and looking at it counts nothing."""
    text = "Exactly <|im_start|> this \u202e text."
    id = store(owner, text)
    for _ in range(3):
        seen = owner.tool("memory_detail", memory_id=id)
    assert seen["memory"]["content"] == text
    assert seen["uses"] == {"count": 0, "last": None}


def test_detail_of_a_message(owner: Daemon) -> None:
    """A message has its neighbours, its archive and its session's title."""
    for number in range(6):
        owner.tool("add_turn", session_id="talk", role="user", content=f"Message {number}.")
    owner.tool("rename_session", session_id="talk", title="A talk")
    owner.tool("compact_session", session_id="talk", keep=2)
    items = owner.tool("transcript", session_id="talk")["items"]
    messages = [item for item in items if item["item"] == "message"]
    seen = owner.tool("memory_detail", memory_id=messages[2]["id"])
    near = [one["text"] for one in seen["neighbours"]]
    assert near == [f"Message {number}." for number in range(5)]
    assert [one["is_this"] for one in seen["neighbours"]] == [False, False, True, False, False]
    assert seen["provenance"]["session_title"] == "A talk"
    archive = next(item for item in items if item["item"] == "archive")
    assert [one["id"] for one in seen["archives"]] == [archive["id"]]


def test_detail_of_nothing(owner: Daemon) -> None:
    """An id that there is not is an error with a code."""
    assert error(owner, "memory_detail", memory_id="nobody")["code"] == "not_found"
    assert error(owner, "memory_detail")["code"] == "memory_id_missing"


def test_transcript_is_paged_with_archives_in_place(owner: Daemon) -> None:
    """All messages in order over several pages; an archive follows the last one that it covers."""
    for number in range(9):
        owner.tool("add_turn", session_id="long", role="user", content=f"Line {number}.")
    owner.tool("compact_session", session_id="long", keep=4)
    seen: list[dict[str, Any]] = []
    before: dict[str, int] = {}
    while True:
        page = owner.tool("transcript", session_id="long", limit=3, **before)
        seen = page["items"] + seen
        assert page["total"] == 9
        if page["before"] is None:
            break
        before = {"before": page["before"]}
    said = [item for item in seen if item["item"] == "message"]
    assert [item["text"] for item in said] == [f"Line {number}." for number in range(9)]
    archives = [place for place, item in enumerate(seen) if item["item"] == "archive"]
    assert len(archives) == 1
    assert seen[archives[0]]["upto"] == seen[archives[0] - 1]["order"]
    assert [item["archived"] for item in said] == [True] * 5 + [False] * 4
    assert said[-1]["in_window"]
    assert page["session"]["state"] == "open"
    listed = owner.tool("list_sessions", details=True)["sessions"]
    assert page["session"] in listed
    assert "state" not in owner.tool("list_sessions")["sessions"][0]
    assert error(owner, "transcript")["code"] == "session_id_missing"


def test_filters_name_what_can_be_filtered_by(owner: Daemon) -> None:
    """Each value of a menu finds as many memories as it says, in lists and in searches."""
    fields = {"kind": "pattern", "source": "agent_explicit", "tags": ["red", "blue"]}
    one = store(owner, "A red and blue pattern.", metadata=fields, pinned=True)
    store(owner, "A red thing.", metadata={"tags": ["red"]})
    owner.tool("add_turn", session_id="menu", role="user", content="In a menu.")
    found = owner.tool("filters")
    for menu, argument in (("kinds", "kind"), ("sources", "source"), ("tags", "tag")):
        for value, count in counted(found[menu]).items():
            if value is not None:
                listed = owner.tool("list_memories", **{argument: value})
                assert listed["total"] == count, (menu, value)
    assert counted(found["tags"])["red"] == 2
    assert owner.tool("list_memories", pinned=True)["total"] == found["pinned"]
    flagged = owner.tool("list_memories", needs_review=True)["total"]
    assert flagged == found["needs_review"]
    every = owner.tool("list_memories")["total"]
    assert owner.tool("list_memories", needs_review=False)["total"] == every - flagged
    assert "menu" in {session["session_id"] for session in found["sessions"]}
    hits = owner.tool("search_memories", query="red thing", tag="blue", pinned=True)["results"]
    assert [hit["id"] for hit in hits] == [one]
    gone = owner.tool("forget_where", tag="blue", pinned=True, dry_run=True)
    assert gone["matched"] == 1
    assert error(owner, "list_memories", pinned="yes")["code"] == "pinned_invalid"
    assert error(owner, "list_memories", kind=["a"])["code"] == "filter_invalid"


def test_a_cursor_belongs_to_its_filter(owner: Daemon) -> None:
    """A page of pinned memories is not continued with others."""
    for number in range(2):
        store(owner, f"Pinned number {number}.", pinned=True)
    page = owner.tool("list_memories", pinned=True, limit=1)
    assert page["cursor"]
    assert error(owner, "list_memories", limit=1, cursor=page["cursor"])["code"] == "cursor_invalid"
    assert owner.tool("list_memories", pinned=True, limit=1, cursor=page["cursor"])["memories"]


def test_samples_are_rings(owner: Daemon) -> None:
    """Both rings are there, and since leaves out what is older."""
    found = owner.tool("samples")
    assert (found["short"]["seconds"], found["long"]["seconds"]) == (10, 300)
    assert owner.tool("samples", since=time.time() + 1000)["short"]["samples"] == []


class Clock:
    """A clock that a test moves."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def test_a_sample_has_the_calls_of_its_interval() -> None:
    """Counts and percentiles are of the calls since the last sample, and the ring is bounded."""
    calls, clock = CallLog(), Clock()
    live = Live(Readiness(), calls, clock, clock)
    for seconds in (0.1, 0.2, 0.3):
        live._note(CallFacts("search_memories", seconds, ok=True, is_fault=False))
    live._note(CallFacts("store_memory", 1.0, ok=False, is_fault=True))
    clock.now += 10
    made = await live.sample()
    assert (made.calls, made.errors, made.faults, made.searches) == (4, 1, 1, 3)
    assert (made.calls_per_second, made.search_p50_ms, made.p99_ms) == (0.4, 200.0, 1000.0)
    assert live.recent_faults() == (4, 1)
    for _ in range(SHORT_COUNT + 5):
        clock.now += 10
        empty = await live.sample()
    assert (empty.calls, empty.p50_ms) == (0, None)
    found = live.since()
    assert len(found["short"]["samples"]) == SHORT_COUNT
    assert len(found["long"]["samples"]) == (SHORT_COUNT + 6) * 10 // LONG_SECONDS
    assert found["long"]["samples"][0]["calls"] == 4


async def test_a_watcher_gets_every_sample() -> None:
    """`changes` yields a sample as soon as there is one."""
    clock = Clock()
    live = Live(Readiness(), CallLog(), clock, clock)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                async for event, data in live.changes():
                    assert (event, data["calls"]) == ("sample", 0)
                    tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            while True:
                await anyio.lowlevel.checkpoint()
                clock.now += 10
                await live.sample()


async def test_a_watcher_is_told_of_changes() -> None:
    """A write makes one `changed` event, with the counts after it."""
    told: list[dict[str, Any]] = []
    with anyio.fail_after(20):
        async with (
            run_engine(Config(), RamStore(), None, 8) as engine,
            anyio.create_task_group() as tasks,
        ):
            readiness = Readiness()
            readiness.open(engine)
            live, watching = Live(readiness, CallLog()), anyio.Event()

            async def watch() -> None:
                watching.set()
                async for event, data in live.changes():
                    assert event == "changed"
                    told.append(data)
                    tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            await watching.wait()
            await anyio.lowlevel.checkpoint()
            await engine.store("Something new.")
            revision = engine.censuses.revision
    (data,) = told
    assert (data["memories"]["fact"], data["revision"]) == (1, revision)
