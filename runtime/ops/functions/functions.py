"""Functions of one value: ABS, NEG, SIGN, SQUARE, SQRT, RSQRT, EXP, LOG, SIN, COS, FLOOR, CEIL, ROUND, ELU, GELU."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import SUFFIX, Case, Op, Pointwise, Shape, Uint8, need, need_type, tensor
from twinfer.runtime.ops.functions import _int8, _wide
from twinfer.runtime.ops.functions._unary import elementwise, in_double, infer, int8_case, lookup, through_float
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

_exp, _tanh = in_double(np.exp), in_double(np.tanh)
_erfc = in_double(np.vectorize(math.erfc, otypes=[np.float64]))


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + _tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))))


class Function(NamedTuple):
    """One operator.

    ``real`` maps arrays of float64, and of float32 as TFLite does for int8. ``int8`` maps stored values, if TFLite does
    not round ``real`` there; ``int16`` does what int16 needs. Cases have values from ``least`` to ``most`` and
    ``tolerance``.
    """

    real: Callable[[Array], Array]
    least: float = -8.0
    most: float = 8.0
    tolerance: float = 0.0
    int8: Callable[[Node, Array], Array] | None = None
    oracle: str = "none"  # of int8
    int16: _wide.Wide | None = None
    others: tuple[str, ...] = ()

    @property
    def types(self) -> tuple[str, ...]:
        """Types beside FLOAT32 and INT8."""
        return (*(("INT16",) if self.int16 else ()), *self.others)


def _log(x: Array) -> Array:
    return np.where(x > 0, np.log(np.maximum(x, 1e-300)), np.where(x == 0, -np.inf, np.nan))


def _round(x: Array) -> Array:
    """Half to even; what is below 0 becomes 0.0, not -0.0."""
    return np.where(x < 0, np.rint(x) + x.dtype.type(0), np.rint(x))


def _by_tanh(node: Node) -> bool:
    return node.op == "GELU" and bool(node.options.get("approximate"))


def _real(node: Node) -> Callable[[Array], Array]:
    return _gelu_tanh if _by_tanh(node) else FUNCTIONS[node.op].real


def _logarithm(node: Node, x: Array) -> Array:
    """Of values that have none, the least value of the output."""
    return np.where(x > 0, _real(node)(np.where(x > 0, x, np.float32(1))), _wide.least(node))


#: Operators of int16 that LiteRT computes by a table.
_TABLE, _LOG_TABLE = _wide.by_table(lambda node, x: _real(node)(x)), _wide.by_table(_logarithm)

FUNCTIONS = {
    "ABS": Function(np.abs, int8=_int8.magnitude, oracle="tflm", int16=_wide.rescaled(np.abs), others=("INT32",)),
    "NEG": Function(np.negative, int16=_wide.rescaled(np.negative), others=("INT32", "INT64")),
    "SIGN": Function(lambda x: np.asarray(np.sign(x) + 0, x.dtype), others=("INT32", "FLOAT64")),  # never -0.0
    "SQUARE": Function(np.square),
    "SQRT": Function(np.sqrt, least=0, int8=_int8.root, oracle="litert", int16=_wide.ROOT),
    "RSQRT": Function(
        lambda x: 1 / np.sqrt(x), least=0.01, tolerance=2e-6, int8=_int8.by_root, oracle="tflm", int16=_wide.BY_ROOT
    ),
    "EXP": Function(_exp, most=4, tolerance=1e-5, oracle="litert", int16=_TABLE),
    "LOG": Function(in_double(_log), least=0, tolerance=1e-6, oracle="litert", int16=_LOG_TABLE),
    "SIN": Function(in_double(np.sin), tolerance=2e-7),
    "COS": Function(in_double(np.cos), tolerance=2e-7),
    "FLOOR": Function(np.floor),
    "CEIL": Function(np.ceil),
    "ROUND": Function(_round),
    "ELU": Function(lambda x: np.where(x < 0, _exp(np.minimum(x, 0)) - 1, x), tolerance=2e-7, oracle="tflm"),
    "GELU": Function(lambda x: 0.5 * x * _erfc(x * -math.sqrt(0.5)), tolerance=1e-6, oracle="litert", int16=_TABLE),
}

#: Operators that TFLM lacks.
LITERT = frozenset({"GELU", "SIGN"})


def _infer(node: Node) -> list[Shape]:
    x, y = node.input(0), node.output
    if x.type in ("INT16", *_PLAIN):
        need_type(node, x, "FLOAT32", "INT8", *FUNCTIONS[node.op].types)
    if x.type not in _PLAIN:
        shapes = infer(node, "INT16")
        if wide := _int16(node):
            wide.check(node)
        elif x.type == "INT8" and node.op in ("ABS", "RSQRT"):
            _int8.check(node)
        return shapes
    need(len(node.inputs) == 1, node, f"it has {len(node.inputs)} inputs, not 1")
    need(x.type == y.type, node, f"{x} and {y} differ in type")
    return [x.shape]


def _int16(node: Node) -> _wide.Wide | None:
    """What the operator does with int16; None for nodes of another type."""
    return FUNCTIONS[node.op].int16 if node.input(0).type == "INT16" else None


def _stored(node: Node, q: Array) -> Array:
    """The operator's own fixed point, or the real function rounded; NaN gives the least value."""
    special = FUNCTIONS[node.op].int8
    return special(node, q) if special else through_float(node, q, _real(node))


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    (x,) = inputs
    if x.dtype == np.int8:
        return [_stored(node, x)]
    if wide := _int16(node):
        return [wide.reference(node, x)]
    if x.dtype.kind == "i":
        return [np.asarray(FUNCTIONS[node.op].real(x))]
    with np.errstate(all="ignore"):
        return [np.asarray(_real(node)(x.astype(np.float64))).astype(x.dtype)]


