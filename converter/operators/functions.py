"""Functions of single values: activations above all."""

from __future__ import annotations

from functools import partial
from math import inf

from twinfer.converter.facts import INT8, INT8_AND_INT16, Row, Scales
from twinfer.converter.operators._versions import INT8_2_INT16_3, plain_int16, typed

_Function = partial(Row, elementwise=True)
_Clamp = partial(_Function, clamps=True, zero_stays=True)

_FROM_0_TO_1 = Scales(fixed8=(1 / 256, -128), fixed16=(1 / 32768, 0), imported=True)
_FROM_MINUS_1_TO_1 = Scales(fixed8=(1 / 128, 0), fixed16=(1 / 32768, 0), imported=True)
_IMPORTED = Scales(imported=True)

ROWS = {
    "RELU": _Clamp(types=INT8_AND_INT16, scales=_IMPORTED, versions=INT8_2_INT16_3),
    # TFLM clamps RELU6 without requantising.
    "RELU6": _Clamp(types=INT8_AND_INT16, scales=Scales(same=True, imported=True), versions=INT8_2_INT16_3),
    "RELU_N1_TO_1": _Clamp(types=INT8, scales=_IMPORTED),
    "RELU_0_TO_1": _Clamp(types=INT8, scales=_IMPORTED),
    "LEAKY_RELU": _Function(types=INT8_AND_INT16, scales=_IMPORTED, zero_stays=True, versions={"INT16": 2}),
    "HARD_SWISH": _Function(types=INT8, scales=Scales(least=2**-6, imported=True), zero_stays=True),
    "ELU": _Function(types=INT8, zero_stays=True),
    "GELU": _Function(types=INT8_AND_INT16, zero_stays=True, versions={"INT8": 2}),
    "LOGISTIC": _Function(types=INT8_AND_INT16, scales=_FROM_0_TO_1, range=(0.0, 1.0), versions=INT8_2_INT16_3),
    "TANH": _Function(
        types=INT8_AND_INT16, scales=_FROM_MINUS_1_TO_1, range=(-1.0, 1.0), zero_stays=True, versions=INT8_2_INT16_3
    ),
    "ABS": _Function(
        types=INT8_AND_INT16,
        range=(0.0, inf),
        zero_stays=True,
        versions=INT8_2_INT16_3,
        needs=((4, plain_int16), (5, typed(0, "INT32"))),
    ),
    "EXP": _Function(types=INT8_AND_INT16, magnifies=0, range=(0.0, inf), versions={"INT8": 2, "INT16": 2}),
    "LOG": _Function(types=INT8_AND_INT16, magnifies=0, versions={"INT8": 2, "INT16": 2}),
    "SQRT": _Function(types=INT8_AND_INT16, magnifies=0, range=(0.0, inf), zero_stays=True),
    "RSQRT": _Function(types=INT8_AND_INT16, magnifies=0, versions=INT8_2_INT16_3),
    "SQUARE": _Function(range=(0.0, inf), zero_stays=True),
    "NEG": _Function(types=("INT16",), scales=Scales(same=True), zero_stays=True),  # LiteRT negates stored values
    "SIGN": _Function(zero_stays=True, versions={"INT32": 2}),
    "SIN": _Function(zero_stays=True),
    "COS": _Function(),
    "CEIL": _Function(zero_stays=True),
    "FLOOR": _Function(zero_stays=True),
    "ROUND": _Function(zero_stays=True),
}
