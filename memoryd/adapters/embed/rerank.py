"""A cross-encoder as an ONNX graph in a local folder: reads query and text together.

Any BERT model for sequence classification with one output, exported with its `tokenizer.json`;
ms-marco-MiniLM is one. Takes about fifteen milliseconds a text on two cores, so it reads the first
few candidates only, and is off unless a folder is configured.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from memoryd.errors import EmbedError, ModelCorrupt, ModelMissing

MAX_TOKENS = 256  # of query and text together
MAX_QUERY = 1_000  # characters: a longer query would leave no tokens for the text
BATCH = 4  # texts in one run, of similar length, so that there is little padding
SCALE = 4.0  # logits of these models run from about -11 to 11


class OnnxReranker:
    """See `memoryd.ports.Reranker`."""

    def __init__(self, folder: Path) -> None:
        self.model = folder.name
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = min(4, os.cpu_count() or 1)
        options.log_severity_level = 3
        try:
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._session = onnxruntime.InferenceSession(
                str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
            )
        except Exception as exc:  # both libraries raise bare exceptions
            raise ModelCorrupt(f"The rerank model in {folder} cannot be loaded: {exc}") from exc
        self._tokenizer.enable_truncation(MAX_TOKENS, strategy="only_second")
        self._tokenizer.no_padding()
        self._inputs = {given.name for given in self._session.get_inputs()}

    def marks(self, query: str, texts: Sequence[str]) -> list[float]:
        try:
            pairs = [(query[:MAX_QUERY], text) for text in texts]
            encoded = self._tokenizer.encode_batch(pairs)
            order = sorted(range(len(texts)), key=lambda n: len(encoded[n].ids))
            marks = [0.0] * len(texts)
            for first in range(0, len(order), BATCH):
                batch = order[first : first + BATCH]
                for n, logit in zip(batch, self._run([encoded[n] for n in batch]), strict=True):
                    marks[n] = float(1.0 / (1.0 + np.exp(-logit / SCALE)))
        except Exception as exc:
            raise EmbedError(
                f"The rerank model {self.model} failed ({type(exc).__name__})."
            ) from exc
        return marks

    def _run(self, encoded: list[Any]) -> Any:
        width = max(len(one.ids) for one in encoded)
        filled = {name: np.zeros((len(encoded), width), dtype=np.int64) for name in self._inputs}
        for row, one in enumerate(encoded):
            columns = {
                "input_ids": one.ids,
                "attention_mask": one.attention_mask,
                "token_type_ids": one.type_ids,
            }
            for name in self._inputs:
                filled[name][row, : len(one.ids)] = columns[name]
        return self._session.run(None, filled)[0].reshape(-1)


def load(folder: str) -> OnnxReranker:
    """The cross-encoder in `folder`. Raises EmbedError."""
    path = Path(folder).expanduser()
    if not (path / "model.onnx").is_file():
        raise ModelMissing(
            f"There is no rerank model in {path}.",
            hint="search.rerank_model names a folder with model.onnx and tokenizer.json.",
        )
    return OnnxReranker(path)
