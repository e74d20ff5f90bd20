"""Inputs that become constants: what an input's value decides (a size, a count, a choice) is then known to planning.
And batches that stay open in constants that say shapes, so that ``resize_tensor_input`` may change them afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from twinfer.converter.passes._rewrite import swap_tensors
from twinfer.runtime.errors import InvalidArgumentError, TwinferError
from twinfer.runtime.graph import DTYPES, Graph, Node, Tensor
from twinfer.runtime.shapes import infer_shapes


def freeze(graph: Graph, constants: Mapping[str, Any]) -> Graph:
    """The graph in which these inputs are constants.

    ``constants`` gives values by the names of inputs, or by the main signature's names for them: numbers as the tensor
    stores them (of a quantised input its integers), of the input's shape or as many as it has elements. Raises
    InvalidArgumentError for a name that is no input, or of several, for a value that does not fit, and for an input
    that an operator writes.
    """
    if not constants:
        return graph
    named = inputs_by_name(graph)
    written = {tensor for node in graph.nodes for tensor in node.outputs}
    swap: dict[Tensor, Tensor] = {}
    for name, value in constants.items():
        if name not in named:
            raise no_input(name, [tensor.name for tensor in graph.inputs])
        if named[name] in swap:
            raise InvalidArgumentError(f"constant {name!r}: {named[name]} has one already, by its other name")
        if [tensor.name for tensor in graph.inputs].count(name) > 1:
            raise InvalidArgumentError(f"constant {name!r}: several inputs are called so; rename all but one")
        if named[name] in written:
            raise InvalidArgumentError(f"constant {name!r}: an operator writes this input, so it must stay one")
        swap[named[name]] = fixed(named[name], value)
    graph, values = swap_tensors(graph, swap), set(swap.values())
    inputs = tuple(t for t in graph.inputs if t not in values)
    left = [{key: t for key, t in s.inputs.items() if t not in values} for s in graph.signatures]
    signatures = tuple(replace(s, inputs=named) for s, named in zip(graph.signatures, left, strict=True))
    return replace(graph, inputs=inputs, signatures=signatures)


def inputs_by_name(graph: Graph) -> dict[str, Tensor]:
    """The inputs of the main subgraph by their names there and in its signatures; their own names go first."""
    keyed = {key: t for s in graph.signatures if s.subgraph == 0 for key, t in s.inputs.items() if t in graph.inputs}
    return {**keyed, **{tensor.name: tensor for tensor in graph.inputs}}


def no_input(name: str, inputs: Iterable[str]) -> InvalidArgumentError:
    """What is wrong with a constant of this name."""
    known = ", ".join(map(repr, inputs))
    return InvalidArgumentError(f"constant {name!r}: no input is called so; the inputs are: {known}")


def fixed(tensor: Tensor, given: Any) -> Tensor:
    """The input as a constant of this value. Extents that its ``shape_signature`` leaves open follow from the value;
    InvalidArgumentError for one that does not fit."""
    value = np.asarray(given)
    open_extent = any(d < 0 for d in tensor.shape_signature)
    shape = value.shape if open_extent and value.size != tensor.size else tensor.shape
    if tensor.type not in DTYPES or value.dtype.kind not in "biuf":
        raise InvalidArgumentError(f"{tensor} cannot become a constant of {value.dtype}")
    if value.size != int(np.prod(shape)):
        raise InvalidArgumentError(f"{tensor} has {tensor.size} elements, its constant {value.size}")
    with np.errstate(all="ignore"):
        data = value.astype(tensor.dtype).reshape(shape)
    whole = np.array_equal(data.reshape(-1), value.reshape(-1), equal_nan=value.dtype.kind == "f")
    if data.dtype.kind != "f" and not whole:
        raise InvalidArgumentError(f"{tensor} cannot hold {value.reshape(-1).tolist()[:8]}: other values would result")
    data.flags.writeable = False
    return replace(tensor, data=data, shape=shape, shape_signature=())


def open_batch(graph: Graph) -> Graph:
    """The graph with -1 as the first extent of every RESHAPE's shape; as it is if that would not do.

    It is tried: the inputs that have the first one's batch get twice as much of it. What a RESHAPE reads and writes may
    then have twice as much in front, and nothing else may have changed.
    """
    batch = graph.inputs[0].shape[:1] if graph.inputs else ()
    at = {node: changed for node in graph.nodes if (changed := _open(node))}
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


def _open(node: Node) -> Node | None:
    """The RESHAPE with -1 in front; None if the node is none, or its shape is not known."""
    asked = node.optional(1) if node.op == "RESHAPE" else None
    if asked is None or asked.data is None or (asked.data < 0).any() or not node.output.shape or not node.output.size:
        return None
    data = np.array(asked.data)
    data[0] = -1
    data.flags.writeable = False
    options = MappingProxyType({**node.options, "new_shape": tuple(data.tolist())})
    return replace(node, inputs=(node.input(0), replace(asked, data=data)), options=options)
