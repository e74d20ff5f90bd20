"""uint8 as int8: a pass ``Graph -> Graph`` of planning, so that models of 2017 to 2019 run on int8's kernels.

A uint8 value q with zero point z is the int8 value q - 128 with zero point z - 128. So a node of uint8 becomes one of
int8 over twins of its tensors. Only where a value enters from, or leaves to, what stays uint8 (inputs and outputs of
the graph, other operators) a QUANTIZE of equal scales stands between both, which flips the highest bit of every byte.
Weights lose their zero point where they still fit int8 without it. The node is marked (runtime/ops/core/unsigned.py),
because a few of LiteRT's kernels of uint8 round in another way; its reference kernels decide, as TFLM has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from twinfer.runtime.graph import Graph, Node, Quant, Tensor
from twinfer.runtime.op import Uint8
from twinfer.runtime.ops.core.unsigned import ADDED, MARK, STACKED
from twinfer.runtime.registry import find


def _does(node: Node, *what: Uint8) -> bool:
    """Whether the operator does one of these with uint8."""
    op = find(node.op)
    return op is not None and op.uint8 in what


def is_byte(tensor: Tensor | None) -> bool:
    """Whether the tensor holds quantised uint8 that no run keeps."""
    return tensor is not None and tensor.type == "UINT8" and tensor.quant is not None and not tensor.variable


def make_signed(graph: Graph, keep: bool = False) -> Graph:
    """The graph with nodes of uint8 as nodes of int8, itself if it has none; ``keep``: every uint8 value is written.

    The graph's inputs and outputs stay, and tensors keep their positions; twins come behind them.
    """
    if not any(is_byte(tensor) for tensor in graph.tensors):
        return graph
    rewrite = _Rewrite(graph, keep)
    changed = rewrite.twins or rewrite.floats
    return replace(graph, tensors=rewrite.tensors, nodes=tuple(rewrite.nodes)) if changed else graph


def make_node_signed(node: Node) -> Node:
    """The node over int8 (float32), itself if it has no uint8 or takes it as it is; for checks of one node."""
    if _does(node, "floats"):
        return replace(node, inputs=tuple(_real(t) if t is not None and is_byte(t) else t for t in node.inputs))
    bytes_ = [tensor for tensor in (*node.inputs, *node.outputs) if is_byte(tensor)]
    if not bytes_ or not (_does(node, "layer", "computes") or _rescales(node)) or _mixes(node):
        return node
    return _over(node, {tensor: twin(tensor) for tensor in bytes_ if tensor is not None})


def twin(tensor: Tensor) -> Tensor:
    """The int8 tensor of the same meaning; a constant's value with it."""
    quant = tensor.quant or Quant.per_tensor(0.0)
    data = None if tensor.data is None else np.asarray(tensor.data ^ 0x80).view(np.int8)  # of a scalar, too
    shifted = replace(quant, zero_point=quant.zero_point - 128)
    return replace(tensor, type="INT8", quant=shifted, data=data)


def _real(tensor: Tensor) -> Tensor:
    """The float32 tensor of the same meaning; a constant's value with it."""
    data = tensor.data
    if data is not None:
        data = np.float32(tensor.scale) * (data.astype(np.int32) - tensor.zero).astype(np.float32)
    return replace(tensor, type="FLOAT32", quant=None, data=data)


def centred(weights: Tensor) -> Tensor:
    """int8 weights without a zero point, if they fit int8 without it; else as they are."""
    if weights.data is None or weights.quant is None or weights.quant.per_channel:
        return weights
    values = np.asarray(weights.data.astype(np.int16) - weights.zero)
    if values.size and (values.min() < -128 or values.max() > 127):
        return weights
    return replace(weights, data=values.astype(np.int8), quant=replace(weights.quant, zero_point=np.zeros(1, np.int64)))


def _over(node: Node, twins: dict[Tensor, Tensor]) -> Node:
    """The node over these twins, marked."""
    inputs = [None if tensor is None else twins.get(tensor, tensor) for tensor in node.inputs]
    if _does(node, "layer") and len(inputs) > 1 and inputs[1] is not None and inputs[1] is not node.inputs[1]:
        inputs[1] = centred(inputs[1])
    outputs = tuple(twins.get(tensor, tensor) for tensor in node.outputs)
    return replace(node, inputs=tuple(inputs), outputs=outputs, options={**node.options, MARK: True})


def _rescales(node: Node) -> bool:
    """Whether a CONCATENATION of uint8 brings an input to another scale, which it does on its way."""
    return node.op == "CONCATENATION" and any(is_byte(t) and t.quant != node.output.quant for t in node.inputs if t)


def _mixes(node: Node) -> bool:
    """Whether a layer of uint8 has values or weights of another type; LiteRT reads the bytes of one as the other's."""
    types = {t.type for t in (*node.inputs, *node.outputs) if t is not None}
    return _does(node, "layer") and not types <= {"UINT8", "INT32"}


