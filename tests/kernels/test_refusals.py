"""Nodes that computing operators refuse, and nodes just within their bounds. Data movers: test_movers.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import graph_of, interpreted, refused

from twinfer.bench.peers.engines import open_peer
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.fixed_point import quantize_multiplier
from twinfer.runtime.graph import Node, Quant
from twinfer.runtime.op import tensor
from twinfer.runtime.ops.depthwise import depthwise_conv2d
from twinfer.runtime.ops.recurrent import lstm
from twinfer.runtime.ops.reduce import mean
from twinfer.runtime.ops.reduce._reduce import reduction
from twinfer.runtime.ops.reduce.softmax import MOST_INT16
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.shapes import infer_node
from twinfer.runtime.target import GENERIC, HOST
from twinfer.runtime.write.tflite import write


def softmax(scale: float, beta: float = 1.0, type: str = "INT16") -> Node:
    y = tensor((1, 4), type, *{"INT8": (1 / 256, -128), "INT16": (1 / 32768, 0)}[type], name="y")
    return Node("SOFTMAX", (tensor((1, 4), type, scale, name="x"),), (y,), {"beta": beta})


def test_types_that_are_supported_are_all_named() -> None:
    """uint8 runs as int8 (runtime/passes/unsigned.py), so no operator's own list has it."""
    x, y = (tensor((2,), "UINT16", name=name) for name in "xy")
    refused(Node("ADD", (x, x), (y,), {}), UnsupportedOperatorError, "FLOAT32", "UINT8 with a scale")


def test_a_constant_that_is_none_names_the_remedy() -> None:
    x, times, y = tensor((2,), name="x"), tensor((1,), "INT32", name="times"), tensor((4,), name="y")
    refused(Node("TILE", (x, times), (y,), {}), UnsupportedOperatorError, "twinfer convert --constant NAME=VALUE")


def test_int16_softmax_ends_where_differences_leave_int32() -> None:
    """If scale * beta is at least 10 * 2^15 / 65535, TFLM shifts differences left by 16 bits, and large ones wrap."""
    bound = np.float32(10 * 2**15 / 65535)
    x = np.array([[32767, -32768, -1, 32766]], np.int16)
    for scale, beta in ((np.nextafter(bound, np.float32(0)), 1.0), (float(bound) / 4, 3.999)):
        graph = graph_of(softmax(float(scale), beta))
        (got,) = interpreted(graph, [x], HOST, 0)
        (want,) = open_peer("tflm", write(graph), 1)([x])
        np.testing.assert_array_equal(got, want)
        assert got[0, 0] > 32000
        assert got[0, 1:3].max() <= 2  # exp(-10) is 1.5, and nothing is less


@pytest.mark.parametrize(("scale", "beta"), [(5.0001, 1.0), (1.0, 5.0001), (3.3e5, 1.0), (1e30, 1e30)])
def test_int16_softmax_refuses_what_wraps(scale: float, beta: float) -> None:
    refused(softmax(scale, beta), UnsupportedOperatorError, "'x' INT16", f"scale {np.float32(scale)}", "5.00007")


def test_tflm_wraps_beyond_that_bound() -> None:
    """This shows that the bound is needed: beyond it the least value gets as great a share as the greatest."""
    node = softmax(5.0001)
    (got,) = open_peer("tflm", write(graph_of(node)), 1)([np.array([[32767, -32768, -32768, -32768]], np.int16)])
    assert got[0, 1] > 8000


@pytest.mark.parametrize("beta", [-1.0, -1e-9, float("inf"), float("nan")])
def test_softmax_refuses_a_beta_that_is_negative_or_no_number(beta: float) -> None:
    refused(softmax(0.1, beta, "INT8"), ModelError, f"beta {beta}", "not negative")
    assert infer_node(softmax(0.1, 0.0, "INT8")) == [(1, 4)]


