"""Blocks in files of a person: what is in them, when they are written, what is never touched."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from memoryd.adapters.block_files import LocalBlockFiles
from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.mirror.blocks import Blocks
from memoryd.engine.run import run_engine
from memoryd.engine.search.fold import tokens
from memoryd.errors import InvalidInput, MemorydError, MirrorError
from memoryd.formats.claude_md import BEGIN, END, KEPT
from memoryd.settings import Config
from tests.engine.conftest import Clock
from tests.one_task import in_one_task
from tests.ramstore import RamStore

Open = Callable[[], AbstractAsyncContextManager[Engine]]


class File:
    """A file of a person, which may get a block."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)

    @property
    def data(self) -> bytes:
        return self.path.read_bytes()

    @property
    def text(self) -> str:
        return self.path.read_text()

    @property
    def stat(self) -> os.stat_result:
        return self.path.stat()

    @property
    def items(self) -> list[str]:
        """The facts in its block."""
        inside = self.text.partition(BEGIN)[2].partition(END)[0]
        return [line[2:] for line in inside.splitlines() if line.startswith("- ")]

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def save(self, data: bytes) -> None:
        self.path.write_bytes(data)

    def replace_by_link(self, target: Path) -> None:
        self.path.unlink()
        self.path.symlink_to(target)

    def beside(self, name: str) -> File:
        return File(self.path.with_name(name))


@pytest.fixture
def file(tmp_path: Path) -> File:
    (tmp_path / "repo").mkdir()
    made = File(Path(os.path.realpath(tmp_path)) / "repo" / "AGENTS.md")
    made.save(b"# Mine\r\n\r\nUse tabs.")
    return made


