"""The same model with half the channels of one tensor: not to be run, but to see what its plan would take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinfer.converter.passes._rewrite import swap_tensors
from twinfer.runtime.graph import Graph, Node, Quant, Tensor, consumers
from twinfer.runtime.registry import operators


def halve(graph: Graph, first: Tensor) -> Graph | None:
    """The graph in which a tensor that an operator computes has half of its channels, its last axis.

    What reads or writes these channels is cut, too. None if there are no two channels, or if the cut does not end
    before an operator that is not known here, an input or an output.
    """
    if not first.shape or first.shape[-1] < 2:
        return None
    cuts: dict[Tensor, int] = {}
    waiting, readers = [(first, len(first.shape) - 1)], consumers(graph)
    writer = {tensor: node for node in graph.nodes for tensor in node.outputs}
    while waiting:
        tensor, axis = waiting.pop()
        if cuts.setdefault(tensor, axis) != axis or tensor in (*graph.inputs, *graph.outputs):
            return None
        around = [
            *([writer[tensor]] if tensor in writer else []),
            *(readers.get(tensor, ()) if tensor.data is None else ()),
        ]
        for node in around:
            also = _also_cut(node, tensor)
            if also is None:
                return None
            waiting += [(other, along) for other, along in also if cuts.get(other) != along]
    return swap_tensors(graph, {tensor: _cut(tensor, axis) for tensor, axis in cuts.items()})


def _also_cut(node: Node, tensor: Tensor) -> list[tuple[Tensor, int]] | None:
    """What else of an operator is cut with the channels of one of its tensors; None if that is not known."""
    written, kind = tensor in node.outputs, node.op
    if kind in ("CONV_2D", "FULLY_CONNECTED"):
        if written:
            return [(t, 0) for t in node.inputs[1:3] if t is not None]
        same = node.input(1).shape[-1] == tensor.shape[-1]
        return [(node.input(1), len(node.input(1).shape) - 1)] if same and node.input(0) is tensor else None
    if kind == "DEPTHWISE_CONV_2D" and node.input(0).shape[-1] == node.output.shape[-1]:
        bias = [(t, 0) for t in node.inputs[2:3] if t is not None]
        return [(node.input(0), 3), (node.input(1), 3), (node.output, 3), *bias]
    op = operators().get(kind)
    if op is None or not (op.pointwise or op.keeps_channels):
        return None
    values = (*node.inputs, *node.outputs)
    if kind in ("MEAN", "PAD"):  # input 1 is axes or paddings
        values = (node.inputs[0], *node.outputs)
    # One that is broadcast over the channels has not as many.
    alike = [t for t in values if t is not None and t.shape and t.shape[-1] == tensor.shape[-1]]
    return [(t, len(t.shape) - 1) for t in alike]


def _cut(tensor: Tensor, axis: int) -> Tensor:
    """The first half of a tensor along an axis."""
    half = tensor.shape[axis] // 2
    shape = (*tensor.shape[:axis], half, *tensor.shape[axis + 1 :])
    data = None if tensor.data is None else np.ascontiguousarray(np.take(tensor.data, range(half), axis))
    quant = tensor.quant
    if quant is not None and quant.per_channel and quant.axis == axis:
        quant = Quant(quant.scale[:half], quant.zero_point[:half], quant.axis)
    return replace(tensor, shape=shape, shape_signature=(), data=data, quant=quant)
