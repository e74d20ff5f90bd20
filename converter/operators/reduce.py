"""Operators over dimensions: reductions, and operators that compare or scale the values along one."""

from __future__ import annotations

from functools import partial

from twinfer.converter.facts import INT8, INT8_AND_INT16, Dimensions, Row, Scales
from twinfer.converter.operators._versions import INT8_2_INT16_3

_Reduction = partial(Row, reduces=True, dimensions=Dimensions(axes=(1,)))
_Extreme = partial(
    _Reduction, types=INT8_AND_INT16, scales=Scales(same=True, imported=True), bytes=True, versions=INT8_2_INT16_3
)
_Index = partial(Row, reduces=True, types=INT8, scales=Scales(indices=True), versions={"INT8": 2, "BOOL": 3})
_AlongLast = partial(Row, dimensions=Dimensions(last=True))
_SPAN = 2**-15  # steps of an exponential have 26 fractional bits

ROWS = {
    "MEAN": _Reduction(types=INT8_AND_INT16, scales=Scales(imported=True), versions=INT8_2_INT16_3),
    "SUM": _Reduction(types=INT8_AND_INT16, scales=Scales(imported=True), versions={"INT8": 2}),
    "REDUCE_MAX": _Extreme(),
    "REDUCE_MIN": _Extreme(),
    "REDUCE_PROD": _Reduction(versions={"INT8": 2, "INT16": 2}),
    "REDUCE_ANY": _Reduction(),
    "REDUCE_ALL": _Reduction(),
    "ARG_MAX": _Index(),
    "ARG_MIN": _Index(),
    "CUMSUM": Row(),
    "SEGMENT_SUM": Row(),
    **dict.fromkeys(
        ("UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN"), Row()
    ),
    **dict.fromkeys(("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"), Row((0, 1))),
    "TOPK_V2": Row(versions={"INT8": 2, "INT16": 3}),
    "SOFTMAX": _AlongLast(
        types=INT8_AND_INT16,
        scales=Scales(fixed8=(1 / 256, -128), fixed16=(1 / 32768, 0), span=_SPAN, imported=True),
        range=(0.0, 1.0),
        versions=INT8_2_INT16_3,
    ),
    "LOG_SOFTMAX": _AlongLast(
        types=INT8, scales=Scales(fixed8=(16 / 256, 127), span=_SPAN, imported=True), versions={"INT8": 2}
    ),
    "L2_NORMALIZATION": _AlongLast(types=INT8, magnifies=0, scales=Scales(fixed8=(1 / 128, 0)), versions={"INT8": 2}),
}
