"""The model in use: documents, queries and bulk work, each through a lane of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import anyio

from memoryd.engine.models.lanes import BulkLane, Lane, Vector
from memoryd.engine.models.outage import Outage
from memoryd.fair import BULK, in_thread, paced
from memoryd.ports import Encoder, Passage, Span
from memoryd.settings import EmbeddingSettings

LONG = 2_000  # characters from which a text is split on a thread
BURST = 16  # texts that are split before other threads may run
PROBE = "memory"  # embedded to see whether a model works again


class Embedding:
    """The lanes of the current model. Until a model is attached there are no vectors."""

    def __init__(self, settings: EmbeddingSettings, encoder: Encoder | None = None) -> None:
        self.settings = settings
        self._lanes: list[Lane] = []
        self._bulk_lanes: list[BulkLane] = []
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
        lanes = [Lane(encoder, self.settings, outage, query=query) for query in (False, True)]
        self._lanes, self._bulk_lanes = lanes, [BulkLane(encoder, self.settings, outage, lanes)]
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
        """Run the lanes of the model that was attached last, until cancelled."""
        while True:
            await self._attached.wait()
            self._attached = anyio.Event()
            assert self.encoder is not None
            probe = partial(self.encoder.encode, [PROBE], query=True)
            async with anyio.create_task_group() as tasks:
                for lane in (*self._lanes, *self._bulk_lanes):
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
        lane = self._bulk_lanes[0] if BULK.get() else self._lanes[0]
        vectors = await lane.embed([lead + text[start:end] for start, end in spans])
        return tuple(Passage(s, v) for s, v in zip(spans, vectors, strict=True))

    async def documents(
        self, texts: Sequence[str], leads: Sequence[str]
    ) -> list[tuple[Passage, ...]]:
        """`document` for many texts, in bulk: those of other callers go ahead. Raises EmbedError,
        TextRefused if the model's server refuses one of them."""
        if self.encoder is None:
            return [() for _ in texts]
        found = await in_thread(_spans, self.encoder, texts, leads)
        parts = [
            lead + text[start:end]
            for text, lead, spans in zip(texts, leads, found, strict=True)
            for start, end in spans
        ]
        vectors = iter(await self._bulk_lanes[0].embed(parts))
        return [tuple(Passage(span, next(vectors)) for span in spans) for spans in found]

    @property
    def is_shared(self) -> bool:
        """Whether single texts, of others than bulk work, came in the last seconds."""
        return any(lane.is_shared for lane in self._bulk_lanes)

    async def sentences(self, texts: Sequence[str]) -> list[Vector]:
        """A vector for each of some short texts; empty without a model. Raises EmbedError."""
        return await self._lanes[0].embed(texts) if self.encoder else []

    def knows(self, text: str) -> bool:
        """Whether the model knows most of the words of a query; true without a model."""
        return self.encoder is None or self.encoder.knows(text)

    async def query(self, text: str) -> Vector | None:
        """The vector of a query; None without a model."""
        return (await self._lanes[1].embed([text]))[0] if self.encoder else None


def _spans(encoder: Encoder, texts: Sequence[str], leads: Sequence[str]) -> list[list[Span]]:
    """Runs on a thread."""
    pairs = list(zip(texts, leads, strict=True))
    return [encoder.split(text, lead) for text, lead in paced(pairs, BURST)]
