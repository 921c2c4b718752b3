"""The mirror on real files and real ChromaDB: what is written, taken in, held and erased."""

from __future__ import annotations

import json
import os
import stat
import threading
from datetime import datetime, timedelta
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from memoryd.adapters.mirror_files import LocalMirrorFiles
from memoryd.audience import Viewer, audience_of
from memoryd.engine.audiences import Audiences
from memoryd.engine.engine import Engine
from memoryd.engine.mirror import mirror
from memoryd.engine.mirror.edits import Edit
from memoryd.engine.sessions.durable import digest_name
from memoryd.errors import MirrorError
from memoryd.fields import DERIVED_FROM, DIGEST_OF
from memoryd.model import Memory, MemoryType
from tests.engine.conftest import VIENNA, Clock
from tests.engine.mirror.conftest import Folder, Open


def hows(edits: list[Edit]) -> list[str]:
    return [edit.how for edit in edits]


async def facts(engine: Engine) -> set[str]:
    listed = await engine.list_memories(memory_type="fact", limit=1000)
    return {memory.content for memory in listed.memories}


async def test_shared_facts_are_written_best_first(mirrored: Engine, folder: Folder) -> None:
    """Pinned facts come first, then the most trusted; projects, messages and archives are not in
    MEMORY.md, and only the owner can read it."""
    await mirrored.store("Guessed.", metadata={"source": "observer_inferred"})
    await mirrored.store("Taught.", metadata={"source": "user_taught"})
    await mirrored.store("Pinned.", pinned=True)
    await mirrored.store("Of a project.", metadata={"project": "me/shop"})
    await mirrored.store("Said.", "conversation")
    await mirrored.notes.add_note("may", "Archived.", kind="archive")
    await mirrored.mirror.sync()
    assert folder.items == ["Pinned.", "Taught.", "Guessed."]
    for path in folder.path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


async def test_the_file_stays_below_its_limit_with_whole_lines(
    mirrored: Engine, folder: Folder
) -> None:
    for number in range(60):
        await mirrored.store(f"Fact {number}: " + "é" * 100 + f" end {number}.")
    await mirrored.mirror.sync()
    data = (folder.path / "MEMORY.md").read_bytes()
    assert 7000 < len(data) < 8192
    assert all(item.endswith(f" end {item.split(':')[0][5:]}.") for item in folder.items)


async def test_edits_are_taken_in_and_reported(mirrored: Engine, folder: Folder) -> None:
    """A changed line changes its memory, a new one becomes a fact, a removed one is forgotten."""
    kept = await mirrored.store("The dock is in the kitchen.", metadata={"tags": ["home"]})
    for text in ("Forget me.", "Stays one.", "Stays two."):
        await mirrored.store(text)
    await mirrored.mirror.sync()
    folder.edit("The dock is in the kitchen.", "The dock is in the cellar.")
    folder.drop("Forget me.")
    folder.write(
        folder.memory + "\n## Food\n\n- Anna is vegan.\n\nA whole paragraph\nof two lines.\n"
    )
    edits = await mirrored.mirror.sync()
    assert sorted(hows(edits)) == ["added", "added", "changed", "removed"]
    assert await facts(mirrored) == {
        "The dock is in the cellar.",
        "Anna is vegan.",
        "A whole paragraph\nof two lines.",
        "Stays one.",
        "Stays two.",
    }
    changed = await mirrored.get(kept.memory.id)
    assert changed is not None
    assert changed.content == "The dock is in the cellar."
    assert changed.metadata["tags"] == ["home"]
    assert changed.metadata["source"] == "user_taught"
    added = next(edit for edit in edits if edit.how == "added")
    taught = await mirrored.get(added.id or "")
    assert taught is not None
    assert taught.metadata["source"] == "user_taught"
    assert taught.metadata["tags"] == ["Food"]
    assert "Anna is vegan." in folder.items
    state = mirrored.mirror.state()
    assert state is not None
    assert state["edits"] == {"added": 2, "changed": 1, "removed": 1}
    assert await mirrored.mirror.sync() == []


