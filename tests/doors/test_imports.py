"""What is dropped onto a page, on a real daemon: seen first, then imported."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.doors.uploads import FOLDER, MAX_BYTES, Uploads
from memoryd.errors import InvalidInput
from tests.daemons import Daemon, ForkedDaemon
from tests.imports.samples import SAMPLES

TEXT = "# House\n\n- The kitchen is blue.\n- The hall is green.\n"


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("drop") / "data"
    running = ForkedDaemon(folder, MEMORYD_DOORS_TOOLSETS="all").start()
    yield running
    assert not list((folder / FOLDER).glob("*")), "an upload was left behind"
    assert running.stop() == 0, running.log.read_text()


def error(owner: Daemon, name: str, /, **arguments: Any) -> Any:
    answer = owner.call("tools/call", name=name, arguments=arguments)
    assert answer["isError"], answer
    return answer["_meta"]["memoryd/error"]


def total(owner: Daemon) -> int:
    found: int = owner.tool("list_memories", limit=1)["total"]
    return found


def test_a_preview_writes_nothing_and_an_import_brings_it(owner: Daemon) -> None:
    """What is seen is what comes; a second import adds nothing."""
    before = total(owner)
    seen = owner.tool("import_preview", name="CLAUDE.md", text=TEXT)
    assert (seen["memories"], seen["known"], total(owner)) == (2, 0, before)
    assert [one["text"] for one in seen["first"]] == [
        "The kitchen is blue.",
        "The hall is green.",
    ]
    done = owner.tool("import_upload", name="CLAUDE.md", text=TEXT)
    assert (done["format"], done["added"]) == (seen["format"], 2)
    assert total(owner) == before + 2
    assert owner.tool("import_preview", name="CLAUDE.md", text=TEXT)["known"] == 2
    again = owner.tool("import_upload", name="CLAUDE.md", text=TEXT)
    assert (again["added"], again["known"]) == (0, 2)


FILES = "server-memory|chatgpt|mem0|mem0 markdown|mcp-memory-service|claude-mem".split("|")


@pytest.mark.parametrize("name", FILES)
def test_files_of_other_programs(owner: Daemon, tmp_path: Path, name: str) -> None:
    """Every format that is one file is recognised and imported as previewed."""
    path = SAMPLES[name].write(tmp_path, time.time())
    content = base64.b64encode(path.read_bytes()).decode()
    asked = {"name": path.name, "content_base64": content, "keep": True}
    seen = owner.tool("import_preview", **asked)
    done = owner.tool("import_upload", **asked)
    arrived = sum(done[key] for key in ("added", "known", "kept", "refused", "replaced"))
    assert (done["format"], arrived) == (seen["format"], seen["memories"])
    assert arrived > 0


def test_refused_memories_are_named_before(owner: Daemon) -> None:
    """A memory that would be refused is told with its line and reason, and stops no other."""
    good = {"id": "good-1", "type": "fact", "content": "Good.", "created_at": 1.0}
    lines = [
        {**good, "expires_at": None, "metadata": {}},
        {**good, "id": "bad-1", "content": "   ", "expires_at": None, "metadata": {}},
    ]
    text = json.dumps({"memoryd": "export", "version": 1, "memories": lines})
    seen = owner.tool("import_preview", name="some.json", text=text)
    assert seen["memories"] == 1
    assert [one["where"] for one in seen["refused"]] == ["line 2"]
    done = owner.tool("import_upload", name="some.json", text=text)
    assert (done["added"], done["refused"]) == (1, 1)
    assert [row["id"] for row in done["rows"]] == ["bad-1"]


def test_a_file_in_pieces(owner: Daemon) -> None:
    """Pieces are joined; after the import the upload is gone."""
    text = b"- The cellar is dark.\n- The roof is red.\n"
    pieces = [base64.b64encode(part).decode() for part in (text[:10], text[10:])]
    id = owner.tool("upload_piece", content_base64=pieces[0])["upload_id"]
    made = owner.tool("upload_piece", upload_id=id, content_base64=pieces[1])
    assert made == {"upload_id": id, "bytes": len(text)}
    assert owner.tool("import_preview", name="house.md", upload_id=id)["memories"] == 2
    assert owner.tool("import_upload", name="house.md", upload_id=id)["added"] == 2
    told = error(owner, "import_upload", name="house.md", upload_id=id)
    assert told["code"] == "upload_unknown"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"name": "a.md"}, "content_missing"),
        ({"name": "a.md", "text": "- a", "content_base64": "YQ=="}, "content_missing"),
        ({"text": "- a"}, "name_invalid"),
        ({"name": "..", "text": "- a"}, "name_invalid"),
        ({"name": "a.md", "content_base64": "!"}, "content_invalid"),
        ({"name": "a.md", "text": "- a", "format": "poem"}, "format_unknown"),
        ({"name": "a.json", "text": "- a", "format": "mem0"}, "format_wrong"),
        ({"name": "a.jsonl", "text": "{"}, "file_damaged"),
        ({"name": "a.md", "upload_id": "../token"}, "upload_unknown"),
    ],
)
def test_bad_input(owner: Daemon, arguments: dict[str, Any], code: str) -> None:
    """A clear error that names no path of the daemon."""
    told = error(owner, "import_preview", **arguments)
    assert told["code"] == code
    assert FOLDER not in told["message"]


def test_a_name_stays_in_its_folder(owner: Daemon) -> None:
    """Folders in a name are dropped."""
    seen = owner.tool("import_preview", name="../../etc/notes.md", text="- One.\n")
    assert seen["memories"] == 1


def test_uploads_are_bounded_and_cleared(tmp_path: Path) -> None:
    """Too many bytes are refused, and a new start removes what an old one left."""
    uploads = Uploads(tmp_path)
    id, size = uploads.add(None, b"x" * 1000)
    path = uploads.path(id)
    assert (size, path.stat().st_mode & 0o777) == (1000, 0o600)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    with pytest.raises(InvalidInput, match="larger"):
        uploads.add(id, b"x" * MAX_BYTES)
    assert not path.exists()
    kept, _ = uploads.add(None, b"y")
    Uploads(tmp_path)
    assert not (tmp_path / FOLDER / kept).exists()
