"""The weights of a graph's layers as one matrix of real values, and back, whatever the operator and the type; and the
bytes that they take in flash, plain and in every coding that the compiler knows (``runtime.plan.codes``).

These bytes are estimates: a compiler codes weights as its kernels pack them, cut into slices, and adds decoders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.facts import Parameters
from twinfer.converter.passes._rewrite import rebuild, with_tensors
from twinfer.converter.quantize.rounding import from_rows, rows_of
from twinfer.converter.quantize.weights import MOST
from twinfer.converter.table import parameters_of, row_of
from twinfer.runtime.graph import Graph, Node, Tensor, consumers
from twinfer.runtime.plan.codes import CODINGS
from twinfer.runtime.read.packed import pack, unpack

#: Type of weights -> bits of one.
BITS = {"FLOAT32": 32, "INT8": 8, "INT4": 4}

#: Weights as real values, [outputs, taps, inputs]: taps are the places of a filter's window, inputs the channels that
#: are summed there (1 for DEPTHWISE_CONV_2D; FULLY_CONNECTED has one tap).
Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Weights:
    """A constant and the nodes whose weights it is: one, or several of one operator that share it.

    ``at`` says where these nodes have weights and bias, and what their axes are.
    """

    tensor: Tensor
    nodes: tuple[Node, ...]
    at: Parameters

    @property
    def node(self) -> Node:
        return self.nodes[0]

    @property
    def name(self) -> str:
        """The layer's name in recipes: the name of its first output."""
        return self.node.output.name

    @property
    def is_float(self) -> bool:
        return self.tensor.type == "FLOAT32"

    @property
    def most(self) -> int:
        """The greatest magnitude of an integer."""
        return MOST[BITS[self.tensor.type]]

    def stored(self) -> NDArray[np.float64]:
        """The numbers that the tensor holds (integers, or float32), [outputs, taps, inputs]."""
        data = np.asarray(self.tensor.data)
        values = unpack(data, 4, self.tensor.shape) if self.tensor.type == "INT4" else data
        return self._matrix(values.astype(np.float64))

    def scales(self) -> NDArray[np.float64]:
        """What a stored step stands for, one value per output: [outputs, 1, 1]."""
        quant = self.tensor.quant
        scale = np.ones(1) if self.is_float or quant is None else quant.scale.astype(np.float64)
        return np.broadcast_to(scale, (self._outputs,)).reshape(-1, 1, 1)

    def values(self) -> Matrix:
        return self.stored() * self.scales()

    def changed(self, stored: NDArray[np.float64]) -> Tensor:
        """The tensor with other numbers, [outputs, taps, inputs]; INT8 and INT4 are given whole ones."""
        kind = np.float32 if self.is_float else np.int8
        shape = self.tensor.shape
        flat = stored.reshape(self._outputs, -1)
        values = np.ascontiguousarray(from_rows(flat, shape, self.at.axis), kind)
        data = pack(values, 4) if self.tensor.type == "INT4" else values
        data.flags.writeable = False
        return replace(self.tensor, data=data)

    def rounded(self, values: Matrix) -> NDArray[np.float64]:
        """The numbers to store for these real values: the nearest that the type has, 0 for 0."""
        if self.is_float:
            return values.astype(np.float32).astype(np.float64)
        return np.clip(np.round(values / self.scales()), -self.most, self.most)

    def widened(self, values: Matrix) -> Weights:
        """The same with integers' scales large enough for these real values."""
        quant = self.tensor.quant
        if self.is_float or quant is None:
            return self
        peaks = np.abs(values).max(axis=(1, 2)) / self.most
        peaks = peaks if quant.per_channel else peaks.max(keepdims=True)
        scale = np.maximum(quant.scale, peaks.astype(np.float32))
        return replace(self, tensor=replace(self.tensor, quant=replace(quant, scale=scale)))

    @property
    def _outputs(self) -> int:
        return self.tensor.shape[self.at.axis]

    def _matrix(self, values: NDArray[np.float64]) -> Matrix:
        if self.at.depthwise:  # [1, height, width, outputs]
            return rows_of(values, self.at.axis)[:, :, None]
        inputs = values.shape[-2 if self.at.axis == values.ndim - 1 else -1]
        return rows_of(values, self.at.axis).reshape(self._outputs, -1, inputs)


