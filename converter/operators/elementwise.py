"""Operators that compute every element of the output from those at the same place."""

from __future__ import annotations

from functools import partial

from twinfer.converter.facts import ALL, INT8, INT8_AND_INT16, Row, Scales
from twinfer.converter.operators._versions import (
    INT8_2_INT16_3,
    broadcast,
    either_is,
    general_scales,
    per_channel,
    plain_int16,
    times_one,
)

_Elements = partial(Row, elementwise=True)
_Arithmetic = partial(_Elements, (0, 1), fuses=True)
_Extreme = partial(
    _Elements,
    (0, 1),
    types=INT8_AND_INT16,
    scales=Scales(same=True, imported=True),
    bytes=True,
    versions={"INT8": 2, "INT16": 4},
    needs=((3, broadcast),),
)
_Comparison = partial(_Elements, (0, 1), types=INT8_AND_INT16, scales=Scales(indices=True))
_Choice = partial(_Elements, (1, 2), types=INT8_AND_INT16, scales=Scales(same=True))
_LEAST = 2**-12

ROWS = {
    "ADD": _Arithmetic(
        types=INT8_AND_INT16,
        scales=Scales(least=_LEAST, imported=True),
        versions={"INT8": 2, "INT64": 4},
        needs=((3, general_scales), (5, plain_int16)),
    ),
    "SUB": _Arithmetic(
        types=INT8_AND_INT16,
        scales=Scales(least=_LEAST, imported=True),
        versions={"INT8": 2, "INT64": 4},
        needs=((3, broadcast), (5, general_scales)),
    ),
    "MUL": _Arithmetic(
        types=INT8_AND_INT16,
        scales=Scales(imported=True),
        versions={"INT8": 2, "INT16": 4, "INT64": 5, "COMPLEX64": 6, "UINT32": 7},
        needs=((3, times_one), (7, plain_int16)),
    ),
    "DIV": _Arithmetic(types=INT8_AND_INT16, scales=Scales(divisor=1), magnifies=1, needs=((2, broadcast),)),
    "SQUARED_DIFFERENCE": _Elements(
        (0, 1), types=INT8, scales=Scales(least=2**-11 / 255, squares=True), versions={"INT8": 2}
    ),
    "FLOOR_DIV": _Elements((0, 1), versions={"FLOAT32": 2, "INT8": 3, "INT16": 3}),
    "FLOOR_MOD": _Elements((0, 1), versions={"FLOAT32": 2, "INT8": 3, "INT16": 3}),
    "POW": _Elements((0, 1), magnifies=0),
    "ATAN2": _Elements((0, 1)),
    "ADD_N": Row(ALL),
    "BUCKETIZE": _Elements(),
    "BITWISE_XOR": _Elements((0, 1), bytes=True),
    "RIGHT_SHIFT": _Elements((0, 1), bytes=True),
    "PRELU": _Elements((0, 1), types=INT8, scales=Scales(imported=True)),  # slopes must be INT8
    "MAXIMUM": _Extreme(),
    "MINIMUM": _Extreme(),
    "EQUAL": _Comparison(versions={"INT8": 2, "INT16": 4}),
    "NOT_EQUAL": _Comparison(versions={"INT8": 2}),
    "GREATER": _Comparison(versions={"INT8": 2}),
    "GREATER_EQUAL": _Comparison(versions=INT8_2_INT16_3),
    "LESS": _Comparison(versions=INT8_2_INT16_3),
    "LESS_EQUAL": _Comparison(versions={"INT8": 2}),
    "LOGICAL_AND": _Elements((0, 1)),
    "LOGICAL_OR": _Elements((0, 1)),
    "LOGICAL_NOT": _Elements(),
    "SELECT": _Choice(),
    "SELECT_V2": _Choice(),
    "QUANTIZE": _Elements(
        zero_stays=True,
        needs=((2, lambda node: node.output.type == "INT16"), (3, lambda node: per_channel(node.output))),
    ),
    "DEQUANTIZE": _Elements(
        zero_stays=True,
        versions={"INT8": 2, "INT16": 3, "FLOAT16": 3, "INT4": 6},
        needs=((5, lambda node: per_channel(node.input(0))),),
    ),
    "CAST": _Elements(
        bytes=True,
        needs=tuple(
            (version, either_is(type))
            for type, version in {"UINT32": 2, "INT8": 3, "UINT16": 4, "FLOAT16": 5, "FLOAT64": 5, "INT4": 6}.items()
        ),
    ),
}
