"""When a peer's known fault shows, form by form: each condition on both sides of its limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from twinfer.bench.known import conditions
from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import tensor
from twinfer.runtime.ops.core.unsigned import MARK
from twinfer.runtime.registry import operators

LEAST, NAN, INF = -(2**31), float("nan"), float("inf")


def _known(values: Any, type: str = "FLOAT32", scale: Any = None, zero: Any = 0) -> Tensor:
    return tensor(np.shape(values), type, scale, zero, np.array(values), "c")


def _open(*shape: int, type: str = "FLOAT32", scale: Any = None, zero: Any = 0) -> Tensor:
    return tensor(shape, type, scale, zero, name="open")


def _node(op: str, inputs: Sequence[Tensor | None], output: Tensor | None = None, /, **options: Any) -> Node:
    return Node(op, tuple(inputs), (output or _open(1),), options)


def _quantize(*values: float) -> Node:
    return _node("QUANTIZE", [_known(values)], _open(len(values), type="INT8", scale=0.5))


def _cast(values: list[float], type: str) -> Node:
    return _node("CAST", [_known(values)], _open(len(values), type=type))


def _slots(op: str, found: dict[int, Tensor], count: int = 20, **options: Any) -> Node:
    return _node(op, [found.get(i) for i in range(count)], **options)


def _pair(a: Any, b: Any, type: str = "INT32") -> Node:
    return _node("FLOOR_DIV", [_known(a, type), _known(b, type)])


def _range(start: int, limit: int, type: str = "INT32") -> Node:
    return _node("RANGE", [_known(v, type) for v in (start, limit, 1)], _open(1, type=type))


def _weighed(weights: Tensor, x: Tensor | None = None) -> Node:
    return _node("FULLY_CONNECTED", [x or _open(1, 16), weights, None])


def _sum(values: Any, type: str = "INT8", **options: Any) -> Node:
    """Sums of all values, which keep their scale."""
    x, axis = _known([values], type, 0.5), _known([1], "INT32")
    return _node("SUM", [x, axis], _open(1, type=type, scale=0.5), keep_dims=False, **options)


def _function(op: str, scale: float, out: float) -> Node:
    return _node(op, [_open(1, type="INT16", scale=scale)], _open(1, type="INT16", scale=out))


def _types(*types: str, at: Sequence[int] = (0, 1, 2), op: str = "CONV_2D", **options: Any) -> Node:
    return _slots(op, {i: _open(1, type=type) for i, type in zip(at, types, strict=True)}, 4, **options)


def _grouped(multiplier: int) -> Node:
    return _node("DEPTHWISE_CONV_2D", [_open(1, 2, 2, 3)], _open(1, 2, 2, 6), depth_multiplier=multiplier)


def _product(a: tuple[int, ...], b: tuple[int, ...], type: str = "INT8") -> Node:
    return _node("BATCH_MATMUL", [_open(*a), _open(*b, type=type)])


def _peep(rows: int, at: int) -> Node:
    return _slots("LSTM", {16: _open(rows, 3), at: _open(3)})


def _both(first: tuple[int, ...], type: str = "FLOAT32", **options: Any) -> Node:
    """Of a bidirectional operator."""
    return _node("BIDIRECTIONAL", [_open(*first), _open(2, 2, type=type)], **{"merge_outputs": True} | options)


def _stack(other: tuple[int, ...] | None, weights: bool, time_major: bool) -> Node:
    found = {0: _open(2, 3, 4)} | ({9: _open(*other)} if other else {}) | ({10: _open(1)} if weights else {})
    return _slots("BIDIRECTIONAL_SEQUENCE_RNN", found, time_major=time_major)


def _strided(ends: Any, out: tuple[int, ...], indices: int = 2, strides: Any = (1, 2), **options: Any) -> Node:
    masks = {"offset": True, "shrink_axis_mask": 0, "new_axis_mask": 0, "ellipsis_mask": 0} | options
    held = [None if v is None else np.array(v) for v in (ends, strides)]
    args = [_open(indices, type="INT32") if v is None else _known(v, "INT32") for v in held]
    return _node("STRIDED_SLICE", [_open(5, 6), _open(indices, type="INT32"), *args], _open(*out), **masks)


def _sliced(begin: int, size: int) -> Node:
    return _node("SLICE", [_open(5), _known([begin], "INT32"), _known([size], "INT32")], _open(3))


BYTES = np.zeros((2, 16), np.int8)
LOWEST = np.where(np.arange(32).reshape(2, 16) == 31, -128, 0)
OPEN_INT = _open(1, type="INT32")


VALUES = [
    (conditions.leaves_int32, [_quantize(0, 2.0**30), _quantize(1, NAN), _node("QUANTIZE", [_open(1)])],
     [_quantize(0, np.nextafter(np.float32(2.0**30), np.float32(0))), _quantize()]),
    (conditions.leaves_type,
     [_cast([0, 128], "INT8"), _cast([-129], "INT8"), _cast([-1], "UINT8"), _cast([NAN], "INT32")],
     [_cast([127.9, -128.9], "INT8"), _cast([-0.9, 255.5], "UINT8"), _cast([-(2.0**31)], "INT32")]),
    (conditions.has_nan, [_node("ARG_MAX", [_known([1]), _known([0, NAN])])],
     [_node("ARG_MAX", [_known([1, INF]), None, _open(1), _known([1], "INT32")])]),
    (conditions.has_no_range, [_weighed(_known(BYTES, "INT8"), _known(v)) for v in ([1, INF], [3e38, -3e38], [NAN])],
     [_weighed(_known(BYTES), _known([INF, 1])), _weighed(_known(BYTES, "INT8"), _known([3e38, 1])),
      _weighed(_known(BYTES, "INT8"), _known([]))]),
    (conditions.may_overflow, [_node("ADD_N", [_known([1]), _known([0, -1.1e37])])],
     [_node("ADD_N", [_known([np.float32(1e37)]), None, _open(1)])]),
    (conditions.divides_least, [_pair([LEAST, 1], [-1]), _pair([-128], [1, -1], "INT8")],
     [_pair([LEAST, -1], [1, -1]), _pair([LEAST + 1], [-1]), _pair([-128], [-1]), _pair([-128.0], [-1.0], "FLOAT32")]),
    (conditions.power_leaves_type, [_pair([1, 2], [5, 31]), _pair([-2], [31]), _node("POW", [OPEN_INT, OPEN_INT])],
     [_pair([2], [30]), _pair([-2], [30]), _pair([2.0], [31.0], "FLOAT32")]),
    (conditions.range_leaves_type, [_range(-1, 2**31 - 1), _range(2**31 - 1, -1)],
     [_range(0, 2**31 - 1), _range(0, 2**32, "INT64")]),
    (conditions.breaks_table, [_function("EXP", 80 / 2**15, 1.0), _function("LOG", 1.0, 1e-9)],
     [_function("EXP", 1 / 2**15, 3 / 2**15), _function("GELU", 80 / 2**15, 80 / 2**15)]),
    (conditions.sums_as_bytes, [_sum([127, 0]), _sum([-1, 0]), _sum([1, 2], "INT16")],
     [_sum([126, 0]), _sum([0, 0]), _sum([127, 0], **{MARK: True})]),
    (conditions.has_lowest_weight, [_weighed(_known(LOWEST, "INT8")), _weighed(_open(2, 16, type="INT8"))],
     [_weighed(_known(LOWEST[:, 1:], "INT8")), _weighed(_known(np.maximum(LOWEST, -127), "INT8"))]),
    (conditions.contradicts, [_sliced(3, 3), _sliced(0, 4), _sliced(-1, 3)], [_sliced(0, 3), _sliced(2, 3)]),
    (conditions.has_narrow_bias,
     [_types("INT16", "INT8", "INT32"), _types("INT16", "INT32", at=(2, 3), op="TRANSPOSE_CONV")],
     [_types("INT8", "INT8", "INT32"), _types("INT16", "INT8", "INT64"), _types("INT16", "INT8", at=(0, 1))]),
    (conditions.other_multiplier, [_grouped(1), _grouped(3)], [_grouped(2)]),
    (conditions.spreads_scales, [_product((2, 3, 4, 5), (5, 5)), _product((4, 5), (2, 3, 5, 5))],
     [_product((1, 3, 4, 5), (2, 1, 5, 5)), _product((2, 3, 4, 5), (5, 5), "FLOAT32")]),
    (conditions.spreads_peephole, [_peep(2, 9), _peep(2, 10), _peep(4, 11)], [_peep(3, 9), _peep(2, 8), _peep(2, 12)]),
    (conditions.empty_ellipsis,
     [_strided(None, (1,), 3, None, ellipsis_mask=2), _strided(None, (1,), 4, None, ellipsis_mask=1, new_axis_mask=2)],
     [_strided(None, (1,), 2, None, ellipsis_mask=2), _strided(None, (1,), 3, None, ellipsis_mask=2, new_axis_mask=1)]),
    (conditions.stray_axes, [_strided(None, (1,), new_axis_mask=4), _strided(None, (1,), new_axis_mask=-1)],
     [_strided(None, (1,), new_axis_mask=3)]),
    (conditions.offset_ends,
     [_strided((3, 3), (3, 1)), _strided((3, 3), (2, 2)), _strided(None, (3, 2)), _strided((-3, 3), (3, 2))],
     [_strided((3, 3), (3, 2)), _strided((3, 3), (3,), shrink_axis_mask=2), _strided((3, 3), (9, 9), offset=False)]),
    (conditions.merges_batches, [_both((2, 1, 4), time_major=False)],
     [_both((2, 1, 4), time_major=True), _both((1, 2, 4), time_major=False)]),
    (conditions.steps_with_bytes, [_both((2, 1, 4), "INT8", time_major=True)],
     [_both((1, 2, 4), "INT8", time_major=True), _both((2, 1, 4), time_major=True)]),
    (conditions.stacks, [_stack((2, 3, 4), False, False), _stack((2, 3, 5), False, True)],
     [_stack((2, 3, 4), False, True), _stack(None, False, False), _stack((2, 3, 4), True, False)]),
]  # fmt: skip


@pytest.mark.parametrize(("holds", "yes", "no"), VALUES, ids=lambda v: getattr(v, "__name__", ""))
def test_both_sides(holds: Any, yes: list[Node], no: list[Node]) -> None:
    assert [holds(node) for node in yes] == [True] * len(yes)
    assert [holds(node) for node in no] == [False] * len(no)


def _logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(
    ("op", "function", "x", "out"),
    [
        ("TANH", np.tanh, (0.017716947942972183, 107), (1 / 128, 0)),
        ("LOGISTIC", _logistic, (0.00340839265845716, 122), (1 / 256, -128)),
    ],
)
def test_codes_that_a_float_table_rounds_otherwise(op: str, function: Any, x: Any, out: Any) -> None:
    """Code by code against float32 rounded here; for uint8, whose oracle has that table, never."""
    codes, y = np.arange(-128, 128), tensor((1,), "INT8", *out)
    nodes = [_node(op, [_known([code], "INT8", *x)], y) for code in codes]
    real = function(((codes - x[1]).astype(np.float32) * np.float32(x[0])).astype(np.float64)).astype(np.float32)
    steps = real / np.float32(out[0])
    table = np.clip(np.copysign(np.floor(np.abs(steps) + 0.5), steps) + out[1], -128, 127)
    fixed = [int(operators()[op].reference(node, [node.input(0).data])[0][0]) for node in nodes]
    assert [conditions.rounds_sigmoid_otherwise(node) for node in nodes] == (table != fixed).tolist()
    assert (table != fixed).sum() == 1
    assert not any(conditions.rounds_sigmoid_otherwise(replace(node, options={MARK: True})) for node in nodes)
    assert conditions.rounds_sigmoid_otherwise(_node(op, [_open(1, type="INT8", scale=0.5)], y))


def test_a_float_product_over_several_channels() -> None:
    """FULLY_CONNECTED with a scale per row, a zero point, a bias: what float64 rounds otherwise, by hand."""
    rng = np.random.default_rng(3)
    seen = set()
    for _ in range(300):
        x, w, bias = rng.integers(-128, 128, (2, 3)), rng.integers(-127, 128, (2, 3)), rng.integers(-90, 90, 2)
        scales, out = np.float32(rng.choice([0.5, 0.25, 1.5], 2)), float(np.nextafter(np.float32(3), np.float32(4)))
        held = [_known(x, "INT8", 0.5, 7), _known(w, "INT8", scales, (0, 0)), _known(bias, "INT32")]
        options = {"fused_activation_function": "NONE", "weights_format": "DEFAULT", "keep_num_dims": False}
        node = _node("FULLY_CONNECTED", held, tensor((2, 2), "INT8", out, -3), **options)
        real = ((x - 7) @ w.T + bias) * (0.5 * scales.astype(np.float64) / out)
        said = np.clip(np.copysign(np.floor(np.abs(real) + 0.5), real) - 3, -128, 127)
        other = (said != operators()["FULLY_CONNECTED"].reference(node, [t.data for t in held])[0]).any()
        assert conditions.rounds_sums_otherwise(node) == other
        seen.add(bool(other))
    assert seen == {True, False}
