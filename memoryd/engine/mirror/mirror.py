"""The mirror: durable facts and archives as files that a person can read, and MEMORY.md also edit.

The files are derived: whatever they hold is in the store, or becomes a memory before the file is
written again. Each round takes in what a person changed and then writes what differs. Memories that
are forgotten leave the files before the call that forgets them is answered. Rounds run in the
background, so no store waits for a disk.
"""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import structlog

from memoryd.engine.memories import Memories
from memoryd.engine.mirror.edits import Edit, Edits, counts
from memoryd.engine.mirror.history import History, foreign
from memoryd.engine.mirror.record import Mark, MirrorRecord, record_from
from memoryd.engine.mirror.timer import Changes, Timer
from memoryd.engine.parts import Parts
from memoryd.engine.sessions.durable import Durable
from memoryd.engine.updates import Updates
from memoryd.errors import MemorydError, MirrorError
from memoryd.fields import is_digest
from memoryd.formats import memory_md
from memoryd.model import Memory
from memoryd.ports import MirrorFiles

log = structlog.get_logger()
MEMORY = "MEMORY.md"
MAX_BYTES = 8192  # MEMORY.md has fewer
POLL = 1.0  # seconds between two looks at the index and the file
BUSY_SHARE = 20  # a round takes at most one part in so many of the time
ROUNDS = 5  # attempts at a file that another program changes at the same time
SETTLE_TRIES, SETTLE_DELAY = 20, 0.25  # how often, and after how many seconds, to look again
MAX_ERASE = 10.0  # seconds that a deletion waits for the files
KEPT_EDITS = 50  # that `memoryd mirror` shows
Answer = TypeVar("Answer")