async def test_what_is_added_is_private(mirrored: Engine, folder: Folder) -> None:
    """In a store that several people share: who edits a file here has not asked to share it. A
    changed fact keeps its audience."""
    mirrored._parts.audiences = Audiences(Viewer("anna"), "team")
    shared = (await mirrored.store("The dock is in the kitchen.")).memory
    await mirrored.mirror.sync()
    folder.edit("The dock is in the kitchen.", "The dock is in the cellar.")
    folder.write(folder.memory + "\n- Anna is vegan.\n")
    assert sorted(hows(await mirrored.mirror.sync())) == ["added", "changed"]
    found = {memory.content: audience_of(memory) for memory in mirrored.all_memories()}
    assert found == {"The dock is in the cellar.": "team", "Anna is vegan.": "private"}
    assert audience_of(shared) == "team"


async def test_an_edit_of_an_old_version_forgets_nothing_that_it_did_not_show(
    mirrored: Engine, folder: Folder
) -> None:
    """A person who saves after the file was written again has not removed what came meanwhile, and
    does not undo what changed meanwhile."""
    for text in ("One.", "Two.", "Three."):
        await mirrored.store(text)
    changing = await mirrored.store("Old text.")
    await mirrored.mirror.sync()
    opened = folder.memory
    await mirrored.store("Came meanwhile.")
    await mirrored.update_memory(changing.memory.id, content="New text.")
    await mirrored.mirror.sync()
    lines = [line for line in opened.split("\n") if "Two." not in line]
    folder.write("\n".join([*lines, "- From the person."]))
    assert sorted(hows(await mirrored.mirror.sync())) == ["added", "removed"]
    expected = {"One.", "Three.", "New text.", "Came meanwhile.", "From the person."}
    assert await facts(mirrored) == expected
    assert set(folder.items) == expected


@pytest.mark.parametrize("how", ["deleted", "emptied", "most removed"])
async def test_an_accident_forgets_nothing(mirrored: Engine, folder: Folder, how: str) -> None:
    """A file that is gone, empty or without most of its items is written again, and the missing
    memories are held until a person confirms."""
    texts = [f"Fact {number}." for number in range(5)]
    for text in texts:
        await mirrored.store(text)
    await mirrored.mirror.sync()
    if how == "deleted":
        (folder.path / "MEMORY.md").unlink()
    elif how == "emptied":
        folder.write("\n")
    else:
        folder.drop("Fact 0.", "Fact 1.", "Fact 2.")
    count = 3 if how == "most removed" else 5
    assert hows(await mirrored.mirror.sync()) == ["held"] * count
    assert await facts(mirrored) == set(texts) == set(folder.items)
    assert len(mirrored.mirror.held()) == count
    assert hows(await mirrored.mirror.confirm()) == ["removed"] * count
    assert len(await facts(mirrored)) == 5 - count == len(folder.items)
    assert mirrored.mirror.held() == []


async def test_what_is_held_can_be_kept(open_mirrored: Open, folder: Folder) -> None:
    """Also after a restart."""
    async with open_mirrored() as engine:
        for text in ("One.", "Two.", "Three."):
            await engine.store(text)
        await engine.mirror.sync()
        (folder.path / "MEMORY.md").unlink()
        await engine.mirror.sync()
    async with open_mirrored() as engine:
        assert len(engine.mirror.held()) == 3
        await engine.mirror.keep()
        assert engine.mirror.held() == []
        await engine.mirror.confirm()
        assert len(await facts(engine)) == 3


async def test_edits_while_no_daemon_runs_are_taken_in_at_the_start(
    open_mirrored: Open, folder: Folder
) -> None:
    async with open_mirrored() as engine:
        for text in ("One.", "Two.", "Three.", "Four."):
            await engine.store(text)
        await engine.mirror.sync()
    folder.drop("Two.")
    folder.edit("Three.", "Three and a half.")
    async with open_mirrored() as engine:
        assert await facts(engine) == {"One.", "Three and a half.", "Four."}


