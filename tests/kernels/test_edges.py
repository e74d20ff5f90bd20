"""Edge cases of integer arithmetic that the operators' cases do not reach: all pairs, all shifts, sums of 2^31."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from cases import assert_exact, assert_exact_on, graph_of, outputs_of

from twinfer.aot.build.firmware import build
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.bench.peers.engines import open_peer
from twinfer.runtime.graph import Array, Graph, Node
from twinfer.runtime.op import along, tensor
from twinfer.runtime.ops.core.plane import plane
from twinfer.runtime.ops.recurrent.lstm import CELL, GATES, HIDDEN
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import DSP, GENERIC, HOST, MVE
from twinfer.runtime.write.tflite import write

EVERY = np.arange(-128, 128, dtype=np.int8)


@pytest.mark.parametrize("op", ["ADD", "SUB"])
@pytest.mark.parametrize(
    ("a", "b", "y"),
    [
        ((0.05, 3), (0.05, -7), (0.1, 1)),
        ((0.031, -128), (0.77, 127), (0.4, 0)),
        ((1.9, 5), (0.0007, 4), (1.1, -9)),
        ((0.05, 3), (0.018695654347538948, -7), (0.06, 1)),  # seven pairs depend on the last bit of an operand
    ],
)
def test_every_pair_of_a_sum(op: str, a: tuple[float, int], b: tuple[float, int], y: tuple[float, int]) -> None:
    first, second = (tensor((256, 256), "INT8", *quant) for quant in (a, b))
    node = Node(op, (first, second), (tensor((256, 256), "INT8", *y),), {"fused_activation_function": "NONE"})
    assert_exact(node, [np.repeat(EVERY, 256).reshape(256, 256), np.tile(EVERY, (256, 1))])


def test_a_step_that_no_plane_has() -> None:
    """One pair in the middle is a step above all others."""
    exact = np.zeros((256, 256), np.int64)
    assert plane(exact, 0.0, 0.0) is not None
    exact[128, 128] = 1
    assert plane(exact, 0.0, 0.0) is None


def test_a_plane_s_sums_have_31_bits() -> None:
    """Beyond that there is no bit left for the shift."""
    for sign in (1, -1):
        assert plane(np.full((256, 256), sign * ((1 << 30) - 2)), 0.0, 0.0) is not None
        assert plane(np.full((256, 256), sign << 30), 0.0, 0.0) is None


SHIFTED = np.array([[-128] * 4, [127] * 4, [3, -4, 5, 0]], np.int8)


def shifted(shift: int, zero: int) -> Node:
    """A layer with a multiplier of 0.75 * 2^shift, and a bias for outputs of all sizes."""
    w = tensor((8, 4), "INT8", 1.0, data=np.tile([1, -1, 127, -128], (8, 1)))
    reach = min(2.0**30, 128 / 0.75 * 2.0**-shift)
    bias = tensor((8,), "INT32", 1.0, data=np.linspace(-reach, reach, 8))
    y = tensor((3, 8), "INT8", 2.0**-shift / 0.75, zero)
    return Node("FULLY_CONNECTED", (tensor((3, 4), "INT8", 1.0, 5), w, bias), (y,), {})


@pytest.mark.parametrize("zero", [-128, 127])
@pytest.mark.parametrize("shift", range(-31, 9))
def test_every_shift(shift: int, zero: int) -> None:
    assert_exact(shifted(shift, zero), [SHIFTED])


@pytest.mark.parametrize("shift", range(-31, 1))
def test_the_largest_sums(shift: int) -> None:
    """Sums up to 2^31 before a shift of up to 31: adding the half for rounding overflows int32."""
    ends = [2**31 - 1, -(2**31), 2**30 + 1, -(2**30) - 1, 2**30, 3 * 2**29]
    w, bias = np.zeros((6, 4)), tensor((6,), "INT32", 1.0, data=np.array(ends))
    y = tensor((3, 6), "INT8", 2.0**-shift * (1 + 2.0**-23))  # a multiplier just below 1
    node = Node("FULLY_CONNECTED", (tensor((3, 4), "INT8", 1.0), tensor((6, 4), "INT8", 1.0, data=w), bias), (y,), {})
    assert_exact(node, [SHIFTED])


@pytest.mark.usefixtures("board_tools")
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m55"])
def test_shifts_on_a_core(core: str) -> None:
    """The same as test_every_shift, by the core's own instructions."""
    assert_exact_on(core, [(shifted(shift, zero), [SHIFTED]) for shift in range(-24, 1, 3) for zero in (-128, 127)])


