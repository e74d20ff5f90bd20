"""Special values, for any case of an operator: infinities, NaN, zeros of both signs, the smallest and largest floats.

``samples`` gives inputs of a case that hold them. ``differing`` compares outputs bit by bit: any NaN equals any NaN.
``KNOWN`` are the places where twinfer's values are others than its oracle's, each with its reason and the value that
twinfer gives, which is checked. docs/limits.md tells users of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Graph, Node, Tensor
from twinfer.runtime.op import Case

#: NaN comes first: samples without it take the others.
SPECIAL = (
    np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 2.0**-149, -(2.0**-149), 2.0**-126, -(2.0**-126),
    3.4028234663852886e38, -3.4028234663852886e38, 1.0, -1.0, 0.5, -0.5, 2.5, 300.0, -300.0, 89.0, -104.0,
    2.0**31, -(2.0**31), 2.0**63, 1e30, -1e30,
)  # fmt: skip

#: Name of a sample -> the share of its values that are special, and which of them it takes.
_SAMPLES = {"one": (0.0, slice(0, 3)), "few": (0.15, slice(0, None)), "all": (1.0, slice(0, None)),
            "no NaN": (0.5, slice(1, None)), "finite": (1.0, slice(3, None))}  # fmt: skip


Arrays = Sequence[Array]


def is_float(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dtype.kind in "fc"


def _mixed(rng: np.random.Generator, value: Array, share: float, which: slice) -> Array:
    """Some elements, at least one, become special values; both parts of complex numbers do."""
    with np.errstate(over="ignore"):
        pool = np.array(SPECIAL[which]).astype(value.real.dtype)
    chosen = rng.random(value.shape) < share
    if not chosen.any():
        chosen = np.arange(value.size).reshape(value.shape) == rng.integers(value.size)
    if value.dtype.kind == "c":
        real, imaginary = (np.where(chosen, rng.choice(pool, value.shape), part) for part in (value.real, value.imag))
        return np.asarray(np.stack([real, imaginary], -1)).view(value.dtype)[..., 0]
    return np.asarray(np.where(chosen, rng.choice(pool, value.shape), value), value.dtype)


def samples(usual: Arrays, graph: Graph) -> Iterator[tuple[str, list[Any]]]:
    """Names and inputs that are the usual ones but for some special values."""
    for i, (name, (share, which)) in enumerate(_SAMPLES.items()):
        rng = np.random.default_rng(i)
        yield name, [_mixed(rng, v, share, which) if is_float(t) and np.size(v) else v
                     for t, v in zip(graph.inputs, usual, strict=True)]  # fmt: skip


def with_special_constants(case: Case) -> Case | None:
    """The case with special values among its float constants; None if it has none."""
    rng = np.random.default_rng(0)
    inputs = tuple(
        replace(t, data=_mixed(rng, np.asarray(t.data), 0.2, slice(None)))
        if is_float(t) and t.size and t.data is not None
        else t
        for t in case.node.inputs
    )
    return None if inputs == case.node.inputs else replace(case, node=replace(case.node, inputs=inputs))


def differing(got: Array, want: Array, tolerance: float = 0.0) -> Array:
    """Where two arrays differ: in a bit, but for NaNs; with a tolerance finite values may be as far apart."""
    got, want = np.asarray(got), np.asarray(want).reshape(np.shape(got))
    if got.dtype.kind not in "fc":
        return np.asarray(got != want)
    real = got.real.dtype
    bits = [np.ascontiguousarray(a).reshape(-1).view(real).view(f"u{real.itemsize}") for a in (got, want)]
    a, b = (part.view(real) for part in bits)
    wrong = (bits[0] != bits[1]) & ~(np.isnan(a) & np.isnan(b))
    if not got.size:
        return np.zeros(got.shape, bool)
    if tolerance:
        with np.errstate(all="ignore"):
            near = np.abs(a.astype(np.float64) - b) <= 2 * tolerance + 1e-5 * np.abs(b)
        wrong &= ~(near & np.isfinite(a) & np.isfinite(b))
    return np.asarray(wrong.reshape(*got.shape, -1).any(-1))


# -- where oracles are left --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """``holds(node, inputs)``: for which runs. ``value(node, inputs, number of the output, ours, oracle's)``: where the
    oracle is left, and what twinfer gives there."""

    why: str
    holds: Callable[[Node, Arrays], bool]
    value: Callable[[Node, Arrays, int, Array, Array], tuple[Array, Array]]


def _saturated(node: Node, inputs: Arrays, i: int, got: Array, want: Array) -> tuple[Array, Array]:
    with np.errstate(all="ignore"):
        steps = inputs[0] / np.float32(node.output.scale)
    ends = np.iinfo(node.output.dtype)
    return ~(np.abs(steps) < 2.0**31), np.where(steps > 0, ends.max, ends.min)


def _nothing(node: Node, inputs: Arrays, i: int, got: Array, want: Array) -> tuple[Array, Array]:
    return np.isnan(inputs[0]), np.zeros(got.shape)


def _infinite(node: Node, inputs: Arrays, i: int, got: Array, want: Array) -> tuple[Array, Array]:
    return (np.abs(want) == LARGEST) & np.isinf(got), np.copysign(np.inf, want)


def _stays(node: Node, inputs: Arrays, i: int, got: Array, want: Array) -> tuple[Array, Array]:
    return np.isnan(got) & np.isfinite(want), np.full(got.shape, np.nan)


def _lower(node: Node, inputs: Arrays, i: int, got: Array, want: Array) -> tuple[Array, Array]:
    low, high = _BOUNDS[str(node.options["fused_activation_function"])]
    return (want == high) & (got == low), np.full(got.shape, low)


def _ours(node: Node, inputs: Arrays, i: int, got: Array, want: Array) -> tuple[Array, Array]:
    """What the operator's reference in numpy gives, which test_special_values.py compares with in the same run."""
    return np.ones(got.shape, bool), got


_BOUNDS = {"RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1)}
LARGEST = np.finfo(np.float32).max


def _floats(node: Node, inputs: Arrays) -> list[Array]:
    return [
        x for x in (*inputs, *(t.data for t in node.inputs if t is not None)) if x is not None and x.dtype.kind == "f"
    ]


def _hybrid(node: Node, inputs: Arrays) -> bool:
    """Whether float values that have no finite range meet int8 weights."""
    with np.errstate(all="ignore"):
        wide = any(x.size and not np.isfinite(np.ptp(x)) for x in _floats(node, inputs))
    return wide and is_float(node.output) and any(t is not None and t.type == "INT8" for t in node.inputs)


def _recurrent(node: Node) -> bool:
    return node.op.endswith(("LSTM", "RNN"))


def _overflows(node: Node, inputs: Arrays) -> bool:
    return _recurrent(node) and any((np.isfinite(x) & (np.abs(x) > 1e37)).any() for x in _floats(node, inputs))


def _clips(node: Node, inputs: Arrays) -> bool:
    return _recurrent(node) and any(node.options.get(name, 0) for name in ("cell_clip", "proj_clip"))


def _diagonal(node: Node, inputs: Arrays) -> bool:
    return node.op == "UNIDIRECTIONAL_SEQUENCE_LSTM" and len(node.input(6).shape) == 1


KNOWN = (
    Known(
        "C++ does not define integers of floats beyond int32; twinfer gives the nearer end, for NaN the least",
        lambda node, inputs: node.op == "QUANTIZE" and is_float(node.input(0)),
        _saturated,
    ),
    Known(
        "C++ does not define what integer NaN is; twinfer gives 0",
        lambda node, inputs: node.op == "CAST" and is_float(node.input(0)) and node.output.dtype.kind in "iu",
        _nothing,
    ),
    Known(
        "LiteRT multiplies one whole exponent out and clamps; twinfer gives infinity, as C's powf does",
        lambda node, inputs: node.op == "POW" and node.input(1).size == 1,
        _infinite,
    ),
    Known("LiteRT makes the bound of a NaN that it clips; in TFLM and twinfer it stays", _clips, _stays),
    Known("Recurrent weights of a diagonal are a matrix in twinfer: NaN spreads to all units", _diagonal, _stays),
    Known(
        "LiteRT sums products of recurrent layers in another order: sums may overflow in one alone", _overflows, _ours
    ),
    Known(
        "TFLM's SVDF makes the upper bound of NaN, LiteRT's and twinfer's the lower",
        lambda node, inputs: node.op == "SVDF" and node.options["fused_activation_function"] in _BOUNDS,
        _lower,
    ),
    Known(
        "C++ does not define the integers that floats without a finite range become beside int8 weights", _hybrid, _ours
    ),
    Known(
        "LiteRT sorts equal scores anyhow",
        lambda node, inputs: (
            node.op == "CUSTOM:TFLite_Detection_PostProcess" and inputs[1].size > np.unique(inputs[1]).size
        ),
        _ours,
    ),
    Known(
        "LiteRT chooses boxes without area, or with a NaN, again and again, and sorts equal scores anyhow",
        lambda node, inputs: node.op.startswith("NON_MAX_SUPPRESSION"),
        _ours,
    ),
)

#: What peers refuse to compute.
REFUSED = {
    "FLOOR_DIV": "LiteRT divides by no 0",
    "FLOOR_MOD": "LiteRT divides by no 0",
    **dict.fromkeys(
        ("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"), "thresholds and sigma are no numbers below 0"
    ),
    "CUSTOM:TFLite_Detection_PostProcess": "no box may have a negative size",
}


def unexplained(case: Case, inputs: Arrays, got: Arrays, want: Arrays) -> Iterator[str]:
    """Where the outputs differ from the oracle's and no row of ``KNOWN`` says so."""
    node = case.node
    rules = [rule for rule in KNOWN if rule.holds(node, inputs)]
    for i, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        theirs = np.asarray(theirs).reshape(ours.shape)
        for rule in rules:
            where, value = rule.value(node, inputs, i, ours, theirs)
            theirs = np.where(where, value.astype(ours.dtype), theirs)
        wrong = differing(ours, theirs, case.tolerance)
        if wrong.any():
            at = np.argwhere(wrong)[:3].tolist()
            yield f"output {i} at {at}: {[ours[tuple(k)] for k in at]}, not {[theirs[tuple(k)] for k in at]}"