def layers_of(graph: Graph) -> list[Weights]:
    """The weights of the graph's layers, in order of execution.

    Constants are left out if something else reads them too, if a zero point is not 0, and if they are sparse.
    """
    readers = consumers(graph)
    outside = {*graph.outputs, *(t for s in graph.signatures for t in s.outputs.values())}
    layers: dict[Tensor, Weights] = {}
    for node in graph.nodes:
        tensor, at = _weights(node), parameters_of(node)
        if tensor is None or at is None or tensor in outside:
            continue
        if all(_weights(n) is tensor for n in readers[tensor]):
            layers.setdefault(tensor, Weights(tensor, tuple(readers[tensor]), at))
    return [w for w in layers.values() if len({n.op for n in w.nodes}) == 1]


def _weights(node: Node) -> Tensor | None:
    """The node's constant weights if they are of a kind that can be changed."""
    at = parameters_of(node)
    tensor = None if at is None else node.optional(at.weights)
    if tensor is None or tensor.data is None or not tensor.size or tensor.type not in BITS:
        return None
    odd = "sparsity" in tensor.extra or (tensor.quant is not None and bool(tensor.quant.zero_point.any()))
    return None if odd else tensor


def replace_weights(graph: Graph, tensors: Mapping[Tensor, Tensor]) -> Graph:
    """The graph with other constants in the place of those that ``tensors`` maps."""
    return rebuild(graph, [with_tensors(node, tensors) for node in graph.nodes])


@dataclass(frozen=True, eq=False)
class Bias:
    """A bias that only this layer's one node reads."""

    tensor: Tensor
    weights: Weights

    def changed(self, change: NDArray[np.float64], wide: Weights) -> Tensor:
        """The bias with real numbers [outputs] added; integers count steps of input scale * ``wide``'s weight scale."""
        data = np.asarray(self.tensor.data)
        if data.dtype.kind == "f":
            return self._with((data.reshape(-1) + change).astype(np.float32))
        node = self.weights.node
        source = node.input(row_of(node).first).scale
        old, new = (source * w.scales().reshape(-1) for w in (self.weights, wide))
        steps = np.round((data.reshape(-1) * old + change) / new)
        limits = np.iinfo(data.dtype)
        quant = self.tensor.quant
        scale = new[: 1 if quant is None else quant.scale.size].astype(np.float32)
        tensor = self._with(np.clip(steps, limits.min / 2, limits.max // 2).astype(data.dtype))
        return tensor if quant is None else replace(tensor, quant=replace(quant, scale=scale))

    def _with(self, values: NDArray[Any]) -> Tensor:
        data = values.reshape(self.tensor.shape)
        data.flags.writeable = False
        return replace(self.tensor, data=data)


def bias_of(graph: Graph, weights: Weights) -> Bias | None:
    """The layer's bias if it may be changed."""
    position = weights.at.bias
    bias = None if position is None or len(weights.nodes) > 1 else weights.node.optional(position)
    if bias is None or bias.data is None or len(consumers(graph)[bias]) > 1:
        return None
    return Bias(bias, weights)


def has_bias(weights: Weights) -> bool:
    position = weights.at.bias
    return position is not None and any(node.optional(position) is not None for node in weights.nodes)


@dataclass(frozen=True)
class Footprint:
    """One layer's weights: how many, how many different, the share of zeros, Shannon's entropy in bits per weight, and
    the bytes: plain, and by each coding (None where it does not apply)."""

    name: str
    operator: str
    type: str
    weights: int
    distinct: int
    sparsity: float
    entropy_bits: float
    plain: int
    bitmap: int | None
    lut: int | None
    huffman: int | None

    @property
    def least(self) -> int:
        """Bytes of the best coding, or plain."""
        return min(size for size in (self.plain, self.bitmap, self.lut, self.huffman) if size is not None)


def footprints(graph: Graph) -> tuple[Footprint, ...]:
    """The footprints of all layers with constant weights, in order of execution. Float weights are not coded."""
    return tuple(map(_footprint, layers_of(graph)))


def _footprint(weights: Weights) -> Footprint:
    stored = weights.stored()
    values, counts = np.unique(stored, return_counts=True)
    share = counts / stored.size
    entropy = abs(float(-(share * np.log2(share)).sum()))
    plain = weights.tensor.nbytes
    coded: dict[str, int | None] = dict.fromkeys(CODINGS)
    if not weights.is_float:
        flat = stored.reshape(1, 1, -1).astype(np.int8)
        blocks = np.pad(flat, ((0, 0), (0, 0), (0, -flat.size % 8)), mode="edge")
        codes = {name: coding(blocks, False) for name, coding in CODINGS.items()}
        coded = {name: None if code is None else code.nbytes for name, code in codes.items()}
    kind, zeros = weights.tensor.type, float(np.mean(stored == 0))
    name, operator = weights.name, weights.node.op
    return Footprint(name, operator, kind, stored.size, len(values), zeros, entropy, plain, **coded)
