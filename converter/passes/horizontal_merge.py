"""Dense layers and 1x1 convolutions over the same input become one, and a SPLIT of its result."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.passes._rewrite import View, constant, new_node, rebuild, touches_state, works
from twinfer.converter.table import parameters_of
from twinfer.runtime.graph import Graph, Node, Quant, Tensor


def horizontal_merge(graph: Graph) -> Graph:
    """FULLY_CONNECTED, or CONV_2D with a window of 1x1, that share their input, options and quantisation of the
    output: they become one layer with all their channels. Weights with one scale and weights with one per channel are
    not merged.

    Not in the pipeline, as it does not pay: reading the input once saves about what SPLIT costs to copy the result.
    Measured on the host, int8 layers take the same time, float ones between 17 % more (64 rows, 3 x 64 channels) and
    10 % less (196 rows, 4 x 16 channels), tiny ones 0.1 us less; the arena grows by up to a half.
    """
    view, groups = View(graph), dict[Hashable, list[Node]]()
    for node in graph.nodes:
        key = _key(view, node)
        if key is not None:
            groups.setdefault(key, []).append(node)
    instead = {group[0]: merged for group in groups.values() if len(group) > 1 and (merged := _merge(group))}
    gone = {node for group in groups.values() if group[0] in instead for node in group}
    nodes = [n for node in graph.nodes for n in instead.get(node, () if node in gone else (node,))]
    return rebuild(graph, nodes) if instead else graph


def _key(view: View, node: Node) -> Hashable | None:
    """What layers must share to be merged; None for other layers."""
    at = parameters_of(node)
    if at is None or at.summed is None or at.depthwise or touches_state(node) or node.extra:
        return None
    x, w, bias, y = node.input(0), node.input(1), node.optional(2), node.output
    single = len(w.shape) == 2 or w.shape[1:] == (1, 1, x.shape[-1])
    own = w.type in ("FLOAT32", "INT8") and view.only_here(w) and not w.extra
    if not single or not own or (bias is not None and bias.data is None) or x.data is not None:
        return None
    return (
        x,
        node.op,
        w.type,
        y.type,
        w.shape[1:],
        bias is None,
        _scales(w),
        _step(y),
        repr(sorted(node.options.items())),
    )


def _scales(w: Tensor) -> Hashable:
    """Weights with one scale merge with weights of the same scale; weights with one scale per channel with each
    other."""
    per_channel = w.quant is not None and w.quant.per_channel and w.quant.axis == 0 and not w.quant.zero_point.any()
    return "per channel" if per_channel else _step(w)


def _step(t: Tensor) -> Hashable:
    return None if t.quant is None else (t.quant.scale.tobytes(), t.quant.zero_point.tobytes(), t.quant.axis)


def _merge(group: Sequence[Node]) -> tuple[Node, Node] | None:
    first = group[0]
    outputs = [node.output for node in group]
    channels = [y.shape[-1] for y in outputs]
    name = f"{outputs[0].name}/merged"
    y = replace(outputs[0], name=name, shape=(*outputs[0].shape[:-1], sum(channels)), shape_signature=())
    w = [node.input(1) for node in group]
    weights = constant(_join(w), f"{name}/weights", _quant(w))
    biases = [t for node in group if (t := node.optional(2)) is not None]
    bias = constant(_join(biases).reshape(-1), f"{name}/bias", _quant(biases)) if biases else None
    layer = replace(first, inputs=(first.input(0), weights, bias), outputs=(y,))
    axis = constant(np.array(len(y.shape) - 1, np.int32), f"{name}/axis")
    sizes = constant(np.array(channels, np.int32), f"{name}/sizes")
    split = replace(new_node("SPLIT_V", [y, sizes, axis], y, num_splits=len(channels)), outputs=tuple(outputs))
    return (layer, split) if works(layer) and works(split) else None


def _join(tensors: Sequence[Tensor]) -> NDArray[np.generic]:
    return np.concatenate([np.asarray(t.data) for t in tensors])


def _quant(tensors: Sequence[Tensor]) -> Quant | None:
    quants = [t.quant for t in tensors if t.quant is not None]
    if len(quants) < len(tensors) or not any(q.per_channel for q in quants):
        return tensors[0].quant
    scale, zero = (np.concatenate([getattr(q, n) for q in quants]) for n in ("scale", "zero_point"))
    return Quant(scale, zero, 0)