class _Rewrite:
    """One walk through the nodes.

    ``twins``: the int8 tensor of each uint8 one, ``floats``: the float32 tensor of those that need one. ``plain`` are
    uint8 tensors whose value is there, ``flipped`` those whose twin's is.
    """

    def __init__(self, graph: Graph, keep: bool) -> None:
        self.twins: dict[Tensor, Tensor] = {}
        self.floats: dict[Tensor, Tensor] = {}
        self.parts: dict[tuple[Tensor, str], Tensor] = {}
        self.nodes: list[Node] = []
        self.flipped: set[Tensor] = set()
        self.plain = {t for t in graph.tensors if is_byte(t) and (t.data is not None or t in graph.inputs)}
        for node in graph.nodes:
            self._add(node)
            if keep:
                self._unflip(node, node.outputs)
        if graph.nodes:
            self._unflip(graph.nodes[-1], graph.outputs)
        shared = dict.fromkeys(t for node in self.nodes for t in (*node.inputs, *node.outputs) if t is not None)
        known = set(graph.tensors)
        self.tensors = (*graph.tensors, *(t for t in shared if t not in known))

    def _add(self, node: Node) -> None:
        if _does(node, "floats"):
            node = replace(node, inputs=tuple(self._float(node, t) if is_byte(t) else t for t in node.inputs))
        sources = [tensor for tensor in node.inputs if is_byte(tensor)]
        if not self._takes(node):
            self._unflip(node, sources)
            self.nodes.append(node)
            self.plain.update(tensor for tensor in node.outputs if is_byte(tensor))
            self.flipped.difference_update(node.outputs)
            return
        for tensor in sources:
            if tensor is not None and tensor not in self.flipped:
                self._flip(node, tensor)
        for tensor in node.outputs:
            if is_byte(tensor):
                self.twins[tensor] = twin(tensor)
                self.flipped.add(tensor)
        self._emit(node)
        overwritten = [tensor for tensor in node.outputs if tensor in self.plain]  # an input, which lasts
        self.plain.difference_update(overwritten)
        self._unflip(node, overwritten)

    def _takes(self, node: Node) -> bool:
        """Whether the node is to run over int8: a moving one if a value that it moves is int8 already."""
        if not any(is_byte(tensor) for tensor in (*node.inputs, *node.outputs)) or _mixes(node):
            return False
        if STACKED in node.options:  # the graph was planned before: these bytes come from a table
            return False
        if any(t is not None and t.type == "UINT8" and not is_byte(t) for t in (*node.inputs, *node.outputs)):
            return False
        if node.op == "QUANTIZE":
            if node.input(0).type == "INT8" and node.input(0).quant == twin(node.output).quant:
                return False  # it flips only, as those that this walk puts in
            return not is_byte(node.input(0)) or node.input(0) in self.flipped or node.output.type == "UINT8"
        moved = _does(node, "moves") and any(tensor in self.flipped for tensor in node.inputs)
        return _does(node, "layer", "computes") or moved or _rescales(node)

    def _emit(self, node: Node) -> None:
        """The node over twins; what it shares with other nodes (weights without a zero point, rescaled inputs) once."""
        over = _over(node, self.twins)
        inputs = list(over.inputs)
        for place, tensor in enumerate(inputs):
            if tensor is not None and tensor.data is not None and tensor is not node.inputs[place]:
                inputs[place] = self.parts.setdefault((node.input(place), str(tensor.quant)), tensor)
        if node.op == "CONCATENATION":
            inputs = [self._rescaled(over, tensor) for tensor in inputs if tensor is not None]
        self.nodes.append(replace(over, inputs=tuple(inputs)))

    def _rescaled(self, node: Node, tensor: Tensor) -> Tensor:
        """A CONCATENATION's input in the scale of its output."""
        if tensor.quant == node.output.quant:
            return tensor
        part = replace(tensor, quant=node.output.quant, data=None, name=f"{tensor.name} rescaled")
        options = {MARK: node.op, ADDED: True}
        self.nodes.append(replace(node, op="QUANTIZE", inputs=(tensor,), outputs=(part,), options=options))
        return part

    def _float(self, node: Node, tensor: Tensor | None) -> Tensor | None:
        """The float32 of a value of uint8, behind a DEQUANTIZE if it is no constant."""
        if tensor is not None and tensor not in self.floats:
            self.floats[tensor] = _real(tensor)
            if tensor.data is None:
                self._add(Node("DEQUANTIZE", (tensor,), (self.floats[tensor],), {ADDED: True}, index=node.index))
        return None if tensor is None else self.floats[tensor]

    def _flip(self, node: Node, tensor: Tensor) -> None:
        """Make the twin of a value that is there as uint8; a constant is flipped now."""
        self.twins[tensor] = twin(tensor)
        self.flipped.add(tensor)
        if tensor.data is None:
            self._border(node, tensor, self.twins[tensor])

    def _unflip(self, node: Node, tensors: Iterable[Tensor | None]) -> None:
        """Make the uint8 of values that are there as twins only."""
        for tensor in dict.fromkeys(tensors):
            if tensor is not None and is_byte(tensor) and tensor not in self.plain and tensor in self.flipped:
                self._border(node, self.twins[tensor], tensor)
                self.plain.add(tensor)

    def _border(self, node: Node, source: Tensor, target: Tensor) -> None:
        self.nodes.append(Node("QUANTIZE", (source,), (target,), {ADDED: True}, index=node.index))
