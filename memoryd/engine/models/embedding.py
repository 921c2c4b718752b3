"""Text to vectors for many callers at once: two lanes, shared batches, a bounded cache.

Documents and queries have a lane each. A lane encodes the waiting texts in one batch on a thread.
One lane for both was rejected: a search would wait for the batch of a bulk store. In a lane callers
take turns, and so do the jobs of one caller, so that a short text waits neither for many texts of
another caller nor for one very long text. While several callers wait, batches are smaller, so that
none waits long for a batch of mostly other callers' texts.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from memoryd.engine.models.outage import Outage
from memoryd.errors import BadVector, EmbedError, MemorydError, ModelUnavailable, TextRefused
from memoryd.fair import CALLER, THREADS, FairQueue, in_thread
from memoryd.ports import Encoder, Passage
from memoryd.settings import EmbeddingSettings

Vector = NDArray[np.float32]
Vectors = NDArray[np.float32]  # one row per text
RUNNERS = THREADS  # batches that a lane encodes at the same time: one per core
# Characters in a batch, which bound its time: about one passage of a document; a few queries,
# because a caller waits for each of them.
BATCH_CHARS, QUERY_CHARS = 1_250, 300
SHARES = 4  # with fewer waiting callers than this, batches are smaller in proportion
LONG = 2_000  # characters from which a text is split on a thread
PROBE = "memory"  # embedded to see whether a model works again


class VectorCache:
    """The vectors of recent texts. Keys are digests, so that no forgotten text stays in RAM."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._vectors: OrderedDict[bytes, Vector] = OrderedDict()

    def get(self, text: str) -> Vector | None:
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
class _Job:
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
        self._jobs: FairQueue[_Job] = FairQueue()
        self._work = anyio.Event()
        self._idle = RUNNERS

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One vector per text, in order. Raises EmbedError or BadVector."""
        vectors = [self._cache.get(text) for text in texts]
        todo = deque(i for i, vector in enumerate(vectors) if vector is None)
        if todo:
            self._outage.check()
            job = _Job(list(texts), vectors, todo, CALLER.get(), left=len(todo))
            self._jobs.push(job, job.caller)
            self._work.set()
            try:
                await job.done.wait()
            finally:  # if cancelled, drop the texts that still wait
                self._jobs.remove(job, job.caller)
            if job.error is not None:
                raise job.error
        return [vector for vector in vectors if vector is not None]

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

    def _next_batch(self) -> list[tuple[_Job, int]]:
        batch: list[tuple[_Job, int]] = []
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

    async def _encode(self, batch: list[tuple[_Job, int]]) -> None:
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


class Embedding:
    """Both lanes of the current model. Until a model is attached there are no vectors."""

    def __init__(self, settings: EmbeddingSettings, encoder: Encoder | None = None) -> None:
        self.settings = settings
        self._lanes: list[Lane] = []
        self._attached = anyio.Event()
        self.encoder: Encoder | None = None
        self._recovered = anyio.Event()
        self.outage = self._new_outage()
        self.why_missing: Callable[[], str] = lambda: "No embedding model is configured."
        if encoder is not None:
            self.attach(encoder)

    def attach(self, encoder: Encoder) -> None:
        """Use this model from now on. No text may be waiting for another one."""
        self.encoder = encoder
        self.outage = outage = self._new_outage()  # an outage of another model ends here
        self._lanes = [Lane(encoder, self.settings, outage, query=query) for query in (False, True)]
        self._attached.set()

    def _new_outage(self) -> Outage:
        return Outage("embedding", lambda: self._recovered.set())

    def trouble(self) -> str:
        """Why there is no vector, as a sentence for the answers; "" while the model works."""
        if self.encoder is None:
            return self.why_missing()
        error = self.outage.error
        return f"{error.message} {error.hint}".strip() if error else ""

    async def recovered(self) -> None:
        """Wait until an outage of the model has ended."""
        await self._recovered.wait()
        self._recovered = anyio.Event()

    async def run(self) -> None:
        """Run both lanes of the model that was attached last, until cancelled."""
        while True:
            await self._attached.wait()
            self._attached = anyio.Event()
            assert self.encoder is not None
            probe = partial(self.encoder.encode, [PROBE], query=True)
            async with anyio.create_task_group() as tasks:
                for lane in self._lanes:
                    tasks.start_soon(lane.run)
                tasks.start_soon(self.outage.watch, probe)
                await self._attached.wait()
                tasks.cancel_scope.cancel()

    async def document(self, text: str, lead: str = "") -> tuple[Passage, ...]:
        """The passages of a text with their vectors, each embedded with `lead` before it; empty
        without a model."""
        if self.encoder is None:
            return ()
        if len(text) > LONG:
            spans = await in_thread(self.encoder.split, text, lead)
        else:
            spans = self.encoder.split(text, lead)
        vectors = await self._lanes[0].embed([lead + text[start:end] for start, end in spans])
        return tuple(Passage(s, v) for s, v in zip(spans, vectors, strict=True))

    async def sentences(self, texts: Sequence[str]) -> list[Vector]:
        """A vector for each of some short texts; empty without a model. Raises EmbedError."""
        return await self._lanes[0].embed(texts) if self.encoder else []

    def knows(self, text: str) -> bool:
        """Whether the model knows most of the words of a query; true without a model."""
        return self.encoder is None or self.encoder.knows(text)

    async def query(self, text: str) -> Vector | None:
        """The vector of a query; None without a model."""
        return (await self._lanes[1].embed([text]))[0] if self.encoder else None
