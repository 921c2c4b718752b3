"""How to run a model: read from the files next to its weights.

Pooling, length limit and prefixes belong to a model like its weights: a wrong one gives vectors
that look right and find nothing. So they are never guessed if a file names them. A folder without
such files is recognised by its weights or its name; any other is treated as sentence-transformers
treats a bare transformer: mean pooling.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memoryd.errors import EmbedError, ModelCorrupt

OTHER_BACKEND = "Set embedding.backend to sentence-transformers for this model."

# What ONNX Runtime computes exactly as the model was trained; anything else is refused.
MODULES = {"Transformer", "Pooling", "Normalize"}
POOLINGS = {"mean", "cls"}
OLD_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_ST = "sentence-transformers itself can run"
DOCUMENT_PROMPTS = ("document", "passage", "corpus")  # as sentence-transformers looks them up


@dataclass(frozen=True, slots=True)
class Recipe:
    """What to do before and after the network. `normalise`: the model's own files ask for it."""

    pooling: str = "mean"
    normalise: bool = False
    max_tokens: int = 512
    query_prefix: str = ""
    document_prefix: str = ""


def read_recipe(folder: Path, fallback: Recipe | None = None) -> Recipe:
    """The recipe of a model folder; `fallback` has the values that the folder does not name.

    Raises EmbedError for a model that needs more than pooling after the network.
    """
    base = fallback or Recipe()
    limited = replace(base, max_tokens=_max_tokens(folder, fallback))
    return with_prompts(folder, _with_modules(folder, limited))


def read_json(path: Path) -> Any:
    """The content of a JSON file, {} if there is none. Raises ModelCorrupt."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as exc:
        raise ModelCorrupt(f"{path} cannot be read as JSON: {exc}.") from exc


def prefixes(prompts: Mapping[str, str], default: str | None) -> tuple[str, str]:
    """Query and document prefix: the prompt of that name, else the default one."""
    spare = prompts.get(default or "") or ""
    document = next((prompts[name] for name in DOCUMENT_PROMPTS if name in prompts), spare)
    return prompts.get("query", spare) or "", document or ""


def _max_tokens(folder: Path, fallback: Recipe | None) -> int:
    """The smallest limit in the files: a model cannot read beyond its positions."""
    positions = read_json(folder / "config.json").get("max_position_embeddings")
    wanted = read_json(folder / "sentence_bert_config.json").get("max_seq_length")
    wanted = wanted or (fallback.max_tokens if fallback else None)
    wanted = wanted or read_json(folder / "tokenizer_config.json").get("model_max_length")
    limits = [int(limit) for limit in (wanted, positions) if limit]
    return min(limits, default=Recipe().max_tokens)


def _with_modules(folder: Path, recipe: Recipe) -> Recipe:
    modules = read_json(folder / "modules.json")
    if not modules:
        return recipe
    kinds = [str(module["type"]).rsplit(".", 1)[-1] for module in modules]
    unknown = [kind for kind in kinds if kind not in MODULES]
    if unknown or "Pooling" not in kinds:
        what = f"a {unknown[0]} module" if unknown else "no pooling module"
        raise EmbedError(f"{folder.name} has {what}, which only {_ST}.", hint=OTHER_BACKEND)
    _check_case(folder)
    pooling = folder / modules[kinds.index("Pooling")]["path"] / "config.json"
    return replace(recipe, pooling=_pooling(folder, pooling), normalise="Normalize" in kinds)


def _pooling(folder: Path, path: Path) -> str:
    config = read_json(path)
    if not config:
        raise ModelCorrupt(f"{path} is missing, though modules.json names it.")
    mode = config.get("pooling_mode")
    if mode is None:
        mode = [name for key, name in OLD_POOLINGS.items() if config.get(key)] or "mean"
    if isinstance(mode, list):
        mode = mode[0] if len(mode) == 1 else "+".join(mode)
    if mode not in POOLINGS or not config.get("include_prompt", True):
        detail = mode if mode not in POOLINGS else f"{mode} without the prompt"
        raise EmbedError(f"{folder.name} pools by {detail}, which only {_ST}.", hint=OTHER_BACKEND)
    return str(mode)


def _check_case(folder: Path) -> None:
    """Raise EmbedError if the model lower-cases text and its tokenizer does not."""
    if not read_json(folder / "sentence_bert_config.json").get("do_lower_case"):
        return
    normalizer = read_json(folder / "tokenizer.json").get("normalizer") or {}
    if not normalizer.get("lowercase"):
        raise EmbedError(
            f"{folder.name} lower-cases text before its tokenizer, which only {_ST}.",
            hint=OTHER_BACKEND,
        )


def with_prompts(folder: Path, recipe: Recipe) -> Recipe:
    """The recipe with the prefixes that the folder names, if it names any."""
    config = read_json(folder / "config_sentence_transformers.json")
    prompts = config.get("prompts") or {}
    if not any(prompts.values()):
        return recipe
    query, document = prefixes(prompts, config.get("default_prompt_name"))
    return replace(recipe, query_prefix=query, document_prefix=document)
