"""When the faults of ``known.py`` show: conditions of nodes whose inputs are known (``meaning.witnessed``).

A condition that needs a value which is not known holds, so that nothing is called a finding that may be a fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.core.activation import quantized_range
from twinfer.runtime.ops.core.channels import weight_scales
from twinfer.runtime.ops.core.unsigned import is_unsigned
from twinfer.runtime.ops.core.weights import unpacked
from twinfer.runtime.ops.functions._unary import through_float
from twinfer.runtime.ops.reduce import detection
from twinfer.runtime.registry import operators
from twinfer.runtime.shapes import infer_node

# -- values ------------------------------------------------------------------------------------------------------------


def _values(node: Node) -> list[Any] | None:
    """What the node reads; None if not all of it is known."""
    known = all(t is None or t.data is not None or t.variable for t in node.inputs)
    return [None if t is None else t.data for t in node.inputs] if known else None


def contradicts(node: Node) -> bool:
    """Whether an argument that came at run time is out of range or gives another shape than the file's."""
    try:
        return infer_node(node) != [t.shape for t in node.outputs]
    except TwinferError:
        return True


def leaves_int32(node: Node) -> bool:
    """Whether QUANTIZE meets a float that is no number, or has 2^31 steps and more."""
    x = node.input(0)
    if x.type != "FLOAT32" or x.data is None:
        return x.type == "FLOAT32"
    with np.errstate(all="ignore"):
        return not bool((np.abs(x.data / np.float32(node.output.scale)) < 2.0**31).all())


def leaves_type(node: Node) -> bool:
    """Whether CAST meets a float that its output's type does not hold."""
    x, y = node.input(0), node.output
    if x.dtype.kind not in "fc" or y.dtype.kind not in "iu" or x.data is None:
        return x.dtype.kind in "fc" and y.dtype.kind in "iu"
    info, whole = np.iinfo(y.dtype), np.trunc(x.data.real.astype(np.float64))
    return not bool(((whole >= info.min) & (whole < 2.0 ** int(info.max).bit_length())).all())


# -- scales ------------------------------------------------------------------------------------------------------------


def coarse(node: Node) -> bool:
    """Whether an operand has a scale from 1 on."""
    return any(t is not None and t.quant is not None and bool((t.quant.scale >= 1).any()) for t in node.inputs)


def requantises(node: Node) -> bool:
    """Whether the output is quantised otherwise than the input."""
    return node.input(0).quant != node.output.quant


def operands_differ(node: Node) -> bool:
    """Whether both operands are quantised differently."""
    return node.input(0).quant != node.input(1).quant


def per_channel(node: Node) -> bool:
    """Whether an input has several scales."""
    return any(t is not None and t.quant is not None and t.quant.scale.size > 1 for t in node.inputs)


def zeroed(place: int) -> Callable[[Node], bool]:
    """Whether an input has a zero point other than 0."""
    return lambda node: node.input(place).quant is not None and node.input(place).zero != 0


def other_output(node: Node) -> bool:
    """Whether the output has not the one quantisation that TFLM computes with."""
    usual = {"TANH": (1 / 128, 0), "LOGISTIC": (1 / 256, -128)}[node.op]
    return (node.output.scale, node.output.zero) != usual


def rounds_sigmoid_otherwise(node: Node) -> bool:
    """Whether LOGISTIC or TANH in float32 gives another int8 than fixed point."""
    values = _values(node)
    if values is None or is_unsigned(node):
        return values is None
    real = np.tanh if node.op == "TANH" else lambda x: 1 / (1 + np.exp(-x))
    with np.errstate(over="ignore"):
        table = through_float(node, values[0], lambda x: real(x.astype(np.float64)).astype(np.float32))
    return not np.array_equal(table, operators()[node.op].reference(node, values)[0])


def rounds_sums_otherwise(node: Node) -> bool:
    """Whether FULLY_CONNECTED with scales in float64 gives another integer than fixed point."""
    values = _values(node)
    if values is None or is_unsigned(node):
        return values is None
    scaled = _sums(node) * (node.input(0).scale * _scales(node) / node.output.scale)
    steps = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
    rounded = (steps + node.output.zero).clip(*quantized_range(node, node.output))
    return not np.array_equal(rounded.ravel(), operators()[node.op].reference(node, values)[0].ravel())


