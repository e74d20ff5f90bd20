"""Constants as operators read them, whatever way the file stores them: a pass ``Graph -> Graph`` before all planning.

Sparse constants become dense, and DENSIFY of them disappears. float16 behind DEQUANTIZE becomes float32 (exactly).
Constants of 2 and 4 bits become int8, but for layers that can keep them packed (``Op.packed_weights``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import DTYPES, Array, Graph, Node, Tensor
from twinfer.runtime.registry import find

#: Types of 2 and 4 bits that fit int8.
BITS: Mapping[str, int] = MappingProxyType({"INT4": 4, "INT2": 2})


def plain_constants(graph: Graph, keep_half: bool = False) -> Graph:
    """The graph with constants as operators read them; itself if all are. Tensors keep their positions.

    ``keep_half``: float16 behind DEQUANTIZE stays, for a graph that is written to a file again.

    Raises ModelError for a constant that contradicts its sparsity or its tensor.
    """
    if not any(_is_stored(node, place, keep_half) for node in graph.nodes for place in range(len(node.inputs))):
        return graph
    walk = _Walk(graph, keep_half)
    nodes = tuple(walk.nodes)
    changed = {old: new for old, new in walk.known.items() if old in walk.replaced or old not in walk.elsewhere}
    tensors = [changed.get(t, t) for t in graph.tensors]
    present = set(tensors)
    beside = dict.fromkeys(t for node in nodes for t in node.inputs if t is not None and t not in present)
    outputs = tuple(map(walk.final, graph.outputs))
    signatures = tuple(signature.over(walk.final) for signature in graph.signatures)
    return replace(graph, tensors=(*tensors, *beside), nodes=nodes, outputs=outputs, signatures=signatures)


def _is_stored(node: Node, place: int, keep_half: bool) -> bool:
    """Whether an input's constant is to be changed."""
    tensor = node.inputs[place]
    if tensor is None or tensor.data is None:
        return False
    if tensor.extra.get("sparsity") or (tensor.type == "FLOAT16" and _folds(node, keep_half)):
        return True
    return tensor.type in BITS and not (place == 1 and (op := find(node.op)) and op.packed_weights)


class _Walk:
    """One walk through the nodes.

    ``known``: the plain constant of each stored one, and what stands for ``replaced`` tensors: outputs of nodes that
    are gone, and of those that pick from few bits, which are int8. ``elsewhere`` are tensors that are read as stored.
    """

    def __init__(self, graph: Graph, keep_half: bool) -> None:
        self.graph, self.keep_half = graph, keep_half
        self.known: dict[Tensor, Tensor] = {}
        self.replaced: set[Tensor] = set()
        self.elsewhere = {*graph.inputs, *graph.outputs}
        self.nodes: list[Node] = []
        for node in graph.nodes:
            self._add(node)

    def _add(self, node: Node) -> None:
        inputs = [None if t is None else self.final(t) for t in node.inputs]
        for place, tensor in enumerate(inputs):
            seen = replace(node, inputs=tuple(inputs))
            if tensor is not None and _is_stored(seen, place, self.keep_half) and not self._folds(seen):
                inputs[place] = self._plain(tensor)
            elif tensor is not None and tensor.type in BITS:
                self.elsewhere.add(tensor)
        now = node if tuple(inputs) == node.inputs else replace(node, inputs=tuple(inputs))
        if not self._folds(now) or now.output in self.graph.inputs:
            self.nodes.append(self._widened(now))
            return
        self.known[node.output] = replace(node.output, data=_folded(now))
        self.replaced.add(node.output)

    def _folds(self, node: Node) -> bool:
        return _folds(node, self.keep_half)

    def _widened(self, node: Node) -> Node:
        """A node that picks from constants of few bits, with int8 as its output; so are bytes of LiteRT's GATHER."""
        y = node.outputs[0] if node.outputs else None
        if y is None or y.type not in BITS or y in self.graph.outputs:
            return node
        op = find(node.op)
        if op is None or not op.picks_rows:
            return node
        self.known[y] = replace(y, type="INT8")
        self.replaced.add(y)
        return replace(node, outputs=(self.known[y],))

    def _plain(self, tensor: Tensor) -> Tensor:
        if tensor not in self.known:
            self.known[tensor] = _dense(tensor) if tensor.extra.get("sparsity") else _wide(tensor)
        return self.known[tensor]

    def final(self, tensor: Tensor) -> Tensor:
        """The tensor that stands for one: a constant where its node is gone."""
        return self.known[tensor] if tensor in self.replaced else tensor


def _folds(node: Node, keep_half: bool) -> bool:
    """Whether the node only changes how a constant is stored."""
    source = node.inputs[0] if len(node.inputs) == 1 == len(node.outputs) else None
    if source is None or source.data is None or source.shape != node.output.shape:
        return False
    if node.op == "DENSIFY":
        return source.type == node.output.type and source.type in DTYPES
    return not keep_half and node.op == "DEQUANTIZE" and (source.type, node.output.type) == ("FLOAT16", "FLOAT32")


def _folded(node: Node) -> Array:
    source = node.input(0)
    tensor = _dense(source) if source.extra.get("sparsity") else source
    data = np.asarray(tensor.data)
    if (data.dtype, data.shape) != (source.dtype, source.shape):
        raise ModelError(f"{node}: the value of {source} is {data.dtype}{list(data.shape)}")
    return data.astype(node.output.dtype)


def _wide(tensor: Tensor) -> Tensor:
    """A constant of 2 or 4 bits as int8."""
    from twinfer.runtime.read.packed import unpack

    packed = np.asarray(tensor.data)
    if packed.nbytes != tensor.nbytes:
        raise ModelError(f"{tensor} has {packed.nbytes} bytes, {tensor.nbytes} are needed")
    return replace(tensor, type="INT8", data=unpack(packed, BITS[tensor.type], tensor.shape))


def _dense(tensor: Tensor) -> Tensor:
    """A sparse constant with all its elements; those that are not stored are 0."""
    if tensor.type not in DTYPES or tensor.data is None:
        raise ModelError(f"{tensor} is stored sparsely, which its type cannot be")
    from twinfer.runtime.read.sparse import element_places

    try:
        places = element_places(tensor.shape, tensor.extra["sparsity"])
    except ModelError as error:
        raise ModelError(f"{tensor}: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise ModelError(f"{tensor} is stored sparsely, but its sparsity is incomplete ({error!r})") from error
    stored = np.frombuffer(tensor.data.tobytes(), np.uint8)
    if stored.size != len(places) * tensor.dtype.itemsize:
        raise ModelError(f"{tensor}: its sparsity names {len(places)} elements, {stored.size} bytes are stored")
    values = np.zeros(tensor.size, tensor.dtype)
    values[places] = stored.view(tensor.dtype)
    extra = {key: value for key, value in tensor.extra.items() if key != "sparsity"}
    return replace(tensor, data=values.reshape(tensor.shape), extra=MappingProxyType(extra))
