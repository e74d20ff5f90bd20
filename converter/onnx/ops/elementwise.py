"""Element-wise arithmetic, comparisons and logic, some of which TFLite has by another name."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from twinfer.converter.emit import arithmetic, elementary
from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.onnx.node import OnnxNode
from twinfer.runtime.graph import Tensor

Importer = Callable[[Emitter, OnnxNode], Tensor]


def unary(op: str) -> Importer:
    return lambda g, node: g.unary(op, node.input(0))


def of_one(run: Callable[[Emitter, Tensor], Tensor]) -> Importer:
    return lambda g, node: run(g, node.input(0))


def of_two(run: Callable[[Emitter, Tensor, Tensor], Tensor]) -> Importer:
    return lambda g, node: run(g, node.input(0), node.input(1))


def _binary(op: str, type: str = "") -> Importer:
    return lambda g, node: g.binary(op, node.input(0), node.input(1), type=type)


def _variadic(op: str) -> Importer:
    return lambda g, node: reduce(lambda a, b: g.binary(op, a, b), (node.input(i) for i in range(len(node.inputs))))


def mean(g: Emitter, node: OnnxNode) -> Tensor:
    total = _variadic("ADD")(g, node)
    return total if len(node.inputs) == 1 else g.binary("MUL", total, np.array(1 / len(node.inputs), np.float32))


def modulo(g: Emitter, node: OnnxNode) -> Tensor:
    """The remainder has the sign of the divisor, or with fmod that of the dividend."""
    x, y = node.input(0), node.input(1)
    return arithmetic.remainder(g, x, y) if node.attribute("fmod", 0) else g.binary("FLOOR_MOD", x, y)


def equal(g: Emitter, node: OnnxNode) -> Tensor:
    """EQUAL; with a constant infinity, whether x is at that end of float32, which TFLite's operators limit it to."""
    for x, y in (node.inputs, node.inputs[::-1]):
        if x is not None and y is not None and y.data is not None and y.type == "FLOAT32":
            for sign, op in ((-1, "LESS_EQUAL"), (1, "GREATER_EQUAL")):
                if y.size and (y.data == sign * np.inf).all():
                    most = np.full(y.shape, sign * np.finfo(np.float32).max, np.float32)
                    return g.binary(op, x, most, type="BOOL")
    return _binary("EQUAL", "BOOL")(g, node)


def is_inf(g: Emitter, node: OnnxNode) -> Tensor:
    sides = (bool(node.attribute(f"detect_{side}", 1)) for side in ("positive", "negative"))
    return elementary.is_infinite(g, node.input(0), *sides)


def bit_shift(g: Emitter, node: OnnxNode) -> Tensor:
    left = str(node.attribute("direction", "")) == "LEFT"
    return arithmetic.shift(g, node.input(0), node.input(1), left)


def bitwise(op: str) -> Importer:
    return lambda g, node: arithmetic.bitwise(g, op, node.input(0), node.input(1))


UNARY = {
    "Sqrt": "SQRT", "Exp": "EXP", "Neg": "NEG", "Log": "LOG", "Floor": "FLOOR", "Ceil": "CEIL", "Round": "ROUND",
    "Sin": "SIN", "Cos": "COS", "Not": "LOGICAL_NOT",
}  # fmt: skip
BINARY = {"Add": "ADD", "Sub": "SUB", "Mul": "MUL", "And": "LOGICAL_AND", "Or": "LOGICAL_OR"}
COMPARE = {
    "Less": "LESS", "LessOrEqual": "LESS_EQUAL", "Greater": "GREATER",
    "GreaterOrEqual": "GREATER_EQUAL", "Xor": "NOT_EQUAL",
}  # fmt: skip
VARIADIC = {"Min": "MINIMUM", "Max": "MAXIMUM", "Sum": "ADD"}
ELEMENTARY = ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Erf", "Sinh", "Tan")

IMPORTERS: dict[str, Importer] = {
    **{name: unary(op) for name, op in UNARY.items()},
    **{name: _binary(op) for name, op in BINARY.items()},
    **{name: _binary(op, "BOOL") for name, op in COMPARE.items()},
    **{name: _variadic(op) for name, op in VARIADIC.items()},
    **{name: of_one(getattr(elementary, name.lower())) for name in ELEMENTARY},
    "Abs": of_one(arithmetic.absolute),
    "BitShift": bit_shift,
    "BitwiseAnd": bitwise("AND"),
    "BitwiseNot": of_one(arithmetic.complement),
    "BitwiseOr": bitwise("OR"),
    "BitwiseXor": bitwise("XOR"),
    "Equal": equal,
    "Div": of_two(arithmetic.divide),
    "IsInf": is_inf,
    "IsNaN": lambda g, node: g.binary("NOT_EQUAL", node.input(0), node.input(0), type="BOOL"),  # NaN differs from NaN
    "Mean": mean,
    "Mod": modulo,
    "Pow": of_two(arithmetic.power),
    "Reciprocal": lambda g, node: g.binary("DIV", np.array(1, np.float32), node.input(0)),
    "Sign": of_one(arithmetic.sign),
    "Where": lambda g, node: arithmetic.choose(g, node.input(0), node.input(1), node.input(2)),
}
