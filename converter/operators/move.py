"""Operators that move elements without changing them, and those that make shapes and constants."""

from __future__ import annotations

from functools import partial

from twinfer.converter.facts import ALL, INT8, INT8_AND_INT16, Dimensions, Moves, Row, Scales
from twinfer.converter.operators._versions import INT8_2_INT16_3, option, rank, typed

_SAME = Scales(same=True, imported=True)
_Reshape = partial(Row, types=INT8_AND_INT16, scales=_SAME, moves=Moves.RESHAPES, zero_stays=True)
_Keeps = partial(Row, types=INT8_AND_INT16, scales=_SAME, moves=Moves.KEEPS_PLACES)
_Reorders = partial(Row, types=INT8_AND_INT16, scales=_SAME, moves=Moves.REORDERS)
_ReordersImage = partial(_Reorders, image=True)
_Pads = partial(
    _Keeps,
    fills=True,
    dimensions=Dimensions(rows=(1,)),
    versions=INT8_2_INT16_3,
    needs=((4, rank(4)), (5, typed(0, "BOOL"))),
)
_NOT_4 = (3, lambda node: len(node.input(0).shape) != 4)

ROWS = {
    "RESHAPE": _Reshape(),
    "SQUEEZE": _Reshape(),
    "EXPAND_DIMS": _Reshape(),
    "TRANSPOSE": _Reorders(
        zero_stays=True, versions={"INT8": 2, "BOOL": 3, "INT16": 5, "INT4": 7}, needs=((4, rank(4)), (6, rank(5)))
    ),
    "CONCATENATION": _Keeps(ALL, dimensions=Dimensions(option=True), versions=INT8_2_INT16_3),
    "PACK": _Keeps(ALL, versions=INT8_2_INT16_3),
    "UNPACK": _Keeps(versions={"INT8": 2, "UINT8": 2, "BOOL": 3, "INT16": 4}),
    "SPLIT": _Keeps((1,), dimensions=Dimensions(axes=(0,)), versions={"INT8": 2, "INT32": 3, "INT16": 4}),
    "SPLIT_V": _Keeps(dimensions=Dimensions(axes=(2,)), versions={"INT8": 2}),
    "PAD": _Pads(),
    "PADV2": _Pads(fill=2),
    "MIRROR_PAD": _Keeps(dimensions=Dimensions(rows=(1,)), versions=INT8_2_INT16_3),
    "SLICE": _Keeps(
        dimensions=Dimensions(rows=(1, 2)),
        versions={"INT8": 2, "STRING": 3, "INT16": 4, "UINT32": 6},
        needs=((5, rank(4)),),
    ),
    "STRIDED_SLICE": _Reorders(  # strides may be negative
        dimensions=Dimensions(rows=(1, 2, 3)),
        versions={"INT8": 2, "BOOL": 3, "STRING": 5, "UINT32": 7},
        needs=((4, rank(4)), (6, option("ellipsis_mask")), (6, option("new_axis_mask")), (8, option("offset"))),
    ),
    "GATHER": _Reorders(
        dimensions=Dimensions(option=True),
        versions={"INT8": 2, "BOOL": 3, "INT16": 4, "INT4": 7},
        needs=((5, option("batch_dims")), (6, typed(1, "INT16"))),
    ),
    "GATHER_ND": _Reorders(versions={"STRING": 2, "INT16": 3, "BOOL": 5}, needs=((4, typed(1, "INT16")),)),
    "SCATTER_ND": Row((1,)),
    "DYNAMIC_UPDATE_SLICE": Row((0, 1), types=INT8_AND_INT16, scales=_SAME),  # some of them are others
    "TILE": _Keeps(dimensions=Dimensions(rows=(1,)), versions={"STRING": 2, "INT8": 3}),
    "BROADCAST_TO": _Keeps(
        dimensions=Dimensions(rows=(1,)), versions={"FLOAT32": 2, "INT32": 2, "INT8": 3, "INT16": 3}
    ),
    "REVERSE_V2": _Reorders(types=INT8, versions={"BOOL": 2, "INT8": 3}),
    "REVERSE_SEQUENCE": _Reorders(types=("INT16",)),
    "MATRIX_DIAG": Row(),
    "MATRIX_SET_DIAG": Row((0, 1), types=INT8_AND_INT16, scales=_SAME),
    "SPARSE_TO_DENSE": Row((2, 3), versions={"INT8": 3, "UINT8": 3, "INT64": 2}),
    "DEPTH_TO_SPACE": _ReordersImage(types=INT8, versions={"INT8": 2}),
    "SPACE_TO_DEPTH": _ReordersImage(types=INT8, versions={"INT8": 2}),
    "BATCH_TO_SPACE_ND": _ReordersImage(types=INT8, versions={"INT8": 2, "INT16": 4}, needs=(_NOT_4,)),
    "SPACE_TO_BATCH_ND": _ReordersImage(types=INT8, fills=True, versions={"INT8": 2, "INT16": 4}, needs=(_NOT_4,)),
    "RESIZE_BILINEAR": Row(
        types=INT8_AND_INT16,
        scales=_SAME,
        image=True,
        versions={"INT8": 2, "INT16": 4},
        needs=((3, option("half_pixel_centers")),),
    ),
    "RESIZE_NEAREST_NEIGHBOR": _ReordersImage(
        versions={"INT8": 2, "INT16": 4}, needs=((3, option("half_pixel_centers")), (3, option("align_corners")))
    ),
    "BITCAST": Row(bytes=True),
    "SHAPE": Row(),
    "RANK": Row(),
    "BROADCAST_ARGS": Row(),
    "RANGE": Row(versions={"INT64": 2}),
    "WHERE": Row(),
    "ZEROS_LIKE": Row(),
    "ONE_HOT": Row((2, 3)),
    "EMBEDDING_LOOKUP": Row(
        (1,),
        needs=(
            (2, lambda node: node.output.type == "INT8"),
            (3, lambda node: typed(1, "INT8")(node) and node.output.type == "FLOAT32"),
            (4, typed(1, "INT4")),
        ),
    ),
    "FILL": Row((1,), versions={"BOOL": 2, "INT8": 3, "INT16": 3, "FLOAT16": 4}),
}
