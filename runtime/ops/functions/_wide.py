"""Functions of one int16 value: most through a table of 513 values, ABS, NEG, SQRT and RSQRT by arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.fixed_point import quantize_multiplier, requantize
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import unsupported
from twinfer.runtime.ops.core.lookup import lookup_s16, table_s16
from twinfer.runtime.ops.functions._int8 import by_root, check, root_multiplier
from twinfer.runtime.ops.functions._unary import elementwise
from twinfer.runtime.program import Call
from twinfer.runtime.rows import ELEMENTS

LEAST, MOST = -(1 << 15), (1 << 15) - 1

#: A real function of float32 arrays that may depend on the node's options and scales.
Real = Callable[[Node, Array], Array]


class Wide(NamedTuple):
    """``reference`` maps stored int16 values, ``lower`` gives the call; ``check`` refuses what they cannot take."""

    reference: Callable[[Node, Array], Array]
    lower: Callable[[Node], Call]
    check: Callable[[Node], None] = lambda node: None


def _table(node: Node, real: Real) -> Array:
    """Source: LiteRT's LUTPopulateInt16, in float32."""
    x, y = np.float32(node.input(0).scale), np.float32(node.output.scale)
    steps = np.float32(1 << 16) / (y * np.float32(MOST) - y * np.float32(LEAST))
    return table_s16(lambda v: real(node, v), float(x * np.float32(LEAST)), float(x * np.float32(MOST)), float(steps))


def by_table(real: Real) -> Wide:
    """An operator that LiteRT computes by a table of ``real``."""

    def lower(node: Node) -> Call:
        inputs = (node.input(0), constant.table(_table(node, real)))
        return Call("tw_lut_s16", {"size": node.output.size}, inputs, (node.output,), inplace=(0,), rows=ELEMENTS)

    return Wide(lambda node, q: lookup_s16(_table(node, real), q).astype(np.int16), lower)


def least(node: Node) -> np.float32:
    """The least real value of the output."""
    return np.float32(LEAST) * np.float32(node.output.scale)


def _ratio(node: Node) -> tuple[int, int]:
    """Source: TFLM elementwise.cc, SetAbsOutputMultiplier: divided in float32."""
    return quantize_multiplier(float(np.float32(node.input(0).scale) / np.float32(node.output.scale)))


def _check_ratio(node: Node) -> None:
    if _ratio(node)[1] > 14:
        raise unsupported(node, f"the scale of {node.output} is too small beside its input's; requantise the model")


def rescaled(function: Callable[[Array], Array]) -> Wide:
    """An operator whose ``function`` of stored values only has to be rescaled. Source: TFLM's AbsEvalQuantized."""

    def reference(node: Node, q: Array) -> Array:
        steps = requantize(function(q.astype(np.int64)), *_ratio(node))
        return np.asarray(steps.clip(LEAST, MOST), np.int16)

    def lower(node: Node) -> Call:
        mult, shift = _ratio(node)
        return elementwise(node, f"tw_{node.op.lower()}_s16", mult=mult, shift=shift)

    return Wide(reference, lower, _check_ratio)


def _root(node: Node, q: Array) -> Array:
    """Source: LiteRT elementwise.cc, SqrtEvalQuantized: in float32, rounded towards zero; 0 for negative values."""
    real = np.float32(node.input(0).scale) * np.maximum(q, 0).astype(np.float32)
    with np.errstate(over="ignore"):
        return np.asarray(np.minimum(np.sqrt(real) / np.float32(node.output.scale), MOST), np.float32).astype(np.int16)


ROOT = Wide(_root, lambda node: elementwise(node, "tw_sqrt_s16", scale=node.input(0).scale, step=node.output.scale))


def _lower_by_root(node: Node) -> Call:
    mult, shift = root_multiplier(node)
    return elementwise(node, "tw_rsqrt_s16", mult=mult, shift=shift)


BY_ROOT = Wide(by_root, _lower_by_root, check)
