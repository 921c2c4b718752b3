"""The vectors are those that the models' own libraries compute."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer

from memoryd.adapters.embed.catalogue import CATALOGUE
from memoryd.adapters.embed.onnx_encoder import OnnxEncoder
from memoryd.adapters.embed.resolve import Prepared, find_folder
from memoryd.places import cache_dir
from scripts.texts import GOLDEN
from tests.paths import DATA

ENOUGH = 0.9999


def test_minilm_equals_sentence_transformers(minilm_encoder: OnnxEncoder) -> None:
    golden = json.loads((DATA / "golden_minilm.json").read_text())
    assert [entry["text"] for entry in golden] == GOLDEN
    wanted = np.array([entry["vector"] for entry in golden])
    found = minilm_encoder.encode(GOLDEN)
    assert (found * wanted).sum(axis=1).min() >= ENOUGH


@pytest.mark.slow
def test_prepared_bge_equals_its_published_graph(bge: Prepared) -> None:
    """Ours against a plain run of the published file: first token, length one."""
    folder = find_folder("bge-small-en-v1.5", cache_dir() / "models", allow_download=True)
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(512)
    prefix = CATALOGUE["bge-small-en-v1.5"].recipe.query_prefix
    encoder = OnnxEncoder(bge)
    for query, lead in ((False, ""), (True, prefix)):
        wanted = np.stack([plain_run(session, tokenizer, lead + text) for text in GOLDEN])
        found = encoder.encode(GOLDEN, query=query)
        assert (found * wanted).sum(axis=1).min() >= ENOUGH


def plain_run(
    session: onnxruntime.InferenceSession, tokenizer: Tokenizer, text: str
) -> NDArray[np.float32]:
    ids = np.array([tokenizer.encode(text).ids], dtype=np.int64)
    feed = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    hidden = session.run(None, {**feed, "token_type_ids": np.zeros_like(ids)})[0]
    first: NDArray[np.float32] = hidden[0, 0]
    return first / np.linalg.norm(first)


def test_encoding_imports_no_torch_and_no_preparation(minilm: Prepared) -> None:
    """A prepared model runs on ONNX Runtime, tokenizers and numpy alone."""
    program = (
        "import sys; from pathlib import Path\n"
        "from memoryd.adapters.embed.onnx_encoder import OnnxEncoder\n"
        "from memoryd.adapters.embed.resolve import resolve\n"
        f"encoder = OnnxEncoder(resolve('all-MiniLM-L6-v2', Path({str(minilm.folder.parent)!r})))\n"
        "encoder.encode(['hello']); encoder.split('hello ' * 500)\n"
        "heavy = {'torch', 'transformers', 'onnx', 'safetensors', 'huggingface_hub'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
