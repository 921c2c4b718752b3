"""A BERT of a few thousand numbers: its folder, and its forward pass written out in numpy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import erf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

Array = NDArray[Any]

WIDTH, HEADS, LAYERS, POSITIONS, EPSILON = 16, 4, 2, 64, 1e-6
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "robot", "took", "a", "box", "##es", ".", "tea"]
OLD_MEAN = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
OLD_CLS = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}


def write_folder(folder: Path, changes: Mapping[str, Any] | None = None) -> Path:
    """A sentence-transformers folder; `changes` replace whole files, None leaves one out."""
    folder.mkdir(parents=True)
    files: dict[str, Any] = {
        "config.json": config(),
        "modules.json": modules("Transformer", "Pooling", "Normalize"),
        "1_Pooling/config.json": {"word_embedding_dimension": WIDTH, **OLD_MEAN},
        "sentence_bert_config.json": {"max_seq_length": 32, "do_lower_case": False},
    }
    for name, content in {**files, **(changes or {})}.items():
        if content is not None:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(json.dumps(content))
    tokenizer().save(str(folder / "tokenizer.json"))
    save_file(weights(), folder / "model.safetensors")
    return folder


def config(**changes: Any) -> dict[str, Any]:
    return {
        "model_type": "bert",
        "hidden_size": WIDTH,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "max_position_embeddings": POSITIONS,
        "hidden_act": "gelu",
        "layer_norm_eps": EPSILON,
        **changes,
    }


def modules(*kinds: str) -> list[dict[str, Any]]:
    return [
        {"idx": n, "path": f"{n}_{kind}" if n else "", "type": f"sentence_transformers.x.{kind}"}
        for n, kind in enumerate(kinds)
    ]


def tokenizer() -> Tokenizer:
    made = Tokenizer(WordPiece({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.normalizer = BertNormalizer(lowercase=True)
    made.pre_tokenizer = BertPreTokenizer()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    made.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    made.enable_truncation(8)  # baked in, as in published files; an encoder must not heed it
    made.enable_padding(length=8)
    return made


def weights() -> dict[str, Array]:
    chance = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), WIDTH),
        "embeddings.position_embeddings.weight": (POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        **norm_shapes("embeddings.LayerNorm."),
    }
    for layer in range(LAYERS):
        base = f"encoder.layer.{layer}."
        for part in ("query", "key", "value"):
            shapes |= dense_shapes(f"{base}attention.self.{part}.", WIDTH, WIDTH)
        shapes |= dense_shapes(f"{base}attention.output.dense.", WIDTH, WIDTH)
        shapes |= dense_shapes(f"{base}intermediate.dense.", 4 * WIDTH, WIDTH)
        shapes |= dense_shapes(f"{base}output.dense.", WIDTH, 4 * WIDTH)
        shapes |= norm_shapes(f"{base}attention.output.LayerNorm.")
        shapes |= norm_shapes(f"{base}output.LayerNorm.")
    return {name: chance.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def dense_shapes(base: str, out: int, width: int) -> dict[str, tuple[int, ...]]:
    return {base + "weight": (out, width), base + "bias": (out,)}


def norm_shapes(base: str) -> dict[str, tuple[int, ...]]:
    return {base + "weight": (WIDTH,), base + "bias": (WIDTH,)}


def forward(w: dict[str, Array], ids: list[int], *, tanh: bool = False) -> Array:
    """The last hidden states of one text, step by step as the paper has them."""
    base = "embeddings."
    x = w[base + "word_embeddings.weight"][ids]
    x = x + w[base + "position_embeddings.weight"][: len(ids)]
    x = norm(w, base + "LayerNorm.", x + w[base + "token_type_embeddings.weight"][0])
    for layer in range(LAYERS):
        base = f"encoder.layer.{layer}."
        mixed = dense(w, base + "attention.output.dense.", attention(w, base, x))
        x = norm(w, base + "attention.output.LayerNorm.", x + mixed)
        wide = gelu(dense(w, base + "intermediate.dense.", x), tanh)
        x = norm(w, base + "output.LayerNorm.", x + dense(w, base + "output.dense.", wide))
    return x


def attention(w: dict[str, Array], base: str, x: Array) -> Array:
    size = WIDTH // HEADS
    q, k, v = (dense(w, f"{base}attention.self.{p}.", x) for p in ("query", "key", "value"))
    heads = []
    for n in range(HEADS):
        part = slice(n * size, (n + 1) * size)
        scores = np.exp(q[:, part] @ k[:, part].T / np.sqrt(size))
        heads.append(scores / scores.sum(axis=1, keepdims=True) @ v[:, part])
    return np.concatenate(heads, axis=1)


def dense(w: dict[str, Array], base: str, x: Array) -> Array:
    return x @ w[base + "weight"].T.astype(np.float64) + w[base + "bias"]


def norm(w: dict[str, Array], base: str, x: Array) -> Array:
    centred = x - x.mean(axis=1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + EPSILON)
    return np.asarray(scaled * w[base + "weight"] + w[base + "bias"])


def gelu(x: Array, tanh: bool) -> Array:
    if tanh:
        step = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    else:
        step = np.vectorize(erf)(x / np.sqrt(2))
    return np.asarray(0.5 * x * (1 + step))


def vector(folder: Path, text: str, pooling: str, max_tokens: int, *, tanh: bool = False) -> Array:
    """The unit vector that an encoder should give for this folder."""
    numbers = {name: value.astype(np.float64) for name, value in read_weights(folder).items()}
    words = tokenizer()
    words.no_padding()
    words.enable_truncation(max_tokens)
    hidden = forward(numbers, words.encode(text).ids, tanh=tanh)
    pooled = hidden[0] if pooling == "cls" else hidden.mean(axis=0)
    return np.asarray(pooled / np.linalg.norm(pooled))


def read_weights(folder: Path) -> dict[str, Array]:
    return load_file(folder / "model.safetensors")


def damage(path: Path) -> None:
    """Change one byte and no length."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