@pytest.mark.usefixtures("board_tools")
def test_outputs_far_beyond_int8_on_helium() -> None:
    """After rescaling they exceed int16. Adding a zero point of 127 must not wrap to the other end of int8."""
    w = np.repeat(np.array([127, -127], np.int8), 8)
    weights = along(tensor((1, 3, 3, 16), "INT8", [1.0] * 16, data=np.tile(w, (1, 3, 3, 1))), 3)
    bias = tensor((16,), "INT32", 1.0, data=np.zeros(16))
    options = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "depth_multiplier": 1}
    graphs = [
        graph_of(
            Node(
                "DEPTHWISE_CONV_2D",
                (tensor((1, 4, 4, 16), "INT8", 1.0), weights, bias),
                (tensor((1, 2, 2, 16), "INT8", 2.0, zero),),
                options,
            )
        )
        for zero in (127, -128)
    ]
    x = np.full((1, 4, 4, 16), 127, np.int8)
    projects = [
        emit(make_plan(g, find("cortex-m55").target).printed(mode="interpreted"), f"d{i}") for i, g in enumerate(graphs)
    ]
    results = run_jobs(build(projects, find("cortex-m55")), [Job([x], 0), Job([x], 1)], count=False)
    for result in results:
        np.testing.assert_array_equal(result.outputs[0], np.broadcast_to(np.where(w > 0, 127, -128), (1, 2, 2, 16)))


def test_multipliers_beside_a_bias_of_run_time() -> None:
    """The kernel without folding uses each channel's own multiplier."""
    w = tensor((4, 3), "INT8", [0.01, 0.1, 1.0, 5.0], data=np.arange(-6, 6))
    node = Node(
        "FULLY_CONNECTED",
        (tensor((2, 3), "INT8", 0.1, 3), w, tensor((4,), "INT32", 1.0)),
        (tensor((2, 4), "INT8", 0.7, -5),),
        {},
    )
    assert_exact(node, [np.array([[1, -128, 127], [9, 8, 7]], np.int8), np.array([5, -60, 700, 1], np.int32)])


def test_what_a_softmax_leaves_out() -> None:
    """Thousands of shares are below one step of the sum. They count if they round up to a step."""
    x = np.full((3, 5000), -35, np.int8)
    x[:, 0] = (100, 97, 120)
    y = tensor(x.shape, "INT8", 1 / 256, -128)
    node = Node("SOFTMAX", (tensor(x.shape, "INT8", 0.1),), (y,), {"beta": 1.0})
    want = assert_exact(node, [x])
    (peer,) = open_peer("tflm", write(graph_of(node)), 1)([x])
    np.testing.assert_array_equal(want, peer)


def test_a_sum_that_is_a_power_of_two() -> None:
    """1 + 1/2 + 1/2: the inverse of its mantissa is 1, which 31 bits hold only as the largest value."""
    x = np.array([[0, -10, -10], [5, 5, -128], [7, -128, -128]], np.int8)
    y = tensor(x.shape, "INT8", 1 / 256, -128)
    node = Node("SOFTMAX", (tensor(x.shape, "INT8", float(np.log(2)) / 10),), (y,), {"beta": 1.0})
    assert assert_exact(node, [x])[0].tolist() == [0, -64, -64]


def test_halves_of_an_output_gate() -> None:
    """An LSTM with full cells shows its output gates: sigmoids between two steps, rounded to 15 bits."""
    units, sums = 20, -512 * np.arange(45, 65)
    inputs: list[Any] = [None] * 24
    inputs[0] = tensor((1, 12, 1), "INT8", 2.0**-6)
    for (w, r, b), bias in zip(GATES, (32767, 32767, 32767, sums), strict=True):
        inputs[w], inputs[r] = (tensor((units, n), "INT8", 2.0**-6, data=np.zeros((units, n))) for n in (1, units))
        inputs[b] = tensor((units,), "INT32", 2.0**-12, data=np.broadcast_to(bias, units))
    inputs[HIDDEN] = replace(tensor((1, units), "INT8", 2.0**-15, name="h"), variable=True)
    inputs[CELL] = replace(tensor((1, units), "INT16", 2.0**-12, name="c"), variable=True)
    options = {"fused_activation_function": "TANH", "cell_clip": 0.0, "proj_clip": 0.0}
    y = tensor((1, 12, units), "INT8", 2.0**-15)
    want = assert_exact(
        Node("UNIDIRECTIONAL_SEQUENCE_LSTM", tuple(inputs), (y,), options), [np.zeros((1, 12, 1), np.int8)]
    )
    last = want[0, -1]
    assert last.min() > 0
    assert last.max() < 127


def wide_sum(w: Sequence[int], bias: int, scale: float) -> tuple[Node, Array]:
    """One int16 output over inputs that are all -32768."""
    weights = tensor((1, len(w)), "INT8", 1.0, data=np.array([w]))
    b = tensor((1,), "INT64", 1.0, data=np.array([bias]))
    y = tensor((1, 1), "INT16", scale)
    node = Node("FULLY_CONNECTED", (tensor((1, len(w)), "INT16", 1.0), weights, b), (y,), {})
    return node, np.full((1, len(w)), -32768, np.int16)


