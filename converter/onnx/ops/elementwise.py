"""Element-wise arithmetic that TFLite has by another name."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.onnx.node import OnnxNode
from twinfer.runtime.graph import Tensor

Importer = Callable[[Emitter, OnnxNode], Tensor]


def _unary(op: str) -> Importer:
    return lambda g, node: g.unary(op, node.input(0))


def _binary(op: str) -> Importer:
    return lambda g, node: g.binary(op, node.input(0), node.input(1))


def _compare(op: str) -> Importer:
    return lambda g, node: g.binary(op, node.input(0), node.input(1), type="BOOL")


def _variadic(op: str) -> Importer:
    """One operator between two inputs at a time, from the left."""
    return lambda g, node: reduce(lambda a, b: g.binary(op, a, b), (node.input(i) for i in range(len(node.inputs))))


def power(g: Emitter, node: OnnxNode) -> Tensor:
    """POW; squares and square roots, which are common, by exact operators."""
    x, y = node.input(0), node.input(1)
    scalar = y.size == 1 and len(y.shape) <= len(x.shape)
    exponent = float(y.data.reshape(-1)[0]) if y.data is not None and scalar else 1.0
    if exponent == 2:
        return g.binary("MUL", x, x)
    if exponent == 0.5 and x.type == "FLOAT32":
        return g.unary("SQRT", x)
    node.need(x.type in ("FLOAT32", "INT32"), f"powers in {x.type}; cast the base to float")
    if y.type == x.type:
        return g.binary("POW", x, y)
    options = {"in_data_type": y.type, "out_data_type": x.type}
    exact = x.type == "FLOAT32" or y.type in ("INT8", "INT16", "INT32", "UINT8")
    node.need(exact, f"{x.type} to a power in {y.type} has no exact form; cast the base to float")
    return g.binary("POW", x, g.unary("CAST", y, x.type, **options))


def mean(g: Emitter, node: OnnxNode) -> Tensor:
    return g.binary("MUL", _variadic("ADD")(g, node), np.array(1 / len(node.inputs), np.float32))


def where(g: Emitter, node: OnnxNode) -> Tensor:
    condition, x, y = (node.input(i) for i in range(3))
    shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
    return g.emit("SELECT_V2", [condition, x, y], shape, x.type)


def is_nan(g: Emitter, node: OnnxNode) -> Tensor:
    """NaN alone differs from itself."""
    return g.binary("NOT_EQUAL", node.input(0), node.input(0), type="BOOL")


def reciprocal(g: Emitter, node: OnnxNode) -> Tensor:
    return g.binary("DIV", np.array(1, np.float32), node.input(0))


UNARY = {
    "Sqrt": "SQRT", "Exp": "EXP", "Abs": "ABS", "Neg": "NEG", "Log": "LOG", "Floor": "FLOOR", "Ceil": "CEIL",
    "Round": "ROUND", "Sin": "SIN", "Cos": "COS", "Not": "LOGICAL_NOT", "Sign": "SIGN",
    "Sigmoid": "LOGISTIC", "Tanh": "TANH", "HardSwish": "HARD_SWISH", "Relu": "RELU",
}  # fmt: skip
BINARY = {"Add": "ADD", "Sub": "SUB", "Mul": "MUL", "Div": "DIV", "And": "LOGICAL_AND", "Or": "LOGICAL_OR"}
COMPARE = {
    "Equal": "EQUAL", "Less": "LESS", "LessOrEqual": "LESS_EQUAL", "Greater": "GREATER",
    "GreaterOrEqual": "GREATER_EQUAL",
}  # fmt: skip
VARIADIC = {"Min": "MINIMUM", "Max": "MAXIMUM", "Sum": "ADD"}

IMPORTERS = {
    **{name: _unary(op) for name, op in UNARY.items()},
    **{name: _binary(op) for name, op in BINARY.items()},
    **{name: _compare(op) for name, op in COMPARE.items()},
    **{name: _variadic(op) for name, op in VARIADIC.items()},
    "IsNaN": is_nan,
    "Mean": mean,
    "Pow": power,
    "Reciprocal": reciprocal,
    "Where": where,
}
