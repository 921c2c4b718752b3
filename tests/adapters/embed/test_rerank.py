"""The cross-encoder's adapter on a tiny graph: pairs in, marks out, whatever the lengths."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from memoryd.adapters.embed.rerank import MAX_TOKENS, load
from memoryd.errors import ModelCorrupt, ModelMissing

WORDS = ["[UNK]", "[CLS]", "[SEP]", "robot", "tea"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model whose logit is the number of the text's tokens, less ten."""
    names = ["input_ids", "attention_mask", "token_type_ids"]
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["b", "s"]) for n in names]
    nodes = [
        helper.make_node("Mul", names[1:], ["text"]),
        helper.make_node("ReduceSum", ["text", "axis"], ["sum"], keepdims=1),
        helper.make_node("Sub", ["sum", "ten"], ["less"]),
        helper.make_node("Cast", ["less"], ["logits"], to=TensorProto.FLOAT),
        helper.make_node("Identity", ["input_ids"], ["unused"]),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        inputs,
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["b", 1])],
        [
            helper.make_tensor("axis", TensorProto.INT64, [1], [1]),
            helper.make_tensor("ten", TensorProto.INT64, [1], [10]),
        ],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "model.onnx")
    made = Tokenizer(WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    made.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_marks_are_shares_in_the_order_of_the_texts(folder: Path) -> None:
    reranker = load(str(folder))
    texts = ["tea " * n for n in (1, 30, 5, 12, 3, 9, 2)]
    marks = reranker.marks("robot", texts)
    assert len(marks) == len(texts)
    assert all(0.0 < mark < 1.0 for mark in marks)
    by_length = sorted(range(len(texts)), key=lambda n: len(texts[n]))
    assert sorted(range(len(texts)), key=lambda n: marks[n]) == by_length
    assert reranker.marks("robot", texts[::-1]) == marks[::-1]  # padding changes nothing
    assert reranker.marks("robot", []) == []


def test_long_queries_and_texts_are_cut_to_what_the_model_reads(folder: Path) -> None:
    reranker = load(str(folder))
    long = reranker.marks("robot " * 5, ["tea " * 10_000])
    longer = reranker.marks("robot " * 5, ["tea " * 20_000])
    assert long == longer
    assert len(reranker.marks("robot " * 100_000, ["tea", "tea " * MAX_TOKENS])) == 2


def test_a_folder_without_a_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing) as missing:
        load(str(tmp_path))
    assert "rerank_model" in missing.value.hint
    (tmp_path / "model.onnx").write_bytes(b"no graph")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelCorrupt):
        load(str(tmp_path))
