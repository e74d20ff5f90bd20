"""When the faults of ``faults.py`` show: forms of nodes. Their inputs are constants where values are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.core.activation import quantized_range
from twinfer.runtime.ops.core.channels import weight_scales
from twinfer.runtime.ops.core.hybrid import is_hybrid
from twinfer.runtime.ops.core.unsigned import is_unsigned
from twinfer.runtime.ops.core.weights import unpacked
from twinfer.runtime.ops.functions._unary import through_float
from twinfer.runtime.ops.reduce import detection
from twinfer.runtime.registry import operators
from twinfer.runtime.shapes import infer_node


def contradicts(node: Node) -> bool:
    """Whether an argument that came at run time is out of range or gives another shape than the file's."""
    try:
        return infer_node(node) != [t.shape for t in node.outputs]
    except TwinferError:
        return True


def coarse(node: Node) -> bool:
    """Whether an operand has a scale from 1 on."""
    return any(t is not None and t.quant is not None and bool((t.quant.scale >= 1).any()) for t in node.inputs)


def per_channel(node: Node) -> bool:
    """Whether an input has several scales."""
    return any(t is not None and t.quant is not None and t.quant.scale.size > 1 for t in node.inputs)


def zeroed(node: Node) -> bool:
    """Whether an input or output has a zero point other than 0."""
    return any(t is not None and t.quant is not None and t.zero != 0 for t in (*node.inputs, *node.outputs))


def other_output(node: Node) -> bool:
    """Whether the output has not the one quantisation that TFLM computes with."""
    usual = {"TANH": (1 / 128, 0), "LOGISTIC": (1 / 256, -128)}[node.op]
    return (node.output.scale, node.output.zero) != usual


def has_narrow_bias(node: Node) -> bool:
    """Whether int16 sums begin with a bias of int32."""
    x, bias = (2, 3) if node.op == "TRANSPOSE_CONV" else (0, 2)
    bias_of = node.optional(bias)
    return node.input(x).type == "INT16" and bias_of is not None and bias_of.type == "INT32"


def takes_bias_wide(node: Node) -> bool:
    """Whether int16 sums begin with a bias of int32 whose type the options do not say."""
    return has_narrow_bias(node) and node.options.get("quantized_bias_type") != "INT32"


def other_multiplier(node: Node) -> bool:
    """Whether the depth multiplier of the options is not that of the shapes."""
    return bool(node.options["depth_multiplier"] * node.input(0).shape[-1] != node.output.shape[-1])


def spreads_scales(node: Node) -> bool:
    """Whether a float operand, whose rows are quantised, or the int8 one beside it has several batch dimensions."""
    return is_hybrid(node) and any(sum(d > 1 for d in node.input(i).shape[:-2]) > 1 for i in (0, 1))


def pads(node: Node) -> bool:
    """Whether the operator pads, or its padding is not known."""
    padding = node.input(2).data
    return padding is None or bool(padding.any())


def spreads_peephole(node: Node) -> bool:
    """Whether an LSTM with weights of cells has not as many outputs as cells."""
    projection = node.optional(16)
    peeps = any(node.optional(i) is not None for i in (9, 10, 11))
    return peeps and projection is not None and projection.shape[0] != projection.shape[1]


def clips(node: Node) -> bool:
    """Whether an activation keeps the integer output from its whole range."""
    info = np.iinfo(node.output.dtype)
    return quantized_range(node, node.output) != (info.min, info.max)


def wide(node: Node) -> bool:
    """Whether an argument is of int64."""
    return any(t is not None and t.type == "INT64" for t in node.inputs[1:])


def empty_ellipsis(node: Node) -> bool:
    """Whether an ellipsis stands for no axis."""
    count, new = node.input(1).size, bin(int(node.options["new_axis_mask"])).count("1")
    return bool(node.options["ellipsis_mask"]) and count - 1 - new >= len(node.input(0).shape)


def stray_axes(node: Node) -> bool:
    """Whether a mask has new axes beyond the indices."""
    return bool((int(node.options["new_axis_mask"]) & 0xFFFFFFFF) >> node.input(1).size)