async def test_a_forgotten_memory_is_in_no_line_when_the_call_returns(
    mirrored: Engine, folder: Folder
) -> None:
    """In no file, while the edits of a person that wait to be taken in stay."""
    secret = await mirrored.store("The parcel is under the stairs.")
    await mirrored.store("One.")
    await mirrored.notes.add_note("may", "We talked of the parcel.", kind="archive")
    await mirrored.notes.add_note("june", "We talked of bread.", kind="archive")
    await mirrored.mirror.sync()
    folder.write(folder.memory + "- A line of a person.\n")
    await mirrored.forget(secret.memory.id)
    await mirrored.notes.remove_note("may")
    assert "parcel" not in folder.everything()
    assert "- A line of a person." in folder.memory
    assert "bread" in folder.everything()
    assert hows(await mirrored.mirror.sync()) == ["added"]
    assert await facts(mirrored) == {"One.", "A line of a person.", "We talked of bread."}


async def test_a_line_without_its_comment_does_not_bring_a_forgotten_memory_back(
    mirrored: Engine, folder: Folder
) -> None:
    gone = await mirrored.store("The parcel is under the stairs.")
    await mirrored.store("One.")
    await mirrored.mirror.sync()
    line = next(line for line in folder.memory.split("\n") if "parcel" in line)
    folder.edit(line, line.partition(" <!--")[0])
    await mirrored.forget(gone.memory.id)
    await mirrored.mirror.sync()
    assert await facts(mirrored) == {"One."}
    assert folder.items == ["One."]


async def test_a_line_that_only_lost_its_comment_is_not_an_edit(
    mirrored: Engine, folder: Folder
) -> None:
    kept = await mirrored.store("The parcel is under the stairs.", metadata={"place": "hall"})
    await mirrored.store("One.")
    await mirrored.mirror.sync()
    line = next(line for line in folder.memory.split("\n") if "parcel" in line)
    folder.edit(line, line.partition(" <!--")[0])
    assert await mirrored.mirror.sync() == []
    found = await mirrored.get(kept.memory.id)
    assert found is not None
    assert found.metadata == kept.memory.metadata
    assert await facts(mirrored) == {"The parcel is under the stairs.", "One."}
    assert line in folder.memory.split("\n")


async def test_a_stale_file_does_not_bring_a_forgotten_memory_back(
    mirrored: Engine, folder: Folder
) -> None:
    """An old copy that is put back has items of memories that are gone: they stay gone."""
    gone = await mirrored.store("The parcel is under the stairs.")
    await mirrored.store("One.")
    await mirrored.mirror.sync()
    old = folder.memory
    await mirrored.forget(gone.memory.id)
    await mirrored.mirror.sync()
    folder.write(old)
    assert await mirrored.mirror.sync() == []
    assert await facts(mirrored) == {"One."}
    assert folder.items == ["One."]


async def test_bulk_forgetting_with_purge_leaves_no_byte(
    mirrored: Engine, folder: Folder, tmp_path: Path
) -> None:
    for number in range(5):
        await mirrored.store(f"Parcel {number}.", metadata={"tags": ["parcel"]})
    await mirrored.store("One.")
    await mirrored.notes.add_note("may", "Parcel of may.", kind="archive")
    await mirrored.mirror.sync()
    await mirrored.forget_where(mirrored.selection(metadata={"tags": "parcel"}), purge=True)
    await mirrored.forget_where(mirrored.selection(metadata={"kind": "archive"}), purge=True)
    texts = [path.read_bytes() for path in folder.path.iterdir()]
    assert not any(b"arcel" in text for text in texts)
    assert folder.items == ["One."]
    record = json.loads((tmp_path / "data" / "mirror.json").read_text())
    assert {len(items) for items in record["versions"].values()} <= {0, 1}


