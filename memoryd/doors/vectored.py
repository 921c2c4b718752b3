"""A memory with its vectors as one line of an export has it, and back.

A vector is base64 of 32-bit floats, little-endian: a quarter of the size of its digits, and exact.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import numpy as np

from memoryd.engine.engine import Engine
from memoryd.engine.imports import fields_of, memory_from
from memoryd.errors import InvalidInput
from memoryd.ports import Passage, Record

PASSAGES = "passages"
NEAR_ONE = 1e-3  # what a unit vector's length may be off


def written(record: Record, vectors: bool) -> dict[str, Any]:
    """The fields of a memory; with its vectors, if they are wanted and it has some."""
    fields = fields_of(record.memory)
    if vectors and record.passages:
        fields[PASSAGES] = [
            {"span": list(p.span), "vector": base64.b64encode(_bytes(p.vector)).decode()}
            for p in record.passages
        ]
    return fields


def read(fields: object, model: object, engine: Engine, *, trust_vectors: bool) -> Record:
    """The memory, or InvalidInput; with its vectors if they are to be trusted and of the model that
    serves here. Whether a vector belongs to its text can only be told by making it anew."""
    passages: object = None
    if isinstance(fields, Mapping):
        passages = fields.get(PASSAGES)
        fields = {key: value for key, value in fields.items() if key != PASSAGES}
    memory = memory_from(fields, engine.max_content_bytes)
    if not trust_vectors or passages is None or engine.model is None or engine.model[0] != model:
        return Record(memory)
    if not isinstance(passages, list):
        raise _refused("The passages must be a list.")
    dimension, length = engine.model[1], len(memory.content)
    return Record(memory, tuple(_passage(item, dimension, length) for item in passages))


def _passage(item: object, dimension: int, length: int) -> Passage:
    span = item.get("span") if isinstance(item, Mapping) else None
    text = item.get("vector") if isinstance(item, Mapping) else None
    if not (isinstance(span, list) and len(span) == 2 and all(type(at) is int for at in span)):
        raise _refused("A passage must have a span of two whole numbers.")
    if not 0 <= span[0] < span[1] <= length:
        raise _refused("A passage lies outside of its content.")
    try:
        data = base64.b64decode(text if isinstance(text, str) else "", validate=True)
    except (binascii.Error, ValueError) as exc:
        raise _refused("A vector is not base64.") from exc
    if len(data) != 4 * dimension:
        raise _refused(f"A vector has not {dimension} numbers.")
    vector = np.frombuffer(data, dtype="<f4").astype(np.float32)
    if not np.isfinite(vector).all() or abs(float(np.linalg.norm(vector)) - 1) > NEAR_ONE:
        raise _refused("A vector is not of length one.")
    return Passage((span[0], span[1]), vector)


def _bytes(vector: Any) -> bytes:
    return bytes(np.asarray(vector, dtype="<f4").tobytes())


def _refused(message: str) -> InvalidInput:
    return InvalidInput(message, code="import_invalid")
