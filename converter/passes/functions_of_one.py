"""Activations that are spelled out become the operator for them, in whatever order they are written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from twinfer.converter.passes._rewrite import Change, View, constant, new_node, rewrite, scalar
from twinfer.converter.table import row_of
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import DTYPES, Array, Graph, Node, Tensor
from twinfer.runtime.registry import operator

#: Where the pipeline runs the pass (``passes/__init__.py``).
PLACES = (12,)

#: Operators that may stand at the end of an activation, and how many it may have.
_LAST = ("ADD", "DIV", "MAXIMUM", "MUL", "SELECT", "SELECT_V2", "SUB")
_MOST = 32

#: How many constants of a region may be one for each channel.
_MOST_SLOPES = 1024

#: Where functions are compared, and how much of their largest value they may differ.
_NEAR_0 = np.geomspace(1e-4, 0.05, 8)
_AT = np.concatenate([np.linspace(-12, 12, 385), _NEAR_0, -_NEAR_0])
_NEAR = 3e-7

_erf = np.vectorize(math.erf)


def functions_of_one(graph: Graph) -> Graph:
    """GELU by tanh, erf or sigmoid, HARD_SWISH, ELU, LEAKY_RELU, LOGISTIC, TANH, RELU, ABS and SiLU (x * LOGISTIC(x))
    that are written as other operators over one float tensor become these, and a MUL where they are a multiple of
    them: what the operators make of some hundred values tells which function it is."""
    return rewrite(graph, _recognise)


def _operation(op: str, **options: bool | float) -> Callable[[Tensor, Tensor], list[Node]]:
    return lambda x, y: [new_node(op, [x], y, **options)]


def _silu(x: Tensor, y: Tensor) -> list[Node]:
    middle = Tensor(f"{y.name}/logistic", y.type, y.shape)
    return [new_node("LOGISTIC", [x], middle), new_node("MUL", [x, middle], y)]


#: Values at ``_AT``, and what gives them.
_KNOWN: Sequence[tuple[Array, Callable[[Tensor, Tensor], list[Node]]]] = (
    (np.maximum(_AT, 0), _operation("RELU")),
    (np.abs(_AT), _operation("ABS")),
    (np.tanh(_AT), _operation("TANH")),
    (1 / (1 + np.exp(-_AT)), _operation("LOGISTIC")),
    (_AT / (1 + np.exp(-_AT)), _silu),
    (_AT * np.clip(_AT + 3, 0, 6) / 6, _operation("HARD_SWISH")),
    (np.where(_AT > 0, _AT, np.expm1(np.minimum(_AT, 0))), _operation("ELU")),
    (
        _AT / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (_AT + 0.044715 * _AT**3))),
        _operation("GELU", approximate=True),
    ),
)


def _recognise(view: View, node: Node) -> Change | None:
    if node.op not in _LAST or node.output.type != "FLOAT32":
        return None
    region: list[Node] = [node]
    while len(region) <= _MOST:
        inner = {t for each in region for t in each.outputs}
        sources = list(dict.fromkeys(t for n in region for t in n.inputs if t and _varies(t) and t not in inner))
        if len(sources) == 1 and len(region) > 1 and sources[0].shape == node.output.shape:
            found = _named(region, sources[0], node.output)
            if found and len(found) < len(region):
                return Change(tuple(region), tuple(found))
        more = next((maker for t in sources if (maker := _absorbed(view, t, region)) is not None), None)
        if more is None:
            return None
        region = [more, *region]
    return None


def _varies(tensor: Tensor) -> bool:
    return tensor.data is None or tensor.type not in DTYPES


def _absorbed(view: View, tensor: Tensor, region: Sequence[Node]) -> Node | None:
    """The maker of a tensor that nobody but these nodes reads, if it works element by element."""
    maker = view.producer(tensor)
    if maker is None or tensor in view.public or tensor.type not in ("FLOAT32", "BOOL") or len(maker.outputs) != 1:
        return None
    alone = all(reader in region for reader in view.consumers.get(tensor, ()))
    plain = all(t is None or t.type in ("FLOAT32", "BOOL") for t in maker.inputs)
    return maker if alone and plain and row_of(maker).elementwise else None


def _named(region: Sequence[Node], x: Tensor, y: Tensor) -> list[Node]:
    """Operators that give y from x; none if it is no known function."""
    values = _values(region, x, y)
    if values is None or not np.isfinite(values).all():
        return []
    if values.ndim > 1:
        return _by_channel(values, x, y)
    most = np.abs(values).max()
    for known, emit in (*_KNOWN, *_fitted(values)):
        factor = values[_AT == 12][0] / known[_AT == 12][0]
        if np.abs(values - factor * known).max() <= _NEAR * max(most, 1):
            if math.isclose(factor, 1, rel_tol=1e-5):
                return emit(x, y)
            middle = Tensor(f"{y.name}/whole", y.type, y.shape)
            return [*emit(x, middle), _times(middle, factor, y)]
    return []


def _by_channel(values: Array, x: Tensor, y: Tensor) -> list[Node]:
    """PRELU, if that gives the values: numbers of ``_AT`` first, then those of every slope."""
    alpha, at = -values[_AT == -1][0], _AT.reshape(-1, *[1] * (values.ndim - 1))
    if np.abs(values - np.where(at > 0, at, alpha * at)).max() > _NEAR * max(np.abs(values).max(), 1):
        return []
    return [new_node("PRELU", [x, constant(alpha.astype(np.float32), f"{y.name}/alpha")], y)]


def _times(x: Tensor, factor: float, y: Tensor) -> Node:
    return new_node("MUL", [x, constant(np.array(factor, np.float32), f"{y.name}/factor")], y)


def _fitted(values: Array) -> Iterator[tuple[Array, Callable[[Tensor, Tensor], list[Node]]]]:
    """Functions with a number of their own, as these values suggest it: LEAKY_RELU, and GELU by erf of a multiple."""
    left, right = float(values[_AT == -1][0]), float(values[_AT == 1][0])
    if right and 0 < -left / right < 1:
        alpha = -left / right
        yield np.where(_AT > 0, _AT, alpha * _AT), _operation("LEAKY_RELU", alpha=alpha)
    above, below = float(values[_AT == 0.5][0]), float(values[_AT == -0.5][0])
    share = above / (above - below) if above != below else 0.0  # x * F(b * x), and F(-b * x) = 1 - F(b * x)
    if 0.5 < share < 1:
        inner = NormalDist().inv_cdf(share) / 0.5
        gelu = _operation("GELU", approximate=False)
        yield _AT / 2 * (1 + _erf(inner * _AT / math.sqrt(2))), lambda x, y: _of_multiple(gelu, x, inner, y)


def _of_multiple(gelu: Callable[[Tensor, Tensor], list[Node]], x: Tensor, inner: float, y: Tensor) -> list[Node]:
    """x * F(inner * x) as GELU(inner * x) / inner."""
    if math.isclose(inner, 1, rel_tol=1e-4):
        return gelu(x, y)
    before, behind = (replace(y, name=f"{y.name}/{n}", shape_signature=()) for n in ("multiple", "gelu"))
    return [_times(x, inner, before), *gelu(before, behind), _times(behind, 1 / inner, y)]


def _values(region: Sequence[Node], x: Tensor, y: Tensor) -> Array | None:
    """What the nodes give at ``_AT``, by their references; None if one fails. Constants that are no single numbers give
    more dimensions."""
    constants = {t for n in region for t in n.inputs if t is not None and not _varies(t) and scalar(t) is None}
    if sum(t.size for t in constants) > _MOST_SLOPES:
        return None
    rank = max((len(t.shape) for t in constants), default=0)
    known: dict[Tensor, Array] = {x: _AT.astype(np.float32).reshape(-1, *[1] * rank)}
    ahead = list(region)
    while ahead:
        node = next(n for n in ahead if all(t is None or t in known or not _varies(t) for t in n.inputs))
        ahead.remove(node)
        given = [None if t is None else known[t] if t in known else _operand(t) for t in node.inputs]
        pairs = zip(node.inputs, given, strict=True)
        inputs = [(t and v is not None and replace(t, shape=v.shape, data=None)) or None for t, v in pairs]
        shape = np.broadcast_shapes(*(v.shape for v in given if v is not None))
        single = replace(node, inputs=tuple(inputs), outputs=(replace(node.output, shape=shape),))
        try:
            with np.errstate(all="ignore"):
                known[node.output] = operator(single).reference(single, given)[0]
        except (TwinferError, ValueError, IndexError):
            return None
    return np.asarray(known[y], np.float64)


def _operand(tensor: Tensor) -> Array:
    """A constant as it is, or as a number."""
    number = scalar(tensor)
    return np.asarray(tensor.data) if number is None else np.asarray(number, tensor.dtype)
