"""The cache of prepared models: a folder each, with graph, tokenizer and recipe.

A folder is written under another name and renamed, so it is complete or absent. A kill leaves a
work folder that a later preparation removes. If two processes prepare the same model, the slower
one uses what the faster one made.

Every start compares the sizes, and the hashes of the small files. The weights are hashed only if
their time stamp differs from the recorded one: 90 MB take 60 ms on a processor with SHA
instructions and several times that on others, and reading them would make them resident. Damage
that changes neither size nor time stamp is found by `memoryd setup` only.
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

# Raise it when graphs are built in another way: older preparations are then made again.
GRAPH_VERSION = 1
GRAPH, DATA, RECIPE = "model.onnx", "model.onnx.data", "recipe.json"
IDS, MASK, OUTPUT = "memoryd.ids", "memoryd.mask", "embedding"  # of every prepared graph
WORK_PREFIX, WORK_MAX_AGE = ".making-", 3600.0


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


def prepared_path(cache: Path, name: str, weights_sha256: str) -> Path:
    """The folder for the preparation of these weights."""
    return cache / f"{name}-{weights_sha256[:12]}-v{GRAPH_VERSION}"


def read(folder: Path, *, thorough: bool = False) -> Prepared | None:
    """The prepared model in `folder`; None if it is missing, incomplete or damaged.

    `thorough`: hash every file; the recipe of a damaged folder is deleted, so that it is not used.
    """
    try:
        recipe = json.loads((folder / RECIPE).read_text(encoding="utf-8"))
        records: dict[str, dict[str, Any]] = recipe.pop("files")
        stale = [
            name
            for name in (GRAPH, DATA, TOKENIZER)
            if not _can_skip_hash(folder, name, records) or thorough
        ]
        if any(sha256(folder / name) != records[name]["sha256"] for name in stale):
            if thorough:
                (folder / RECIPE).unlink()
            return None
        if DATA in stale:  # a copied cache: hashed once, not at every start
            with contextlib.suppress(OSError):
                _write_recipe(folder, recipe)
        return Prepared(folder=folder, **recipe)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _can_skip_hash(folder: Path, name: str, records: dict[str, dict[str, Any]]) -> bool:
    """Whether the file need not be hashed. Raises ValueError for a wrong size."""
    found, record = (folder / name).stat(), records[name]
    if found.st_size != record["size"]:
        raise ValueError(f"{name} has {found.st_size} bytes, not {record['size']}")
    return name == DATA and found.st_mtime_ns == record["mtime_ns"]


@contextlib.contextmanager
def work_folder(cache: Path) -> Iterator[Path]:
    """A temporary folder, deleted at the end. Also deletes those that killed processes left."""
    cache.mkdir(parents=True, exist_ok=True)
    for old in cache.glob(f"{WORK_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > WORK_MAX_AGE:
                shutil.rmtree(old)
    work = Path(tempfile.mkdtemp(prefix=WORK_PREFIX, dir=cache))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def publish(made: Prepared, target: Path) -> Prepared:
    """Move a finished folder to `target`, unless another process has put an equal one there."""
    recipe = asdict(made)
    del recipe["folder"]
    _write_recipe(made.folder, recipe)
    _sync(made.folder)
    try:
        made.folder.rename(target)
    except OSError:
        winner = read(target)
        if winner is not None and runs_alike(winner, made):
            return winner
        target.rename(made.folder.with_name("broken"))  # removed with the working folder
        made.folder.rename(target)
    return replace(made, folder=target)


def runs_alike(one: Prepared, other: Prepared) -> bool:
    """Whether both give the same vectors; the source of their weights does not matter."""
    return replace(one, folder=other.folder, source=other.source) == other


def _write_recipe(folder: Path, recipe: dict[str, Any]) -> None:
    files = {name: _file_record(folder / name) for name in (GRAPH, DATA, TOKENIZER)}
    text = json.dumps({**recipe, "files": files}, indent=2, ensure_ascii=False)
    new = folder / f"{RECIPE}.{os.getpid()}"
    new.write_text(text, encoding="utf-8")
    new.replace(folder / RECIPE)


def _file_record(path: Path) -> dict[str, Any]:
    found = path.stat()
    return {"sha256": sha256(path), "size": found.st_size, "mtime_ns": found.st_mtime_ns}


def _sync(folder: Path) -> None:
    """Flush all files to the disk. Call it before the rename: after a power cut the folder must not
    have its final name and empty files."""
    for path in (*folder.iterdir(), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
