"""Leaves the batch open in constants that say shapes, so that ``resize_tensor_input`` may change it afterwards."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np

from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Graph, Node
from twinfer.runtime.shapes import infer_shapes


def open_batch(graph: Graph) -> Graph:
    """The graph with -1 as the first extent of every RESHAPE's shape; as it is if that would not do.

    It is tried: the inputs that have the first one's batch get twice as much of it. What a RESHAPE reads and writes may
    then have twice as much in front, and nothing else may have changed.
    """
    batch = graph.inputs[0].shape[:1] if graph.inputs else ()
    at = {node: _opened(node) for node in graph.nodes if _can_open(node)}
    if not at or batch in ((), (0,)) or graph.subgraphs:
        return graph
    opened = replace(graph, nodes=tuple(at.get(node, node) for node in graph.nodes))
    new = [t for node in at.values() for t in node.inputs if t is not None and t not in graph.tensors]
    opened = replace(opened, tensors=(*graph.tensors, *new))
    try:
        twice = infer_shapes(opened, {t: _twice(t.shape) for t in graph.inputs if t.shape[:1] == batch}, keep_half=True)
    except TwinferError:
        return graph
    grown = dict(zip(opened.tensors, twice.tensors, strict=False))
    for node in at.values():
        if any(grown[t].shape not in (t.shape, _twice(t.shape)) for t in (node.input(0), node.output)):
            return graph
    used = {t for node in opened.nodes for t in (*node.inputs, *node.outputs)} | {*graph.inputs, *graph.outputs}
    replaced = {t for node in at for t in node.inputs} - used
    return replace(opened, tensors=tuple(t for t in opened.tensors if t not in replaced))


def _twice(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (2 * shape[0], *shape[1:]) if shape else ()


def _can_open(node: Node) -> bool:
    """Whether it is a RESHAPE to a known shape without a -1."""
    asked = node.optional(1) if node.op == "RESHAPE" else None
    known = asked is not None and asked.data is not None and bool((asked.data >= 0).all())
    return known and bool(node.output.shape) and node.output.size > 0


def _opened(node: Node) -> Node:
    asked = node.input(1)
    data = np.array(asked.data)
    data[0] = -1
    data.flags.writeable = False
    options = MappingProxyType({**node.options, "new_shape": tuple(data.tolist())})
    return replace(node, inputs=(node.input(0), replace(asked, data=data)), options=options)
