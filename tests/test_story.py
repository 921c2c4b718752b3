"""A conversation of 300 messages over the socket: three wakes, compactions, and a kill in the
middle; alone and with a language model that answers well, answers nonsense, hangs or dies."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.daemons import Daemon, ForkedDaemon, Lines
from tests.model_server import (
    Handler,
    ModelServer,
    hanging_up,
    model_server,
    replying,
    silent,
)

IDENTITY, MEMORY_WINDOW = "robot", 50
SAID = {  # by number of the message: what the user states as lasting
    4: "My name is Marisol Quintana.",
    60: "Remember that the spare key is under the blue flower pot.",
    150: "I moved, my address is 12 Harbour Lane now.",
    250: "My address is 7 Mill Road now.",
}
TOPICS = ("the garden", "the boat trip", "the tax letter", "the piano lessons", "the new stove")


def said(number: int) -> tuple[str, str]:
    """The role and the text of a message."""
    role = ("user", "assistant")[number % 2]
    about = TOPICS[number // 20 % len(TOPICS)]
    return role, SAID.get(number, f"Message {number:03} is about {about}.")


class Story:
    """One agent that talks, wakes and sleeps on a daemon that may be killed."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.next = 0
        self.session = ""
        self.lines = self._connected()

    def _connected(self) -> Lines:
        lines = Lines(self.daemon.connect())
        lines.open("all")
        return lines

    def call(self, name: str, /, **arguments: Any) -> Any:
        answer = self.lines.tool(name, **arguments)
        assert not answer.get("isError"), answer
        return answer["structuredContent"]

    def wake(self) -> Any:
        woken = self.call("wake_session", identity=IDENTITY)
        self.session = woken["session_id"]
        return woken

    def talk(self, count: int) -> None:
        for _ in range(count):
            role, content = said(self.next)
            turn = self.call("add_turn", role=role, content=content)
            assert turn["session_id"] == self.session
            self.next += 1

    def kill(self) -> None:
        """Kill the daemon, start it again, and continue the session by its id."""
        self.lines.__exit__()
        self.daemon.stop(signal.SIGKILL)
        self.daemon.start()
        self.lines = self._connected()
        self.call("wake_session", identity=IDENTITY, session_id=self.session)

    def recall(self, **arguments: Any) -> Any:
        return self.call("get_context", session_id=self.session, **arguments)

    def check(self, first: int, hint: str = "the boat trip") -> None:
        """A recall shows each message at most once, the newest for certain, in order, and none
        that came before message `first` among the last ones."""
        recalled = self.recall(hint=hint)
        orders = [message["content"] for message in recalled["messages"]]
        expected = [said(number)[1] for number in range(max(first, self.next - 40), self.next)]
        assert orders == expected
        ids = [id for part in recalled["parts"] for id in part["ids"]]
        ids += [message["id"] for message in recalled["messages"]]
        assert len(ids) == len(set(ids))
        text = self.recall(hint=hint, form="text")["text"]
        for number in range(self.next):
            if number not in SAID:
                assert text.count(f"Message {number:03} is") <= 2  # in an archive, as a moment
        shown = [part["part"] for part in recalled["parts"]]
        assert shown == [one for one in ORDER if one in shown]

    def parts(self, **arguments: Any) -> dict[str, str]:
        return {part["part"]: part["text"] for part in self.recall(**arguments)["parts"]}


ORDER = ("facts", "working_memory", "archives", "moments")


def told(story: Story, by: set[str]) -> None:
    """The whole story. `by`: who may have written its summaries."""
    woken = story.wake()
    assert woken["consolidated"] == []
    story.call("working_memory", identity=IDENTITY, content="## Goals\nLearn to sail.")
    story.talk(40)
    story.check(first=0)
    compacted = story.call("compact_session", keep=10)
    assert (compacted["archived"], compacted["kept"]) == (30, 10)
    assert compacted["summary_by"] in by
    story.check(first=30)
    story.talk(60)
    latest = settled(story)
    assert latest > 29
    story.check(first=latest + 1)
    assert "Learn to sail" in story.parts()["working_memory"]

    first_session = story.session
    story.kill()
    story.check(first=latest + 1)
    assert story.call("read_session", limit=1000)["turns"] == 100
    slept = story.call("sleep_session")
    assert slept["summary_by"] in by
    woken = story.wake()
    assert woken["session_id"] != first_session
    assert woken["messages"] == []
    recap = {part["part"]: part["text"] for part in woken["parts"]}["archives"]
    assert slept["archive_name"] in recap or slept["archive_name"] in str(woken["parts"])

    story.talk(100)
    second_session = story.session
    story.lines.__exit__()
    story.lines = story._connected()  # the agent was killed, and never slept
    woken = story.wake()
    assert woken["consolidated"] == [second_session]
    story.talk(100)
    slept = story.call("sleep_session")
    assert story.next == 300
    sessions = story.call("list_sessions", identity=IDENTITY)["sessions"]
    assert [one["turns"] for one in sessions] == [100, 100, 100]
    assert [bool(one["closed_at"]) for one in sessions] == [True, True, True]
    check_nothing_is_lost(story)