@pytest.mark.parametrize(("op", "type"), [("SOFTMAX", "INT16"), ("MEAN", "INT8"), ("MEAN", "INT16")])
def test_sums_of_as_many_as_fit_and_no_more(op: str, type: str) -> None:
    most = mean.MOST[type] if op == "MEAN" else MOST_INT16
    assert most * (1 << 15 if type == "INT16" else 255) < (1 << 31 if type == "INT16" else 1 << 30)

    def node(count: int) -> Node:
        x = tensor((1, count), type, 0.001, name="x")
        if op == "SOFTMAX":
            return Node(op, (x,), (tensor(x.shape, type, 1 / 32768, name="y"),), {"beta": 1.0})
        return reduction(op, x, (1,), False, (0.001, 0))

    assert infer_node(node(most)) == [(1, most) if op == "SOFTMAX" else (1,)]
    refused(node(most + 1), UnsupportedOperatorError, str(most + 1), "'x'")


@pytest.mark.parametrize(("value", "zero"), [(-128, 127), (127, -128)])
def test_mean_of_the_most_values(value: int, zero: int) -> None:
    """Words of four channels with sums as far from 0 as possible."""
    x = tensor((1, mean.MOST["INT8"], 4), "INT8", 0.5, zero, name="x")
    graph = graph_of(reduction("MEAN", x, (1,), False, (1.0, 0)))
    assert make_plan(graph, GENERIC).steps[0].call.kernel == "tw_mean_words_s8"
    (got,) = interpreted(graph, [np.full(x.shape, value, np.int8)], GENERIC, 0)
    assert (got == np.clip((value - zero + np.sign(value)) // 2, -128, 127)).all()


@pytest.mark.parametrize("power", range(-24, 3))
def test_mean_by_words_within_the_range_of_its_kernel(power: int) -> None:
    x = tensor((1, 4, 4), "INT8", 2.0**power, name="x")
    (step,) = make_plan(graph_of(reduction("MEAN", x, (1,), False, (1.0, 0))), GENERIC).steps
    _, shift = quantize_multiplier(2.0**power / 4)
    assert step.call.kernel == ("tw_mean_words_s8" if -22 <= shift <= -1 else "tw_mean_s8")


@pytest.mark.parametrize(("op", "type", "least"), [("ADD", "INT8", -19), ("SUB", "INT8", -19), ("ADD", "INT16", -14)])
def test_add_refuses_steps_much_finer_than_its_inputs(op: str, type: str, least: int) -> None:
    def node(scale: float) -> Node:
        a, b = tensor((2,), type, 1.0, name="a"), tensor((2,), type, 0.5, name="b")
        return Node(op, (a, b), (tensor((2,), type, scale, name="y"),), {"fused_activation_function": "NONE"})

    refused(node(2.0**least), UnsupportedOperatorError, "'y'", "too small")
    above = float(np.nextafter(np.float32(2.0**least), np.float32(1)))
    assert infer_node(node(above)) == [(2,)]


@pytest.mark.parametrize("said", [1, 3, 4])
def test_depthwise_refuses_another_multiplier(said: int) -> None:
    case = next(depthwise_conv2d.cases(np.random.default_rng(0)))
    x, w = tensor((1, 3, 3, 2), name="x"), tensor((1, 3, 3, 4), name="w", data=np.zeros((1, 3, 3, 4)))
    node = Node("DEPTHWISE_CONV_2D", (x, w), (tensor((1, 3, 3, 4)),), {**case.node.options, "depth_multiplier": said})
    refused(node, ModelError, f"depth multiplier {said}", "2 channels in and 4 out")
    for fits in (0, 2):
        assert infer_node(replace(node, options={**node.options, "depth_multiplier": fits})) == [(1, 3, 3, 4)]


def lstm_node(clip: float = 10.0, **changes: float) -> Node:
    """An int8 LSTM; ``changes`` sets the scale of its cell or output."""
    case = next(c for c in lstm.cases(np.random.default_rng(0)) if c.node.input(0).type == "INT8")
    node = replace(case.node, options={**case.node.options, "cell_clip": clip})
    inputs = list(node.inputs)
    if "cell" in changes:
        inputs[lstm.CELL] = replace(node.input(lstm.CELL), quant=Quant.per_tensor(changes["cell"]))
    if "hidden" in changes:
        inputs[lstm.HIDDEN] = replace(node.input(lstm.HIDDEN), quant=Quant.per_tensor(changes["hidden"], 3))
    return replace(node, inputs=tuple(inputs))


@pytest.mark.parametrize("scale", [2.0**-13, 2.0**-3, 0.001, 2.0**-8 * 1.5])
def test_lstm_refuses_other_scales_of_the_cell(scale: float) -> None:
    refused(lstm_node(cell=scale), UnsupportedOperatorError, "'c'", "power of 2")


def test_lstm_refuses_a_state_that_is_not_quantised_as_the_output() -> None:
    refused(lstm_node(hidden=0.3), ModelError, "'h'", "'y'", "alike")


@pytest.mark.parametrize("power", [-12, -4])
def test_lstm_clips_within_int16(power: int) -> None:
    """TFLM casts the clip in the same way; a cell of -32768 becomes -32767."""
    for clip in (2.0**power * 32767, 2.0**power * 32768, 1e9):
        node = lstm_node(clip, cell=2.0**power)
        assert infer_node(node)
        assert lstm.OP.lower(node, HOST).params["clip"] == np.iinfo(np.int16).max


def test_bilinear_gives_no_negative_zero() -> None:
    x, size = tensor((1, 2, 2, 1), name="x"), tensor((2,), "INT32", data=np.array([3, 3]), name="size")
    options = {"align_corners": False, "half_pixel_centers": False}
    graph = graph_of(Node("RESIZE_BILINEAR", (x, size), (tensor((1, 3, 3, 1), name="y"),), options))
    value = np.full(x.shape, -0.0, np.float32)
    for got in (*interpreted(graph, [value], HOST, 0), *open_peer("tflm", write(graph), 1)([value])):
        assert not np.signbit(got).any()


@pytest.mark.parametrize("op", ["TANH", "LOGISTIC"])
def test_int16_functions_end_where_products_leave_int32(op: str) -> None:
    """65535 / 12288 is the greatest scale: TFLM multiplies int16 by 12288 times the scale."""

    def of(scale: float) -> Node:
        return Node(op, (tensor((3,), "INT16", scale, name="x"),), (tensor((3,), "INT16", 1 / 32768, name="y"),))

    most, ends = 65535 / 12288, np.array([-32768, 32767, 1], np.int16)
    graph = graph_of(of(most))
    (got,) = interpreted(graph, [ends], HOST, 0)
    (want,) = open_peer("tflm", write(graph), 1)([ends])
    np.testing.assert_array_equal(got, want)
    refused(of(65536.5 / 12288), UnsupportedOperatorError, "'x'", "products wrap")


def test_log_softmax_refuses_steps_without_an_inverse() -> None:
    def of(scale: float) -> Node:
        y = tensor((1, 3), "INT8", 16 / 256, 127, name="y")
        return Node("LOG_SOFTMAX", (tensor((1, 3), "INT8", scale, name="x"),), (y,))

    refused(of(2.0**-26), UnsupportedOperatorError, "'x'")
    assert infer_node(of(float(np.nextafter(np.float32(2.0**-26), np.float32(1))))) == [(1, 3)]


@pytest.mark.parametrize(("op", "hint"), [("ethos-u", "Ethos-U NPU"), ("Mine", "twinfer.register")])
def test_custom_operators_without_a_kernel_say_what_helps(op: str, hint: str) -> None:
    node = Node(f"CUSTOM:{op}", (tensor((2,), name="x"),), (tensor((2,), name="y"),))
    refused(node, UnsupportedOperatorError, hint)


@pytest.mark.parametrize("types", [("FLOAT32", "UINT8"), ("INT16", "UINT8"), ("INT8", "UINT8"), ("UINT8", "INT8")])
def test_layers_refuse_a_mixture_of_uint8_and_other_types(types: tuple[str, str]) -> None:
    """LiteRT's schema allows it, and its kernels read the bytes of one type as those of the other."""
    of_x, of_w = types
    x = tensor((1, 4), of_x, *(() if of_x == "FLOAT32" else (0.5,)), name="x")
    w = tensor((2, 4), of_w, 0.01, 0, data=np.ones((2, 4)), name="w")
    y = replace(x, shape=(1, 2), name="y")
    options = {"fused_activation_function": "NONE", "weights_format": "DEFAULT", "keep_num_dims": False}
    place = "'w' UINT8" if of_w == "UINT8" else "'x' UINT8"
    refused(Node("FULLY_CONNECTED", (x, w), (y,), options), UnsupportedOperatorError, place, "supported: ")


NO_ACTIVATION = {"fused_activation_function": "NONE"}


def by_ours_and_numpy(node: Node, want: np.ndarray, x: np.ndarray) -> None:
    for target in (HOST, GENERIC):
        np.testing.assert_array_equal(interpreted(graph_of(node), [x], target, 0)[0], want)


def test_the_most_loops_over_two_operands() -> None:
    """Six walks through both operands, neighbours of one kind as one; dimensions of 1 in both count for nothing."""

    def node(dims: int) -> Node:
        a, b = (tuple(2 if i % 2 == odd else 1 for i in range(dims)) for odd in (0, 1))
        inputs = tensor((1, *a), name="a"), tensor((1, *b), name="b")
        return Node("MUL", inputs, (tensor((1, *[2] * dims), name="y"),), NO_ACTIVATION)

    rng = np.random.default_rng(0)
    values = [rng.standard_normal(t.shape).astype(np.float32) for t in node(6).inputs if t]
    for target in (HOST, GENERIC):
        np.testing.assert_array_equal(interpreted(graph_of(node(6)), values, target, 0)[0], values[0] * values[1])
    refused(node(7), UnsupportedOperatorError, "'a'", "'b'", "in too many ways: 7", "split")


def reduced(dims: int) -> Node:
    x = tensor((2,) * dims, name="x")
    return reduction("REDUCE_MAX", x, tuple(range(1, dims, 2)), False, None)


def test_the_most_turns_between_kept_and_reduced_dimensions() -> None:
    x = np.random.default_rng(0).standard_normal((2,) * 6).astype(np.float32)
    by_ours_and_numpy(reduced(6), x.max((1, 3, 5)), x)
    refused(reduced(7), UnsupportedOperatorError, "alternate more than three times")


def padded(op: str, dims: int) -> Node:
    """Every dimension but the last is padded, unless it has one element."""
    x, y = tensor((2,) * dims, name="x"), tensor((3,) * (dims - 1) + (2,), name="y")
    by = tensor((dims, 2), "INT32", data=np.array([(i % 2, 1 - i % 2) for i in range(dims - 1)] + [(0, 0)]), name="by")
    return Node(op, (x, by), (y,), {"mode": "SYMMETRIC"} if op == "MIRROR_PAD" else {})


@pytest.mark.parametrize(("op", "most", "mode"), [("PAD", 7, "constant"), ("MIRROR_PAD", 6, "symmetric")])
def test_the_most_padded_dimensions(op: str, most: int, mode: Any) -> None:
    """The last, which is not padded, is part of the one before it, or of the elements."""
    node, x = padded(op, most), np.random.default_rng(0).standard_normal((2,) * most).astype(np.float32)
    by_ours_and_numpy(node, np.pad(x, np.asarray(node.input(1).data), mode=mode), x)
    with pytest.raises(UnsupportedOperatorError, match=f"{op}.* axes"):
        make_plan(graph_of(padded(op, most + 1)), GENERIC)


@pytest.mark.parametrize("place", [0, 3])
@pytest.mark.parametrize("scale", [-0.1, float("nan"), float("inf")])
def test_each_scale_of_weights_is_looked_at(place: int, scale: float) -> None:
    scales = np.full(4, 0.1)
    w = tensor((4, 3), "INT8", scales.tolist(), data=np.ones((4, 3)), name="w")
    node = Node("FULLY_CONNECTED", (tensor((1, 3), "INT8", 0.1), w), (tensor((1, 4), "INT8", 0.1),), NO_ACTIVATION)
    assert infer_node(node) == [(1, 4)]
    scales[place] = scale
    wrong = replace(w, quant=Quant(scales.astype(np.float32), np.zeros(4, np.int64)))
    refused(replace(node, inputs=(node.inputs[0], wrong)), ModelError, "'w'", "negative or not a number")


def test_grouped_convolutions_of_floats_by_int8() -> None:
    def node(depth: int) -> Node:
        w = tensor((4, 1, 1, depth), "INT8", 0.1, data=np.ones((4, 1, 1, depth)), name="w")
        options = {"padding": "VALID", "stride_h": 1, "stride_w": 1, **NO_ACTIVATION}
        return Node("CONV_2D", (tensor((1, 2, 2, 4), name="x"), w), (tensor((1, 2, 2, 4)),), options)

    assert make_plan(graph_of(node(4)), HOST).steps
    for target in (HOST, GENERIC):
        with pytest.raises(UnsupportedOperatorError, match=r"CONV_2D.*grouped convolution with float activations"):
            make_plan(graph_of(node(2)), target)


def of_int16(op: str, x: float, y: float) -> Node:
    return Node(op, (tensor((2,), "INT16", x, name="x"),), (tensor((2,), "INT16", y, name="y"),), {})


@pytest.mark.parametrize(("op", "x", "y"), [("ABS", 2.0**14, 1.0), ("NEG", 0.25, 2.0**-16)])
def test_steps_of_int16_much_finer_than_the_input_s(op: str, x: float, y: float) -> None:
    refused(of_int16(op, x, y), UnsupportedOperatorError, "'y'", "too small", "requantise")
    assert infer_node(of_int16(op, x, float(np.nextafter(np.float32(y), np.float32(1e9))))) == [(2,)]


@pytest.mark.parametrize("type", ["INT8", "INT16"])
@pytest.mark.parametrize(("op", "x", "y"), [("ABS", 8.0, 2.0**-27), ("RSQRT", 2.0**-30, 2.0**-15)])
def test_multipliers_up_to_30_bits(op: str, x: float, y: float, type: str) -> None:
    """TFLM's next one overflows."""

    def node(y: float) -> Node:
        return Node(op, (tensor((4,), type, x, name="x"),), (tensor((4,), type, y, name="y"),), {})

    values = np.array([1, 2, 99, 127], node(y).input(0).dtype)
    refused(node(y), UnsupportedOperatorError, "'y'", "too small", "requantise")
    if (op, type) != ("ABS", "INT16"):  # which has a limit of its own
        most = node(y * 1.001)
        (want,) = open_peer("tflm", write(graph_of(most)), 1)([values])
        by_ours_and_numpy(most, want, values)


def test_sums_of_64_bits_are_shifted_left_by_at_most_seven() -> None:
    """A scale of products beside that of the output: 2^7 is a shift of 8."""
    w = tensor((4, 3), "INT8", 1.0, data=np.ones((4, 3)), name="w")

    def node(scale: float, bias: str) -> Node:
        inputs = tensor((1, 3), "INT16", scale, name="x"), w, tensor((4,), bias, scale, data=np.zeros(4), name="b")
        return Node("FULLY_CONNECTED", inputs, (tensor((1, 4), "INT16", 1.0, name="y"),), NO_ACTIVATION)

    below = float(np.nextafter(np.float32(2**7), np.float32(0)))
    for scale, bias in ((below, "INT64"), (2.0**7, "INT32")):
        assert make_plan(graph_of(node(scale, bias)), GENERIC).steps
    with pytest.raises(UnsupportedOperatorError, match=r"FULLY_CONNECTED.*scale of tensor 'y'.* too small"):
        make_plan(graph_of(node(2.0**7, "INT64")), GENERIC)


def test_int8_softmax_to_int16_of_as_many_as_fit() -> None:
    def node(count: int) -> Node:
        y = tensor((1, count), "INT16", 1 / 65536, -32768, name="y")
        return Node("SOFTMAX", (tensor((1, count), "INT8", 0.1, name="x"),), (y,), {"beta": 1.0})

    assert infer_node(node(511)) == [(1, 511)]
    refused(node(512), UnsupportedOperatorError, "512 values of tensor 'x'", "split")
