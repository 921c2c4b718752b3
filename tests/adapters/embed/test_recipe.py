"""A model is run as the files beside its weights say, and refused where that cannot be done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memoryd.adapters.embed.catalogue import CATALOGUE
from memoryd.adapters.embed.onnx_encoder import OnnxEncoder
from memoryd.adapters.embed.recipe import Recipe, read_recipe
from memoryd.adapters.embed.resolve import describe, find_folder, resolve
from memoryd.errors import EmbedError, ModelCorrupt
from memoryd.places import cache_dir
from tests.adapters.embed.tiny_bert import OLD_CLS, config, modules, vector, write_folder

TEXTS = ["", "tea", "The robot took a box.", "the boxes . " * 3, "robot tea " * 40]


def check(folder: Path, cache: Path, pooling: str, max_tokens: int, tanh: bool = False) -> None:
    prepared = resolve(str(folder), cache)
    assert (prepared.pooling, prepared.max_tokens) == (pooling, max_tokens)
    wanted = [vector(folder, text, pooling, max_tokens, tanh=tanh) for text in TEXTS]
    np.testing.assert_allclose(OnnxEncoder(prepared).encode(TEXTS), wanted, atol=2e-5)


@pytest.mark.parametrize(
    ("changes", "pooling", "max_tokens"),
    [
        ({}, "mean", 32),
        ({"1_Pooling/config.json": OLD_CLS}, "cls", 32),
        ({"1_Pooling/config.json": {"pooling_mode": "cls"}}, "cls", 32),
        ({"1_Pooling/config.json": {"pooling_mode": ["mean"]}}, "mean", 32),
        ({"1_Pooling/config.json": {"embedding_dimension": 16}}, "mean", 32),
        ({"sentence_bert_config.json": {"max_seq_length": 9}}, "mean", 9),
        ({"sentence_bert_config.json": {"max_seq_length": 512}}, "mean", 64),
        ({"sentence_bert_config.json": None}, "mean", 64),
        (
            {"sentence_bert_config.json": None, "tokenizer_config.json": {"model_max_length": 20}},
            "mean",
            20,
        ),
        ({"modules.json": None, "1_Pooling/config.json": None}, "mean", 32),
        ({"modules.json": modules("Transformer", "Pooling")}, "mean", 32),
    ],
)
def test_vectors_follow_the_folder(
    changes: dict[str, Any], pooling: str, max_tokens: int, tmp_path: Path
) -> None:
    """Pooling and length limit come from the folder, checked against BERT in plain numpy."""
    check(write_folder(tmp_path / "tiny", changes), tmp_path / "cache", pooling, max_tokens)


@pytest.mark.parametrize("activation", ["gelu_new", "gelu_pytorch_tanh", "gelu_fast"])
def test_the_tanh_form_of_gelu_is_kept(activation: str, tmp_path: Path) -> None:
    changes = {"config.json": config(hidden_act=activation)}
    folder = write_folder(tmp_path / "tiny", changes)
    check(folder, tmp_path / "cache", "mean", 32, tanh=True)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"config.json": config(hidden_act="silu")}, "hidden_act 'silu'"),
        ({"config.json": config(model_type="roberta")}, "model_type 'roberta'"),
        ({"config.json": config(position_embedding_type="relative_key")}, "position_embedding"),
        ({"modules.json": modules("Transformer", "Pooling", "Dense")}, "a Dense module"),
        ({"modules.json": modules("Transformer", "WordWeights")}, "a WordWeights module"),
        ({"1_Pooling/config.json": {"pooling_mode": "max"}}, "pools by max"),
        ({"1_Pooling/config.json": {"pooling_mode": ["cls", "mean"]}}, "cls+mean"),
        (
            {"1_Pooling/config.json": {"pooling_mode": "mean", "include_prompt": False}},
            "without the prompt",
        ),
    ],
)
def test_what_cannot_be_run_exactly_is_refused(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    folder = write_folder(tmp_path / "tiny", changes)
    with pytest.raises(EmbedError, match="tiny") as caught:
        resolve(str(folder), tmp_path / "cache")
    assert said in caught.value.message
    assert "sentence-transformers" in caught.value.hint


def test_broken_files_are_named(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tiny")
    (folder / "modules.json").write_text("{ not json")
    with pytest.raises(ModelCorrupt, match=r"modules\.json"):
        resolve(str(folder), tmp_path / "cache")
    (folder / "modules.json").unlink()
    (folder / "model.safetensors").write_bytes(b"\x08\x00\x00\x00\x00\x00\x00\x00nonsense")
    with pytest.raises(ModelCorrupt, match=r"model\.safetensors"):
        resolve(str(folder), tmp_path / "cache")


@pytest.mark.parametrize(
    ("content", "query", "document"),
    [
        ({"prompts": {"query": "q: ", "document": "d: "}}, "q: ", "d: "),
        ({"prompts": {"query": "q: ", "passage": "p: "}}, "q: ", "p: "),
        ({"prompts": {"all": "x: "}, "default_prompt_name": "all"}, "x: ", "x: "),
        ({"prompts": {"query": "", "document": ""}, "default_prompt_name": None}, "", ""),
        ({}, "", ""),
    ],
)
def test_prefixes_come_from_the_prompts(
    content: dict[str, Any], query: str, document: str, tmp_path: Path
) -> None:
    changes = {"config_sentence_transformers.json": content}
    recipe = read_recipe(write_folder(tmp_path / "tiny", changes))
    assert (recipe.query_prefix, recipe.document_prefix) == (query, document)


def test_prefixes_are_put_before_the_text(tmp_path: Path) -> None:
    prompts = {"prompts": {"query": "the robot ", "document": "tea "}}
    folder = write_folder(tmp_path / "tiny", {"config_sentence_transformers.json": prompts})
    encoder = OnnxEncoder(resolve(str(folder), tmp_path / "cache"))
    for query, prefix in ((True, "the robot "), (False, "tea ")):
        wanted = vector(folder, prefix + "box", "mean", 32)
        np.testing.assert_allclose(encoder.encode(["box"], query=query)[0], wanted, atol=2e-5)
    text = "box " * 100
    assert all(len(text[begin:end].split()) <= 32 - 3 for begin, end in encoder.split(text))


def test_a_bare_folder_of_a_known_family_gets_its_recipe(tmp_path: Path) -> None:
    bare = {"modules.json": None, "1_Pooling/config.json": None, "sentence_bert_config.json": None}
    by_name = write_folder(tmp_path / "bge-small-en-mine", bare)
    origin = config(_name_or_path="somewhere/BAAI_bge-small-en/")
    by_origin = write_folder(tmp_path / "other", {**bare, "config.json": origin})
    for folder in (by_name, by_origin):
        recipe = describe(folder)[1]
        assert (recipe.pooling, recipe.max_tokens) == ("cls", 64)
        assert recipe.query_prefix.startswith("Represent this sentence")


@pytest.mark.slow
def test_the_published_folders_say_what_the_catalogue_says() -> None:
    """The pinned recipe of a model is the one that its own files give."""
    for known in CATALOGUE.values():
        folder = find_folder(known.name, cache_dir() / "models", allow_download=True)
        assert describe(folder) == (known.name, known.recipe)


def test_a_bare_transformer_is_mean_pooled() -> None:
    assert Recipe().pooling == "mean"
