"""Whether a node can be quantised, and as what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinfer.converter.quantize.affine import MOST_SCALE, Range, data_range
from twinfer.converter.quantize.calibrate import Calibration
from twinfer.converter.quantize.recipe import Choice
from twinfer.converter.quantize.rules import RULES, Rule
from twinfer.converter.quantize.states import STATEFUL, is_quantisable
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Node, Quant, Tensor
from twinfer.runtime.registry import operators

#: Steps of int8.
_STEPS = 255


def precision_of(node: Node, wanted: Choice, seen: Calibration | None = None) -> Choice:
    """The choice, with the precision that the node can have: the one wanted, int8 in place of int4, or float.

    Without ``seen`` divisors are taken to be far enough from 0, and other values of a size that has steps.
    """
    rule = RULES.get(node.op)
    if rule is None or wanted.precision == "float" or not _is_float(node, rule):
        return replace(wanted, precision="float")
    if not _divides(node, rule, seen) or not _has_steps(node, rule, seen):
        return replace(wanted, precision="float")
    if wanted.precision == "int16x8":
        return wanted if rule.int16 and _has_kernel(node, rule, "INT16") else replace(wanted, precision="float")
    if node.op in STATEFUL:
        return replace(wanted, precision="int8" if is_quantisable(node) else "float")
    if not _has_kernel(node, rule, "INT8"):
        return replace(wanted, precision="float")
    return replace(wanted, precision="int8") if wanted.precision == "int4" and not rule.int4 else wanted


def _is_float(node: Node, rule: Rule) -> bool:
    """Whether all that would be quantised is float, and what must be constant is."""
    values = [node.input(i) for i in rule.values(node)]
    parameters = [node.optional(i) for i in (rule.weights, rule.bias) if i is not None]
    if rule.weights is not None and node.optional(rule.weights) is None:
        return False
    outputs = () if rule.integer else node.outputs
    floats = all(t.type == "FLOAT32" and not t.variable for t in (*values, *outputs))
    return (
        floats and bool(values) and all(t is None or (t.type == "FLOAT32" and t.data is not None) for t in parameters)
    )


def _divides(node: Node, rule: Rule, seen: Calibration | None) -> bool:
    """Whether the divisor, if there is one, was never seen within two steps of 0."""
    if rule.divisor is None or seen is None:
        return True
    limits = _limits(node.input(rule.divisor), seen)
    if limits is None:
        return False
    low, high = limits
    return max(low, -high) > 2 * (max(high, 0.0) - min(low, 0.0)) / _STEPS


def _has_steps(node: Node, rule: Rule, seen: Calibration | None) -> bool:
    """Whether no value is beyond what a scale can reach: the -infinity by which attention is masked is, and beside it
    everything else would round to 0."""
    tensors = (*(node.input(i) for i in rule.values(node)), *node.outputs)
    ranges = (_limits(t, seen or {}) for t in tensors if t.type == "FLOAT32")
    return all(limits is None or max(-limits[0], limits[1]) <= MOST_SCALE * _STEPS for limits in ranges)


def _limits(tensor: Tensor, seen: Calibration) -> Range | None:
    """Least and greatest value of a tensor, None if that is not known."""
    if tensor.data is not None:
        return data_range(tensor)
    return (seen[tensor].low, seen[tensor].high) if tensor in seen and seen[tensor].count else None


def _has_kernel(node: Node, rule: Rule, type: str) -> bool:
    """Whether twinfer runs the integer form: asked of the operator itself, with quantisations that stand for any."""
    if node.op not in operators():
        return False
    fixed = rule.fixed8 if type == "INT8" else rule.fixed16
    quant = Quant.per_tensor(1.0)
    inputs: list[Tensor | None] = list(node.inputs)
    for i in rule.values(node):
        inputs[i] = _int(node.input(i), type, quant)
    if rule.weights is not None:
        inputs[rule.weights] = _int(node.input(rule.weights), "INT8", quant)
    if rule.bias is not None and node.optional(rule.bias) is not None:
        inputs[rule.bias] = _int(node.input(rule.bias), "INT32" if type == "INT8" else "INT64", quant)
    out = quant if fixed is None else Quant.per_tensor(*fixed)
    outputs = node.outputs if rule.integer else tuple(_int(t, type, out) for t in node.outputs)
    options = {**node.options, "pot_scale_int16": False} if "pot_scale_int16" in node.options else node.options
    try:
        operators()[node.op].infer(replace(node, inputs=tuple(inputs), outputs=outputs, options=options))
    except UnsupportedOperatorError:
        return False
    return True


def _int(tensor: Tensor, type: str, quant: Quant) -> Tensor:
    made = replace(tensor, type=type, quant=quant)
    return made if tensor.data is None else replace(made, data=np.zeros(tensor.shape, made.dtype))
