"""The cache of prepared models: a folder each, with graph, tokenizer and recipe.

A folder is written beside its place and renamed into it, so there is never half a model: a
kill leaves litter that a later preparation removes, and of two processes that prepare at
once the slower one takes what the faster one made.

Every start compares sizes and the hashes of the small files. The weights are hashed only if
their time stamp is not the recorded one: 90 MB take 60 ms where the processor has SHA
instructions, several times that where it has not, and reading them all would make them
resident for nothing. Damage that leaves size and time stamp alone is looked for by `memoryd
setup` only.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from memoryd.adapters.embed.catalogue import TOKENIZER, sha256

# Raise it whenever a graph is built differently: older preparations are then made again.
GRAPH_VERSION = 1
GRAPH, DATA, RECIPE = "model.onnx", "model.onnx.data", "recipe.json"
IDS, MASK, OUTPUT = "memoryd.ids", "memoryd.mask", "embedding"  # of every prepared graph
LITTER, LITTER_AGE = ".making-", 3600.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A model that is ready to run, and how to run it.

    `normalise` is what the model's own files ask for; its vectors have length one anyway.
    `alone`: the vector of a text would depend on the texts that share its batch.
    """

    folder: Path
    identity: str
    dimension: int
    pooling: str
    normalise: bool
    max_tokens: int
    query_prefix: str
    document_prefix: str
    source: str
    alone: bool = False


def place(cache: Path, name: str, weights_sha256: str) -> Path:
    """Where the preparation of these weights belongs."""
    return cache / f"{name}-{weights_sha256[:12]}-v{GRAPH_VERSION}"


def read(folder: Path, *, thorough: bool = False) -> Prepared | None:
    """The prepared model in `folder`; None if it is missing, incomplete or damaged.

    `thorough`: hash every file; a folder that is damaged is marked so that nobody takes it.
    """
    try:
        recipe = json.loads((folder / RECIPE).read_text(encoding="utf-8"))
        stamps: dict[str, dict[str, Any]] = recipe.pop("files")
        stale = [
            name
            for name in (GRAPH, DATA, TOKENIZER)
            if not _is_fresh(folder, name, stamps) or thorough
        ]
        if any(sha256(folder / name) != stamps[name]["sha256"] for name in stale):
            if thorough:
                (folder / RECIPE).unlink()
            return None
        if DATA in stale:  # a copied cache: hashed once, not at every start
            with contextlib.suppress(OSError):
                _write_recipe(folder, recipe)
        return Prepared(folder=folder, **recipe)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_fresh(folder: Path, name: str, stamps: dict[str, dict[str, Any]]) -> bool:
    """True if the file need not be hashed. Raises ValueError for a wrong size."""
    found, stamp = (folder / name).stat(), stamps[name]
    if found.st_size != stamp["size"]:
        raise ValueError(f"{name} has {found.st_size} bytes, not {stamp['size']}")
    return name == DATA and found.st_mtime_ns == stamp["mtime_ns"]


@contextlib.contextmanager
def making(cache: Path) -> Iterator[Path]:
    """A folder to work in; it is gone at the end, and so is what killed processes left."""
    cache.mkdir(parents=True, exist_ok=True)
    for old in cache.glob(f"{LITTER}*"):
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > LITTER_AGE:
                shutil.rmtree(old)
    work = Path(tempfile.mkdtemp(prefix=LITTER, dir=cache))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def publish(made: Prepared, target: Path) -> Prepared:
    """Move a finished folder to `target`, unless a good one of its kind is there already."""
    recipe = asdict(made)
    del recipe["folder"]
    _write_recipe(made.folder, recipe)
    _sync(made.folder)
    try:
        made.folder.rename(target)
    except OSError:
        winner = read(target)
        if winner is not None and is_same(winner, made):
            return winner
        target.rename(made.folder.with_name("broken"))  # removed with the working folder
        made.folder.rename(target)
    return replace(made, folder=target)


def is_same(one: Prepared, other: Prepared) -> bool:
    """Whether both run alike; where their weights came from does not matter."""
    return replace(one, folder=other.folder, source=other.source) == other


def _write_recipe(folder: Path, recipe: dict[str, Any]) -> None:
    files = {name: _stamp(folder / name) for name in (GRAPH, DATA, TOKENIZER)}
    text = json.dumps({**recipe, "files": files}, indent=2, ensure_ascii=False)
    fresh = folder / f"{RECIPE}.{os.getpid()}"
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(folder / RECIPE)


def _stamp(path: Path) -> dict[str, Any]:
    found = path.stat()
    return {"sha256": sha256(path), "size": found.st_size, "mtime_ns": found.st_mtime_ns}


def _sync(folder: Path) -> None:
    """Onto the disk before the rename is: a power cut must not leave a name without bytes."""
    for path in (*folder.iterdir(), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
