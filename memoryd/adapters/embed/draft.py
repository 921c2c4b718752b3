"""A graph while it is written: its nodes and constants, its common tail, and its files.

Large tensors go to a file of their own at offsets that can be mapped: of MiniLM's 47 MB of
word vectors only the pages in use become resident, and weights that the runtime repacks are
given back to the system. Measured: 104 MB resident after loading, 178 with a single file.
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

from memoryd.adapters.embed.cache import DATA, GRAPH, IDS, MASK, OUTPUT
from memoryd.errors import ModelCorrupt

ALIGNMENT = 65_536  # pages have 4 or 16 KB, and Windows maps at multiples of 64
LARGE = 65_536  # smaller tensors stay in the graph's own file

Array = NDArray[Any]


@dataclass(slots=True)
class Draft:
    """Nodes and constants as they are added; each method returns the name of what it made."""

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
        self.constants[name] = np.asarray(value, order="C")  # keeps a scalar one
        return name

    def given(self, *names: str) -> list[str]:
        """Tensors of the model that are used as they are."""
        return [self.constant(name, self.weight(name)) for name in names]

    def add(self, op: str, inputs: list[str], out: str, domain: str = "", **options: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [out], domain=domain, **options))
        return out

    def tensors(self) -> list[TensorProto]:
        return [numpy_helper.from_array(value, name) for name, value in self.constants.items()]


def add_tail(draft: Draft, hidden: str, pooling: str) -> None:
    """Pooling, then length one. A sum serves for the mean: both have the same direction.

    Written without operators whose form changed between opsets, so it fits any graph.
    """
    if pooling == "cls":
        first = draft.constant("memoryd.first", np.array(0, np.int64))
        pooled = draft.add("Gather", [hidden, first], "memoryd.pooled", axis=1)
    else:
        row = draft.constant("memoryd.row", np.array([0, 1, -1], np.int64))
        flat = draft.constant("memoryd.flat", np.array([0, -1], np.int64))
        mask = draft.add("Cast", [MASK], "memoryd.float_mask", to=TensorProto.FLOAT)
        mask = draft.add("Reshape", [mask, row], "memoryd.mask_row")
        total = draft.add("MatMul", [mask, hidden], "memoryd.total")
        pooled = draft.add("Reshape", [total, flat], "memoryd.pooled")
    draft.add("LpNormalization", [pooled], OUTPUT, axis=-1, p=2)


def inputs() -> list[ValueInfoProto]:
    """What every prepared graph takes: token ids and mask, a row a text."""
    shape = ["batch", "tokens"]
    return [helper.make_tensor_value_info(name, TensorProto.INT32, shape) for name in (IDS, MASK)]


def output(dimension: int) -> ValueInfoProto:
    return helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", dimension])


def save(model: ModelProto, tensors: Iterable[TensorProto], target: Path) -> None:
    """Write graph and data into the folder `target`."""
    del model.graph.initializer[:]
    with (target / DATA).open("wb") as data:
        model.graph.initializer.extend(_placed(tensor, data) for tensor in tensors)
    (target / GRAPH).write_bytes(model.SerializeToString())


def _placed(tensor: TensorProto, data: BinaryIO) -> TensorProto:
    """The tensor itself if it is small, else a reference to where its bytes were written."""
    array = numpy_helper.to_array(tensor)
    if array.nbytes < LARGE:
        return tensor
    data.seek(-(-data.tell() // ALIGNMENT) * ALIGNMENT)
    offset = data.tell()
    data.write(array.tobytes())
    placed = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    placed.data_location = TensorProto.EXTERNAL
    for key, value in (("location", DATA), ("offset", offset), ("length", array.nbytes)):
        placed.external_data.add(key=key, value=str(value))
    return placed
