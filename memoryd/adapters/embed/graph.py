"""Builds the ONNX graph that a model is run with: token ids and mask in, unit vectors out.

For the weights of a BERT model the graph is written with ONNX Runtime's fused operators: a traced
export needs torch, is larger, and has to be fused again at every start. To a ready-made ONNX file
only pooling and normalisation are added, so that both kinds are run alike.

Only preparing a model imports this module; running one needs neither onnx nor safetensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper
from safetensors import SafetensorError
from safetensors.numpy import load_file

from memoryd.adapters.embed.cache import DATA, GRAPH, IDS, MASK, OUTPUT
from memoryd.adapters.embed.recipe import OTHER_BACKEND, read_json
from memoryd.errors import EmbedError, ModelCorrupt

FUSED = "com.microsoft"
OPSET, IR_VERSION = 17, 8  # old enough for every runtime that we allow
# Exact forms only: a model that was trained with another one gives other vectors.
ACTIVATIONS = {
    "gelu": "BiasGelu",
    "gelu_new": "FastGelu",
    "gelu_fast": "FastGelu",
    "gelu_pytorch_tanh": "FastGelu",
}
# These scale by the largest number in the batch, so other texts in it change a text's vector.
PER_BATCH_OPERATORS = {"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"}
ALIGNMENT = 65_536  # bytes: pages have 4 or 16 KB, and Windows maps at multiples of 64 KB
EXTERNAL_BYTES = 65_536  # smaller tensors stay in the graph's file
Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Built:
    """Facts about a graph. `alone`: run each text alone, because others in its batch would change
    its vector."""

    dimension: int
    alone: bool


def build_from_weights(source: Path, pooling: str, target: Path) -> Built:
    """Write the graph of a sentence-transformers folder. Raises EmbedError, ModelCorrupt."""
    config = _bert_config(source.parent)
    try:
        builder = GraphBuilder(load_file(source))
    except (SafetensorError, OSError, TypeError, ValueError) as exc:
        raise ModelCorrupt(f"{source} cannot be read: {exc}.") from exc
    hidden = _embeddings(builder, config)
    for layer in range(config["num_hidden_layers"]):
        hidden = _layer(builder, config, layer, hidden)
    add_pooling(builder, hidden, pooling)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
    graph = helper.make_graph(builder.nodes, "encoder", inputs(), [output(config["hidden_size"])])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    save(model, builder.tensors(), target)
    return Built(config["hidden_size"], alone=False)


def _bert_config(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = read_json(folder / "config.json")
    for key, wanted, default in (
        ("model_type", {"bert"}, None),
        ("position_embedding_type", {"absolute"}, "absolute"),
        ("hidden_act", set(ACTIVATIONS), "gelu"),
    ):
        if (value := config.get(key, default)) not in wanted:
            raise EmbedError(
                f"{folder.name} has {key} {value!r}, which cannot be prepared exactly.",
                hint=OTHER_BACKEND,
            )
    return {"layer_norm_eps": 1e-12, "hidden_act": "gelu", **config}


def _embeddings(builder: GraphBuilder, config: dict[str, Any]) -> str:
    """Word, position and type vectors, normalised. The type is always 0, so it is added to the
    positions."""
    base = "embeddings."
    types = builder.weight(base + "token_type_embeddings.weight")
    places = builder.weight(base + "position_embeddings.weight") + types[0]
    node = helper.make_node(
        "EmbedLayerNormalization",
        [
            IDS,
            "",
            *builder.weights_as_constants(base + "word_embeddings.weight"),
            builder.constant(base + "positions", places),
            "",
            *builder.weights_as_constants(base + "LayerNorm.weight", base + "LayerNorm.bias"),
            MASK,
        ],
        ["hidden", "lengths"],
        domain=FUSED,
        epsilon=config["layer_norm_eps"],
    )
    builder.nodes.append(node)
    return "hidden"


def _layer(builder: GraphBuilder, config: dict[str, Any], number: int, hidden: str) -> str:
    base = f"encoder.layer.{number}."
    mixed = _attention(builder, config, base, hidden)
    attended = _dense_add_norm(builder, config, base + "attention.output.", mixed, hidden)
    inner = builder.constant(base + "inner", builder.weight(base + "intermediate.dense.weight").T)
    wide = builder.add("MatMul", [attended, inner], base + "wide")
    bias = builder.weights_as_constants(base + "intermediate.dense.bias")
    active = builder.add(ACTIVATIONS[config["hidden_act"]], [wide, *bias], base + "active", FUSED)
    return _dense_add_norm(builder, config, base + "output.", active, attended)


def _attention(builder: GraphBuilder, config: dict[str, Any], base: str, hidden: str) -> str:
    parts = [f"{base}attention.self.{name}." for name in ("query", "key", "value")]
    matrix = np.concatenate([builder.weight(part + "weight").T for part in parts], axis=1)
    bias = np.concatenate([builder.weight(part + "bias") for part in parts])
    inputs = [
        hidden,
        builder.constant(base + "qkv", matrix),
        builder.constant(base + "qkv_bias", bias),
    ]
    heads = config["num_attention_heads"]
    return builder.add("Attention", [*inputs, "lengths"], base + "mixed", FUSED, num_heads=heads)


def _dense_add_norm(
    builder: GraphBuilder, config: dict[str, Any], base: str, inner: str, skip: str
) -> str:
    matrix = builder.constant(base + "matrix", builder.weight(base + "dense.weight").T)
    dense = builder.add("MatMul", [inner, matrix], base + "product")
    norm = builder.weights_as_constants(
        base + "LayerNorm.weight", base + "LayerNorm.bias", base + "dense.bias"
    )
    epsilon = config["layer_norm_eps"]
    out = base + "normed"
    return builder.add("SkipLayerNormalization", [dense, skip, *norm], out, FUSED, epsilon=epsilon)


def build_from_onnx(source: Path, pooling: str, target: Path) -> Built:
    """Add pooling to a graph that outputs hidden states. Raises ModelCorrupt."""
    try:
        model = onnx.load(source)
    except Exception as exc:  # protobuf's errors have no base of their own
        raise ModelCorrupt(f"{source} cannot be read as ONNX: {exc}.") from exc
    graph = model.graph
    hidden, dimension = _hidden_states(source, graph)
    head, tail = GraphBuilder(), GraphBuilder()
    for value in graph.input:
        _derive_input(head, source, value)
    add_pooling(tail, hidden, pooling)
    nodes = [*head.nodes, *graph.node, *tail.nodes]
    tensors = [*graph.initializer, *head.tensors(), *tail.tensors()]
    whole = helper.make_graph(nodes, "encoder", inputs(), [output(dimension)])
    graph.CopyFrom(whole)
    save(model, tensors, target)
    return Built(dimension, alone=any(node.op_type in PER_BATCH_OPERATORS for node in nodes))


def _hidden_states(source: Path, graph: onnx.GraphProto) -> tuple[str, int]:
    """Name and width of the output that has a vector for each token."""
    for value in graph.output:
        shape = value.type.tensor_type.shape.dim
        if len(shape) == 3 and shape[2].dim_value:
            return value.name, shape[2].dim_value
    raise ModelCorrupt(f"{source} has no output with a vector for each token.")


def _derive_input(builder: GraphBuilder, source: Path, value: onnx.ValueInfoProto) -> None:
    """Compute one input of a ready-made graph from ours; token types are always 0."""
    kind = value.type.tensor_type.elem_type
    if value.name == "token_type_ids":
        builder.add("Cast", [builder.add("Sub", [IDS, IDS], "memoryd.types")], value.name, to=kind)
    elif value.name in ("input_ids", "attention_mask"):
        ours = IDS if value.name == "input_ids" else MASK
        builder.add("Cast", [ours], value.name, to=kind)
    else:
        raise EmbedError(
            f"{source} needs an input {value.name!r}, which is not supported.", hint=OTHER_BACKEND
        )


@dataclass(slots=True)
class GraphBuilder:
    """Collects nodes and constants; the methods that add one return its name."""

    weights: dict[str, Array] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)

    def weight(self, name: str) -> Array:
        """A tensor of the model. Raises ModelCorrupt."""
        for key in (name, f"bert.{name}"):
            if key in self.weights:
                return self.weights[key].astype(np.float32, copy=False)
        raise ModelCorrupt(f"The weights have no tensor {name}: this is not a BERT model.")

    def constant(self, name: str, value: Array) -> str:
        self.constants[name] = np.asarray(
            value, order="C"
        )  # unlike ascontiguousarray, keeps a scalar a scalar
        return name

    def weights_as_constants(self, *names: str) -> list[str]:
        """Add tensors of the model unchanged; their names."""
        return [self.constant(name, self.weight(name)) for name in names]

    def add(self, op: str, inputs: list[str], out: str, domain: str = "", **options: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [out], domain=domain, **options))
        return out

    def tensors(self) -> list[TensorProto]:
        return [numpy_helper.from_array(value, name) for name, value in self.constants.items()]


def add_pooling(builder: GraphBuilder, hidden: str, pooling: str) -> None:
    """Add pooling and normalisation. A sum replaces the mean: both have the same direction.

    Uses only operators that are the same in all opsets, so it fits any graph.
    """
    if pooling == "cls":
        first = builder.constant("memoryd.first", np.array(0, np.int64))
        pooled = builder.add("Gather", [hidden, first], "memoryd.pooled", axis=1)
    else:
        row = builder.constant("memoryd.row", np.array([0, 1, -1], np.int64))
        flat = builder.constant("memoryd.flat", np.array([0, -1], np.int64))
        mask = builder.add("Cast", [MASK], "memoryd.float_mask", to=TensorProto.FLOAT)
        mask = builder.add("Reshape", [mask, row], "memoryd.mask_row")
        total = builder.add("MatMul", [mask, hidden], "memoryd.total")
        pooled = builder.add("Reshape", [total, flat], "memoryd.pooled")
    builder.add("LpNormalization", [pooled], OUTPUT, axis=-1, p=2)


def inputs() -> list[ValueInfoProto]:
    """The inputs of every prepared graph: token ids and mask, one row a text."""
    shape = ["batch", "tokens"]
    return [helper.make_tensor_value_info(name, TensorProto.INT32, shape) for name in (IDS, MASK)]


def output(dimension: int) -> ValueInfoProto:
    return helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", dimension])


def save(model: ModelProto, tensors: Iterable[TensorProto], target: Path) -> None:
    """Write graph and data into the folder `target`."""
    del model.graph.initializer[:]
    with (target / DATA).open("wb") as data:
        model.graph.initializer.extend(_stored(tensor, data) for tensor in tensors)
    (target / GRAPH).write_bytes(model.SerializeToString())


def _stored(tensor: TensorProto, data: BinaryIO) -> TensorProto:
    """The tensor itself if it is small, else a reference to its bytes in the file `data`."""
    array = numpy_helper.to_array(tensor)
    if array.nbytes < EXTERNAL_BYTES:
        return tensor
    data.seek(-(-data.tell() // ALIGNMENT) * ALIGNMENT)
    offset = data.tell()
    data.write(array.tobytes())
    placed = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    placed.data_location = TensorProto.EXTERNAL
    for key, value in (("location", DATA), ("offset", offset), ("length", array.nbytes)):
        placed.external_data.add(key=key, value=str(value))
    return placed
