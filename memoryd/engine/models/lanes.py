"""Text to vectors for many callers at once: lanes with shared batches and a bounded cache.

A lane encodes waiting texts in batches on threads. Documents, queries and bulk work have a lane
each. One lane for all was rejected: a search would wait for the batch of a bulk store. In a lane
callers take turns, and so do the jobs of one caller, so that a short text waits neither for many
texts of another caller nor for one very long text. While several callers wait, batches are
smaller, so that none waits long for a batch of mostly other callers' texts.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from time import monotonic, perf_counter

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from memoryd.engine.models.outage import Outage
from memoryd.errors import BadVector, EmbedError, MemorydError, ModelUnavailable, TextRefused
from memoryd.fair import BULK, CALLER, THREADS, FairQueue, Portion
from memoryd.ports import Encoder
from memoryd.settings import EmbeddingSettings

Vector = NDArray[np.float32]
Vectors = NDArray[np.float32]  # one row per text
RUNNERS = THREADS  # batches that a lane encodes at the same time: one per core
# Characters in a batch, which bound its time: about one passage of a document; a few queries,
# because a caller waits for each of them.
BATCH_CHARS, QUERY_CHARS = 1_250, 300
SHARES = 4  # with fewer waiting callers than this, batches are smaller in proportion
SHARED_SECONDS = 0.02  # of a batch of bulk work while others use the model
ACTIVE = 5.0  # seconds since the last single text, until which others use the model
# Characters in a batch of bulk work; the most while nobody else uses the model.
MIN_BULK_CHARS, MAX_BULK_CHARS = 600, 4_000
LARGE_CHARS = 16_000  # the same for a model that computes large calls in batches of its own
MAX_SHARED_RUNNERS = max(1, RUNNERS - 1)  # of bulk work then: a core is left to the others
BULK_WINDOW = 512  # texts that are sorted by length together


class VectorCache:
    """The vectors of recent texts. Keys are digests, so that no forgotten text stays in RAM."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._vectors: OrderedDict[bytes, Vector] = OrderedDict()

    def get(self, text: str) -> Vector | None:
        if not self._size:
            return None
        key = _digest(text)
        if (vector := self._vectors.get(key)) is not None:
            self._vectors.move_to_end(key)
        return vector

    def put(self, text: str, vector: Vector) -> None:
        if self._size:
            self._vectors[_digest(text)] = vector
            while len(self._vectors) > self._size:
                self._vectors.popitem(last=False)

    def __len__(self) -> int:
        return len(self._vectors)


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


@dataclass(slots=True, eq=False)
class Job:
    """The texts of one call."""

    texts: list[str]
    vectors: list[Vector | None]
    todo: deque[int]
    caller: Hashable
    done: anyio.Event = field(default_factory=anyio.Event)
    left: int = 0
    error: MemorydError | None = None

    @property
    def next_chars(self) -> int:
        return len(self.texts[self.todo[0]])