async def test_expired_and_superseded_facts_leave_the_file(
    mirrored: Engine, folder: Folder, clock: Clock
) -> None:
    await mirrored.store("For an hour.", expires_at=clock.now + 3600)
    old = await mirrored.store("We deploy on Friday.")
    await mirrored.mirror.sync()
    assert set(folder.items) == {"For an hour.", "We deploy on Friday."}
    await mirrored.store("We deploy on Monday.", metadata={"supersedes": [old.memory.id]})
    clock.now += 3601
    await mirrored.mirror.sync()
    assert folder.items == ["We deploy on Monday."]


async def test_archives_are_sections_in_files_by_month(
    mirrored: Engine, folder: Folder, clock: Clock
) -> None:
    """HISTORY.md has the newest month, older ones have their own files; a text cannot make a
    heading of its own."""
    months = [(2026, 5, 3), (2026, 5, 20), (2026, 7, 2)]
    for number, (year, month, day) in enumerate(months):
        clock.now = datetime(year, month, day, 9, 30, tzinfo=VIENNA).timestamp()
        text = f"[{year}-{month:02}-{day:02} 09:30] Entry {number}.\n## 2020-01-01T00:00:00\nFake."
        await mirrored.notes.add_note(f"entry {number}", text, kind="archive")
    await mirrored.mirror.sync()
    newest = (folder.path / "HISTORY.md").read_text()
    older = (folder.path / "HISTORY-2026-05.md").read_text()
    assert [line for line in newest.split("\n") if line.startswith("## ")] == [
        "## 2026-07-02T09:30:00+02:00"
    ]
    assert [line for line in older.split("\n") if line.startswith("## ")] == [
        "## 2026-05-03T09:30:00+02:00",
        "## 2026-05-20T09:30:00+02:00",
    ]
    assert "Entry 2." in newest
    clock.now += timedelta(days=40).total_seconds()
    await mirrored.notes.add_note("entry 3", "Entry 3.", kind="archive")
    await mirrored.mirror.sync()
    assert "Entry 2." in (folder.path / "HISTORY-2026-07.md").read_text()
    assert "Entry 2." not in (folder.path / "HISTORY.md").read_text()


