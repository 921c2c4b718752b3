"""Marked blocks in files such as AGENTS.md: durable facts for clients that have no hooks.

A person names each file. Only what is between the markers is ever written; a file whose markers are
missing or damaged stays as it is, and says so in the state. A block is current about two seconds
after a change, and has lost what is forgotten before the call that forgets it is answered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import structlog

from memoryd.engine import checks
from memoryd.engine.mirror.block_record import (
    MAX_BLOCKS,
    RECORD,
    Block,
    blocks_from,
    check_path,
    record_text,
)
from memoryd.engine.mirror.block_write import (
    DAMAGED,
    UNWRITABLE,
    add_block,
    check_file,
    take_out,
    write_block,
)
from memoryd.engine.mirror.timer import Changes, Timer
from memoryd.engine.parts import Parts
from memoryd.engine.search.fold import tokens
from memoryd.engine.sessions.durable import MAX_MISSES, Durable
from memoryd.errors import InvalidInput, MirrorError
from memoryd.fields import PROJECT, is_digest
from memoryd.formats import claude_md
from memoryd.formats.items import item_lines
from memoryd.masking.mask import mask
from memoryd.model import Memory
from memoryd.ports import BlockFiles

log = structlog.get_logger()
POLL = 1.0  # seconds between two looks at the index and the files
BUSY_SHARE = 20  # a round takes at most one part in so many of the time
EDIT_PAUSE = 5.0  # seconds between two rounds because of changes by other programs
MAX_ERASE = 10.0  # seconds that a deletion waits for the files
HOLDS_TEXT = (DAMAGED, UNWRITABLE)  # troubles with which a text may be left
Answer = TypeVar("Answer")
Write = Callable[[BlockFiles, str, str], bool]


class Blocks:
    """Keeps the blocks of all named files as the memories are."""

    def __init__(self, parts: Parts, durable: Durable) -> None:
        self._parts = parts
        self._durable = durable
        self._files = parts.block_files
        self._blocks: dict[str, Block] | None = None  # None: not loaded yet
        self._trouble: MirrorError | None = None  # why they could not be loaded
        self._edits_seen = -math.inf  # when another program's change of a file last led to a round
        self._lock = anyio.Lock()  # one change of files and record at a time

    def state(self) -> list[dict[str, Any]]:
        """Facts about each block for `status`, without texts; about the list of them if that cannot
        be read."""
        if self._blocks is None and self._trouble is not None:
            return [Block(RECORD, None, trouble=self._trouble).state()]
        return [block.state() for block in (self._blocks or {}).values()]

    async def add(self, path: object, project: object = None) -> None:
        """Keep a block in a file from now on: a new one at its end, or the one that it has. Raises
        InvalidInput and MirrorError; then file and list are as before."""
        wanted = Block(check_path(path), checks.label(project, PROJECT))
        files = self._check_on()
        async with self._lock:
            blocks = await self._loaded()
            known = blocks.get(wanted.path)
            if known is None and len(blocks) >= MAX_BLOCKS:
                raise InvalidInput(f"There are {MAX_BLOCKS} files already.", code="block_invalid")
            text = await _on_thread(check_file, files, wanted.path)
            if text is None or claude_md.find_block(text) is None:
                wanted.gap, wanted.made = claude_md.gap_before(text or ""), text is None
            elif known is not None:
                wanted.gap, wanted.made = known.gap, known.made
            # Before the file: a block that nobody keeps would show what was forgotten.
            await self._save(blocks | {wanted.path: wanted})
            try:
                await self._write(files, wanted, add_block)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self._save(blocks)
                raise
            blocks[wanted.path] = wanted

    async def remove(self, path: object) -> None:
        """Take the block out of a file, and leave the rest as it is; delete the file if it was made
        for the block and holds nothing else. Raises InvalidInput and MirrorError."""
        files = self._check_on()
        async with self._lock:
            blocks = await self._loaded()
            block = blocks.get(path) if isinstance(path, str) else None
            if block is None:
                message = f"memoryd keeps no block in {path}."
                raise InvalidInput(message, code="block_unknown", hint="Run: memoryd mirror")
            await _on_thread(take_out, files, block)
            del blocks[block.path]
            await self._save(blocks)

    async def sync(self, *, wait: bool = True) -> None:
        """Write every block that differs. What is wrong with a file is in the state. `wait` False:
        leave a file that a program writes just now for the next round. Raises MirrorError."""
        if (files := self._files) is None:
            return
        async with self._lock:
            for block in (await self._loaded()).values():
                if wait or await _on_thread(files.is_settled, block.path):
                    await self._try(files, block)

    async def erase(self, ids: Collection[str]) -> None:
        """Remove forgotten memories from the blocks. A failure is logged, and the next round tries
        again: the memories are gone, whatever becomes of the files."""
        if (files := self._files) is None:
            return
        try:
            with anyio.fail_after(MAX_ERASE):
                async with self._lock:
                    for block in (await self._loaded()).values():
                        if block.ids is None or not block.ids.isdisjoint(ids):
                            await self._try(files, block)
        except Exception as exc:
            log.warning("block_not_erased", error=type(exc).__name__)

    async def purge(self) -> None:
        """Nothing that was forgotten is in a block when this returns. Raises MirrorError."""
        if self._files is None:
            return
        await self.sync()
        for block in (self._blocks or {}).values():
            if block.trouble is not None and block.trouble.code in HOLDS_TEXT:
                raise block.trouble
        async with self._lock:
            await _on_thread(self._files.release)

    async def run(self) -> None:
        """A round now, then whenever memories or files have changed, until cancelled."""
        if (files := self._files) is None:
            return
        timer = Timer(self._parts)
        while True:
            began, index = self._parts.monotonic(), self._parts.index
            changes: Changes = (id(index), index.changes)
            if timer.is_due(changes, self._next_expiry()) or await self._is_edited(files):
                timer.done(changes, failed=not await self._round())
            took = self._parts.monotonic() - began
            await anyio.sleep(max(POLL, BUSY_SHARE * took))

    async def _round(self) -> bool:
        try:
            await self.sync(wait=False)
        except Exception as exc:  # the memories do not depend on it
            if str(self._trouble) != str(exc):
                log.warning("blocks_failed", error=type(exc).__name__)
            self._trouble = exc if isinstance(exc, MirrorError) else None
            return False
        # Damaged markers wait for a person, and are looked at again once the file has changed.
        troubles = [block.trouble for block in (self._blocks or {}).values() if block.trouble]
        return all(trouble.code != UNWRITABLE for trouble in troubles)

    async def _try(self, files: BlockFiles, block: Block) -> None:
        """Write a block; what is wrong is noted in it."""
        before = block.trouble
        try:
            await self._write(files, block)
        except MirrorError as exc:
            block.trouble = exc
            if before is None or before.code != exc.code:
                log.warning("block_failed", code=exc.code)
        try:
            block.stamp = await _on_thread(files.stamp, block.path)
        except OSError:
            block.stamp = None

    async def _write(self, files: BlockFiles, block: Block, write: Write = write_block) -> None:
        """Write the block of a file if it differs. Raises MirrorError."""
        await self._durable.prepare()
        facts = self._durable.candidates(block.project, self._parts.clock())
        rendered, shown = await _on_thread(_render, facts, self._parts.block_tokens)
        changed = await _on_thread(write, files, block.path, rendered)
        block.ids = frozenset(memory.id for memory in shown)
        ends = [m.expires_at for m in shown if m.expires_at is not None and not m.pinned]
        block.expires_at = min(ends, default=None)
        block.trouble = None
        if changed or block.written_at is None:
            block.written_at = self._parts.clock()

    def _next_expiry(self) -> float | None:
        ends = (block.expires_at for block in (self._blocks or {}).values())
        return min((end for end in ends if end is not None), default=None)

    async def _is_edited(self, files: BlockFiles) -> bool:
        """Whether another program has changed one of the files since the last round. Not too often:
        two daemons may have been told to keep the same block."""
        now = self._parts.monotonic()
        if now - self._edits_seen < EDIT_PAUSE:
            return False
        for block in (self._blocks or {}).values():
            if await _on_thread(_stamp, files, block) != block.stamp:
                self._edits_seen = now
                return True
        return False

    def _check_on(self) -> BlockFiles:
        if self._files is None:
            raise MirrorError("This engine keeps no blocks.", code="mirror_off")
        return self._files

    async def _loaded(self) -> dict[str, Block]:
        if self._blocks is None:
            self._blocks = blocks_from(await _on_thread(self._check_on().load_record))
        return self._blocks

    async def _save(self, blocks: dict[str, Block]) -> None:
        await _on_thread(self._check_on().save_record, record_text(blocks))


def _render(facts: list[Memory], budget: int) -> tuple[str, list[Memory]]:
    """The block within so many tokens, and the facts in it, best first; each text once. Secrets are
    masked whatever `memory.secrets` says: such files are often published."""
    room = budget - tokens(claude_md.kept_block(()))
    texts: dict[str, Memory] = {}
    misses = 0
    for memory in facts:
        text = claude_md.fact_text(mask(memory.content).text)
        # A digest repeats facts that may be in the block as well.
        if is_digest(memory) or text in texts:
            continue
        cost = tokens("\n".join([*item_lines(text), ""]))
        if cost <= room:
            texts[text] = memory
            room, misses = room - cost, 0
        elif (misses := misses + 1) > MAX_MISSES:
            break
    return claude_md.kept_block(texts), list(texts.values())


def _stamp(files: BlockFiles, block: Block) -> object:
    try:
        return files.stamp(block.path)
    except OSError:
        return None


async def _on_thread(work: Callable[..., Answer], *args: object) -> Answer:
    return await anyio.to_thread.run_sync(work, *args)