class Lane:
    """One kind of text through one encoder, in shared batches."""

    def __init__(
        self, encoder: Encoder, settings: EmbeddingSettings, outage: Outage, *, query: bool
    ) -> None:
        self._encoder = encoder
        self._outage = outage
        self._query = query
        self._batch_size = settings.batch_size
        self._cache = VectorCache(settings.cache_size)
        self._jobs: FairQueue[Job] = FairQueue()
        self._unfinished: set[Job] = set()
        self.used_at = -math.inf  # when the last text came
        self._work = anyio.Event()
        self._idle = RUNNERS

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One vector per text, in order. Raises EmbedError or BadVector."""
        self.used_at = monotonic()
        vectors = [self._cache.get(text) for text in texts]
        todo = deque(i for i, vector in enumerate(vectors) if vector is None)
        if todo:
            self._outage.check()
            await self._finished(Job(list(texts), vectors, todo, CALLER.get(), left=len(todo)))
        return [vector for vector in vectors if vector is not None]

    async def _finished(self, job: Job) -> None:
        """Wait until the job is done. Raises its error."""
        self._jobs.push(job, job.caller)
        self._unfinished.add(job)
        self._work.set()
        try:
            await job.done.wait()
        finally:  # if cancelled, drop the texts that still wait
            self._jobs.remove(job, job.caller)
            self._unfinished.discard(job)
            job.done.set()
        if job.error is not None:
            raise job.error

    async def settled(self) -> None:
        """Wait until the jobs that there are now are done; later ones are not waited for."""
        for job in list(self._unfinished):
            await job.done.wait()

    async def run(self) -> None:
        """Encode waiting texts, batch after batch, until cancelled."""
        async with anyio.create_task_group() as tasks:
            for _ in range(self._idle):
                tasks.start_soon(self._run_one)

    async def _run_one(self) -> None:
        while True:
            while batch := self._next_batch():
                self._idle -= 1
                await self._encode(batch)
                self._idle += 1
            if self._work.is_set():
                self._work = anyio.Event()
            await self._work.wait()

    def _share(self) -> int:
        """How many texts to take now: the waiting ones, divided among the idle runners.

        So concurrent writers split into groups: one is embedded while the other commits.
        """
        waiting = sum(len(job.todo) for job in self._jobs)
        return min(self._batch_size, -(-waiting // self._idle))

    def _next_batch(self) -> list[tuple[Job, int]]:
        batch: list[tuple[Job, int]] = []
        chars = 0
        most = self._share()
        callers = self._jobs.callers
        room = QUERY_CHARS if self._query else BATCH_CHARS
        if callers > 1:
            room = min(room, callers * room // SHARES)
        while self._jobs and len(batch) < most:
            chars += self._jobs.peek().next_chars
            if batch and chars > room:
                break
            job = self._jobs.pop()
            batch.append((job, job.todo.popleft()))
            if job.todo:
                self._jobs.push(job, job.caller)
        return batch

    async def _encode(self, batch: list[tuple[Job, int]]) -> None:
        texts = [job.texts[i] for job, i in batch]
        error: MemorydError | None = None
        vectors: Sequence[Vector] = []
        try:
            self._outage.check()  # it may have begun while they waited
            encode = self._encoder.encode
            found = await anyio.to_thread.run_sync(lambda: encode(texts, query=self._query))
            vectors = list(checked(found, len(texts), self._encoder.dimension))
        except ModelUnavailable as exc:
            self._outage.begin(exc)
            error = exc
        except TextRefused as exc:
            if len(batch) > 1:  # only one of them may be refused
                for one in batch:
                    await self._encode([one])
                return
            error = exc
        except MemorydError as exc:
            error = exc
        except Exception as exc:  # any error of the model's library fails this batch only
            error = EmbedError(f"The embedding model failed with {type(exc).__name__}.")
            error.__cause__ = exc
        for n, (job, i) in enumerate(batch):
            if error is None:
                job.vectors[i] = vectors[n]
                # A copy: a view of one row would keep the whole batch in RAM.
                self._cache.put(texts[n], vectors[n].copy())
            else:
                job.error = error
            job.left -= 1
            if job.left == 0:
                job.done.set()


class BulkLane(Lane):
    """Documents in bulk, for as much throughput as possible without making others wait.

    A batch takes about as long as a short call, and begins when the texts that wait in the other
    lanes have their vectors. The texts of several jobs are sorted by length together, so that
    little is computed for padding. There is no cache: it would hold nothing else afterwards.
    """

    def __init__(
        self,
        encoder: Encoder,
        settings: EmbeddingSettings,
        outage: Outage,
        ahead: Sequence[Lane],
    ) -> None:
        """`ahead`: the lanes that go first."""
        super().__init__(encoder, replace(settings, cache_size=0), outage, query=False)
        self._ahead = ahead
        self._window: deque[tuple[Job, int]] = deque()  # sorted by length
        self._chars = Portion(MIN_BULK_CHARS, MAX_BULK_CHARS)

    @property
    def is_shared(self) -> bool:
        """Whether others use the model, too."""
        return monotonic() - max(lane.used_at for lane in self._ahead) < ACTIVE

    async def run(self) -> None:
        BULK.set(True)  # in this task, those that it starts, and their threads
        await super().run()

    def _next_batch(self) -> list[tuple[Job, int]]:
        calls, room, texts = self._limits()
        if RUNNERS - self._idle >= calls:
            return []
        if not self._window:
            self._window.extend(self._next_window())
        batch: list[tuple[Job, int]] = []
        while self._window and len(batch) < texts:
            job, i = self._window[0]
            longest = len(job.texts[i])  # the texts before it are padded to its length
            if batch and (len(batch) + 1) * longest > room:
                break
            self._window.popleft()
            if not job.done.is_set():  # it may have been cancelled, or have failed
                batch.append((job, i))
        return batch

    def _limits(self) -> tuple[int, int, int]:
        """Calls of the encoder at the same time, characters and texts in each."""
        if self.is_shared:
            return MAX_SHARED_RUNNERS, self._chars.fitting(SHARED_SECONDS), self._batch_size
        if self._encoder.prefers_large_calls:
            return RUNNERS, LARGE_CHARS, BULK_WINDOW
        return RUNNERS, MAX_BULK_CHARS, self._batch_size

    def _next_window(self) -> list[tuple[Job, int]]:
        found: list[tuple[Job, int]] = []
        while self._jobs and len(found) < BULK_WINDOW:
            job = self._jobs.pop()
            found += [(job, i) for i in job.todo]
        return sorted(found, key=lambda one: len(one[0].texts[one[1]]))

    async def _encode(self, batch: list[tuple[Job, int]]) -> None:
        for lane in self._ahead:
            await lane.settled()
        began = perf_counter()
        await super()._encode(batch)
        self._chars.took(sum(len(job.texts[i]) for job, i in batch), perf_counter() - began)
        self._work.set()  # for a runner that has left its core to others until now


def checked(vectors: Vectors, count: int, dimension: int) -> Vectors:
    """The vectors as float32 of unit length. Raises BadVector, because one bad row would corrupt
    every comparison."""
    vectors = np.asarray(vectors, dtype=np.float32)
    if vectors.shape != (count, dimension):
        raise BadVector(f"The model returned shape {vectors.shape}, not {(count, dimension)}.")
    if not np.isfinite(vectors).all():
        raise BadVector("The model returned a vector with a number that is not finite.")
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if (norms < 1e-6).any():
        raise BadVector("The model returned a vector of zero length.")
    unit: Vectors = vectors / norms
    return unit