def _scales(node: Node) -> Array:
    return weight_scales(node, node.input(1).shape[0]).astype(np.float64)


def _sums(node: Node) -> Array:
    """The sums of FULLY_CONNECTED [rows, channels], exact."""
    plain = unpacked(node)
    x, w, bias = plain.input(0), plain.input(1), plain.optional(2)
    rows = plain.constant(0).reshape(-1, w.shape[1]).astype(np.float64) - x.zero
    zero = 0 if w.quant is None else int(w.quant.zero_point[0])
    start = 0 if bias is None else plain.constant(2).reshape(-1).astype(np.float64)
    return np.asarray(rows @ (plain.constant(1).astype(np.float64) - zero).T + start)


def has_lowest_weight(node: Node) -> bool:
    """Whether int8 weights in rows of 16 and more hold -128, and what they meet is float."""
    if node.input(0).type != "FLOAT32":
        return False
    weights = [t for t in node.inputs[1:] if t is not None and t.type == "INT8" and len(t.shape) == 2]
    return any(t.shape[1] >= 16 and (t.data is None or bool((t.data == -128).any())) for t in weights)


# -- options -----------------------------------------------------------------------------------------------------------


def bounded_below_zero(node: Node) -> bool:
    """Whether the node's activation has a bound below 0 and one above."""
    return bool(node.options["fused_activation_function"] == "RELU_N1_TO_1")


def activated(node: Node) -> bool:
    """Whether the node has an activation."""
    return bool(node.options.get("fused_activation_function", "NONE") != "NONE")


def clips(node: Node) -> bool:
    """Whether an activation keeps the integer output from its whole range."""
    info = np.iinfo(node.output.dtype)
    return quantized_range(node, node.output) != (info.min, info.max)


def broadcasts(node: Node) -> bool:
    """Whether both operands have different shapes."""
    return node.input(0).shape != node.input(1).shape


def wide(node: Node) -> bool:
    """Whether an argument is of int64."""
    return any(t is not None and t.type == "INT64" for t in node.inputs[1:])


def other_type(node: Node) -> bool:
    """Whether the option and the output say different types."""
    return bool(node.options["output_type"] != node.output.type)


def empty_ellipsis(node: Node) -> bool:
    """Whether an ellipsis stands for no axis."""
    count, new = node.input(1).size, bin(int(node.options["new_axis_mask"])).count("1")
    return bool(node.options["ellipsis_mask"]) and count - 1 - new >= len(node.input(0).shape)


def _sizes(node: Node) -> tuple[int, int]:
    """Batches and steps of input 0."""
    first, second = node.input(0).shape[:2]
    return (second, first) if node.options.get("time_major") else (first, second)


def merges_batches(node: Node) -> bool:
    """Whether the outputs of several batches, one after another, are merged."""
    return bool(node.options["merge_outputs"]) and not node.options["time_major"] and _sizes(node)[0] > 1


def steps_with_bytes(node: Node) -> bool:
    """Whether int8 weights meet several steps, all batches at once."""
    return bool(node.options["time_major"]) and node.input(1).type == "INT8" and _sizes(node)[1] > 1


def stacks(node: Node) -> bool:
    """Whether a second input without weights is the second RNN's: batch by batch, or in another width."""
    other = node.optional(9)
    if other is None or node.optional(10) is not None:
        return False
    return not node.options["time_major"] or other.shape != node.input(0).shape


# -- detections --------------------------------------------------------------------------------------------------------


def leaves_rows(node: Node) -> bool:
    """Whether fewer boxes stay than there are rows, or there are fewer classes than rows of a box."""
    o, values = detection.options(node), _values(node)
    if o.use_regular_nms or values is None:
        return not o.use_regular_nms
    count = detection.reference(node, values)[3][0]
    return bool(count < o.max_detections) or o.num_classes < o.max_classes_per_detection


def ranks_classes(node: Node) -> bool:
    """Whether a box may have several classes."""
    o = detection.options(node)
    return not o.use_regular_nms and o.max_classes_per_detection > 1


def ranks_equal_classes(node: Node) -> bool:
    """Whether a box may have several classes and has equal scores."""
    scores = node.input(1).data
    equal = scores is None or any(len(set(row)) < len(row) for row in scores[0].tolist())
    return ranks_classes(node) and equal
