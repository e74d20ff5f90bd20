"""Faults of the oracles that are known: a difference that one of these explains is none of ours.

The operators' cases say the same: they take another oracle there, or none and a ``why``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from twinfer.bench.known import conditions
from twinfer.runtime.graph import Array, Graph, Node, Tensor
from twinfer.runtime.ops.core import broadcast, layer_cases, total
from twinfer.runtime.ops.core.hybrid import is_hybrid
from twinfer.runtime.ops.core.unsigned import is_unsigned
from twinfer.runtime.ops.elementwise import div
from twinfer.runtime.ops.functions import hard_swish
from twinfer.runtime.ops.recurrent import svdf
from twinfer.runtime.ops.recurrent._lstm_cases import PEEPHOLE_FAULT
from twinfer.runtime.ops.signal import energy, framer, stacker


@dataclass(frozen=True)
class Fault:
    """What peers do wrong: for which operators and types of input 0 (separated by spaces) and nodes, and why."""

    peers: str
    ops: str
    types: str
    why: str
    holds: Callable[[Node], Any] = lambda node: True

    def explains(self, peer: str, node: Node) -> bool:
        """Whether the node, with what it reads as constants, is one that this peer gets wrong."""
        if peer not in self.peers.split() or node.op not in self.ops.split():
            return False
        first = next((t for t in node.inputs if t is not None), None)
        suits = not self.types or (first is not None and first.type in self.types.split())
        return suits and bool(self.holds(node))


TFLM, LITERT, BOTH = "tflm", "litert-ref", "tflm litert-ref"

RNNS = "RNN UNIDIRECTIONAL_SEQUENCE_RNN BIDIRECTIONAL_SEQUENCE_RNN"
LSTMS = "LSTM UNIDIRECTIONAL_SEQUENCE_LSTM BIDIRECTIONAL_SEQUENCE_LSTM"

ORDERING = "LESS LESS_EQUAL GREATER GREATER_EQUAL"
COMPARING = f"{ORDERING} EQUAL NOT_EQUAL"

#: Arguments that are known at run time only. The file's shapes count for us, and places are brought inside.
_RUN_TIME: tuple[Fault, ...] = (
    Fault(TFLM, "SLICE", "", "TFLM reads beyond the tensor, or writes another shape", conditions.contradicts),
    Fault(TFLM, "GATHER_ND", "", "TFLM checks the sum of all numbers, not each", conditions.contradicts),
    Fault(LITERT, "STRIDED_SLICE", "", "LiteRT reads beyond the tensor or gives another shape", conditions.contradicts),
    Fault(LITERT, "TOPK_V2", "", "k contradicts the shape in the file, which counts for us", conditions.contradicts),
)

_ARITHMETIC: tuple[Fault, ...] = (
    Fault(LITERT, "MATRIX_DIAG", "INT8", "LiteRT does not know of zero points"),
    Fault(TFLM, "ADD_N CUMSUM", "INT8", total.FAULT, conditions.zeroed),
    Fault(TFLM, "ADD_N", "INT8", total.OVERFLOW, lambda node: len(node.inputs) > 16),
    Fault(TFLM, "CUMSUM", "INT8", total.OVERFLOW, lambda node: max(node.input(0).shape) > 16),
    Fault(BOTH, "DIV", "INT8 INT16", div.FAULT),
    Fault(
        TFLM,
        "ADD SUB",
        "INT32",
        "TFLM ignores the activation of int32",
        lambda node: node.options.get("fused_activation_function", "NONE") != "NONE",
    ),
    Fault(
        LITERT,
        "MUL",
        "UINT32",
        broadcast.BOUND,
        lambda node: node.options["fused_activation_function"] == "RELU_N1_TO_1",
    ),
    Fault(TFLM, "TANH LOGISTIC", "INT8", "TFLM ignores the output's quantisation", conditions.other_output),
    Fault(
        LITERT,
        "TANH LOGISTIC",
        "INT8",
        "LiteRT has a table in float; TFLM's fixed point counts",
        conditions.rounds_sigmoid_otherwise,
    ),
    Fault(LITERT, "HARD_SWISH", "INT8", hard_swish.FINER, hard_swish.is_finer),
    Fault(TFLM, COMPARING, "INT8", "TFLM takes no scale from 1 on", conditions.coarse),
    Fault(LITERT, COMPARING, "INT8 UINT8 INT16", "LiteRT takes no scale from 1 on", conditions.coarse),
    Fault(
        LITERT,
        ORDERING,
        "INT16",
        "LiteRT compares stored values",
        lambda node: node.input(0).quant != node.input(1).quant,
    ),
    Fault(TFLM, "GREATER", "INT16", "TFLM prepares no multipliers for int16: nothing is greater"),
    Fault(
        TFLM, "RELU6", "INT8 INT16", "TFLM does not requantise", lambda node: node.input(0).quant != node.output.quant
    ),
    Fault(LITERT, "NEG", "INT8 INT16", "LiteRT ignores scales and zero points, and negates the least value to itself"),
    Fault(TFLM, "ZEROS_LIKE", "INT8", "TFLM does not know of zero points", conditions.zeroed),
    Fault(BOTH, "QUANTIZE", "", "beyond int32, the conversion is not defined in C++", conditions.leaves_int32),
    Fault(LITERT, "CAST", "", "a float outside of the range is not defined in C++", conditions.leaves_type),
    Fault(BOTH, "EXP LOG GELU", "INT16", "steps of a table wrap, infinite values are 0", conditions.breaks_table),
    Fault(LITERT, "FLOOR_DIV", "", "a quotient outside of the range is not defined in C++", conditions.divides_least),
    Fault(LITERT, "POW", "INT32", "a power outside of the range is not defined in C++", conditions.power_leaves_type),
    Fault(LITERT, "RANGE", "INT32", "LiteRT counts in int32, which the width may leave", conditions.range_leaves_type),
    Fault(LITERT, "RSQRT", "INT16", "LiteRT has a table; TFLM's fixed point counts"),
    Fault(TFLM, "DEQUANTIZE", "INT8", "TFLM takes the first scale for all channels", conditions.per_channel),
    Fault(
        TFLM, "MUL", "INT16", "TFLM takes plain integers for quantised ones", lambda node: node.input(0).quant is None
    ),
    Fault(LITERT, "PRELU", "INT16", "LiteRT reads alpha of uint8 as int8", is_unsigned),
    Fault(LITERT, "SUM", "INT8 INT16", "LiteRT gives quantised sums as uint8", conditions.sums_as_bytes),
    Fault(
        LITERT,
        "ATAN2",
        "",
        "LiteRT does not broadcast it, and gives the shape of one input",
        lambda node: node.input(0).shape != node.input(1).shape,
    ),
)

#: Of floats that are not finite, or hardly.
_ODD_FLOATS: tuple[Fault, ...] = (
    Fault(LITERT, "ADD_N", "FLOAT32", "LiteRT's sums saturate", conditions.may_overflow),
    Fault(LITERT, "POW", "FLOAT32", "LiteRT multiplies a whole exponent out and saturates", conditions.may_overflow),
    Fault(LITERT, "ARG_MAX ARG_MIN", "FLOAT32", "LiteRT finds NaN elsewhere", conditions.has_nan),
    Fault(TFLM, "SVDF", "FLOAT32", "TFLM makes the upper bound of NaN", conditions.has_nan),
    Fault(LITERT, f"{LSTMS} {RNNS}", "FLOAT32", "LiteRT adds in another order, and clips NaN", conditions.may_overflow),
    Fault(LITERT, LSTMS, "FLOAT32", "LiteRT adds in another order, and clips NaN", conditions.has_nan),
    Fault(
        BOTH,
        f"CONV_2D DEPTHWISE_CONV_2D TRANSPOSE_CONV FULLY_CONNECTED BATCH_MATMUL {LSTMS} {RNNS}",
        "FLOAT32",
        "C++ does not define the integers that floats without a finite range become",
        conditions.has_no_range,
    ),
)

_WIDE_BIAS = "the bias is read as int64"

_LAYERS: tuple[Fault, ...] = (
    Fault(BOTH, "BATCH_MATMUL", "INT8 INT16", "TFLM and LiteRT ignore scales per column", conditions.per_channel),
    Fault(LITERT, "FULLY_CONNECTED", "INT8 INT16", layer_cases.IN_FLOAT64, conditions.rounds_sums_otherwise),
    Fault(LITERT, "FULLY_CONNECTED CONV_2D TRANSPOSE_CONV", "", _WIDE_BIAS, conditions.takes_bias_wide),
    Fault(TFLM, "TRANSPOSE_CONV", "", _WIDE_BIAS, conditions.has_narrow_bias),
    Fault(TFLM, "DEPTHWISE_CONV_2D", "", "TFLM multiplies channels as the options say", conditions.other_multiplier),
    Fault(
        LITERT,
        "BATCH_MATMUL",
        "FLOAT32",
        "LiteRT steps through rows' scales as if there were one batch dimension",
        conditions.spreads_scales,
    ),
    Fault(
        LITERT, f"FULLY_CONNECTED CONV_2D {RNNS} {LSTMS}", "FLOAT32", layer_cases.LOWEST, conditions.has_lowest_weight
    ),
)

_RECURRENT: tuple[Fault, ...] = (
    Fault(TFLM, "SVDF", "FLOAT32 INT8", svdf.NO_BIAS, lambda node: node.optional(3) is None),
    Fault(BOTH, "SVDF", "INT8", svdf.UNCLIPPED, conditions.clips),
    Fault(TFLM, "SVDF", "INT8", svdf.WRAPS, lambda node: node.input(4).type == "INT8" and node.input(4).zero != 0),
    Fault(LITERT, "SVDF", "INT8", "LiteRT reads a state of int8 as int16", lambda n: n.input(4).type == "INT8"),
    Fault(TFLM, "UNIDIRECTIONAL_SEQUENCE_LSTM", "FLOAT32", "TFLM reads int8 weights as floats", is_hybrid),
    Fault(LITERT, "UNIDIRECTIONAL_SEQUENCE_LSTM", "INT8", PEEPHOLE_FAULT, conditions.spreads_peephole),
    Fault(
        LITERT,
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        "",
        "LiteRT takes states by the width of the merged outputs, beyond their places",
        conditions.merges_batches,
    ),
    Fault(
        LITERT,
        "BIDIRECTIONAL_SEQUENCE_RNN",
        "",
        "LiteRT runs over the whole sequence once for every step",
        conditions.steps_with_bytes,
    ),
    Fault(
        LITERT,
        "BIDIRECTIONAL_SEQUENCE_RNN",
        "",
        "LiteRT lets the second RNN run over the first input, or by its width",
        conditions.stacks,
    ),
)

_OTHERS: tuple[Fault, ...] = (
    Fault(BOTH, "TRANSPOSE", "", "TFLM and LiteRT read a permutation of int64 as int32", conditions.wide),
    Fault(LITERT, "BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND", "", "LiteRT reads int64 arguments as int32", conditions.wide),
    Fault(TFLM, "SPACE_TO_BATCH_ND", "", "TFLM pads with memory that it never sets", conditions.pads),
    Fault(TFLM, "EMBEDDING_LOOKUP", "", "TFLM takes the first scale for all rows", conditions.per_channel),
    Fault(TFLM, "STRIDED_SLICE", "", "TFLM ignores the offset flag", lambda node: bool(node.options["offset"])),
    Fault(LITERT, "STRIDED_SLICE", "", "LiteRT brings no end inside that counts from begin", conditions.offset_ends),
    Fault(LITERT, "STRIDED_SLICE", "", "LiteRT counts new axes beyond the indices", conditions.stray_axes),
    Fault(LITERT, "STRIDED_SLICE", "", "an ellipsis for no axis takes one in LiteRT", conditions.empty_ellipsis),
    Fault(
        LITERT,
        "ARG_MAX ARG_MIN",
        "",
        "the option contradicts the output's type, which counts for us",
        lambda node: node.options["output_type"] != node.output.type,
    ),
    Fault(TFLM, "CUSTOM:SignalStacker", "", stacker.UNWRITTEN),
    Fault(TFLM, "CUSTOM:SignalFramer", "", framer.UNWRITTEN),
    Fault(TFLM, "CUSTOM:SignalEnergy", "", energy.UNWRITTEN, energy.leaves_some),
    Fault(
        TFLM,
        "CUSTOM:CIRCULAR_BUFFER",
        "",
        "TFLM begins with what was in memory if the output is no variable",
        lambda node: not node.output.variable,
    ),
)

_DETECTION = "CUSTOM:TFLite_Detection_PostProcess"

_DETECTIONS: tuple[Fault, ...] = (
    Fault(BOTH, _DETECTION, "", "rows without a detection are not written", conditions.leaves_rows),
    Fault(TFLM, _DETECTION, "", "TFLM writes several classes of a box beyond its outputs", conditions.ranks_classes),
    Fault(LITERT, _DETECTION, "", "LiteRT sorts equal scores anyhow", conditions.ranks_equal_classes),
)

FAULTS = (*_RUN_TIME, *_ARITHMETIC, *_ODD_FLOATS, *_LAYERS, *_RECURRENT, *_OTHERS, *_DETECTIONS)


def known_faults(graph: Graph, peer: str, values: Mapping[Tensor, Array]) -> Iterator[str]:
    """What the peer is known to do otherwise with these values of the graph's tensors."""
    for node in graph.nodes:
        known = {t: replace(t, data=values[t]) for t in node.inputs if t is not None and t.data is None and t in values}
        seen = replace(node, inputs=tuple(None if t is None else known.get(t, t) for t in node.inputs))
        yield from (fault.why for fault in FAULTS if fault.explains(peer, seen))
