"""The transcript of a client becomes messages, without its noise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memoryd.engine.push import transcript
from memoryd.engine.push.transcript import Heard, heard_in, read_new

SESSION = "5f1c"


def line(type: str, content: Any, id: str, **more: Any) -> bytes:
    """A line as Claude Code writes it."""
    message = {"role": type, "content": content}
    made = {"type": type, "uuid": id, "sessionId": SESSION, "message": message, **more}
    return json.dumps(made).encode()


def text(said: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": said}]


def test_prompts_and_answers_are_kept_with_the_names_of_tools() -> None:
    result = [{"type": "tool_result", "tool_use_id": "t1", "content": "x" * 5000}]
    use = [{"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a.py"}}]
    found = heard_in(
        [
            line("user", "What is in a.py?", "u1"),
            line("assistant", use, "a1"),
            line("user", result, "u2"),
            line("assistant", text("A parser."), "a2"),
        ],
        SESSION,
    )
    assert found == [
        Heard("u1", "user", "What is in a.py?"),
        Heard("a2", "assistant", "A parser.", tools_used=("Read",)),
    ]


def test_a_failed_tool_is_kept_with_the_beginning_of_its_error() -> None:
    use = [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}}]
    failed = {"type": "tool_result", "tool_use_id": "t1", "is_error": True}
    found = heard_in(
        [
            line("assistant", use, "a1"),
            line("user", [failed | {"content": text("no rule\n" + "y" * 9000)}], "u1"),
        ],
        SESSION,
    )
    assert [(one.role, one.tool) for one in found] == [("tool", "Bash")]
    assert found[0].text.startswith("failed: no rule yyy")
    assert len(found[0].text) < 400


def test_the_name_of_a_tool_is_known_in_a_later_part() -> None:
    use = [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}]
    failed = [{"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "no"}]
    names: dict[str, str] = {}
    assert heard_in([line("assistant", use, "a1")], SESSION, names) == []
    assert heard_in([line("user", failed, "u1")], SESSION, names)[0].tool == "Bash"


@pytest.mark.parametrize(
    "skipped",
    [
        line("user", "<task-notification>done</task-notification>", "u1"),
        line("user", "<command-name>/clear</command-name>", "u1"),
        line("user", "typed", "u1", isMeta=True),
        line("user", "the summary", "u1", isCompactSummary=True),
        line("user", "of a subagent", "u1", isSidechain=True),
        line("user", "of another session", "u1", sessionId="other"),
        line("attachment", "injected text", "u1"),
        line("user", '<memory part="facts" title="Facts">\n- injected\n</memory>', "u1"),
        line("user", "", "u1"),
        line("user", {"not": "a content"}, "u1"),
        line("user", [1, None, {"type": "image"}], "u1"),
        json.dumps({"type": "user", "message": {"content": "no id"}}).encode(),
        json.dumps({"type": "user", "uuid": "u1", "message": "no message"}).encode(),
        b"[1, 2]",
        b"not json",
        b"\xff\xfe",
        b"[" * 100_000,
        b"",
    ],
)
def test_what_nobody_said_is_skipped(skipped: bytes) -> None:
    assert heard_in([skipped, line("user", "a real one", "u9")], SESSION) == [
        Heard("u9", "user", "a real one")
    ]


def test_only_whole_lines_after_the_offset_are_read(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_bytes(b"one\ntwo\nthr")
    first = read_new(str(file), 0)
    assert (first.lines, first.offset) == ([b"one", b"two"], 8)
    with file.open("ab") as more:
        more.write(b"ee\nfour\n")
    assert read_new(str(file), first.offset).lines == [b"three", b"four"]


def test_a_file_that_was_replaced_by_a_shorter_one_is_read_from_its_start(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_bytes(b"one\n")
    assert read_new(str(file), 1000).lines == [b"one"]


def test_a_line_that_is_too_long_is_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "MAX_READ", 10)
    file = tmp_path / "t.jsonl"
    file.write_bytes(b"x" * 25 + b"\nlast\n")
    lines: list[bytes] = []
    offset, has_more = 0, True
    while has_more:
        part = read_new(str(file), offset)
        lines += part.lines
        assert part.offset > offset
        offset, has_more = part.offset, part.has_more
    assert lines[-1] == b"last"


def test_a_pipe_is_no_transcript(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a file"):
        read_new(str(tmp_path / "pipe"), 0)
