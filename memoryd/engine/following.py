"""Follow a store that several daemons share: what one writes, the index of each other one gets.

The feed says which memories were written; each is then read again and put into the index as the
store has it now, or removed if it is not there. So the index can only ever become what the store
is, whatever order the news come in.

News are read by clock. A write gets its clock a moment before the store has it, so one with a lower
clock can arrive after one with a higher clock: every poll reads again what was new `WINDOW` seconds
ago. What arrives later than that (a process that was paused between the two, and then killed) is
found by the comparison of all memories, which runs now and then, and whenever polls have paused. It
runs after a poll, and with polls in between: it may take long, and has nothing that is urgent.

Nobody waits for a server that is away. A poll that takes long asks for a sign of life meanwhile,
and while there was trouble every poll begins with that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
import structlog

from memoryd.audience import Scope, is_private, scope_of
from memoryd.engine import commits
from memoryd.engine.lock_keys import id_key
from memoryd.engine.memories import Memories
from memoryd.engine.offline.queue import OfflineQueue
from memoryd.engine.parts import Parts
from memoryd.errors import MemorydError, StoreOffline
from memoryd.model import Memory
from memoryd.offline import KNOWN
from memoryd.ports import ChangeFeed, Changes, Record
from memoryd.tasks import task_group

log = structlog.get_logger()
WINDOW = 30.0  # seconds for which news are read again
COMPARE = 300.0  # seconds between two comparisons of all memories
SWEEP = 3600.0  # seconds between two sweeps of old notes
GRACE = 3.0  # seconds that two memories must have one name before the older one is removed
BATCH = 100  # memories that are read at once
PATIENCE = 2.0  # seconds until a poll asks whether the server is still there
# By name and those who see it: since when which memories have it, in which revisions.
Repeated = dict[tuple[str, Scope], tuple[float, frozenset[tuple[str, int | None]]]]


class Following:
    """Keeps the index equal to a shared store. Sets `catch_up` and `store_trouble` of the parts."""

    def __init__(
        self,
        parts: Parts,
        feed: ChangeFeed,
        memories: Memories,
        poll_seconds: float,
        session_changed: Callable[[str], None],
        queue: OfflineQueue | None = None,
    ) -> None:
        self._parts, self._feed, self._memories = parts, feed, memories
        self._poll_seconds, self._session_changed = poll_seconds, session_changed
        self._polling = anyio.Lock()
        self._begun = self._finished = 0  # numbers of polls
        self._failed = 0  # how many found that the store is offline
        self._seen: deque[tuple[float, int]] = deque()  # when which clock was the highest
        self._last_poll: float | None = None
        self._next_comparison = self._next_sweep = 0.0
        self._comparing_again = WINDOW  # seconds from the next comparison to the one after it
        if feed.listed_clock is not None:  # the index has been compared when it was loaded
            self._last_poll = now = parts.monotonic()
            self._seen.append((now, feed.listed_clock))
            self._next_comparison, self._comparing_again = now + WINDOW, COMPARE
        self._repeated: Repeated = {}
        self._trouble, self._failing_since = "", 0.0
        parts.catch_up, parts.store_trouble = self._catch_up_if_possible, self._told_trouble
        self._queue = queue
        if queue is not None:
            queue.attach(parts)

    def state(self) -> Mapping[str, Any]:
        """Facts for `status`."""
        last = self._last_poll
        age = None if last is None else round(self._parts.monotonic() - last, 1)
        facts: dict[str, Any] = {"seconds_since_poll": age, "trouble": self._trouble or None}
        return facts | (self._queue.state() if self._queue is not None else {})

    async def run(self) -> None:
        """Poll until cancelled. A failure is logged once, and shown until a poll succeeds."""
        while True:
            pause = self._poll_seconds
            try:
                await self.catch_up()
                await self._compare_if_due()
                if self._queue is not None:
                    await self._read_again(await self._queue.send())
                if self._queue:
                    pause = 0.0  # the rest at once
                else:
                    await self._settle_names()
                await self._sweep()
            except MemorydError as exc:
                pause = self._poll_seconds
                if not self._trouble:
                    log.warning("poll_failed", code=exc.code)
            await anyio.sleep(pause)

    async def _catch_up_if_possible(self) -> None:
        """The same as `catch_up`; but if writes are queued, one that is made while the server
        cannot be reached need not fail."""
        if self._queue is None or not self._queue.accepts:
            await self.catch_up()
        elif not self._trouble:
            with suppress(StoreOffline):
                await self.catch_up()

    async def catch_up(self) -> None:
        """Return when the index has everything that was committed before this call. Raises
        StoreError, such as StoreOffline."""
        before, failed = self._begun, self._failed
        async with self._polling:
            if self._finished > before:
                return  # a poll that began after this call has finished
            if self._failed > failed:  # the same would happen to each that waits here
                raise StoreOffline(self._trouble)
            self._begun = number = self._begun + 1
            try:
                await self._poll()
            except MemorydError as exc:
                if not self._trouble:
                    self._failing_since = self._parts.monotonic()
                    log.warning("store_offline", code=exc.code)
                self._set_trouble(exc.message)
                self._failed += isinstance(exc, StoreOffline)
                raise
            self._finished = number
            if self._trouble:
                log.info("store_online")
            self._set_trouble("")

    def _set_trouble(self, message: str) -> None:
        self._trouble = message
        if self._queue is not None:
            self._queue.set_away(bool(message))

    def _told_trouble(self) -> str:
        if not self._trouble:
            return ""
        seconds = round(self._parts.monotonic() - self._failing_since)
        queues = self._queue is not None and self._queue.accepts
        then = "what others see is queued" if queues else "only private memories can be stored"
        return f"{self._trouble}{KNOWN} {seconds} seconds ago, and {then}."

    async def _poll(self) -> None:
        began = self._parts.monotonic()
        if self._trouble:
            await self._feed.check()
        paused = self._last_poll is None or began - self._last_poll > WINDOW / 2
        if paused or self._trouble:
            # Once more after the window: what is under way now is in the store then.
            self._next_comparison, self._comparing_again = began, WINDOW
        if not self._seen:  # the index was loaded without the server
            clock = await self._feed.clock()
            await self._compare_all(polls=False)
            self._seen.append((began, clock))
        found = await self._changes(self._since(began))
        revision = self._parts.index.revision
        ids = {id for id, number in found.revisions.items() if revision(id) != number}
        ids |= {id for id in found.noted - found.revisions.keys() if revision(id) is not None}
        await self._read_again(ids)
        self._seen.append((began, found.clock))
        self._last_poll = began

    async def _changes(self, since: int) -> Changes:
        async with task_group() as tasks:
            tasks.start_soon(self._watch)
            found = await self._feed.changes(since)
            tasks.cancel_scope.cancel()
        return found

    async def _watch(self) -> None:
        """Raise StoreOffline when the server gives no sign of life."""
        while True:
            await anyio.sleep(PATIENCE)
            await self._feed.check()

    def _since(self, now: float) -> int:
        """The highest clock that was known `WINDOW` seconds ago, or when the index was loaded."""
        while len(self._seen) > 1 and self._seen[1][0] <= now - WINDOW:
            self._seen.popleft()
        return self._seen[0][1]

    async def _compare_if_due(self) -> None:
        if (began := self._parts.monotonic()) >= self._next_comparison:
            again, self._comparing_again = self._comparing_again, COMPARE
            self._next_comparison = began + again  # a poll may set it earlier meanwhile
            try:
                await self._compare_all()
            except MemorydError:
                self._next_comparison, self._comparing_again = began, again
                raise

    async def _compare_all(self, *, polls: bool = True) -> None:
        """Compare all memories of the store with the index. `polls`: also poll when it is time for
        that; not from a poll."""
        index, offset = self._parts.index, 0
        left = set(index.ids())
        changed: set[str] = set()
        while page := await self._feed.listing(offset):
            offset += len(page)
            left.difference_update(page)
            changed |= {id for id, number in page.items() if index.revision(id) != number}
            if polls:
                await self._catch_up_in_time()
        # One that the listing left out is read, too, and stays if it is there.
        waiting = sorted(changed | left)
        for start in range(0, len(waiting), BATCH):
            await self._read_again(waiting[start : start + BATCH])
            if polls:
                await self._catch_up_in_time()

    async def _catch_up_in_time(self) -> None:
        """Poll if it is time for that."""
        now = self._parts.monotonic()
        if self._last_poll is None or now - self._last_poll >= self._poll_seconds:
            await self.catch_up()

    async def _read_again(self, ids: Iterable[str]) -> None:
        """Put these memories into the index as they are in the store, or remove them from it."""
        waiting = sorted(ids)
        for start in range(0, len(waiting), BATCH):
            batch = waiting[start : start + BATCH]
            async with self._parts.gate.passing(), self._parts.locks.hold(map(id_key, batch)):
                await self._read_batch(batch)

    async def _read_batch(self, ids: Sequence[str]) -> None:
        parts = self._parts
        before = {id: parts.index.revision(id) for id in ids}
        found = {record.memory.id: record for record in await parts.store.get(ids)}
        gone: list[str] = []
        for id in ids:
            record = found.get(id)
            terms = await commits.terms(record) if record is not None else None
            if parts.index.revision(id) != before[id]:
                continue  # written here meanwhile
            known = parts.index.get(id)
            if record is not None and record.revision != before[id]:
                parts.index.put(record, terms)
            elif record is None and parts.index.remove(id):
                gone.append(id)
            else:
                continue
            parts.snapshots.erase(id)
            self._tell_sessions(known, record)
        if gone:
            await parts.after_drop(gone)

    def _tell_sessions(self, before: Memory | None, after: Record | None) -> None:
        memories = (before, after.memory if after else None)
        for session in {memory.session_id for memory in memories if memory}:
            if session is not None:
                self._session_changed(session)

    async def _settle_names(self) -> None:
        """Two daemons may store under one name at the same moment: remove all but the last, which
        every daemon finds by the same rule. After some seconds, unchanged: an import that replaces
        memories may not have finished."""
        index, now = self._parts.index, self._parts.monotonic()
        seen: Repeated = {}
        for name, rivals in self._rivals():
            state = frozenset((memory.id, index.revision(memory.id)) for memory in rivals)
            key = (name, scope_of(rivals[0]))
            since, known = self._repeated.get(key, (now, state))
            seen[key] = (since if known == state else now, state)
        self._repeated = seen
        for (name, scope), (since, state) in seen.items():
            if now - since >= GRACE:
                await self._keep_last(name, scope, [id for id, _ in state])

    def _rivals(self) -> Iterator[tuple[str, list[Memory]]]:
        """The memories that have one name and are seen by the same people. Private ones are not
        written by others."""
        index = self._parts.index
        for name in index.names.repeated():
            groups: dict[Scope, list[Memory]] = {}
            for memory in index.all_named(name):
                if memory.name == name and not is_private(memory):
                    groups.setdefault(scope_of(memory), []).append(memory)
            yield from ((name, group) for group in groups.values() if len(group) > 1)

    async def _keep_last(self, name: str, scope: Scope, ids: list[str]) -> None:
        """Remove all of these but the one that was written last."""

        def is_rival(memory: Memory | None) -> bool:
            return memory is not None and (memory.name, scope_of(memory)) == (name, scope)

        found = [record for record in await self._parts.store.get(ids) if is_rival(record.memory)]
        if len(found) < 2:
            return
        # Nothing but what is in the rows: two daemons that decide differently would remove both.
        last = max(found, key=lambda record: (record.clock, record.memory.id))
        losers = [record.memory.id for record in found if record is not last]
        gone = await self._memories.drop_if(losers, is_rival)
        log.info("name_settled", removed=len(gone))

    async def _sweep(self) -> None:
        if self._parts.monotonic() >= self._next_sweep:
            await self._feed.sweep_notes()
            self._next_sweep = self._parts.monotonic() + SWEEP