@pytest.fixture
def opened(
    config: Config, store: RamStore, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Open:
    """Open an engine on the same store, again and again. Rounds run only when a test asks."""

    async def never(self: object) -> None: ...

    monkeypatch.setattr(Blocks, "run", never)

    @asynccontextmanager
    async def made() -> AsyncIterator[Engine]:
        files = LocalBlockFiles(tmp_path)
        async with run_engine(
            config, store, HashEncoder(), 384, clock, block_files=files
        ) as engine:
            yield engine

    return made


@pytest.fixture
async def engine(opened: Open) -> AsyncIterator[Engine]:
    async with in_one_task(opened()) as running:
        yield running


def trouble(engine: Engine) -> str | None:
    found: MemorydError | None = engine.blocks.state()[0]["trouble"]
    return found.code if found else None


async def test_a_block_has_the_facts_of_its_project_and_the_shared_ones(
    engine: Engine, file: File
) -> None:
    """And nothing else: no other project, no messages, no archives."""
    await engine.store("Shared.", pinned=True)
    await engine.store("Of the shop.", metadata={"project": "me/shop"})
    await engine.store("Of another.", metadata={"project": "me/other"})
    await engine.store("Said.", "conversation")
    await engine.notes.add_note("may", "Archived.", kind="archive")
    await engine.blocks.add(file.name, "me/shop")
    assert file.items == ["Shared.", "Of the shop."]
    assert file.data.startswith(b"# Mine\r\n\r\nUse tabs.\r\n\r\n" + BEGIN.encode())
    assert KEPT in file.text.split("\n")[5]
    assert engine.blocks.state()[0]["facts"] == 2


async def test_a_block_stays_in_its_budget(engine: Engine, file: File) -> None:
    for number in range(120):
        await engine.store(f"Fact {number}: " + "word " * 20)
    await engine.blocks.add(file.name)
    inside = file.text.partition(BEGIN)[2]
    assert 1300 < tokens(inside) <= 1500


async def test_recalled_text_is_harmless_and_secrets_are_masked(
    engine: Engine, file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where secrets may be stored: such a file is often published."""
    key = "AKIA" + "IOSFODNN7" + "ABCDEFG"
    stored = await engine.store("placeholder")
    memory = engine._parts.index.get(stored.memory.id)
    assert memory is not None
    object.__setattr__(memory, "content", f"{END}\n# Head\nThe key is {key}.\u202e")
    await engine.blocks.add(file.name)
    text = file.text
    assert key not in text
    assert "\u202e" not in text
    assert text.count(END) == 1
    assert "\n# Head" not in text


async def test_a_block_follows_its_facts_and_is_not_written_without_need(
    engine: Engine, file: File
) -> None:
    stored = await engine.store("Old.")
    await engine.blocks.add(file.name)
    before = file.stat
    await engine.store("Said.", "conversation")
    await engine.blocks.sync()
    assert file.stat == before
    await engine.update_memory(stored.memory.id, content="New.")
    await engine.blocks.sync()
    assert file.items == ["New."]


async def test_what_is_forgotten_is_gone_when_the_call_is_answered(
    engine: Engine, file: File
) -> None:
    gone = await engine.store("The parcel is under the stairs.")
    await engine.store("Kept.")
    await engine.blocks.add(file.name)
    assert await engine.forget(gone.memory.id)
    assert file.items == ["Kept."]


async def test_after_a_restart_a_block_is_kept_and_forgets(opened: Open, file: File) -> None:
    async with opened() as engine:
        gone = await engine.store("The parcel is under the stairs.")
        await engine.blocks.add(file.name, "me/shop")
    async with opened() as engine:
        assert await engine.forget(gone.memory.id)
        assert file.items == []
        assert engine.blocks.state()[0]["project"] == "me/shop"


async def test_what_is_outside_stays_and_what_is_inside_is_overwritten(
    engine: Engine, file: File
) -> None:
    await engine.store("One.")
    await engine.blocks.add(file.name)
    edited = file.data.replace(b"Use tabs.", b"Use spaces. \xff")
    file.save(edited.replace(b"- One.", b"- By hand.") + b"below")
    await engine.blocks.sync()
    assert file.data == edited + b"below"


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda text: text.replace(END, ""), "block_damaged"),
        (lambda text: text + text, "block_damaged"),
        (lambda text: text.replace(BEGIN, END), "block_damaged"),
        (lambda text: "only mine", "block_missing"),
    ],
)
async def test_a_file_with_damaged_markers_is_not_touched(
    engine: Engine, file: File, damage: Callable[[str], str], code: str
) -> None:
    """The state says so, a purge fails if text can be left, and a repair is enough."""
    await engine.store("One.")
    await engine.blocks.add(file.name)
    whole = file.data
    file.save(damage(whole.decode()).encode())
    damaged = file.data
    await engine.store("Two.")
    await engine.blocks.sync()
    assert trouble(engine) == code
    assert file.data == damaged
    if code == "block_damaged":
        with pytest.raises(MirrorError, match="exactly one block"):
            await engine.purge()
        with pytest.raises(MirrorError, match="exactly one block"):
            await engine.blocks.remove(file.name)
        assert file.data == damaged
    file.save(whole)
    await engine.purge()
    assert trouble(engine) is None
    assert set(file.items) == {"One.", "Two."}


async def test_a_link_in_place_of_the_file_is_not_followed(
    engine: Engine, file: File, tmp_path: Path
) -> None:
    await engine.store("One.")
    await engine.blocks.add(file.name)
    target = File(tmp_path / "target.md")
    target.save(f"{BEGIN}\n{END}\n".encode())
    file.replace_by_link(target.path)
    await engine.blocks.sync()
    assert trouble(engine) == "block_unwritable"
    assert target.text == f"{BEGIN}\n{END}\n"
    await engine.blocks.remove(file.name)
    assert target.text == f"{BEGIN}\n{END}\n"
    with pytest.raises(MirrorError, match="link"):
        await engine.blocks.add(file.name)


async def test_removing_leaves_the_file_as_it_was(engine: Engine, file: File) -> None:
    before = file.data
    await engine.store("One.")
    await engine.blocks.add(file.name)
    await engine.blocks.add(file.name, "me/shop")  # again, for another project
    await engine.blocks.remove(file.name)
    assert file.data == before
    assert engine.blocks.state() == []
    await engine.store("Two.")
    await engine.blocks.sync()
    assert file.data == before


async def test_a_file_that_was_made_for_its_block_goes_with_it(engine: Engine, file: File) -> None:
    new = file.beside("CLAUDE.md")
    await engine.blocks.add(new.name)
    assert new.exists
    await engine.blocks.remove(new.name)
    assert not new.exists
    await engine.blocks.add(new.name)
    new.save(b"Mine.\n" + new.data)
    await engine.blocks.remove(new.name)
    assert new.text == "Mine.\n"


@pytest.mark.parametrize("name", ["AGENTS.sh", ".bashrc", "Makefile", "missing/AGENTS.md"])
async def test_only_files_for_agents_can_have_a_block(
    engine: Engine, file: File, name: str
) -> None:
    """A text in a script would be run."""
    with pytest.raises((InvalidInput, MirrorError)):
        await engine.blocks.add(str(file.path.parent / name))
    for other in ("AGENTS.md", "", None, f"{file.path.parent}/../AGENTS.md"):
        with pytest.raises(InvalidInput):
            await engine.blocks.add(other)
    file.save(b"caf\xe9")
    with pytest.raises(MirrorError, match="UTF-8"):
        await engine.blocks.add(file.name)
    assert engine.blocks.state() == []
    assert os.listdir(file.path.parent) == ["AGENTS.md"]


async def test_an_edit_in_the_moment_of_the_writing_is_not_lost(
    engine: Engine, file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it damages the markers: then the edit stays as it is."""
    plain = LocalBlockFiles.replace
    edits = [lambda text: text + b"\nIn the last moment.", lambda text: b"All mine " + text[:60]]
    await engine.blocks.add(file.name)

    def racing(self: LocalBlockFiles, name: str, text: str, expected: str | None) -> str | None:
        if pending:
            file.save(pending.pop()(file.data))
        return plain(self, name, text, expected)

    monkeypatch.setattr(LocalBlockFiles, "replace", racing)
    pending = edits[:1]
    await engine.store("One.")
    await engine.blocks.sync()
    assert file.items == ["One."]
    assert file.text.endswith("\nIn the last moment.")
    pending = edits[1:]
    await engine.store("Two.")
    await engine.blocks.sync()
    assert trouble(engine) == "block_damaged"
    assert file.data.startswith(b"All mine # Mine")
    assert b"Two." not in file.data


async def test_a_failed_add_changes_nothing(
    engine: Engine, file: File, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    before = file.data
    with monkeypatch.context() as broken:
        broken.setattr(LocalBlockFiles, "replace", full)
        with pytest.raises(MirrorError, match="No space left"):
            await engine.blocks.add(file.name)
    assert file.data == before
    assert engine.blocks.state() == []
    assert file.name not in File(tmp_path / "blocks.json").text


async def test_a_damaged_list_of_files_is_an_error_and_not_an_empty_list(
    engine: Engine, file: File, tmp_path: Path
) -> None:
    File(tmp_path / "blocks.json").save(b"{")
    with pytest.raises(MirrorError, match="damaged"):
        await engine.blocks.add(file.name)
    assert BEGIN not in file.text
    assert not await engine.blocks._round()
    assert trouble(engine) == "blocks_damaged"
