"""Exact in every field: odd memories go out of one store and into another, by export and import and
by backup and restore, and come back as they were."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryd.adapters import backup_file
from memoryd.adapters.backup_file import BackupWriter
from memoryd.cli.main import main
from memoryd.export_file import fields_of
from memoryd.model import Memory, MemoryType
from memoryd.ports import Identity, Passage, Record
from tests.daemons import Daemon

pytestmark = pytest.mark.slow

FUTURE = 4_102_444_800.0  # what has expired is not exported
text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
words = text.map(lambda found: f"x{found}")
labels = st.text("abc ABCäя漢-_.:/", min_size=1, max_size=12).map(str.strip).filter(bool)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([0.1, -0.0, 1.0, 5e-324, 1e308, 2**53 + 1.0, 1 / 3])
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(["#", "$and", "a.b", "memory", "ü€", " ", "id", "chroma"]) | labels
metadata = st.dictionaries(keys, values, max_size=4)


def memory(number: int, draw: Any) -> Memory:
    """One memory whose id and name no other has. What is pinned has no end."""
    pinned = draw(st.booleans())
    ends = st.none() | st.floats(FUTURE, 2 * FUTURE).map(lambda at: round(at, 6))
    return Memory(
        id=f"{number:020x}",
        type=draw(st.sampled_from(MemoryType)),
        content=f"{number} {draw(words)}",
        created_at=round(draw(st.floats(0, FUTURE)), 6),
        expires_at=None if pinned else draw(ends),
        metadata=draw(metadata),
        name=draw(st.none() | labels.map(lambda found: f"{found} {number}")),
        session_id=draw(st.none() | labels),
        pinned=pinned,
    )


@st.composite
def memories(draw: Any, most: int = 25) -> list[Memory]:
    return [memory(number, draw) for number in range(draw(st.integers(1, most)))]


def exact(value: Any) -> Any:
    """A value that is equal only to its very same: 1, 1.0 and True differ, as do 0.0 and -0.0."""
    if isinstance(value, dict):
        return {key: exact(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [exact(item) for item in value]
    return type(value).__name__, repr(value)


def listed(found: Sequence[Any]) -> list[Any]:
    return sorted((exact(item) for item in found), key=lambda item: repr(item["id"]))


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, Daemon]]:
    folder = tmp_path_factory.mktemp("round")
    allow = {"MEMORYD_MEMORY_SECRETS": "allow"}  # which would change what looks like one
    running = Daemon(folder / "one", **allow).start(), Daemon(folder / "two", **allow).start()
    yield running
    for daemon in running:
        assert daemon.stop() == 0, daemon.log.read_text()


def exported(path: Path) -> list[Any]:
    _, *found, _ = (json.loads(line) for line in path.read_bytes().splitlines())
    return found


@given(made=memories(), vectors=st.booleans())
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_what_is_exported_and_imported_is_the_same_in_every_field(
    daemons: tuple[Daemon, Daemon],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    made: list[Memory],
    vectors: bool,
) -> None:
    one, two = daemons
    wanted = [fields_of(item) for item in made]
    for daemon in daemons:
        daemon.tool("forget_where", everything=True)
    done = one.tool("import_memories", memories=wanted)
    for outcome in done["outcomes"]:  # what is not exact is refused, never changed
        refused = outcome.get("error", {"code": "metadata_invalid"})
        assert refused["code"] == "metadata_invalid", outcome
    taken = zip(wanted, done["outcomes"], strict=True)
    wanted = [item for item, outcome in taken if outcome["outcome"] == "added"]
    flags = ["--embeddings"] if vectors else []
    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    for verb in (
        ["export", str(files[0]), "--overwrite", *flags, "--socket", str(one.socket)],
        ["import", str(files[0]), "--socket", str(two.socket)],
        ["export", str(files[1]), "--overwrite", *flags, "--socket", str(two.socket)],
    ):
        assert main(verb) == 0, capsys.readouterr().err
    assert files[1].read_bytes() == files[0].read_bytes()
    plain = [{k: v for k, v in it.items() if k != "passages"} for it in exported(files[1])]
    assert listed(plain) == listed(wanted)


vector = st.lists(st.floats(-1, 1, width=32), min_size=3, max_size=3).map(
    lambda numbers: np.array(numbers, dtype=np.float32)
)
passages = st.lists(
    st.builds(
        lambda start, size, v: Passage((start, start + size), v), *[st.integers(0, 99)] * 2, vector
    ),
    max_size=3,
)


@given(made=memories(8), parts=st.lists(passages, min_size=8, max_size=8), at=st.floats(0, FUTURE))
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_what_is_backed_up_is_read_back_the_same_in_every_field(
    tmp_path: Path, made: list[Memory], parts: list[list[Passage]], at: float
) -> None:
    records = [Record(item, tuple(part)) for item, part in zip(made, parts, strict=False)]
    writer = BackupWriter(tmp_path, Identity("m", 3), "v", at)
    writer.add(records)
    path = Path(writer.finish().path)
    assert backup_file.verify(path) == len(records)
    with backup_file.open_backup(path) as (reader, _):
        back = [record for page in backup_file.read_records(reader, 3) for record in page]
    path.unlink()
    assert [exact(asdict(record.memory)) for record in back] == [
        exact(asdict(record.memory)) for record in records
    ]
    for mine, theirs in zip(records, back, strict=True):
        assert [p.span for p in mine.passages] == [p.span for p in theirs.passages]
        for one, other in zip(mine.passages, theirs.passages, strict=True):
            assert np.array_equal(one.vector, other.vector)


def test_a_restored_store_exports_what_was_exported_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the verbs, with the values that Chroma by itself would change."""
    monkeypatch.setenv("MEMORYD_EMBEDDING_BACKEND", "hash")  # the model is the same
    odd: dict[str, Any] = {
        "none": None,
        "empty": [],
        "mixed": [1, 1.0, True, "1", None, {"a": -0.0}],
        "large": 2**69,
        "third": 1 / 3,
        "least": 5e-324,
        "lines": "a\u2028b\u0085c\r\n",
        "#": {"": {"deep": [[], {}]}},
    }
    item = Memory(
        f"{7:020x}", MemoryType.FACT, "Odd.", 0.000001, FUTURE + 0.5, odd, "a name", "s 1"
    )
    daemon = Daemon(tmp_path / "data").start()
    data = ["--data-dir", str(tmp_path / "data"), "--socket", str(daemon.socket)]
    outcome = daemon.tool("import_memories", memories=[fields_of(item)])["outcomes"][0]
    assert outcome["outcome"] == "added", outcome
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    assert main(["export", str(before), "--embeddings", *data]) == 0
    assert main(["backup", str(tmp_path / "files"), *data]) == 0
    daemon.tool("forget_where", everything=True)
    (backup,) = (tmp_path / "files").iterdir()
    assert daemon.stop() == 0
    capsys.readouterr()
    assert main(["restore", str(backup), "--replace", *data]) == 0, capsys.readouterr().err
    daemon.start()
    assert main(["export", str(after), "--embeddings", *data]) == 0
    assert daemon.stop() == 0
    (told,), (found,) = exported(before), exported(after)
    vectors = [item.pop("passages")[0]["vector"] for item in (told, found)]
    # Chroma's index makes them unit vectors once more, so the last digit may differ.
    one, other = (np.frombuffer(base64.b64decode(item), "<f4") for item in vectors)
    assert np.allclose(one, other, atol=1e-6)
    assert exact(found) == exact(told) == exact(fields_of(item))
    assert math.copysign(1, found["metadata"]["mixed"][5]["a"]) == -1