async def test_an_edit_between_reading_and_writing_is_taken_in(
    mirrored: Engine, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that an editor replaces in the moment before ours is not lost."""
    await mirrored.store("One.")
    await mirrored.mirror.sync()
    await mirrored.store("Two.")
    plain = LocalMirrorFiles.replace
    raced: list[str] = []

    def racing(self: LocalMirrorFiles, text: str, expected: str | None) -> str | None:
        if not raced:
            raced.append(text)
            new = folder.path / "editor"
            new.write_text(folder.memory + "- In the last moment.\n")
            os.replace(new, folder.path / "MEMORY.md")
        return plain(self, text, expected)

    monkeypatch.setattr(LocalMirrorFiles, "replace", racing)
    assert hows(await mirrored.mirror.sync()) == ["added"]
    assert set(folder.items) == {"One.", "Two.", "In the last moment."}


async def test_an_editor_that_had_the_file_open_is_heard(mirrored: Engine, folder: Folder) -> None:
    """It writes into the file that was replaced."""
    await mirrored.store("One.")
    await mirrored.mirror.sync()
    editor = os.open(folder.path / "MEMORY.md", os.O_WRONLY | os.O_APPEND)
    try:
        await mirrored.store("Two.")
        await mirrored.mirror.sync()
        os.write(editor, b"- Written late.\n")
        assert hows(await mirrored.mirror.sync()) == ["added"]
    finally:
        os.close(editor)
    assert set(folder.items) == {"One.", "Two.", "Written late."}


async def test_a_copied_item_that_was_changed_is_a_new_fact(
    mirrored: Engine, folder: Folder
) -> None:
    await mirrored.store("The dock is in the kitchen.")
    await mirrored.mirror.sync()
    line = next(line for line in folder.memory.split("\n") if "dock" in line)
    folder.edit(line, f"{line}\n{line.replace('dock', 'mop')}")
    assert hows(await mirrored.mirror.sync()) == ["added"]
    assert await facts(mirrored) == {"The dock is in the kitchen.", "The mop is in the kitchen."}


async def test_secrets_in_an_edit_are_masked(mirrored: Engine, folder: Folder) -> None:
    await mirrored.store("One.")
    await mirrored.mirror.sync()
    key = "sk-ant-api03-" + "a1B2" * 20
    folder.write(folder.memory + f"- The key is {key}.\n")
    await mirrored.mirror.sync()
    assert key not in folder.everything()
    assert not any(key in text for text in await facts(mirrored))


async def test_a_refused_line_stays_in_the_file(mirrored: Engine, folder: Folder) -> None:
    """The file is not written until a person has corrected it, and the trouble says which line."""
    await mirrored.store("One.")
    await mirrored.mirror.sync()
    long = "far too long " * 10_000
    folder.write(folder.memory + f"- Fine.\n- {long}\n")
    assert sorted(hows(await mirrored.mirror.sync())) == ["added", "refused"]
    assert long.strip() in folder.memory
    state = mirrored.mirror.state()
    assert state is not None
    assert state["trouble"].code == "mirror_refused"
    folder.edit(f"- {long}\n", "")
    await mirrored.mirror.sync()
    assert set(folder.items) == {"One.", "Fine."}
    assert (mirrored.mirror.state() or {})["trouble"] is None


async def test_files_of_somebody_else_are_left_alone(open_mirrored: Open, folder: Folder) -> None:
    folder.path.mkdir()
    folder.write("# My own notes\n\n- Mine.\n")
    with pytest.raises(MirrorError) as raised:
        async with open_mirrored():
            pass
    assert raised.value.code == "mirror_foreign"
    assert folder.memory == "# My own notes\n\n- Mine.\n"


async def test_a_mirror_of_another_store_is_left_alone(
    open_mirrored: Open, folder: Folder, tmp_path: Path
) -> None:
    """Its items are of memories that this store does not have."""
    async with open_mirrored() as engine:
        await engine.store("One.")
        await engine.mirror.sync()
    before = folder.memory
    (tmp_path / "data").rename(tmp_path / "moved")
    with pytest.raises(MirrorError):
        async with open_mirrored():
            pass
    assert folder.memory == before


async def test_a_link_in_place_of_the_file_is_not_followed(
    mirrored: Engine, folder: Folder, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.write_text("Not yours.")
    (folder.path / "MEMORY.md").unlink()
    (folder.path / "MEMORY.md").symlink_to(target)
    await mirrored.store("One.")
    with pytest.raises(MirrorError, match="link"):
        await mirrored.mirror.sync()
    assert target.read_text() == "Not yours."
    assert (mirrored.mirror.state() or {})["trouble"].code == "mirror_unwritable"


async def test_a_mirror_that_cannot_be_written_fails_a_purge_but_no_forget(
    mirrored: Engine, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is forgotten is gone; a purge promises more, and says that it could not keep it."""
    gone = await mirrored.store("The parcel is under the stairs.")
    await mirrored.store("One.")
    await mirrored.mirror.sync()

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(LocalMirrorFiles, "replace", full)
        assert await mirrored.forget(gone.memory.id)
        with pytest.raises(MirrorError, match="No space left"):
            await mirrored.purge()
    await mirrored.purge()
    assert "parcel" not in folder.everything()


async def test_an_edit_of_a_text_with_a_comment_keeps_the_comment(
    mirrored: Engine, folder: Folder
) -> None:
    await mirrored.store("Write <!-- todo --> above it.")
    await mirrored.mirror.sync()
    folder.edit("above it", "below it")
    assert hows(await mirrored.mirror.sync()) == ["changed"]
    assert await facts(mirrored) == {"Write <!-- todo --> below it."}
    assert await mirrored.mirror.sync() == []


async def test_no_store_waits_for_a_disk_that_hangs(
    mirrored: Engine, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor a search; a forget waits for a while, and what it forgot is then forgotten all the
    same."""
    gone = await mirrored.store("One.")
    await mirrored.mirror.sync()
    hanging, released = threading.Event(), threading.Event()
    plain = LocalMirrorFiles.replace

    def hang(self: LocalMirrorFiles, text: str, expected: str | None) -> str | None:
        hanging.set()
        assert released.wait(60)
        return plain(self, text, expected)

    monkeypatch.setattr(LocalMirrorFiles, "replace", hang)
    monkeypatch.setattr(mirror, "MAX_ERASE", 0.01)
    await mirrored.store("Two.")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(mirrored.mirror.sync)
        try:
            await anyio.to_thread.run_sync(hanging.wait, 60)
            with anyio.fail_after(30):
                await mirrored.store("Three.")
                assert (await mirrored.search("Three.")).hits
                assert await mirrored.forget(gone.memory.id)
        finally:
            released.set()
    await mirrored.mirror.sync()
    assert set(folder.items) == {"Two.", "Three."}


async def test_an_edit_in_the_moment_of_a_forget_stays(
    mirrored: Engine, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if what the editor wrote has nothing of the forgotten memory."""
    gone = await mirrored.store("The parcel is under the stairs.")
    await mirrored.store("One.")
    await mirrored.mirror.sync()
    plain, raced = LocalMirrorFiles.replace, list[str]()

    def racing(self: LocalMirrorFiles, text: str, expected: str | None) -> str | None:
        if not raced:
            raced.append(text)
            lines = [line for line in folder.memory.split("\n") if "parcel" not in line]
            folder.write("\n".join([*lines, "- In the last moment.", ""]))
        return plain(self, text, expected)

    monkeypatch.setattr(LocalMirrorFiles, "replace", racing)
    await mirrored.forget(gone.memory.id)
    assert raced
    assert "parcel" not in folder.everything()
    assert "- In the last moment." in folder.memory
    assert hows(await mirrored.mirror.sync()) == ["added"]


async def test_a_digest_is_not_shown(mirrored: Engine, folder: Folder, clock: Clock) -> None:
    """It is made of facts, and a person who changes it would change none of them."""
    fact = await mirrored.store("The dock is in the kitchen.")
    digest = Memory(
        id="d" * 20,
        type=MemoryType.FACT,
        content="- Docks are in kitchens.",
        created_at=clock.now,
        metadata={DIGEST_OF: 1, DERIVED_FROM: [fact.memory.id]},
        name=digest_name(None),
    )
    await mirrored.import_memory(digest)
    shown = mirrored.mirror._durable.facts(None, clock.now)
    assert digest.id in {memory.id for memory in shown}
    await mirrored.mirror.sync()
    assert folder.items == ["The dock is in the kitchen."]


async def test_a_file_that_a_kill_prevented_is_no_accident(
    open_mirrored: Open, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between the record and the first file: nothing was removed, so nothing is held."""

    def killed(*args: object) -> None:
        raise OSError("killed")

    async with open_mirrored() as engine:
        (folder.path / "MEMORY.md").unlink()
        await engine.store("One.")
        with monkeypatch.context() as broken:
            broken.setattr(LocalMirrorFiles, "replace", killed)
            with pytest.raises(MirrorError):
                await engine.mirror.sync()
    async with open_mirrored() as engine:
        assert engine.mirror.held() == []
        assert folder.items == ["One."]


async def test_a_purge_says_that_a_refused_line_keeps_the_file_as_it_is(
    mirrored: Engine, folder: Folder
) -> None:
    folder.write(folder.memory + "- " + "far too long " * 10_000 + "\n")
    with pytest.raises(MirrorError) as raised:
        await mirrored.purge()
    assert raised.value.code == "mirror_refused"
