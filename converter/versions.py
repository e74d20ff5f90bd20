"""Versions of operators: a runtime refuses a node whose version is newer than what it knows.

Source: LiteRT's tflite/tools/versioning/op_version.cc, which says from which version on an operator takes what; where
it has no answer for int16 activations with int8 weights, what TFLite's converter writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain

from twinfer.runtime.graph import Graph, Node, Tensor

#: Type of the values -> version.
Versions = Mapping[str, int]

#: Operators -> versions by the type of their values; the operators and types that are not here need version 1.
_BY_TYPE: tuple[tuple[str, Versions], ...] = (
    ("CONV_2D", {"INT8": 3, "INT16": 4}),
    ("DEPTHWISE_CONV_2D", {"INT8": 3, "INT16": 5}),
    ("FULLY_CONNECTED", {"INT8": 4, "INT16": 7}),
    ("TRANSPOSE_CONV", {"INT8": 2, "INT16": 3}),
    ("SVDF", {"INT8": 3}),
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", {"INT16": 5}),
    ("SIGN", {"INT32": 2}),
    ("ADD SUB", {"INT8": 2, "INT64": 4}),
    ("MUL", {"INT8": 2, "INT16": 4, "INT64": 5, "COMPLEX64": 6, "UINT32": 7}),
    ("MAX_POOL_2D AVERAGE_POOL_2D RELU PACK PAD PADV2 CONCATENATION", {"INT8": 2, "INT16": 3}),
    ("BATCH_MATMUL TANH LOGISTIC SOFTMAX MEAN MIRROR_PAD REDUCE_MAX REDUCE_MIN", {"INT8": 2, "INT16": 3}),
    ("RELU6 RSQRT LESS GREATER_EQUAL ABS", {"INT8": 2, "INT16": 3}),
    ("SPACE_TO_DEPTH DEPTH_TO_SPACE SPLIT_V SUM LOG_SOFTMAX GREATER LESS_EQUAL SQUARED_DIFFERENCE", {"INT8": 2}),
    ("NOT_EQUAL L2_NORMALIZATION GELU", {"INT8": 2}),
    ("EXP LOG REDUCE_PROD", {"INT8": 2, "INT16": 2}),
    ("LEAKY_RELU", {"INT16": 2}),
    ("EQUAL MAXIMUM MINIMUM SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND", {"INT8": 2, "INT16": 4}),
    ("RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR", {"INT8": 2, "INT16": 4}),
    ("TRANSPOSE", {"INT8": 2, "BOOL": 3, "INT16": 5, "INT4": 7}),
    ("SLICE", {"INT8": 2, "STRING": 3, "INT16": 4, "UINT32": 6}),
    ("STRIDED_SLICE", {"INT8": 2, "BOOL": 3, "STRING": 5, "UINT32": 7}),
    ("SPLIT", {"INT8": 2, "INT32": 3, "INT16": 4}),
    ("UNPACK", {"INT8": 2, "UINT8": 2, "BOOL": 3, "INT16": 4}),
    ("GATHER", {"INT8": 2, "BOOL": 3, "INT16": 4, "INT4": 7}),
    ("GATHER_ND", {"STRING": 2, "INT16": 3, "BOOL": 5}),
    ("ARG_MAX ARG_MIN", {"INT8": 2, "BOOL": 3}),
    ("TILE", {"STRING": 2, "INT8": 3}),
    ("REVERSE_V2", {"BOOL": 2, "INT8": 3}),
    ("BROADCAST_TO", {"FLOAT32": 2, "INT32": 2, "INT8": 3, "INT16": 3}),
    ("FLOOR_DIV FLOOR_MOD", {"FLOAT32": 2, "INT8": 3, "INT16": 3}),
    ("FILL", {"BOOL": 2, "INT8": 3, "INT16": 3, "FLOAT16": 4}),
    ("DEQUANTIZE", {"INT8": 2, "INT16": 3, "FLOAT16": 3, "INT4": 6}),
)
_VERSIONS: Mapping[str, Versions] = {op: versions for ops, versions in _BY_TYPE for op in ops.split()}

#: Operators whose values are not their first input.
_VALUES = {"SPLIT": 1, "TRANSPOSE_CONV": 2, "FILL": 1}

#: A version and whether a node needs it.
Need = tuple[int, Callable[[Node], bool]]


def _type(node: Node, i: int) -> str:
    tensor = node.optional(i)
    return "" if tensor is None else tensor.type


def _option(key: str) -> Callable[[Node], bool]:
    return lambda node: node.options.get(key) not in (None, False, 0, "NONE", "FLOAT32", "DEFAULT")


def _rank(above: int) -> Callable[[Node], bool]:
    return lambda node: max((len(t.shape) for t in node.inputs if t is not None), default=0) > above


def _broadcast(node: Node) -> bool:
    return _rank(4)(node) and node.input(0).shape != node.input(1).shape


def _weights(type: str) -> Callable[[Node], bool]:
    return lambda node: _type(node, 1) == type


def _per_channel(tensor: Tensor) -> bool:
    return tensor.quant is not None and tensor.quant.per_channel


def _hybrid(*, per_channel: bool = False, option: str = "") -> Callable[[Node], bool]:
    """Float activations and int8 weights, with one scale a channel, or with this option set."""

    def needs(node: Node) -> bool:
        if (_type(node, 0), _type(node, 1)) != ("FLOAT32", "INT8"):
            return False
        return (not per_channel or _per_channel(node.input(1))) and (not option or _option(option)(node))

    return needs


def _general_scales(node: Node) -> bool:
    """16 bits with scales that are no powers of two."""
    return _type(node, 0) == "INT16" and not node.options.get("pot_scale_int16", True)


def _plain_int16(node: Node) -> bool:
    return _type(node, 0) == "INT16" and node.input(0).quant is None


def _times_one(node: Node) -> bool:
    """A product whose rescaling is 1 or more."""
    tensors: tuple[Tensor, ...] = (node.input(0), node.input(1), node.output)
    if any(t.quant is None or t.quant.per_channel for t in tensors):
        return False
    x, y, z = (t.scale for t in tensors)
    return z > 0 and x * y / z >= 1


def _signed(node: Node) -> bool:
    return node.output.type == "INT16"


def _no_bias(node: Node) -> bool:
    return len(node.inputs) == 2


_ASYMMETRIC = "asymmetric_quantize_inputs"

#: Operator -> what else makes a version necessary.
_NEEDS: Mapping[str, tuple[Need, ...]] = {
    "CONV_2D": (
        (2, _hybrid()),
        (5, _hybrid(per_channel=True)),
        (6, lambda node: node.input(0).shape[-1] != node.input(1).shape[-1]),  # groups
        (7, _weights("INT4")),
        (8, _option("quantized_bias_type")),
    ),
    "DEPTHWISE_CONV_2D": (
        (2, lambda node: any(node.options.get(f"dilation_{a}_factor", 1) != 1 for a in "wh")),
        (4, _hybrid()),
        (6, _hybrid(per_channel=True)),
        (7, _weights("INT4")),
    ),
    "FULLY_CONNECTED": (
        (2, _option("weights_format")),
        (3, _hybrid()),
        (5, _option("keep_num_dims")),
        (6, _no_bias),
        (9, _hybrid(option=_ASYMMETRIC)),
        (10, _weights("INT4")),
        (11, _option("quantized_bias_type")),
        (12, _hybrid(per_channel=True)),
        (13, lambda node: _weights("INT4")(node) and _type(node, 0) == "INT16"),
    ),
    "TRANSPOSE_CONV": (
        (3, lambda node: node.optional(3) is not None),
        (4, _option("fused_activation_function")),
        (5, _option("quantized_bias_type")),
    ),
    "SVDF": ((2, _hybrid()), (4, _hybrid(option=_ASYMMETRIC))),
    "BATCH_MATMUL": ((4, _hybrid(option=_ASYMMETRIC)),),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (
        (2, lambda node: (_type(node, 0), _type(node, 2)) == ("FLOAT32", "INT8")),
        (4, _option("diagonal_recurrent_tensors")),
    ),
    "ADD": ((3, _general_scales), (5, _plain_int16)),
    "SUB": ((3, _broadcast), (5, _general_scales)),
    "MUL": ((3, _times_one), (7, _plain_int16)),
    "DIV": ((2, _broadcast),),
    "MAXIMUM": ((3, _broadcast),),
    "MINIMUM": ((3, _broadcast),),
    "ABS": ((4, _plain_int16), (5, lambda node: _type(node, 0) == "INT32")),
    "TRANSPOSE": ((4, _rank(4)), (6, _rank(5))),
    "SLICE": ((5, _rank(4)),),
    "PAD": ((4, _rank(4)), (5, lambda node: _type(node, 0) == "BOOL")),
    "PADV2": ((4, _rank(4)), (5, lambda node: _type(node, 0) == "BOOL")),
    "STRIDED_SLICE": (
        (4, _rank(4)),
        (6, _option("ellipsis_mask")),
        (6, _option("new_axis_mask")),
        (8, _option("offset")),
    ),
    "SPACE_TO_BATCH_ND": ((3, lambda node: len(node.input(0).shape) != 4),),
    "BATCH_TO_SPACE_ND": ((3, lambda node: len(node.input(0).shape) != 4),),
    "RESIZE_BILINEAR": ((3, _option("half_pixel_centers")),),
    "RESIZE_NEAREST_NEIGHBOR": ((3, _option("half_pixel_centers")), (3, _option("align_corners"))),
    "GATHER": ((5, _option("batch_dims")), (6, lambda node: _type(node, 1) == "INT16")),
    "GATHER_ND": ((4, lambda node: _type(node, 1) == "INT16"),),
    "DEQUANTIZE": ((5, lambda node: _per_channel(node.input(0))),),
    "QUANTIZE": ((2, _signed), (3, lambda node: _per_channel(node.output))),
    "CAST": tuple(
        (version, lambda node, type=type: type in (_type(node, 0), node.output.type))  # type: ignore[misc]
        for type, version in {"UINT32": 2, "INT8": 3, "UINT16": 4, "FLOAT16": 5, "FLOAT64": 5, "INT4": 6}.items()
    ),
}


def version_of(node: Node) -> int:
    """The least version of the operator that takes what the node is."""
    by_type = _VERSIONS.get(node.op, {}).get(_type(node, _VALUES.get(node.op, 0)), 1)
    return max(chain((by_type,), (version for version, needs in _NEEDS.get(node.op, ()) if needs(node))))


def with_versions(graph: Graph) -> Graph:
    """The graph with every node's version raised to what it needs; versions that say more stay."""
    nodes = tuple(
        node if node.version >= (least := version_of(node)) else replace(node, version=least) for node in graph.nodes
    )
    return replace(graph, nodes=nodes, subgraphs=tuple(map(with_versions, graph.subgraphs)))
