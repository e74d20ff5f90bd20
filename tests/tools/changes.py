"""Cases of operators with one thing changed: an option, a tensor, a number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from cases import fed, graph_of, values_of

from twinfer.runtime.graph import DTYPES, Node, Quant, Tensor
from twinfer.runtime.op import Case


def changed(t: Tensor, rng: np.random.Generator) -> Iterator[Tensor]:
    """The tensor with other quantisation, of another type, extent or rank, or with one other number."""
    for type in ("FLOAT32", "INT8", "UINT8", "INT16", "INT32", "INT64", "BOOL"):
        if type != t.type:
            quant = None if type in ("FLOAT32", "INT64", "BOOL") or t.quant is None else t.quant
            yield replace(t, type=type, quant=quant, data=None if t.data is None else t.data.astype(DTYPES[type]))
    if t.quant is not None:
        yield replace(t, quant=None)
        for times in (1.5, 2.0**-9, 2.0**9):
            yield replace(t, quant=Quant(t.quant.scale * np.float32(times), t.quant.zero_point, t.quant.axis))
        yield replace(t, quant=Quant(t.quant.scale, t.quant.zero_point + 1, t.quant.axis))
    for axis, n in enumerate(t.shape):
        for other in {n + 1, max(n - 1, 0), 0} - {n}:
            shape = (*t.shape[:axis], other, *t.shape[axis + 1 :])
            if other or t.data is None:
                yield replace(t, shape=shape, data=None if t.data is None else np.resize(t.data, shape))
    yield replace(t, shape=(1, *t.shape), data=None if t.data is None else t.data[None])
    if t.data is None or t.data.size == t.size:
        yield replace(t, shape=t.shape[::-1], data=None if t.data is None else t.data.reshape(t.shape[::-1]))
    if t.data is not None and t.data.size and t.data.dtype.kind in "iu":
        for wide in dict.fromkeys([t.data.dtype, np.dtype(np.int64)][: 1 + (t.type == "INT32")]):
            at = rng.integers(t.data.size)
            for value in (
                int(t.data.flat[at]) - 1,
                int(t.data.flat[at]) + 1,
                0,
                np.iinfo(wide).min,
                np.iinfo(wide).max,
            ):
                data = t.data.astype(wide)
                data.flat[at] = np.clip(value, np.iinfo(wide).min, np.iinfo(wide).max)
                yield replace(t, type=wide.name.upper(), data=data)


def other_options(node: Node) -> Iterator[Node]:
    """The node with each of its options changed."""
    for name, value in node.options.items():
        others: Sequence[object] = ()
        if isinstance(value, bool):
            others = (not value,)
        elif isinstance(value, int):
            others = (value - 1, value + 1, -value, 0)
        elif name == "fused_activation_function":
            others = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1", "TANH")
        elif name == "padding":
            others = ("SAME", "VALID")
        for other in others:
            yield replace(node, options={**node.options, name: other})


def with_tensor(node: Node, t: Tensor, other: Tensor | None) -> Node:
    """The node with another tensor in the place of one, wherever it has that."""
    inputs, outputs = (tuple(other if each is t else each for each in side) for side in (node.inputs, node.outputs))
    return replace(node, inputs=inputs, outputs=outputs)


def other_zeros(node: Node) -> Iterator[Node]:
    """The node with another zero point of each of its tensors."""
    for t in dict.fromkeys([*node.inputs, *node.outputs]):
        if t is not None and t.quant is not None and t.type in ("INT8", "UINT8"):
            yield with_tensor(node, t, replace(t, quant=Quant(t.quant.scale, t.quant.zero_point ^ 1, t.quant.axis)))


def changes(case: Case, rng: np.random.Generator) -> Iterator[Case]:
    """The case with each of its options, tensors and numbers changed, one at a time; None for inputs that may lack."""
    node, inputs = case.node, fed(case.node)
    values = values_of(case, graph_of(node))
    for k, t in enumerate(inputs if len(inputs) > 1 else ()):
        for value in range(-2, 7) if t.type in ("INT32", "INT64") and values[k].size else ():
            numbers = values[k].copy()
            numbers.flat[rng.integers(numbers.size)] = value
            yield replace(case, inputs=(*values[:k], numbers, *values[k + 1 :]))
    for near in other_options(node):
        yield replace(case, node=near)
    for t in dict.fromkeys([*node.inputs, *node.outputs]):
        for other in [*changed(t, rng), *[None] * (t.data is not None)] if t is not None else ():
            if t in node.outputs and (other is None or other.shape != t.shape):
                continue  # readers infer these
            given = case.inputs
            if given is not None and other is not None:
                given = tuple(
                    np.resize(v, other.shape).astype(other.dtype) if x is t else v
                    for x, v in zip(inputs, given, strict=True)
                )
            yield replace(case, node=with_tensor(node, t, other), inputs=given)


def smaller(cases: Iterable[Case], elements: int) -> list[Case]:
    """The cases whose inputs have fewer elements, all together."""
    return [case for case in cases if sum(t.size for t in case.node.inputs if t is not None) < elements]


def one_of_types(cases: Iterable[Case]) -> list[Case]:
    """The last case of every combination of types."""
    return [*{tuple(t and t.type for t in (*case.node.inputs, *case.node.outputs)): case for case in cases}.values()]
