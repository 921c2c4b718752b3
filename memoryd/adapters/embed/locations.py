"""Where the files of a model may lie: each function looks in one place.

It returns a folder with weights and tokenizer that may be trusted, or raises ModelMissing
(nothing there) or ModelCorrupt (something is there, but not the published files).
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
    Known,
    check_hash,
    verify,
    weights_of,
)
from memoryd.adapters.embed.package_index.fetch import fetch_wheel
from memoryd.errors import EmbedError, ModelCorrupt, ModelMissing
from memoryd.ports import Progress

HUB_TIMEOUT = 5.0  # a hub that does not answer at once is one that is not there
# Everything small that says how to run the model; never the other frameworks' weights.
HUB_FILES = ["*.json", "*.txt", "1_*/*", "2_*/*"]


Tell = Callable[[Progress], None]  # told what is done now, and how far it is


@dataclass(frozen=True, slots=True)
class Search:
    """What is looked for. `work` is a folder for downloads that is removed afterwards."""

    model: str
    known: Known | None
    models_dir: Path | None
    work: Path
    progress: Tell


@dataclass(frozen=True, slots=True)
class Found:
    """A folder with a model. `known`: its files were checked against this entry."""

    folder: Path
    source: str
    known: Known | None = None


Origin = Callable[[Search], Found]


def installed_package(search: Search) -> Found:
    """The package that carries the weights; it is looked up, never imported."""
    known = _catalogued(search)
    spec = importlib.util.find_spec(known.package)
    if spec is None or not spec.submodule_search_locations:
        raise ModelMissing(f"package {known.package}: not installed")
    folder = Path(spec.submodule_search_locations[0]) / known.inside
    return _checked(Found(folder, f"package {known.package}", known))


def models_folder(search: Search) -> Found:
    """A folder of the model's name in the configured directory of models."""
    if search.models_dir is None:
        raise ModelMissing("models directory: none configured")
    for name in dict.fromkeys((search.model, search.model.rsplit("/", 1)[-1])):
        if (search.models_dir / name).is_dir():
            folder = search.models_dir / name
            return _checked(Found(folder, f"folder {folder}", search.known))
    raise ModelMissing(f"models directory {search.models_dir}: no folder {search.model}")


def hugging_face_cache(search: Search) -> Found:
    """A snapshot that another program has downloaded from the hub."""
    cache = _hub_cache()
    repository = _repository(search)
    snapshots = cache / f"models--{repository.replace('/', '--')}" / "snapshots"
    problem: EmbedError = ModelMissing(f"Hugging Face cache {cache}: no {repository}")
    for folder in sorted(snapshots.glob("*"), key=lambda path: -path.stat().st_mtime):
        try:
            return _checked(Found(folder, f"Hugging Face cache {folder}", search.known))
        except EmbedError as exc:
            problem = exc
    raise problem


def chroma_cache(search: Search) -> Found:
    """The archive that ChromaDB downloads for its default model.

    The archive and not the files unpacked beside it: its hash is the published one.
    """
    known = _catalogued(search)
    place = Path.home() / ".cache" / "chroma" / "onnx_models" / known.name
    archive = place / "onnx.tar.gz"
    if not known.chroma_sha256 or not archive.is_file():
        raise ModelMissing(f"ChromaDB's cache {place}: no archive")
    check_hash(archive, known.chroma_sha256)
    folder = search.work / "chroma"
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return Found(folder / "onnx", f"ChromaDB's cache {place}", known)


def hub(search: Search) -> Found:
    """The model hub, if it can be reached."""
    repository = _repository(search)
    search.progress(Progress(f"Asking the model hub for {repository}"))
    folder = search.work / "hub" / repository.rsplit("/", 1)[-1]
    weights = search.known.weights if search.known else "model.safetensors"
    try:
        library: Any = importlib.import_module("huggingface_hub")  # half a second: only when needed
        with contextlib.suppress(AttributeError, ImportError):  # where it is depends on the version
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
    return _checked(Found(folder, f"model hub {repository}", search.known))


def package_index(search: Search) -> Found:
    """The user's own package index: the pinned wheel, of which only the files are taken."""
    known = _catalogued(search)
    what = f"Downloading {known.requirement} from the package index"
    search.progress(Progress(what))

    def arrived(count: int) -> None:
        _end_if_cancelled()
        if known.download_bytes:
            done = min(count, known.download_bytes)
            search.progress(Progress(what, done, known.download_bytes))

    folder, way = fetch_wheel(known, search.work / "wheel", arrived)
    return Found(folder, f"package index {known.requirement} by {way}", known)


def _end_if_cancelled() -> None:
    """End a download, and the tool that does it, with the daemon that wanted it."""
    with contextlib.suppress(RuntimeError):  # no thread of a daemon: there is nobody to ask
        anyio.from_thread.check_cancelled()


def _catalogued(search: Search) -> Known:
    if search.known is None:
        raise ModelMissing(f"catalogue: {search.model} is not in it")
    return search.known


def _repository(search: Search) -> str:
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


def _checked(found: Found) -> Found:
    """The same, once its files are known to be the published ones."""
    if found.known is not None:
        verify(found.folder, found.known)
    elif not weights_of(found.folder) or not (found.folder / TOKENIZER).is_file():
        raise ModelCorrupt(f"{found.folder / TOKENIZER} is missing.")
    return found
