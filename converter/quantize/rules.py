"""What TFLite's kernels want of quantised operators: one row an operator.

Source: LiteRT's "8-bit quantization specification" and TFLite's tools/optimize/operator_property.cc (same scales, fixed
scales, versions); int16x8 and int4 by what LiteRT's reference kernels accept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from twinfer.runtime.graph import Node

#: Scale and zero point.
Fixed = tuple[float, int]

#: All inputs, however many there are.
ALL = None


@dataclass(frozen=True)
class Rule:
    """How one operator is quantised.

    ``activations`` are the positions of the inputs that carry values (ALL: every one): computed ones have a scale of
    their own, constants are quantised like them. ``weights`` is the position of the constant weights, ``axis`` the one
    that has a scale each unless a recipe says otherwise, ``bias`` the position of the bias.
    ``same``: values and outputs share scale and zero point. ``fixed8`` and ``fixed16``: the output's quantisation.
    ``least``: kernels refuse the multiplier if the output's range is a smaller share of an input's (times the greatest
    weight; ``squares``: of its square). ``span``: the least range of an input that they take. ``integer``: the output
    holds indices or truth values. ``int16``: there are int16x8 kernels, ``int4``: weights may be INT4, ``int4_axis``:
    also with a scale a channel. ``divisor``: position of an input that must stay two steps away from 0, where kernels
    abort; nodes whose input does not stay float.
    """

    activations: tuple[int, ...] | None = (0,)
    weights: int | None = None
    axis: int = 0
    bias: int | None = None
    same: bool = False
    fixed8: Fixed | None = None
    fixed16: Fixed | None = None
    least: float = 0.0
    squares: bool = False
    span: float = 0.0
    integer: bool = False
    int16: bool = True
    int4: bool = False
    int4_axis: bool = True
    divisor: int | None = None

    def values(self, node: Node) -> Iterator[int]:
        """Positions of the inputs that carry values and are there."""
        wanted = range(len(node.inputs)) if self.activations is ALL else self.activations
        return (i for i in wanted if node.optional(i) is not None)


def _moves(*, int16: bool = True, activations: tuple[int, ...] | None = (0,)) -> Rule:
    """An operator that passes values on or chooses among them."""
    return Rule(activations, same=True, int16=int16)


def _pairs(*, int16: bool = True, least: float = 0.0) -> Rule:
    """An element-wise operator of two values."""
    return Rule((0, 1), int16=int16, least=least)


def _table(*, int16: bool = False, fixed8: Fixed | None = None, fixed16: Fixed | None = None) -> Rule:
    """A function of single values, or one over an axis, of one input."""
    return Rule(int16=int16, fixed8=fixed8, fixed16=fixed16)


_COMPARISON = Rule((0, 1), integer=True, int16=False)
_UNIT = 1 / 32768
_LEAST = 2**-12
_SPAN = 2**-15  # steps of an exponential have 26 fractional bits

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "CONV_2D": Rule(weights=1, bias=2, int4=True, least=_LEAST),
        "DEPTHWISE_CONV_2D": Rule(weights=1, axis=3, bias=2, int4=True, least=_LEAST),
        "TRANSPOSE_CONV": Rule((2,), weights=1, bias=3, least=_LEAST),
        "FULLY_CONNECTED": Rule(
            weights=1, bias=2, int4=True, int4_axis=False, least=_LEAST
        ),  # TFLM: one scale for INT4
        "SVDF": Rule(int16=False),  # quant_states has the rest of these two
        "UNIDIRECTIONAL_SEQUENCE_LSTM": Rule(int16=False),
        "BATCH_MATMUL": _pairs(),
        "ADD": _pairs(least=_LEAST),
        "SUB": _pairs(least=_LEAST),
        "MUL": _pairs(),
        "SQUARED_DIFFERENCE": Rule((0, 1), int16=False, least=2**-11 / 255, squares=True),
        "DIV": Rule((0, 1), int16=False, divisor=1),
        "PRELU": _pairs(int16=False),  # its slopes would have to be INT8
        "MAXIMUM": _moves(activations=(0, 1)),
        "MINIMUM": _moves(activations=(0, 1)),
        "SOFTMAX": Rule(fixed8=(1 / 256, -128), fixed16=(_UNIT, 0), span=_SPAN),
        "LOGISTIC": _table(int16=True, fixed8=(1 / 256, -128), fixed16=(_UNIT, 0)),
        "TANH": _table(int16=True, fixed8=(1 / 128, 0), fixed16=(_UNIT, 0)),
        "LOG_SOFTMAX": Rule(fixed8=(16 / 256, 127), int16=False, span=_SPAN),
        "L2_NORMALIZATION": _table(fixed8=(1 / 128, 0)),
        "RELU": _table(int16=True),
        "RELU6": _moves(),  # TFLM clamps without requantising
        "RELU_N1_TO_1": _table(),
        "RELU_0_TO_1": _table(),
        "LEAKY_RELU": _table(int16=True),
        "HARD_SWISH": Rule(int16=False, least=2**-6),
        "ELU": _table(),
        "GELU": _table(),
        "EXP": _table(int16=True),
        "LOG": _table(int16=True),
        "ABS": _table(int16=True),
        "RSQRT": _table(int16=True),
        "SQRT": _table(),
        "MEAN": _table(int16=True),
        "SUM": _table(),
        "REDUCE_MAX": _moves(),
        "REDUCE_MIN": _moves(),
        "AVERAGE_POOL_2D": _moves(),
        "MAX_POOL_2D": _moves(),
        "CONCATENATION": _moves(activations=ALL),
        "PACK": _moves(activations=ALL),
        "UNPACK": _moves(),
        "SPLIT": _moves(activations=(1,)),
        "SPLIT_V": _moves(),
        "RESHAPE": _moves(),
        "SQUEEZE": _moves(),
        "EXPAND_DIMS": _moves(),
        "TRANSPOSE": _moves(),
        "PAD": _moves(),
        "PADV2": _moves(activations=(0, 2)),
        "MIRROR_PAD": _moves(),
        "SLICE": _moves(),
        "STRIDED_SLICE": _moves(),
        "GATHER": _moves(),
        "GATHER_ND": _moves(),
        "TILE": _moves(),
        "BROADCAST_TO": _moves(),
        "REVERSE_V2": _moves(int16=False),
        "SELECT": _moves(activations=(1, 2)),
        "SELECT_V2": _moves(activations=(1, 2)),
        "DEPTH_TO_SPACE": _moves(int16=False),
        "SPACE_TO_DEPTH": _moves(int16=False),
        "BATCH_TO_SPACE_ND": _moves(int16=False),
        "SPACE_TO_BATCH_ND": _moves(int16=False),
        "RESIZE_BILINEAR": _moves(int16=False),
        "RESIZE_NEAREST_NEIGHBOR": _moves(),
        "ARG_MAX": Rule(integer=True, int16=False),
        "ARG_MIN": Rule(integer=True, int16=False),
        **dict.fromkeys(("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"), _COMPARISON),
    }
)
