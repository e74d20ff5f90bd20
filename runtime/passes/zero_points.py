"""Weights with a zero point as int8 weights without one: a pass ``Graph -> Graph`` of planning.

Weights of uint8 less their zero point may need nine bits. In trained layers a handful of weights does, because one
scale and one zero point serve the whole layer. An input channel of a CONV_2D, TRANSPOSE_CONV or FULLY_CONNECTED that
such a weight reads comes twice, and its two weights, both of int8, add up. So all products run in the kernels of int8.
Layers with many such weights stay as they are, and run in plain C. DEPTHWISE_CONV_2D has kernels for weights of 16
bits.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from twinfer.runtime.graph import Array, Graph, Node, Tensor
from twinfer.runtime.ops.core.unsigned import ADDED, is_unsigned, less_zero, weight_zero

#: The greatest magnitude of a part of a weight; some kernels do not take -128.
MOST = 127

#: The share of a layer's channels that may come twice; more of them take more memory than they are worth.
SHARE = 4


def without_zero_points(graph: Graph) -> Graph:
    """The graph with layers whose weights have no zero point, wherever few of them leave int8 without it.

    Tensors keep their positions; new ones come behind them.
    """
    nodes = [each for node in graph.nodes for each in _rewritten(node)]
    if len(nodes) == len(graph.nodes) and all(map(operator.is_, nodes, graph.nodes)):
        return graph
    known = set(graph.tensors)
    shared = dict.fromkeys(t for node in nodes for t in (*node.inputs, *node.outputs) if t is not None)
    return replace(graph, tensors=(*graph.tensors, *(t for t in shared if t not in known)), nodes=tuple(nodes))


def _rewritten(node: Node) -> Iterator[Node]:
    """The nodes that take the place of one; itself if it has no such weights, or too many."""
    w = node.optional(1)
    # Beside int8, runtimes ignore those of a TRANSPOSE_CONV.
    suits = node.op in ("CONV_2D", "FULLY_CONNECTED") or (node.op == "TRANSPOSE_CONV" and is_unsigned(node))
    known = suits and w is not None and w.data is not None and w.type == "INT8" and len(w.shape) > 1
    zeros = set(w.quant.zero_point.tolist()) if w is not None and known and w.quant is not None else {0}
    one = len(zeros) == 1 and zeros != {0} and -128 <= min(zeros) <= 127  # else lowering says what is wrong
    return _widened(node, w) if w is not None and one else iter((node,))


def _widened(node: Node, w: Tensor) -> Iterator[Node]:
    """The node over its input's channels and, behind them, those that come twice."""
    at = 2 if node.op == "TRANSPOSE_CONV" else 0
    x, depth = node.input(at), w.shape[-1]
    parts, channels = _split(w)
    if x.type != "INT8" or x.shape[-1:] != (depth,) or SHARE * (channels.size - depth) > depth:
        yield node
        return
    if channels.size > depth:
        wide = replace(
            x, name=f"{x.name} widened", shape=(*x.shape[:-1], channels.size), shape_signature=(), variable=False
        )
        index = Tensor("channels", "INT32", channels.shape, None, channels.astype(np.int32))
        options = {"axis": len(x.shape) - 1, "batch_dims": 0, ADDED: True}
        yield Node("GATHER", (x, index), (wide,), options, index=node.index)
        x = wide
    quant = replace(w.quant, zero_point=np.zeros_like(w.quant.zero_point)) if w.quant is not None else None
    inputs = [*node.inputs]
    inputs[at], inputs[1] = x, replace(w, shape=parts.shape, data=parts, quant=quant)
    yield replace(node, inputs=tuple(inputs))


def _split(w: Tensor) -> tuple[Array, Array]:
    """int8 weights [..., channels] that add up to ``w`` [..., depth] less its zero point, and which channel each
    reads."""
    values, depth = less_zero(np.asarray(w.data), weight_zero(w)), w.shape[-1]
    parts, channels = [values.clip(-MOST, MOST)], [np.arange(depth)]
    rest = values - parts[0]
    while rest.any():
        some = np.flatnonzero(rest.reshape(-1, depth).any(axis=0))
        parts.append(rest[..., some].clip(-MOST, MOST))
        channels.append(some)
        rest[..., some] -= parts[-1]
    return np.ascontiguousarray(np.concatenate(parts, axis=-1), np.int8), np.concatenate(channels)