class Mirror:
    """Keeps the files as the memories are; does nothing if there is no folder for them."""

    def __init__(
        self,
        parts: Parts,
        memories: Memories,
        updates: Updates,
        durable: Durable,
    ) -> None:
        self._parts = parts
        self._memories = memories
        self._durable = durable
        self._files = parts.mirror_files
        self._edits = Edits(parts, memories, updates)
        self._record: MirrorRecord | None = None  # None: not loaded yet
        self._syncing = anyio.Lock()  # one round at a time
        self._writing = anyio.Lock()  # held for moments, never while a memory is changed
        self._history = History(parts)
        self._shown: list[Memory] = []  # in MEMORY.md
        self._written_at: float | None = None
        self._stamp: object = None  # of MEMORY.md after the last round
        self._missing = False  # there was no MEMORY.md at the last look
        self._refusal: MirrorError | None = None  # why MEMORY.md is not written
        self._refused: str | None = None  # its text then
        self._trouble: MemorydError | None = None
        self._recent: deque[Edit] = deque(maxlen=KEPT_EDITS)
        self._counts: Counter[str] = Counter()  # of edits since the start

    def state(self) -> dict[str, Any] | None:
        """Facts for `status`, without texts; None if there is no mirror."""
        if self._files is None:
            return None
        return {
            "path": self._files.folder,
            "facts": len(self._shown),
            "archives": len(self._history),
            "written_at": self._written_at,
            "edits": dict(self._counts),
            "held": len(self._record.held) if self._record else 0,
            "trouble": self._trouble,
        }

    @property
    def recent(self) -> list[Edit]:
        """The last edits, newest last."""
        return list(self._recent)

    def held(self) -> list[Memory]:
        """Memories whose items are missing, and which are not forgotten until `confirm`."""
        ids = self._record.held if self._record else []
        return [memory.copy() for id in ids if (memory := self._edits.alive(id))]

    async def confirm(self) -> list[Edit]:
        """Forget the held memories: their items were removed on purpose."""
        self._check_on()
        done = [
            Edit("removed", memory.id)
            for memory in self.held()
            if await self._memories.forget(memory.id)
        ]
        self._note(done)
        return done + await self.sync()

    async def keep(self) -> None:
        """Keep the held memories."""
        self._check_on()
        async with self._writing:
            record = await self._loaded()
            record.held = []
            await self._save(record)

    async def sync(self, *, wait: bool = True) -> list[Edit]:
        """Take in what a person changed, then write what differs; the edits. `wait`: for a program
        that writes MEMORY.md just now; otherwise that file is left for the next round. Raises
        MirrorError."""
        files = self._check_on()
        async with self._syncing:
            try:
                done = await self._sync(files, wait)
                self._trouble = self._refusal
            except (OSError, ValueError) as exc:
                self._trouble = _unwritable(exc)
                raise self._trouble from exc
            except MemorydError as exc:
                self._trouble = exc
                raise
        return done

    async def purge(self) -> None:
        """Nothing that was forgotten is in a file when this returns. Raises MirrorError."""
        if self._files is not None:
            await self.sync()
            if self._refusal is not None:  # MEMORY.md was not written
                raise self._refusal
            async with self._writing:
                await _on_thread(self._files.release)

    async def _sync(self, files: MirrorFiles, wait: bool) -> list[Edit]:
        async with self._writing:
            record = await self._loaded()
            index = self._parts.index
            record.drop([id for id in record.ids() if index.get(id) is None])
            names = await _on_thread(files.names)
            text = await _on_thread(files.read, MEMORY)
        others = [name for name in names if name != MEMORY or (text or "").strip()]
        if others and not record.versions:
            raise foreign(others)
        done = await self._memory_file(files, wait)
        async with self._writing:
            await self._history.write(files)
        self._written_at = self._parts.clock()
        return done

    async def _memory_file(self, files: MirrorFiles, wait: bool) -> list[Edit]:
        """Take edits of MEMORY.md in, then write it; again if it was changed in between."""
        done: list[Edit] = []
        settled = await self._settled(files, wait)
        if not settled and not wait:
            return done
        late = await self._alone(files.late)
        for _ in range(ROUNDS):
            if late is not None:
                done += await self._take(late, removals=True)
            self._stamp = await self._alone(files.stamp)
            text = await self._alone(files.read, MEMORY)
            if self._refusal is not None and text == self._refused and not wait:
                break  # nobody has corrected it yet
            taken = await self._take(text or "", removals=settled)
            done += taken
            self._refusal, self._refused = _refusal(taken), text
            if self._refusal is not None:
                break  # the file keeps the text until a person has corrected it
            late = await self._write_memory(files, text)
            if late is None:
                break
        return done

    async def _settled(self, files: MirrorFiles, wait: bool) -> bool:
        """Whether no program is writing MEMORY.md. One that deletes it may be about to write it
        again, so a missing file counts from the second look on."""
        for number in range(SETTLE_TRIES):
            missing = await self._alone(files.stamp) is None
            was_missing, self._missing = self._missing, missing
            written = bool(self._record and self._record.versions)
            if missing and not was_missing and written:
                is_settled = False
            else:
                is_settled = await self._alone(files.is_settled)
            if is_settled or not wait:
                return is_settled
            if number + 1 < SETTLE_TRIES:
                await anyio.sleep(SETTLE_DELAY)
        return False

    async def _take(self, text: str, *, removals: bool) -> list[Edit]:
        record = await self._loaded()
        held = list(record.held)
        if text.strip():
            parsed = await _on_thread(memory_md.parse, text)
            done = await self._edits.take(parsed, record, removals=removals)
        else:  # deleted or emptied: an accident more often than a wish
            items = record.versions.get(record.newest or "", {})
            done = self._edits.hold(record, [mark.id for mark in items.values()])
        if record.held != held:
            async with self._writing:
                await self._save(record)
        self._note(done)
        return done

    def _note(self, done: list[Edit]) -> None:
        if done:
            self._recent.extend(done)
            found = counts(done)
            self._counts.update(found)
            log.info("mirror_edits", **found)

    async def _write_memory(self, files: MirrorFiles, expected: str | None) -> str | None:
        """Write MEMORY.md if it differs from `expected`, which was read before; what another
        program wrote in between, or None."""
        await self._durable.prepare()
        async with self._writing:
            record = await self._loaded()
            shown = self._durable.facts(None, self._parts.clock())
            # Without the digest: what a person changed in it would change no fact.
            shared = [memory for memory in shown if not is_digest(memory)]
            facts = {memory.id: memory for memory in shared}
            contents = [(memory.id, memory.content) for memory in shared]
            found = await _on_thread(memory_md.lines_for, contents, MAX_BYTES)
            lines = [line for _, line in found]
            self._shown = [facts[id] for id, _ in found]
            known = memory_md.version_of(expected or "")
            if known in record.versions and memory_md.render(lines, known) == expected:
                return None
            version = memory_md.new_version()
            # Before the file: after a kill in between, the record knows both versions.
            record.add(version, {line.handle: Mark(id, line.check) for id, line in found})
            await self._save(record)
            text = memory_md.render(lines, version)
            between = await _on_thread(files.replace, text, expected)
            record.newest = version
            await self._save(record)
            return between

    async def erase(self, ids: Collection[str]) -> None:
        """Remove forgotten memories from the files. A failure is logged, and the next round tries
        again: the memories are gone, whatever becomes of the files."""
        if self._files is None:
            return
        try:
            with anyio.fail_after(MAX_ERASE):
                async with self._writing:
                    await self._erase(self._files, set(ids))
        except Exception as exc:
            self._trouble = exc if isinstance(exc, MemorydError) else _unwritable(exc)
            log.warning("mirror_not_erased", error=type(exc).__name__)

    async def _erase(self, files: MirrorFiles, ids: set[str]) -> None:
        record = await self._loaded()
        if not record.versions:  # nothing was written yet
            return
        items = [item for version in record.versions.values() for item in version.items()]
        handles = {handle for handle, mark in items if mark.id in ids}
        if handles:
            checks = {mark.check for _, mark in items if mark.id in ids}
            record.drop(ids)
            self._shown = [memory for memory in self._shown if memory.id not in ids]
            await self._cut(files, lambda text: memory_md.without(text, handles, checks))
            await self._save(record)
        if self._history.may_have(ids):
            await self._history.write(files)

    async def _cut(self, files: MirrorFiles, cut: Callable[[str], str]) -> None:
        """Write MEMORY.md as `cut` makes it of its text, and what another program writes in between
        too."""
        present = text = await _on_thread(files.read, MEMORY)
        for _ in range(ROUNDS):
            if text is None or (wanted := await _on_thread(cut, text)) == present:
                return
            text = await _on_thread(files.replace, wanted, present)
            present = wanted

    async def run(self) -> None:
        """A round now, then whenever memories or MEMORY.md have changed, until cancelled. A failure
        is logged and retried."""
        if self._files is None:
            return
        timer = Timer(self._parts)
        while True:
            began, changes = self._parts.monotonic(), self._changes()
            if timer.is_due(changes, self._next_expiry()) or await self._is_edited(self._files):
                timer.done(changes, failed=not await self._try(self._files))
            took = self._parts.monotonic() - began
            await anyio.sleep(max(POLL, BUSY_SHARE * took))

    async def _try(self, files: MirrorFiles) -> bool:
        before = self._trouble
        try:
            await self.sync(wait=False)
        except Exception as exc:  # the memories do not depend on it
            if before is None or str(before) != str(exc):
                log.warning("mirror_failed", error=type(exc).__name__)
            with contextlib.suppress(OSError):  # before it changes again, only time is waited for
                self._stamp = await self._alone(files.stamp)
            return False
        return True

    def _changes(self) -> Changes:
        index = self._parts.index
        return id(index), index.changes

    def _next_expiry(self) -> float | None:
        ends = (memory.expires_at for memory in self._shown if not memory.pinned)
        return min((end for end in ends if end is not None), default=None)

    async def _is_edited(self, files: MirrorFiles) -> bool:
        """Whether a person has changed MEMORY.md since the last round."""
        try:
            return await self._alone(files.stamp) != self._stamp
        except OSError:
            return False

    def _check_on(self) -> MirrorFiles:
        if self._files is None:
            raise MirrorError(
                "There is no mirror.", code="mirror_off", hint="Set mirror.path to a folder."
            )
        return self._files

    async def _loaded(self) -> MirrorRecord:
        if self._record is None:
            files = self._check_on()
            text = await _on_thread(files.load_record)
            self._record = self._record or record_from(text, files.folder)
        return self._record

    async def _alone(self, work: Callable[..., Answer], *args: object) -> Answer:
        """Run `work` on a thread while nothing is written."""
        async with self._writing:
            return await _on_thread(work, *args)

    async def _save(self, record: MirrorRecord) -> None:
        await _on_thread(self._check_on().save_record, record.text())


def _refusal(done: list[Edit]) -> MirrorError | None:
    """Why MEMORY.md was not written; None if it was."""
    refused = [edit for edit in done if edit.how == "refused"]
    if not refused:
        return None
    return MirrorError(
        f"{MEMORY}, line {refused[0].line}: {refused[0].why}",
        code="mirror_refused",
        hint="Correct the file. Until then it is not written again.",
    )


def _unwritable(exc: Exception) -> MirrorError:
    why = getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
    if isinstance(exc, UnicodeDecodeError):
        why = "it is not UTF-8 text"
    return MirrorError(f"The files of the mirror cannot be read or written: {why}.")


async def _on_thread(work: Callable[..., Answer], *args: object) -> Answer:
    return await anyio.to_thread.run_sync(work, *args)
