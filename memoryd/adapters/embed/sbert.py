"""Sentence vectors by the sentence-transformers library, for models that need it.

An optional extra: it needs torch, seconds of import and hundreds of megabytes. For weights that
both encoders can run, identity, passages and vectors are the same as ONNX Runtime's.
"""

from __future__ import annotations

import hashlib
import importlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from memoryd.adapters.embed.catalogue import folder_name, known_model, sha256
from memoryd.adapters.embed.recipe import Recipe, with_prompts
from memoryd.adapters.embed.resolve import describe, find_folder, is_path
from memoryd.adapters.embed.tokens import Tokens
from memoryd.errors import EmbedError
from memoryd.ports import Span
from memoryd.settings import EmbeddingSettings

BATCH = 32


class SbertEncoder:
    """See `memoryd.ports.Encoder`. `model` is any name or folder the library can load."""

    def __init__(
        self,
        model: str,
        cache: Path,
        *,
        models_dir: Path | None = None,
        allow_download: bool = False,
        threads: int = 0,
    ) -> None:
        library = _library()
        source = _folder_or_name(model, cache, models_dir, allow_download)
        try:
            self._network = library.SentenceTransformer(
                source, device="cpu", local_files_only=not allow_download
            )
            folder = Path(source) if is_path(source) else _snapshot(source)
            self._model, self._recipe = _describe(folder)
            self._tokens = self._own_tokens()
            if threads:
                importlib.import_module("torch").set_num_threads(threads)
        except EmbedError:
            raise
        except Exception as exc:  # many libraries, each with its own exceptions
            raise EmbedError(f"sentence-transformers cannot load {model}: {exc}") from exc
        self._lock = _QueryFirstLock()
        self._dimension = int(self.encode(["warm"]).shape[1])

    @property
    def model(self) -> str:
        return self._model

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def prefers_large_calls(self) -> bool:
        return False

    def knows(self, text: str) -> bool:
        return self._tokens.knows(text)

    def split(self, text: str, lead: str = "") -> list[Span]:
        return self._tokens.split(text, lead)

    def encode(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        if not texts:
            return np.empty((0, self._dimension), dtype=np.float32)
        prefix = self._recipe.query_prefix if query else self._recipe.document_prefix
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        rows: dict[int, Any] = {}
        for first in range(0, len(order), BATCH):
            batch = order[first : first + BATCH]
            rows.update(
                zip(batch, self._run([texts[n] for n in batch], prefix, query), strict=True)
            )
        return np.stack([rows[index] for index in range(len(texts))]).astype(np.float32)

    def _run(self, texts: list[str], prompt: str, query: bool) -> Any:
        try:
            with self._lock.query() if query else self._lock.bulk():
                return self._network.encode(
                    [text.encode("utf-8", "replace").decode() for text in texts],
                    prompt=prompt,
                    batch_size=BATCH,
                    normalize_embeddings=True,
                    show_progress_bar=False,
                )
        except Exception as exc:
            raise EmbedError(f"The model {self._model} failed ({type(exc).__name__}).") from exc

    def _own_tokens(self) -> Tokens:
        """A copy of the tokenizer: the library changes the settings of its own while it runs."""
        tokenizer = Tokenizer.from_str(self._network.tokenizer.backend_tokenizer.to_str())
        limit = self._network.max_seq_length or self._recipe.max_tokens
        return Tokens(tokenizer, limit, self._recipe.document_prefix)


class _QueryFirstLock:
    """One call at a time, because the library is not thread-safe; queries before bulk batches."""

    def __init__(self) -> None:
        self._bulk, self._next, self._work = (threading.Lock() for _ in range(3))

    @contextmanager
    def query(self) -> Iterator[None]:
        self._next.acquire()
        with self._work:
            self._next.release()
            yield

    @contextmanager
    def bulk(self) -> Iterator[None]:
        # Bulk callers wait for each other first, so at most one of them competes with queries.
        with self._bulk, self.query():
            yield


def _library() -> Any:
    try:
        return importlib.import_module("sentence_transformers")
    except ImportError as exc:
        raise EmbedError(
            "The sentence-transformers backend is not installed.",
            hint='Run: pip install "memoryd[sentence-transformers]"',
        ) from exc


def _folder_or_name(model: str, cache: Path, models_dir: Path | None, allow_download: bool) -> str:
    """The argument for the library: a folder on the disk, or the name itself."""
    if known_model(model) or is_path(model):
        return str(find_folder(model, cache, models_dir=models_dir, allow_download=allow_download))
    if models_dir and (models_dir / model).is_dir():
        return str(models_dir / model)
    return model


def _snapshot(name: str) -> Path:
    """The folder in the hub's cache of a model that was just loaded by its name."""
    repository = name if "/" in name else f"sentence-transformers/{name}"
    hub = importlib.import_module("huggingface_hub")
    return Path(hub.snapshot_download(repository, local_files_only=True))


def _describe(folder: Path) -> tuple[str, Recipe]:
    """Identity and recipe as the ONNX encoder has them; in the same form for other models."""
    try:
        return describe(folder)
    except EmbedError:
        files = sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")])
        digest = hashlib.sha256("".join(map(sha256, files)).encode()).hexdigest()
        return f"{folder_name(folder)}:{digest[:8]}", with_prompts(folder, Recipe())


def load(model: str, settings: EmbeddingSettings, cache: Path) -> SbertEncoder:
    """The encoder of the configuration's backend `sentence-transformers`. Raises EmbedError."""
    return SbertEncoder(
        model,
        cache,
        models_dir=Path(settings.models_dir).expanduser() if settings.models_dir else None,
        allow_download=settings.download,
        threads=settings.threads,
    )
