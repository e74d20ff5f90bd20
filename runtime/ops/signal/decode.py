"""TFLM_DECODE: the weights of a compressed model. They are decoded when planning, so that all others see constants.

Source: TFLM kernels/decode.cc.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, along, need, tensor, unsupported
from twinfer.runtime.ops.move._move import run_params
from twinfer.runtime.ops.signal import _decoding, _encoding
from twinfer.runtime.ops.signal._encoding import header, packed
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: What byte 0 of the header says.
CODINGS = {0: _decoding.lut, 1: _decoding.huffman, 2: _decoding.pruned}


def infer(node: Node) -> list[Shape]:
    count = len(node.outputs)
    said = f"it has {len(node.inputs)} inputs for {count} outputs, not twice as many"
    need(len(node.inputs) == 2 * count > 0, node, said)
    for i, y in enumerate(node.outputs):
        node.constant(2 * i)
        ancillary = node.constant(2 * i + 1).tobytes()
        need(len(ancillary) >= _decoding.HEADER, node, f"{node.input(2 * i + 1)} is too short for a header")
        kind, version, own = ancillary[0], ancillary[1], ancillary[4]
        if kind not in CODINGS or version != 1 or own != 1:
            raise unsupported(node, f"{y} has coding {kind}, version {version}.{own}; known are 0, 1, 2 of version 1.1")
        need(not y.variable, node, f"{y} is a variable")
    return [y.shape for y in node.outputs]


def _decoded(node: Node) -> list[Array]:
    pairs = [(node.constant(2 * i).tobytes(), node.constant(2 * i + 1).tobytes()) for i in range(len(node.outputs))]
    return [CODINGS[more[0]](node, y, data, more) for y, (data, more) in zip(node.outputs, pairs, strict=True)]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    return _decoded(node)


def lower(node: Node, target: Target) -> Call:
    """For an output of the graph, which a run must write: a copy. Outputs of several types are bytes."""
    values = [value for value in _decoded(node) if value.size]
    dtype = values[0].dtype if len({value.dtype for value in values}) == 1 else np.dtype(np.uint8)
    whole = weights(np.frombuffer(b"".join(value.tobytes() for value in values), dtype), "decoded")
    if len(values) < 2:
        return Call("tw_copy", {"size": whole.nbytes}, (whole,), node.outputs)
    params, table = run_params(1, [value.nbytes for value in values])
    outputs = tuple(y for y in node.outputs if y.size)
    return Call("tw_split_ragged" if table else "tw_split", params, (whole, *table), outputs)


#: A coded tensor, its ancillary bytes, and what they become.
Coded = tuple[bytes, bytes, Tensor]


def decode(*coded: Coded) -> Node:
    """A node for ``cases`` and tests."""
    inputs = []
    for data, ancillary, y in coded:
        for name, content in (("data", data), ("ancillary", ancillary)):
            array = np.frombuffer(content, np.uint8)
            inputs.append(tensor(array.shape, "UINT8", data=array, name=f"{y.name} {name}"))
    return Node("CUSTOM:TFLM_DECODE", tuple(inputs), tuple(y for _, _, y in coded))


def _output(shape: Shape, type: str, channels: int, axis: int, zeros: Sequence[int] = (0,)) -> Tensor:
    scales = [0.5 + i for i in range(channels)]
    return along(tensor(shape, type, scales, zeros, name="y"), axis) if channels else tensor(shape, type, name="y")


def _values(rng: np.random.Generator, type: str, count: int) -> Array:
    dtype = _output((1,), type, 0, 0).dtype
    if dtype.kind == "f":
        return rng.normal(size=count).astype(dtype)
    return rng.integers(0, 2, count).astype(dtype) if type == "BOOL" else rng.integers(-99, 99, count).astype(dtype)


def lut(rng: np.random.Generator, type: str, shape: Shape, width: int, channels: int = 0, axis: int = 0) -> Coded:
    """A coded tensor, with a little more in each table than indices reach."""
    y, stride = _output(shape, type, channels, axis), (1 << width) + 1 if width < 7 else 128
    indices = rng.integers(0, 1 << width, y.size).tolist()
    data = packed(indices, width)
    table = _values(rng, type, max(1, channels) * stride)
    return data + bytes(-len(data) % 16), header(0, 1, width, stride) + table.tobytes(), y


def pruned(rng: np.random.Generator, type: str, shape: Shape, channels: int = 0, axis: int = 0) -> Coded:
    zeros = rng.integers(-20, 20, channels).tolist() if type == "INT8" and channels else [0]
    y = _output(shape, type, channels, axis, zeros)
    kept = rng.integers(0, 2, y.size).tolist()
    return packed(kept, 1), header(2, 1) + _values(rng, type, sum(kept)).tobytes(), y


def huffman(rng: np.random.Generator, type: str, shape: Shape, wide: bool, first: int) -> Coded:
    y = _output(shape, type, 1, 0)
    values = np.clip(np.rint(rng.standard_cauchy(shape) * 2), -128, 127).astype(y.dtype)
    return (*_encoding.huffman(values if type == "INT8" else values * 250, wide, first), y)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for width in range(1, 8):
        yield Case(decode(lut(rng, "INT8", (3, 37), width)))
        yield Case(decode(lut(rng, "INT8", (3, 40), width, channels=3)))
        yield Case(decode(lut(rng, "INT16", (2, 7, 3), width, channels=3, axis=2)))
    for type in _decoding.TYPES:
        yield Case(decode(lut(rng, type, (5, 9), 3)))
        yield Case(decode(pruned(rng, type, (5, 9))))
    for channels, axis in ((1, 0), (5, 0), (9, 1)):
        yield Case(decode(pruned(rng, "INT8", (5, 9), channels, axis)))
        yield Case(decode(pruned(rng, "INT16", (5, 9), channels, axis)))
    for type, wide in (("INT8", False), ("INT8", True), ("INT16", True)):
        for first in (2, 5, 9):
            yield Case(decode(huffman(rng, type, (20, 20), wide, first)))
    yield Case(decode(lut(rng, "INT8", (4, 4), 2), pruned(rng, "INT32", (3, 5)), huffman(rng, "INT8", (90,), False, 4)))


OP = Op("CUSTOM:TFLM_DECODE", infer, reference, lower, cases)