def offset_ends(node: Node) -> bool:
    """Whether ends that count from begins say other extents than the output has, as they are or behind the indices."""
    ends, strides, shrunk = node.input(2).data, node.input(3).data, int(node.options["shrink_axis_mask"])
    if not node.options["offset"] or ends is None or strides is None:
        return bool(node.options["offset"])
    pairs = zip(ends.tolist(), strides.tolist(), strict=True)
    said = [max(0, -(-end // stride)) for i, (end, stride) in enumerate(pairs) if not shrunk >> i & 1]
    return tuple(said) != node.output.shape


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


# -- what comes out of a node whose inputs are known -------------------------------------------------------------------


def _values(node: Node) -> list[Any] | None:
    """What the node reads; None if not all of it is known."""
    known = all(t is None or t.data is not None or t.variable for t in node.inputs)
    return [None if t is None else t.data for t in node.inputs] if known else None


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


def _known_floats(node: Node) -> list[Array]:
    """The floats among what the node reads, as far as they are known."""
    return [t.data for t in node.inputs if t is not None and t.data is not None and t.data.dtype.kind == "f"]


def has_nan(node: Node) -> bool:
    """Whether the node is known to read NaN."""
    return any(np.isnan(x).any() for x in _known_floats(node))


def has_no_range(node: Node) -> bool:
    """Whether floats that meet int8 weights are known to have no finite range."""
    with np.errstate(all="ignore"):
        wide = any(x.size and not np.isfinite(np.ptp(x)) for x in _known_floats(node))
    return wide and any(t is not None and t.type == "INT8" for t in node.inputs)


def may_overflow(node: Node) -> bool:
    """Whether the node is known to read floats whose sums may leave float32, in one order of adding or in all."""
    return any((np.abs(x) > 1e37).any() for x in _known_floats(node))


def divides_least(node: Node) -> bool:
    """Whether the least integer is divided by -1: the quotient is beyond its type."""
    values = _values(node)
    if values is None or values[0].dtype.kind != "i":
        return values is None
    a, b = np.broadcast_arrays(*values)
    return bool(((a == np.iinfo(a.dtype).min) & (b == -1)).any())


def power_leaves_type(node: Node) -> bool:
    """Whether a power of integers is beyond their type."""
    values = _values(node)
    if values is None or values[0].dtype.kind != "i":
        return values is None
    with np.errstate(all="ignore"):
        powers = np.power(values[0].astype(np.float64), values[1].astype(np.float64))
    return not bool((np.abs(powers) < 2.0**31).all())


def range_leaves_type(node: Node) -> bool:
    """Whether a range of int32 is wider than its type."""
    values = _values(node)
    if values is None or node.output.type != "INT32":
        return values is None
    start, limit = (int(value.reshape(-1)[0]) for value in values[:2])
    return abs(limit - start) >= 1 << 31


def breaks_table(node: Node) -> bool:
    """Whether the table of an int16 function has neighbours that are further apart than int16, or infinite values."""
    samples = np.arange(-(1 << 15), 1 << 15, 128).astype(np.int16)
    table = operators()[node.op].reference(node, [samples])[0].astype(np.int64).ravel()
    with np.errstate(over="ignore"):
        largest = np.exp(np.float64(node.input(0).scale) * (1 << 15)) / node.output.scale
    return bool((np.abs(np.diff(table)) >= 1 << 15).any()) or (node.op == "EXP" and bool(largest > 1e30))


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
    scales = weight_scales(node, node.input(1).shape[0]).astype(np.float64)
    scaled = _sums(node) * (node.input(0).scale * scales / node.output.scale)
    steps = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
    rounded = (steps + node.output.zero).clip(*quantized_range(node, node.output))
    return not np.array_equal(rounded.ravel(), operators()[node.op].reference(node, values)[0].ravel())


def _sums(node: Node) -> Array:
    """The sums of FULLY_CONNECTED [rows, channels], exact."""
    plain = unpacked(node)
    x, w, bias = plain.input(0), plain.input(1), plain.optional(2)
    rows = plain.constant(0).reshape(-1, w.shape[1]).astype(np.float64) - x.zero
    zero = 0 if w.quant is None else int(w.quant.zero_point[0])
    start = 0 if bias is None else plain.constant(2).reshape(-1).astype(np.float64)
    return np.asarray(rows @ (plain.constant(1).astype(np.float64) - zero).T + start)


def sums_as_bytes(node: Node) -> bool:
    """Whether uint8 does not hold what SUM makes of int8; of int16 it never does."""
    values = _values(node)
    if values is None or is_unsigned(node):
        return values is None
    sums = operators()[node.op].reference(node, values)[0]
    return sums.dtype == np.int16 or not bool(((sums >= 0) & (sums < 127)).all())


def has_lowest_weight(node: Node) -> bool:
    """Whether int8 weights in rows of 16 and more hold -128, and what they meet is float."""
    if node.input(0).type != "FLOAT32":
        return False
    weights = [t for t in node.inputs[1:] if t is not None and t.type == "INT8" and len(t.shape) > 1]
    return any(t.size // max(t.shape[0], 1) >= 16 and (t.data is None or bool((t.data == -128).any())) for t in weights)


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
