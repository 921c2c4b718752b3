"""Sentence vectors by ONNX Runtime: the default encoder.

Queries and documents have a session each over the same mapped weights. A query runs on all
cores. Documents run one batch per core, each on one thread: a run on two threads waits for the
slower one at every step, so it falls to a third of its speed while another process uses half a
core (as the store does in a bulk load). Single-threaded runs side by side do not.

Texts are sorted by length and run in small batches of similar length, so that little is
computed for padding. A batch is bounded by tokens: beyond a few hundred, throughput falls (its
texts differ more in length, and it leaves the processor's cache) while memory rises.

Bulk work has threads of its own, of a lower priority: the kernel lets a query or a single document
go ahead in the middle of a batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

from memoryd.adapters.embed.cache import GRAPH, IDS, MASK, OUTPUT
from memoryd.adapters.embed.resolve import Prepared, resolve
from memoryd.adapters.embed.tokens import Tokens
from memoryd.errors import EmbedError, ModelCorrupt
from memoryd.fair import BULK, lower_priority
from memoryd.ports import Span
from memoryd.settings import EmbeddingSettings

BATCH_TOKENS = 256
MIN_BATCH_TOKENS = 64  # smaller batches cost more than an idle core
SPIN_MICROSECONDS = "1000"
MAX_THREADS = 4  # a short text has no work for more


class OnnxEncoder:
    """See `memoryd.ports.Encoder`."""

    def __init__(self, prepared: Prepared, threads: int = 0) -> None:
        self._prepared = prepared
        self._cores = threads or min(MAX_THREADS, os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(self._cores, thread_name_prefix="embed")
        self._bulk_pool = ThreadPoolExecutor(self._cores, "embed-bulk", lower_priority)
        try:
            tokenizer = Tokenizer.from_file(str(prepared.folder / "tokenizer.json"))
            self._tokens = Tokens(tokenizer, prepared.max_tokens, prepared.document_prefix)
            self._query_session = _session(prepared.folder / GRAPH, self._cores)
            self._document_session = _session(prepared.folder / GRAPH, 1)
        except Exception as exc:  # both libraries raise bare exceptions
            raise ModelCorrupt(f"{prepared.folder} cannot be loaded: {exc}") from exc

    @property
    def model(self) -> str:
        return self._prepared.identity

    @property
    def dimension(self) -> int:
        return self._prepared.dimension

    @property
    def prefers_large_calls(self) -> bool:
        return True

    def knows(self, text: str) -> bool:
        return self._tokens.knows(text)

    def split(self, text: str, lead: str = "") -> list[Span]:
        return self._tokens.split(text, lead)

    def encode(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        prefix = self._prepared.query_prefix if query else self._prepared.document_prefix
        session = self._query_session if query else self._document_session
        pool = self._bulk_pool if BULK.get() else self._pool
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        try:
            rows = self._tokens.ids([prefix + text for text in texts])

            # Made on this thread: one of low priority would delay everybody else while it has the
            # interpreter lock.
            found = [(batch, _inputs([rows[i] for i in batch])) for batch in self._batches(rows)]

            def run(inputs: dict[str, NDArray[np.int32]]) -> Any:
                return session.run([OUTPUT], inputs)[0]

            # Documents always use the pool: it limits all callers together to the cores.
            made = (map if query else pool.map)(run, [inputs for _, inputs in found])
            for (batch, _), part in zip(found, made, strict=True):
                vectors[batch] = part
        except Exception as exc:
            raise EmbedError(f"The model {self.model} failed ({type(exc).__name__}).") from exc
        return vectors

    def _batches(self, rows: list[list[int]]) -> Iterator[list[int]]:
        lengths = [len(row) for row in rows]
        most = 1 if self._prepared.alone else len(rows)
        share = max(MIN_BATCH_TOKENS, sum(lengths) // self._cores + 1)  # work for every core
        if BULK.get():  # the other cores have other batches
            share = BATCH_TOKENS
        return batches(lengths, most, min(BATCH_TOKENS, share))


def _inputs(rows: list[list[int]]) -> dict[str, NDArray[np.int32]]:
    """The arguments of the graph."""
    ids = np.zeros((len(rows), max(map(len, rows))), dtype=np.int32)
    mask = np.zeros_like(ids)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = row
        mask[index, : len(row)] = 1
    return {IDS: ids, MASK: mask}


def batches(lengths: Sequence[int], most: int, tokens: int = BATCH_TOKENS) -> Iterator[list[int]]:
    """Indices in batches of similar length, of at most `tokens` tokens and `most` texts each."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) == most or (len(batch) + 1) * lengths[index] > tokens):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _session(graph: Path, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # The arena would keep the memory of the largest batch for ever; malloc frees it.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    # Threads spin between the steps of a run, which makes a short text a fifth faster, but not
    # after it: by default they keep a core busy for tens of milliseconds after each query.
    options.add_session_config_entry("session.intra_op.spin_duration_us", SPIN_MICROSECONDS)
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.log_severity_level = 3  # errors only: its warnings do not concern a user
    return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])


def load(model: str, settings: EmbeddingSettings, cache: Path) -> OnnxEncoder:
    """The encoder of the configuration's backend `onnx`. Raises EmbedError."""
    models_dir = Path(settings.models_dir).expanduser() if settings.models_dir else None
    prepared = resolve(model, cache, models_dir=models_dir, allow_download=settings.download)
    return OnnxEncoder(prepared, settings.threads)
