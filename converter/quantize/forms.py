"""Whether a node can be quantised, and as what."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from twinfer.converter.facts import Parameters, Row
from twinfer.converter.quantize.affine import LEAST_SCALE, LIMITS, MOST_SCALE, Range, activation
from twinfer.converter.quantize.hybrid import can_be_dynamic
from twinfer.converter.quantize.recipe import Choice
from twinfer.converter.table import row_of
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Node, Quant, Tensor
from twinfer.runtime.registry import operators

#: Steps of int8.
_STEPS = 255

#: How far a function of int16 may be off, as a share of its largest output: about 33 of 32767 steps.
MOST_ERROR = 1e-3

#: How far below a row's greatest value the table of SOFTMAX for int16 goes.
SOFTMAX_END = 10.0

#: (tensor, integer type) -> least and greatest value; None if that is not known.
Limits = Callable[[Tensor, str], Range | None]


def precision_of(node: Node, wanted: Choice, limits: Limits | None = None) -> Choice:
    """The choice, with the precision that the node can have: the one wanted, int8 in place of int4, or float.

    Without ``limits``, divisors count as far enough from 0, and all values as small enough for a scale.
    """
    row = row_of(node)
    if wanted.precision == "dynamic" and can_be_dynamic(node):
        return wanted
    if wanted.type == "FLOAT32" or wanted.type not in row.types or not _fits(node, row, wanted.type, limits):
        return replace(wanted, precision="float")
    int4 = row.parameters is not None and row.parameters.int4
    return replace(wanted, precision="int8") if wanted.precision == "int4" and not int4 else wanted


def _fits(node: Node, row: Row, type: str, limits: Limits | None) -> bool:
    if not _is_float(node, row):
        return False
    if limits is not None and not (_divides(node, row, limits, type) and _has_steps(node, row, limits, type)):
        return False
    if row.state is not None:
        return row.state.accepts(node)
    close = limits is None or (_comes_close(node, row, limits, type) and not _leaks(node, limits, type))
    return close and _has_kernel(node, row, type)


def _is_float(node: Node, row: Row) -> bool:
    """Whether all tensors to quantise are float, and those that must be constant are."""
    values = [node.input(i) for i in row.scaled(node)]
    outputs = () if row.scales.indices else node.outputs
    floats = all(t.type == "FLOAT32" and not t.variable for t in (*values, *outputs))
    return floats and bool(values) and (row.parameters is None or _are_constants(node, row.parameters))


def _are_constants(node: Node, parameters: Parameters) -> bool:
    """Whether there are weights, and they and the bias are finite float constants."""
    weights = node.optional(parameters.weights)
    bias = None if parameters.bias is None else node.optional(parameters.bias)
    known = [t for t in (weights, bias) if t is not None]
    constant = all(t.type == "FLOAT32" and t.data is not None for t in known)
    return weights is not None and constant and all(np.isfinite(np.asarray(t.data)).all() for t in known)


def _divides(node: Node, row: Row, limits: Limits, type: str) -> bool:
    """Whether the divisor, if there is one, was never seen within two steps of 0."""
    if row.scales.divisor is None:
        return True
    seen = limits(node.input(row.scales.divisor), type)
    if seen is None:
        return False
    low, high = seen
    return max(low, -high) > 2 * (max(high, 0.0) - min(low, 0.0)) / _STEPS


def _has_steps(node: Node, row: Row, limits: Limits, type: str) -> bool:
    """Whether a scale can reach every value, and is no larger than all of them. None reaches infinity."""
    tensors = (*(node.input(i) for i in row.scaled(node)), *node.outputs)
    ranges = (limits(t, type) for t in tensors if t.type == "FLOAT32")
    reaches = [max(-seen[0], seen[1]) / _STEPS for seen in ranges if seen is not None]
    return all(not reach or LEAST_SCALE <= reach <= MOST_SCALE for reach in reaches)


def _comes_close(node: Node, row: Row, limits: Limits, type: str) -> bool:
    """Whether a function of int16 differs from that of floats by at most ``MOST_ERROR`` over all that was seen.

    LiteRT and TFLM compute EXP, LOG and GELU by lines between 513 values, which lie far apart where the input's range
    is wide: LOG over 0.01 to 4 is off by 6 % of its largest output.
    """
    if type != "INT16" or len(node.inputs) != 1 or row.scales.same or not operators()[node.op].pointwise:
        return True
    x, y, fixed = limits(node.input(0), type), limits(node.output, type), row.scales.fixed(type)
    if x is None or y is None:
        return True
    of_x, of_y = activation(x, type), activation(y, type) if fixed is None else Quant.per_tensor(*fixed)
    low, high = (float(end / of_x.scale[0]) for end in x)
    q = np.unique(np.linspace(low, high, 4096).round().clip(*LIMITS[type])).astype(np.int16)
    flat_x, flat_y = (replace(t, shape=q.shape, shape_signature=()) for t in (node.input(0), node.output))
    floats = replace(node, inputs=(flat_x,), outputs=(flat_y,))
    integers = replace(node, inputs=(_int(flat_x, type, of_x),), outputs=(_int(flat_y, type, of_y),))
    reference, most = operators()[node.op].reference, LIMITS[type][1] * float(of_y.scale[0])
    with np.errstate(all="ignore"):
        real = reference(floats, [(q * of_x.scale[0]).astype(np.float32)])[0].astype(np.float64).clip(-most, most)
    off = np.abs(reference(integers, [q])[0] * float(of_y.scale[0]) - real)
    return bool(np.nanmax(off, initial=0.0) <= MOST_ERROR * np.nanmax(np.abs(real), initial=0.0))


def _leaks(node: Node, limits: Limits, type: str) -> bool:
    """Whether a SOFTMAX of int16 may give more than ``MOST_ERROR`` to values that count for nothing: the table ends at
    exp(-10), which every lower value gets, too. Of 214 classes that is 1 % altogether."""
    seen = limits(node.input(0), type) if node.op == "SOFTMAX" and type == "INT16" else None
    if seen is None or (seen[1] - seen[0]) * node.options["beta"] <= SOFTMAX_END:
        return False
    return (node.output.shape[-1] - 1) * math.exp(-SOFTMAX_END) > MOST_ERROR


def _has_kernel(node: Node, row: Row, type: str) -> bool:
    """Whether twinfer has a kernel for the integer form. The operator itself is asked, with example quantisations."""
    if node.op not in operators():
        return False
    quant = Quant.per_tensor(1.0)
    inputs: list[Tensor | None] = list(node.inputs)
    for i in row.scaled(node):
        inputs[i] = _int(node.input(i), type, quant)
    if row.parameters is not None:
        weights, bias = row.parameters.weights, row.parameters.bias
        inputs[weights] = _int(node.input(weights), "INT8", quant)
        if bias is not None and node.optional(bias) is not None:
            inputs[bias] = _int(node.input(bias), "INT32" if type == "INT8" else "INT64", quant)
    fixed = row.scales.fixed(type)
    out = quant if fixed is None else Quant.per_tensor(*fixed)
    outputs = node.outputs if row.scales.indices else tuple(_int(t, type, out) for t in node.outputs)
    options = {**node.options, "pot_scale_int16": False} if "pot_scale_int16" in node.options else node.options
    try:
        operators()[node.op].infer(replace(node, inputs=tuple(inputs), outputs=outputs, options=options))
    except UnsupportedOperatorError:
        return False
    return True


def _int(tensor: Tensor, type: str, quant: Quant) -> Tensor:
    integers = replace(tensor, type=type, quant=quant)
    return integers if tensor.data is None else replace(integers, data=np.zeros(tensor.shape, integers.dtype))
