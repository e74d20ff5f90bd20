"""Functions of one element in float32, int8 or int16; int8 goes through a table of 256, computed when planning."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Shape, need, need_type, tensor
from twinfer.runtime.ops.core.quantized import need_symmetric
from twinfer.runtime.program import Call
from twinfer.runtime.rows import ELEMENTS
from twinfer.runtime.target import Target

#: All int8 values, in order.
INT8 = np.arange(-128, 128)

_LEAST, _MOST = 2.0**-100, 2.0**100


def infer(node: Node, *types: str) -> list[Shape]:
    """One input, one output of its shape and type; integers need per-tensor quantisation on both.

    ``types`` are taken beside FLOAT32 and INT8.
    """
    need(len(node.inputs) == 1, node, f"it has {len(node.inputs)} inputs, not 1")
    x, y = node.input(0), node.output
    need_type(node, x, "FLOAT32", "INT8", *types)
    need(x.type == y.type, node, f"{x} and {y} differ in type")
    if x.type != "FLOAT32":
        need_symmetric(node, x, y)
        usable = all(_LEAST < t.scale < _MOST for t in (x, y))
        need(usable, node, f"scales {x.scale} and {y.scale} are beyond what float32 can divide: requantise {x} and {y}")
    return [x.shape]


def lookup(node: Node, function: Callable[[Array], Array], target: Target) -> Call:
    """The call that maps every byte of input 0 through ``function``, which maps int8 values (held in int64) to int8."""
    return by_bytes(node, np.roll(function(INT8).astype(np.int8), 128), target)


def by_bytes(node: Node, table: Array, target: Target) -> Call:
    """The call that looks every byte of input 0 up in ``table`` [256]."""
    kernel, inputs = "tw_lut_wide" if target.has("simd") else "tw_lut", (node.input(0), constant.table(table))
    return Call(kernel, {"size": node.output.size}, inputs, (node.output,), inplace=(0,), rows=ELEMENTS)


def elementwise(node: Node, kernel: str, **params: float) -> Call:
    """The call of a float kernel over all elements."""
    return Call(
        kernel, {"size": node.output.size, **params}, (node.input(0),), (node.output,), inplace=(0,), rows=ELEMENTS
    )


def in_double(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """``function`` computed in float64 and rounded to the type of its argument, as libm intends.

    TFLite calls its libm's float functions, which for some arguments are off by one bit (expf of glibc 2.36) or two
    (tanhf). Its int8 tables may then differ from ours by one, where that bit decides a half: with output steps below
    about 2^-10 of the values. Ours are the same on every machine.
    """

    def rounded(x: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(function(x.astype(np.float64))).astype(x.dtype)

    return rounded


def through_float(node: Node, q: Array, function: Callable[[Array], Array]) -> Array:
    """int8 values through a real function of float32 arrays: dequantised, mapped and requantised in float32.

    Source: LiteRT's LUTPopulate. Halves round away from zero; NaN gives the least value. Outputs of 2^31
    steps and more saturate (TFLM's ELU casts them to int32, which C leaves undefined).
    """
    x, y = node.input(0), node.output
    real = np.float32(x.scale) * (q.astype(np.int64) - x.zero).astype(np.float32)
    inverse = np.float32(1) / np.float32(y.scale)
    with np.errstate(over="ignore"):
        steps = np.nan_to_num(function(real) * inverse, nan=-np.inf)
    whole = np.copysign(np.floor(np.minimum(np.abs(steps), 1e6).astype(np.float64) + 0.5), steps)
    return np.asarray(np.clip(whole + y.zero, -128, 127), np.int8)


def int8_case(op: str, x: tuple[float, int], y: tuple[float, int], oracle: str = "tflm", why: str = "") -> Case:
    """All 256 values through the operator; ``x`` and ``y`` are (scale, zero point)."""
    node = Node(op, (tensor((2, 128), "INT8", *x),), (tensor((2, 128), "INT8", *y, name="y"),))
    return Case(node, (INT8.astype(np.int8).reshape(2, 128),), oracle, why)


def int16_case(op: str, x: float, y: float, oracle: str = "tflm", why: str = "", **options: float) -> Case:
    """All int16 values through the operator; ``x`` and ``y`` are scales."""
    values = np.arange(-(1 << 15), 1 << 15).astype(np.int16).reshape(16, -1)
    node = Node(op, (tensor(values.shape, "INT16", x),), (tensor(values.shape, "INT16", y, name="y"),), options)
    return Case(node, (values,), oracle, why)


#: Values where float kernels branch or overflow.
FLOATS = (0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, -6.0, 9.0, -9.0, -9.000001, 16.619047, 16.62, 88.0, -104.0, 1e30, -1e30)


def float_cases(op: str, tolerance: float, shapes: Sequence[Shape] = ((1,), (3, 5), (2, 3, 4, 7))) -> list[Case]:
    """Random values in a few shapes, and the values where kernels branch."""
    cases = [Case(Node(op, (tensor(s),), (tensor(s, name="y"),)), tolerance=tolerance) for s in shapes]
    edges = np.array(FLOATS, np.float32)
    node = Node(op, (tensor(edges.shape),), (tensor(edges.shape, name="y"),))
    return [*cases, Case(node, (edges,), tolerance=tolerance)]
