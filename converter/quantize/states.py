"""What SVDF and LSTM need in int8 beside quantised values, weights and bias.

Source: LiteRT's "8-bit quantization specification"; TFLite's tools/optimize/operator_property.cc.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from twinfer.converter.facts import Parameters
from twinfer.converter.quantize.affine import LEAST_SCALE, Range, activation
from twinfer.converter.quantize.weights import MOST_BIAS, Layer, bias_tensor, integers, weight_quant, weight_tensor
from twinfer.runtime.affine import quantize
from twinfer.runtime.graph import Node, Quant, Tensor
from twinfer.runtime.ops.recurrent.lstm import CELL, GATES, HIDDEN

#: Tensor of a state -> its range.
Ranges = Callable[[Tensor], Range]

#: The least and greatest exponent that kernels take for the scale of an LSTM's cells, a power of 2.
CELL_EXPONENTS = (-12, -4)

#: Tensors that an LSTM's node lists as intermediate: four gates (for layer normalisation only) and the hidden state.
_INTERMEDIATES = 5

#: Positions of peephole weights, of a projection and of norm factors.
_LSTM_OPTIONS = (9, 10, 11, 16, 17, 20, 21, 22, 23)

_SVDF_FEATURES, _SVDF_TIME, _SVDF_BIAS, _SVDF_STATE = 1, 2, 3, 4


def _are_float_constants(node: Node, positions: Iterable[int]) -> bool:
    tensors = [t for t in map(node.optional, positions) if t is not None]
    return all(t.data is not None and t.type == "FLOAT32" for t in tensors)


def lstm_is_float(node: Node) -> bool:
    """Whether all parameters of an LSTM are float constants, and it has four gates and nothing else."""
    plain = not any(node.optional(i) for i in _LSTM_OPTIONS) and node.options.get("fused_activation_function") == "TANH"
    needed = [i for gate in GATES for i in gate]
    matrices = all(t is not None and len(t.shape) == 2 for t in (node.optional(r) for _, r, _ in GATES))
    return plain and matrices and all(map(node.optional, needed)) and _are_float_constants(node, needed)


def svdf_is_float(node: Node) -> bool:
    """Whether all parameters are float constants and the activation is RELU: LiteRT refuses integers with any other."""
    relu = node.options.get("fused_activation_function") == "RELU"
    return relu and _are_float_constants(node, (_SVDF_FEATURES, _SVDF_TIME, _SVDF_BIAS))


def lstm(node: Node, ranges: Ranges) -> Node:
    """The node, whose input and output are quantised already, with the rest quantised: weights per tensor, bias INT32,
    the hidden state like the output, cells INT16 in steps of a power of 2."""
    inputs, x, hidden = list(node.inputs), node.input(0), node.output.quant
    for w, r, b in GATES:
        for position, bias, source in ((w, b, x), (r, None, node.output)):
            layer = Layer(node, Parameters(position, bias), per_channel=False)
            quant = weight_quant(layer, source.scale)
            inputs[position] = weight_tensor(layer, quant, integers(layer, quant))
            if bias is not None:
                inputs[bias] = bias_tensor(layer, layer.biases(), source.scale, quant, wide=False)
    inputs[HIDDEN] = replace(node.input(HIDDEN), type="INT8", quant=hidden)
    inputs[CELL] = replace(node.input(CELL), type="INT16", quant=_cell(ranges(node.input(CELL))))
    # Empty tensors; only the quantisation counts, and only that of the hidden state, which is the last.
    name = "intermediate"  # one for all, and one tensor for the gates, as they take bytes
    listed = (*[Tensor(name, "FLOAT32", (0,))] * (_INTERMEDIATES - 1), Tensor(name, "INT8", (0,), hidden))
    return replace(node, inputs=tuple(inputs), extra=MappingProxyType({**node.extra, "intermediates": listed}))


def _cell(limits: Range) -> Quant:
    """The least power of 2 that reaches the range."""
    peak = max(-limits[0], limits[1])
    exponent = math.ceil(math.log2(peak)) - 15 if peak else CELL_EXPONENTS[0]
    return Quant.per_tensor(2.0 ** min(max(exponent, CELL_EXPONENTS[0]), CELL_EXPONENTS[1]))


def svdf(node: Node, ranges: Ranges) -> Node:
    """The node, whose input and output are quantised already, with the rest quantised: features INT8, the filter over
    time and the state INT16, bias INT32."""
    inputs, state, time = list(node.inputs), node.input(_SVDF_STATE), node.input(_SVDF_TIME)
    features = Layer(node, Parameters(_SVDF_FEATURES), per_channel=False)
    quant = weight_quant(features, 1.0)
    inputs[_SVDF_FEATURES] = weight_tensor(features, quant, integers(features, quant))
    held = activation(ranges(state), "INT16")
    inputs[_SVDF_STATE] = replace(state, type="INT16", quant=held)
    filters = Layer(node, Parameters(_SVDF_TIME, _SVDF_BIAS), per_channel=False)
    over = _over_time(filters, node.output.shape[1], float(held.scale[0]))
    data = quantize(filters.values(), over, -32767, 32767).astype(np.int16)
    data.flags.writeable = False
    inputs[_SVDF_TIME] = replace(time, type="INT16", quant=over, data=data)
    if filters.bias is not None:
        inputs[_SVDF_BIAS] = bias_tensor(filters, filters.biases(), float(held.scale[0]), over, wide=False)
    return replace(node, inputs=tuple(inputs))


def _over_time(filters: Layer, units: int, held: float) -> Quant:
    """The scale of the filter over time. Kernels sum in int32 without saturation. So a unit's sum over 16-bit states
    and its bias must each stay within half of int32."""
    taps = np.abs(filters.values()).reshape(units, -1)
    bias = 0.0 if filters.bias is None else float(np.abs(filters.biases()).max(initial=0.0))
    scale = max(taps.max(initial=0.0) / 32767, taps.sum(1).max(initial=0.0) / 2**15, bias / MOST_BIAS / held)
    return Quant.per_tensor(max(float(np.float32(scale)), LEAST_SCALE))
