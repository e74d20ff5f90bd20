"""What a model would have to lose so that it fits a board: channels. Every change is made and planned before it is
told. Weights of a narrower model are some of the old ones, for only sizes count here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from twinfer.converter.table import parameters_of
from twinfer.runtime.errors import ModelError, TwinferError
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.shapes import infer_node

#: How many layers are tried alone, and the shares of channels that are tried everywhere: sixteenths.
ALONE, PARTS = 6, 16


def changes(graph: Graph, fits: Callable[[Graph], bool]) -> Iterator[str]:
    """The least change that is enough, in words: half the channels of one layer, else so many times the channels of all
    layers. Nothing if no such change is enough, or shapes do not allow it."""
    layers = _layers(graph)
    heavy = sorted(layers, key=_weight, reverse=True)[:ALONE]
    wide = sorted(layers, key=lambda node: node.output.nbytes, reverse=True)[:ALONE]
    for node in dict.fromkeys((*heavy, *wide)):
        less = _narrower(graph, {node: Fraction(1, 2)})
        if less is not None and fits(less):
            channels = node.output.shape[-1]
            yield f"half the channels of {node.output.name!r} {node.op} ({channels} → {channels // 2})"
            return
    low, high = 0, PARTS  # so many sixteenths fit; so many do not
    while layers and high - low > 1:
        part = (low + high) // 2
        less = _narrower(graph, dict.fromkeys(layers, Fraction(part, PARTS)))
        low, high = (part, high) if less is not None and fits(less) else (low, part)
    if low:
        yield f"{low / PARTS:.2f} times the channels in every layer but the last"


def _layers(graph: Graph) -> list[Node]:
    """Those whose number of channels is a choice: it is not that of an output."""
    found = [node for node in graph.nodes if (at := parameters_of(node)) is not None and not at.depthwise]
    return [node for node in found if node.output.shape[-1] > 1 and _ends_within(graph, node)]


def _ends_within(graph: Graph, node: Node) -> bool:
    """Whether the channels of a layer end in the sums of others: outputs keep their shapes without some of them."""
    reached = {node.output}
    for other in graph.nodes:
        read = [i for i, t in enumerate(other.inputs) if t in reached]
        at = parameters_of(other)
        if read and (at is None or at.depthwise or at.summed is None or read != [0]):
            reached |= set(other.outputs)
    return not reached & set(graph.outputs)


def _weight(node: Node) -> int:
    return sum(t.data.nbytes for t in node.inputs if t is not None and t.data is not None)


def _narrower(graph: Graph, parts: Mapping[Node, Fraction]) -> Graph | None:
    """The graph with such parts of the channels of some layers; None where its other operators do not allow that."""
    new: dict[Tensor, Tensor] = {}
    nodes = []
    try:
        for node in graph.nodes:
            inputs = _inputs(node, [t if t is None else new.get(t, t) for t in node.inputs], parts.get(node))
            options = {name: value for name, value in node.options.items() if name != "new_shape"}
            made = replace(node, inputs=tuple(inputs), options=options if inputs[1:] else node.options)
            for t, shape in zip(node.outputs, infer_node(made), strict=True):
                if t.shape != shape:
                    new[t] = replace(t, shape=shape, shape_signature=())
            nodes.append(replace(made, outputs=tuple(new.get(t, t) for t in node.outputs)))
    except TwinferError:
        return None
    if any(t in new for t in graph.outputs):
        return None
    tensors = dict.fromkeys(t for node in nodes for t in (*node.inputs, *node.outputs) if t is not None)
    tensors |= dict.fromkeys((*graph.inputs, *graph.outputs))
    return replace(graph, tensors=tuple(tensors), nodes=tuple(nodes))


def _inputs(node: Node, inputs: list[Tensor | None], part: Fraction | None) -> Sequence[Tensor | None]:
    """The inputs of a node whose layers before have fewer channels: constants are cut to fit. ModelError if they cannot
    be."""
    (x, before), at = (inputs[0], node.inputs[0]), parameters_of(node)
    if x is None or before is None or (x is before and part is None):
        return inputs
    ratio = Fraction(x.size, max(before.size, 1))
    if at is not None:
        weights = node.input(at.weights)
        channels = at.channels(node)
        kept = int(_whole(channels * ratio)) if at.depthwise else max(1, int(channels * (part or 1)))
        less = _cut(weights, at.axis, kept)
        if at.summed is not None and not at.depthwise:
            less = _cut(less, at.summed, _whole(weights.shape[at.summed] * ratio))
        inputs[at.weights] = less
        if at.bias is not None and (bias := node.optional(at.bias)) is not None:
            inputs[at.bias] = _cut(bias, 0, kept)
    elif node.op == "RESHAPE" and node.output.shape:
        *front, last = node.output.shape
        shape = np.array([*front, _whole(last * ratio)], np.int32)
        inputs[1:] = [Tensor(f"{node.output.name}/shape", "INT32", shape.shape, data=shape)]
    else:
        for i, t in enumerate(inputs):
            channels = before.shape[-1] if before.shape else 0
            if t is not None and t.data is not None and t.type != "INT32" and t.shape[-1:] == (channels,):
                inputs[i] = _cut(t, len(t.shape) - 1, x.shape[-1])
    return inputs


def _whole(number: Fraction) -> int:
    if number.denominator != 1 or number < 1:
        raise ModelError(f"{number} channels cannot be")
    return int(number)


def _cut(tensor: Tensor, axis: int, size: int) -> Tensor:
    """The first part of a constant along an axis, with its scales."""
    if tensor.data is None or tensor.shape[axis] == size:
        return tensor
    quant = tensor.quant
    if quant is not None and quant.per_channel and quant.axis == axis:
        quant = replace(quant, scale=quant.scale[:size], zero_point=quant.zero_point[:size])
    shape = (*tensor.shape[:axis], size, *tensor.shape[axis + 1 :])
    less = replace(tensor, shape=shape, quant=quant, shape_signature=())
    if tensor.data.shape == tensor.shape:
        return replace(less, data=np.ascontiguousarray(tensor.data.take(range(size), axis)))
    return replace(less, data=tensor.data[: less.nbytes].copy())  # several values in a byte