def check_nothing_is_lost(story: Story) -> None:
    """Every message is still there, and in exactly one archive."""
    contents, archived = [], 0
    for one in reversed(story.call("list_sessions", identity=IDENTITY)["sessions"]):
        read = story.call("read_session", session_id=one["session_id"], limit=1000)
        contents += [message["content"] for message in read["messages"]]
        uptos = [marker["upto"] for marker in read["markers"]]
        assert uptos == sorted(set(uptos))
        archived += sum(marker["messages"] for marker in read["markers"])
    assert contents == [said(number)[1] for number in range(300)]
    assert archived == 300


def settled(story: Story) -> int:
    """The order of the last archived message, once no compaction is due in the background."""
    while True:
        read = story.call("read_session", limit=1)
        latest: int = read["markers"][-1]["upto"]
        if read["turns"] - (latest + 1) <= MEMORY_WINDOW:
            return latest


def check_rules_kept_facts(story: Story) -> None:
    found = story.call("list_memories", memory_type="fact", limit=1000)["memories"]
    lasting = [one for one in found if one["metadata"].get("from_session")]
    lasting = [one["content"] for one in lasting if one["metadata"].get("kind") != "archive"]
    assert sum("Marisol Quintana" in text for text in lasting) == 1
    assert sum("blue flower pot" in text for text in lasting) == 1
    durable = story.parts()["facts"]
    assert "7 Mill Road" in durable
    assert "12 Harbour Lane" not in durable  # superseded, but still there
    assert sum("12 Harbour Lane" in text for text in lasting) == 1
    assert not any("Message" in text for text in lasting)


@contextmanager
def daemon(folder: Path, **settings: str) -> Iterator[Daemon]:
    one = ForkedDaemon(folder, **settings).start()
    try:
        yield one
    finally:
        assert one.stop() == 0, one.log.read_text()


@pytest.mark.slow
def test_without_a_language_model(tmp_path: Path) -> None:
    with daemon(tmp_path / "data") as running:
        story = Story(running)
        told(story, by={"extract"})
        check_rules_kept_facts(story)
        story.lines.__exit__()


def answering(handler: Handler) -> None:
    """Answer as a good model would: with what it was given."""
    body = handler.model_server.bodies[-1]
    text = "\n".join(str(message["content"]) for message in body["messages"])
    numbers = re.findall(r"Message (\d\d\d)", text)
    entry = f"[2026-01-02 03:04] They went from {numbers[0]} to {numbers[-1]}."
    content = json.dumps({"history_entry": entry, "memory_update": ""})
    message = {"role": "assistant", "content": content}
    handler.reply({"choices": [{"message": message, "finish_reason": "stop"}]})


def dying(handler: Handler) -> None:
    """Answer once, then never again."""
    answering(handler)
    handler.model_server.rude = hanging_up


MODELS: dict[str, tuple[Callable[[Handler], None], set[str]]] = {
    "well": (answering, {"llm"}),
    "nonsense": (replying({"choices": [{"message": {"content": "Beep! {]"}}]}), {"extract"}),
    "rude": (replying(b"<html>", 500), {"extract"}),
    "silent": (silent, {"extract"}),
    "dying": (dying, {"llm", "extract"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", MODELS)
def test_with_a_language_model(tmp_path: Path, how: str) -> None:
    answer, by = MODELS[how]
    server: ModelServer
    with model_server() as server:
        server.rude = answer
        settings = {
            "MEMORYD_LLM_URL": server.url,
            "MEMORYD_LLM_MODEL": "stub",
            "MEMORYD_LLM_TIMEOUT": "0.5" if how == "silent" else "30",
        }
        with daemon(tmp_path / "data", **settings) as running:
            story = Story(running)
            told(story, by)
            story.lines.__exit__()
    assert server.bodies, "the model was never asked"
