"""Inputs that become constants: what an input's value decides (a size, a count, a choice) is then known to planning.
And batches that stay open in constants that say shapes, so that ``resize_tensor_input`` may change them afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from twinfer.converter.passes._rewrite import swap_tensors
from twinfer.runtime.errors import InvalidArgumentError, TwinferError
from twinfer.runtime.graph import DTYPES, Array, Graph, Node, Tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
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


#: Multiply-accumulates of the largest model that is run to see whether its batch can be opened.
MOST_MACS = 20_000_000


def open_batch(graph: Graph) -> Graph:
    """The graph with -1 as the first extent of every RESHAPE's shape and of slices that take all of the batch; as it is
    if that would not do. Opening a SLICE takes bytes, so where a .tflite file's batch is fixed and there are some, all
    stays: were only the RESHAPEs opened, a larger batch would be one without a word.

    It is tried: the inputs that have the first one's batch get twice as much of it. What a RESHAPE reads and writes may
    then have twice as much in front, and nothing else may have changed.
    """
    batch = graph.inputs[0].shape[:1] if graph.inputs else ()
    at = {node: changed for node in graph.nodes if (changed := _open(node))}
    if not at or batch in ((), (0,)) or graph.subgraphs:
        return graph
    if "fixed_batch" in graph.extra and any(node.op == "SLICE" for node in at):
        return graph
    opened = replace(graph, nodes=tuple(at.get(node, node) for node in graph.nodes))
    new = [t for node in at.values() for t in node.inputs if t is not None and t not in graph.tensors]
    opened = replace(opened, tensors=(*graph.tensors, *new))
    try:
        twice = infer_shapes(opened, {t: _twice(t.shape) for t in graph.inputs if t.shape[:1] == batch}, keep_half=True)
    except TwinferError:
        return graph
    grown = dict(zip(opened.tensors, twice.tensors, strict=False))
    reshapes = [node for node in at.values() if node.op == "RESHAPE"]
    if any(grown[t].shape not in (t.shape, _twice(t.shape)) for node in reshapes for t in (node.input(0), node.output)):
        return graph
    if any(t.shape[:1] == batch and grown[t].shape == t.shape for t in graph.outputs):
        return graph
    try:
        if not _apart(opened, twice):
            return graph
    except TwinferError:  # what cannot run is refused elsewhere
        return graph
    used = {t for node in opened.nodes for t in (*node.inputs, *node.outputs)} | {*graph.inputs, *graph.outputs}
    replaced = {t for node in at for t in node.inputs} - used
    opened = replace(opened, tensors=tuple(t for t in opened.tensors if t not in replaced))
    # LiteRT resizes what a SLICE gives only where the file says that it is open.
    sliced = [t for node in at.values() if node.op == "SLICE" for t in node.outputs if grown[t].shape != t.shape]
    return swap_tensors(opened, {t: replace(t, shape_signature=(-1, *t.shape[1:])) for t in sliced})


def _apart(graph: Graph, twice: Graph) -> bool:
    """Whether the two halves of a batch stay apart where a RESHAPE mixes the batch with other dimensions: each gives
    what it gives alone. Small models are run to see it."""
    mixed = any(n.op == "RESHAPE" and n.output.shape[:1] != n.input(0).shape[:1] for n in graph.nodes)
    if not mixed:
        return True
    plans = [make_plan(each, options=Options(memory="layers")) for each in (graph, twice)]
    if plans[1].macs > MOST_MACS:
        return True
    single, double = map(Session, plans)
    values = random_inputs(twice)
    apart = [len(t.shape) > 0 and t.shape != u.shape for t, u in zip(graph.inputs, twice.inputs, strict=True)]
    whole = _outputs(double, values)
    for half in (0, 1):
        mine = [_half(v, half) if split else v for v, split in zip(values, apart, strict=True)]
        for one, two in zip(_outputs(single, mine), whole, strict=True):
            part = _half(two, half) if one.shape != two.shape else two
            least = 1e-4 * max(float(np.abs(part).max(initial=0, where=np.isfinite(part))), 1e-30)
            if one.shape != part.shape or not np.allclose(
                one, part, rtol=1e-3, atol=np.nan_to_num(least), equal_nan=True
            ):
                return False
    return True


def _half(values: Array, half: int) -> Array:
    n = len(values) // 2
    return values[half * n : (half + 1) * n]


def _outputs(session: Session, values: Sequence[Array]) -> list[Array]:
    session.reset_variables()
    session.feed(values)
    session.run()
    return [value.copy() for value in session.outputs()]


def _twice(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (2 * shape[0], *shape[1:]) if shape else ()


def _open(node: Node) -> Node | None:
    """The RESHAPE with -1 in front, or the slice with all of the first dimension; None if the node is none of these, or
    what it takes is not known."""
    if node.op in ("SLICE", "STRIDED_SLICE"):
        return _all_of_batch(node)
    asked = node.optional(1) if node.op == "RESHAPE" else None
    if asked is None or asked.data is None or (asked.data < 0).any() or not node.output.shape or not node.output.size:
        return None
    data = np.array(asked.data)
    data[0] = -1
    data.flags.writeable = False
    return replace(node, inputs=(node.input(0), replace(asked, data=data)))


def _all_of_batch(node: Node) -> Node | None:
    """A slice that takes all of the first dimension, with no number for it."""
    x, begin, end = node.input(0), node.input(1), node.input(2)
    masks = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset")
    if begin.data is None or end.data is None or not x.shape or any(node.options.get(mask) for mask in masks):
        return None
    if node.output.shape[:1] != x.shape[:1] or int(begin.data.reshape(-1)[0]):
        return None
    if node.op == "SLICE":
        data = np.array(end.data)
        data[0] = -1
        data.flags.writeable = False
        return replace(node, inputs=(x, begin, replace(end, data=data)))
    steps = node.input(3).data
    if steps is None or int(steps.reshape(-1)[0]) != 1 or int(node.options.get("end_mask", 0)) & 1:
        return None
    return replace(node, options=MappingProxyType({**node.options, "end_mask": int(node.options["end_mask"]) | 1}))
