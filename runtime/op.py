"""What an operator is (``Op``): its checks, its meaning in numpy, and the kernel call that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: Floats of another machine or library may differ by this share of the tensor's largest magnitude.
TOLERANCE = 1e-5
Shape = tuple[int, ...]

#: Type -> what the names of its kernels end with; bool runs as bytes.
SUFFIX = {
    "INT8": "s8", "INT16": "s16", "INT32": "s32", "INT64": "s64", "UINT8": "u8", "UINT32": "u32", "BOOL": "s8",
    "FLOAT16": "f16", "FLOAT32": "f32", "FLOAT64": "f64",
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A small node that tries an operator. Inputs without data are fed at run time.

    ``inputs`` gives the values to feed (None: random over the type's whole range, floats normal with sigma 3);
    ``oracle`` is the runtime whose output counts: "tflm", "litert" (its reference kernels) or "none" with ``why``.
    ``tolerance`` is the largest absolute difference of float outputs to reference and oracle (0: the same bits);
    integers are always compared with ``==``. Interpreter and compiled code always give the same bits.
    """

    node: Node
    inputs: tuple[Array, ...] | None = None
    oracle: str = "tflm"
    why: str = ""
    tolerance: float = 0.0


class Border(NamedTuple):
    """Pixels around images [batches, height, width, channels]: so many rows before and behind, columns before and
    behind, all of one value (an integer of quantised images, as it is stored)."""

    rows: tuple[int, int]
    columns: tuple[int, int]
    value: float


#: What an operator says of itself to the pass that makes tables.
Pointwise = Literal["", "exact", "near"]

#: What an operator does with quantised uint8.
Uint8 = Literal["", "layer", "computes", "moves", "floats"]


@dataclass(frozen=True)
class Op:
    """One TFLite operator.

    ``infer(node)`` checks the node (ranks, shapes, types, options; ModelError or UnsupportedOperatorError) and returns
    the shape of every output; it needs only the inputs' shapes and constants. ``reference(node, inputs)`` is the
    meaning in plain numpy. ``lower(node, target)`` gives the call in plain C, which serves every node. Planning asks it
    after ``infer`` has agreed with the outputs' shapes, if no variant (runtime/variant.py) takes the node.
    ``keeps_state``: the call writes variables that ``lower`` makes, and ``reference`` computes the first run alone; the
    node must be run once per run of the model, whatever its inputs are.

    Planning folds borders into windows (runtime/passes/folding.py) by two answers about a node that ``infer`` takes.
    ``border(node)``: what it puts around its input 0, None unless it does nothing else. ``beyond(node)``: the value
    of pixels around input 0 with which windows give the same bits as the option ``padding`` over input 0 alone; None if
    there is none.

    ``pointwise``: each element of the output is a function of those at the same place of its inputs, so that planning
    may make a table of it (runtime/passes/stacking.py). "exact": kernels give the reference's bits; "near": float32 may
    be off by about ``tolerance``. "" is any other operator. ``keeps_channels``: it is not pointwise, but the last axis
    of its output is that of its input.

    ``uint8`` (runtime/passes/unsigned.py): "computes" with it as with int8, as a "layer" with weights does; "moves" it
    as int8, and takes it as it comes; "floats": LiteRT computes in float32 from what it stands for. "" refuses it.

    Constants of 2 and 4 bits become int8 before planning (runtime/stored.py). ``packed_weights``: but not those of
    input 1, which ``lower`` unpacks, so that coding can pack them again. ``picks_rows``: of constants, so that its
    output, too, may become int8.
    """

    name: str
    infer: Callable[[Node], list[Shape]]
    reference: Callable[[Node, list[Any]], list[Array]]
    lower: Callable[[Node, Target], Call]
    cases: Callable[[np.random.Generator], Iterator[Case]]
    keeps_state: bool = False
    border: Callable[[Node], Border | None] | None = None
    beyond: Callable[[Node], float | None] | None = None
    pointwise: Pointwise = ""
    keeps_channels: bool = False
    uint8: Uint8 = ""
    packed_weights: bool = False
    picks_rows: bool = False


def tensor(
    shape: Shape,
    type: str = "FLOAT32",
    scale: float | Sequence[float] | None = None,
    zero: int | Sequence[int] = 0,
    data: Array | None = None,
    name: str = "t",
) -> Tensor:
    """A tensor in one line, for ``cases`` and tests; scale and zero may be sequences (per channel)."""
    from twinfer.runtime.graph import DTYPES, Quant

    quant = None
    if scale is not None:
        scales = np.atleast_1d(np.asarray(scale, np.float32))
        quant = Quant(scales, np.broadcast_to(np.asarray(zero, np.int64), scales.shape).copy())
    if data is not None:
        data = np.ascontiguousarray(data, DTYPES[type]).reshape(shape)
    return Tensor(name, type, tuple(shape), quant, data)


def along(tensor: Tensor, axis: int) -> Tensor:
    """The tensor with its scales along ``axis`` instead of the first axis."""
    return tensor if tensor.quant is None else replace(tensor, quant=replace(tensor.quant, axis=axis))


def need(condition: bool, node: Node, message: str) -> None:
    """Raise ModelError naming the node unless ``condition`` holds."""
    if not condition:
        raise ModelError(f"{node}: {message}")


def need_type(node: Node, tensor: Tensor, *types: str) -> None:
    """Raise UnsupportedOperatorError unless the tensor's type is one of ``types``."""
    if tensor.type not in types:
        from twinfer.runtime.registry import find

        op = find(node.op)
        if len(types) > 1 and "INT8" in types and op is not None and op.uint8 in ("layer", "computes"):
            types = (*types, "UINT8 with a scale")
        raise UnsupportedOperatorError(
            f"{node}: {tensor} has a type that twinfer has no kernel for here; supported: {', '.join(types)}"
        )


def unsupported(node: Node, message: str) -> UnsupportedOperatorError:
    return UnsupportedOperatorError(f"{node}: {message}")