@pytest.mark.parametrize(
    ("w", "bias", "scale", "want"),
    [
        ([-127] * 516 + [-3], 1 << 15, 1 << 13, 32767),
        ([-127] * 516 + [-3], 0, 1 << 13, 32767),
        ([127] * 516 + [3], -(1 << 15), 1 << 13, -32768),
        ([-127] * 3000, 0, 1 << 13, 32767),
        ([-127] * 1000 + [127] * 1000, 0, 1 << 13, 0),
        ([-127] * 1000 + [127] * 999, 0, 1 << 13, 508),
        ([-127] * 3000, 0, 1 << 15, 32767),
        ([-127] * 3000, 0, 1 << 17, 32767),
        ([-127] * 1024, 0, 1 << 17, 32512),
    ],
)
def test_int16_sums_at_the_end_of_int32(w: list[int], bias: int, scale: int, want: int) -> None:
    """|bias| + 2^15 * |w| is 2^31, less or more, for a part of the sum or all of it. 2^31 exceeds int16 in the output's
    steps, or fits."""
    node, x = wide_sum(w, bias, float(scale))
    assert assert_exact(node, [x]).item() == want


@pytest.mark.parametrize("op", ["LOGISTIC", "TANH"])
@pytest.mark.parametrize("scale", [14.9, 15.1, 100.0])
def test_scales_that_leave_nothing_inside(op: str, scale: float) -> None:
    """Above 15 not even 0 is in the range that TFLM computes."""
    y = tensor((256,), "INT8", *((1 / 256, -128) if op == "LOGISTIC" else (1 / 128, 0)))
    node = Node(op, (tensor((256,), "INT8", scale, 7),), (y,), {})
    want = assert_exact(node, [EVERY])
    (peer,) = open_peer("tflm", write(graph_of(node)), 1)([EVERY])
    np.testing.assert_array_equal(want, peer)


@pytest.mark.parametrize("target", [DSP, GENERIC], ids=lambda target: target.name)
def test_decoders_tables_have_room(target: Any) -> None:
    """Two layers of 4 and of 16 values, decoded at the start: both tables of pairs use the same memory."""
    x, graphs = tensor((1, 64), "INT8", 0.1), []
    for values in (4, 16):
        w = tensor((32, 64), "INT8", 0.1, data=np.resize(np.arange(values), (32, 64)))
        graphs.append(Node("FULLY_CONNECTED", (x, w, None), (tensor((1, 32), "INT8", 1.0),), {}))
    outputs = tuple(node.output for node in graphs)
    tensors = (x, *(node.input(1) for node in graphs), *outputs)
    plan = make_plan(Graph("g", tensors, tuple(graphs), (x,), outputs), target, Options(weights="lut", decode="start"))
    tables = [call for step in plan.start for call in step.calls if call.kernel == "tw_decode_lut_pairs"]
    assert [int(call.params["count"]) for call in tables] == [4, 16]  # type: ignore[arg-type]
    for call in tables:
        assert call.written[0].nbytes >= 2 * int(call.params["count"]) ** 2  # type: ignore[arg-type]


@pytest.mark.parametrize("type", ["INT8", "UINT8"])
@pytest.mark.parametrize("size", [(53, 54), (50, 58), (60, 68), (61, 67), (63, 65), (80, 80)], ids=str)
def test_averages_of_many_values(size: tuple[int, int], type: str) -> None:
    """Just below the next half and at it, from the least average to the greatest: divided as integers are."""
    x, count = tensor((1, *size, 1), type, 0.1, 0 if type == "INT8" else 128, name="x"), size[0] * size[1]
    options = {"filter_height": size[0], "filter_width": size[1], "stride_h": 1, "stride_w": 1, "padding": "VALID"}
    y = replace(x, shape=(1, 1, 1, 1), name="y")
    graph = graph_of(Node("AVERAGE_POOL_2D", (x,), (y,), {**options, "fused_activation_function": "NONE"}))
    low = -128 if type == "INT8" else 0
    for target in (GENERIC, MVE, HOST):
        session = Session(make_plan(graph, target))
        for average, more in product((low, low + 1, low + 100, low + 127, low + 128, low + 253, low + 254), (-1, 0)):
            total = average * count + count // 2 + more
            value = total // count + (np.arange(count) < total % count)
            (got,) = outputs_of(session, [value.astype(x.dtype).reshape(x.shape)])
            half = count // 2 if total >= 0 else -(count // 2)
            want = int((total + half) / count) if type == "INT8" else (total + count // 2) // count
            assert got.item() == want, (target.name, average, more)