#: Types without scales.
_PLAIN = ("FLOAT64", "INT32", "INT64")


def lower(node: Node, target: Target) -> Call:
    x = node.input(0)
    if x.type == "INT8":
        return lookup(node, lambda q: _stored(node, q), target)
    if wide := _int16(node):
        return wide.lower(node)
    way = "_tanh" if _by_tanh(node) else ""
    return elementwise(node, f"tw_{node.op.lower()}{way}_{SUFFIX[x.type]}")


_INT8_QUANTS = (
    ((0.05, -128), (0.05, -128)), ((0.02, -128), (0.03, -20)), ((0.004, -128), (0.3, 127)), ((1.0, -128), (0.9, 0)),
)  # fmt: skip

#: Steps with halves, which only arithmetic in float32 rounds as TFLite does.
_HALVES = (((1.0, 0), (2.0, -128)), ((2.0**-15, 127), (2.0**-14, 0)), ((2.0**-19, 122), (2.0**-18, 127)))


def _float_cases(op: str, rng: np.random.Generator, **options: object) -> Iterator[Case]:
    f = FUNCTIONS[op]
    edges = np.array([0.0, -0.0, 0.5, 1.0, 1.5, 2.5, -0.5, -1.5, -2.5, f.most, f.least], np.float32)
    for shape in ((), (1,), (3, 5), (2, 3, 4, 7), (edges.size,)):
        values = rng.uniform(f.least, f.most, shape).astype(np.float32)
        if shape == (edges.size,):
            values = np.maximum(edges, np.float32(f.least))
        node = Node(op, (tensor(shape),), (tensor(shape, name="y"),), options)
        yield Case(node, (values,), "litert" if op in LITERT else "tflm", tolerance=f.tolerance)


def cases(op: str, rng: np.random.Generator) -> Iterator[Case]:
    f = FUNCTIONS[op]
    ways: tuple[dict[str, object], ...] = ({"approximate": False}, {"approximate": True}) if op == "GELU" else ({},)
    for options in ways:
        yield from _float_cases(op, rng, **options)
        for x, y in (*_INT8_QUANTS, *(() if f.int8 else _HALVES)):
            case = int8_case(op, x, y, f.oracle, "neither runtime takes int8" if f.oracle == "none" else "")
            node = Node(op, case.node.inputs, case.node.outputs, options)
            yield Case(node, case.inputs, case.oracle, case.why)
        yield from _int16_cases(op, options)
    if f.others:
        values = rng.integers(-(2**31) + 1, 2**31, (3, 67)).astype(np.int32)
        node = Node(op, (tensor((3, 67), "INT32"),), (tensor((3, 67), "INT32", name="y"),))
        yield Case(node, (values,), "litert")
    if "FLOAT64" in f.types:
        yield Case(Node(op, (tensor((3, 7), "FLOAT64"),), (tensor((3, 7), "FLOAT64", name="y"),)), None, "litert")
    if "INT64" in f.types:
        ends = np.array([-(2**63), 2**63 - 1, -(2**31), 2**40 + 1, 0, -1, 1], np.int64)
        node = Node(op, (tensor(ends.shape, "INT64"),), (tensor(ends.shape, "INT64", name="y"),))
        yield Case(node, (ends,), "litert")


def _int16_cases(op: str, options: dict[str, object]) -> Iterator[Case]:
    """All values; of roots, which the peers refuse for negative values, these with no oracle."""
    if FUNCTIONS[op].int16 is None:
        return
    every = np.arange(-(1 << 15), 1 << 15).astype(np.int16)
    above, least = op in ("SQRT", "RSQRT"), op == "NEG"
    for x, y in ((1e-4, 2e-4), (3e-5, 3e-5), (2.0**-12, 2.0**-13), (1e-3, 7e-6), (2e-6, 5e-3)):
        if least and x != y:
            yield _int16_case(op, x, y, every, options, "LiteRT ignores the scales")
        else:
            some = every[every > 0] if above else every[1:] if least else every
            yield _int16_case(op, x, y, some, options)
    if above or least:
        why = "TFLM and LiteRT refuse negative values" if above else "LiteRT negates the least value to itself"
        yield _int16_case(op, 1e-3, 1e-3, every, options, why)


def _int16_case(op: str, x: float, y: float, values: Array, options: dict[str, object], why: str = "") -> Case:
    ends = (tensor(values.shape, "INT16", x),), (tensor(values.shape, "INT16", y, name="y"),)
    oracle = "none" if why else "tflm" if op in ("ABS", "RSQRT") else "litert"
    return Case(Node(op, *ends, options), (values,), oracle, why)


def _op(name: str) -> Op:
    pointwise: Pointwise = "near" if FUNCTIONS[name].tolerance else "exact"
    uint8: Uint8 = "computes" if name == "GELU" else ""
    return Op(name, _infer, reference, lower, lambda rng: cases(name, rng), pointwise=pointwise, uint8=uint8)


OPS = tuple(map(_op, FUNCTIONS))
