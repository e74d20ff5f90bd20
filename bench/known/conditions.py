"""When the faults of ``faults.py`` show: forms of nodes. Their inputs are constants where values are known."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.activation import quantized_range
from twinfer.runtime.ops.core.hybrid import is_hybrid
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


def requantises(node: Node) -> bool:
    """Whether the output is quantised otherwise than the input."""
    return node.input(0).quant != node.output.quant


def operands_differ(node: Node) -> bool:
    """Whether both operands are quantised differently."""
    return node.input(0).quant != node.input(1).quant


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


def plain(node: Node) -> bool:
    """Whether input 0 has no scale."""
    return node.input(0).quant is None


def spreads_peephole(node: Node) -> bool:
    """Whether an LSTM with weights of cells has not as many outputs as cells."""
    projection = node.optional(16)
    peeps = any(node.optional(i) is not None for i in (9, 10, 11))
    return peeps and projection is not None and projection.shape[0] != projection.shape[1]


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
