"""Convolutions and dense layers of any shape on SMLAD, Helium, AVX-512 and plain C: numpy's integers, bit for bit.

Random shapes, strides, paddings, offsets and multipliers (left shifts and shift 0, too), channel counts around every
tile's edge, weights and inputs at their extremes. On the host plain C stands in for the instruction sets; some of the
nodes also run on every core under QEMU.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from cases import assert_exact, assert_exact_on
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import deep_but, emulated, need_tools

from twinfer.aot.build.targets import find
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import along, tensor
from twinfer.runtime.ops.conv import _bands, conv2d
from twinfer.runtime.ops.dense import fully_connected
from twinfer.runtime.ops.depthwise import depthwise_conv2d
from twinfer.runtime.plan.lower import lower_node
from twinfer.runtime.target import AVX2, AVX512_VNNI, DSP, GENERIC, MVE, NEON_I8MM

#: Nodes of each operator and type for a core under QEMU.
ON_CORES = 8

#: Types of activations; the weights are of int8.
TYPES = ("INT8", "INT16")

OPERATORS = {"CONV_2D": conv2d, "DEPTHWISE_CONV_2D": depthwise_conv2d, "FULLY_CONNECTED": fully_connected}


def some(rng: np.random.Generator, *values: Any) -> Any:
    return values[rng.integers(len(values))]


def size(rng: np.random.Generator, most: int) -> int:
    """A size up to ``most``. Small sizes and those near multiples of 16, 8 and 4 are likelier."""
    near = int(some(rng, 1, 2, 3, 4, 8, 16, 32)) + int(rng.integers(-1, 2))
    return int(np.clip(some(rng, near, int(rng.integers(1, most + 1))), 1, most))


def integers(rng: np.random.Generator, shape: tuple[int, ...], low: int, high: int = 127) -> Array:
    """Values from ``low`` to ``high``: random, few different ones, or only the extremes."""
    kind = rng.integers(4)
    if kind == 0:
        return rng.choice([low, high], shape)
    if kind == 1:
        return np.full(shape, some(rng, low, high))
    return rng.integers(low, high + 1, shape)


def shapes(rng: np.random.Generator, op: str) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Shapes of x and the weights, and the axis of the latter's output channels."""
    if op == "FULLY_CONNECTED":
        depth = size(rng, 150) * int(some(rng, 1, 1, 1, 9))
        return (int(rng.integers(1, 5)), depth), (size(rng, 40), depth), 0
    image = (int(some(rng, 1, 1, 2)), size(rng, 9), size(rng, 9), size(rng, 36))
    k_h, k_w = (3, 3) if rng.integers(2) else (size(rng, 5), size(rng, 5))
    if op == "CONV_2D":
        return image, (size(rng, 20), k_h, k_w, image[3]), 0
    if not rng.integers(4):
        k_h, k_w = some(rng, (9, 1), (1, 9), (7, 7), (size(rng, 12), size(rng, 7)))
    return image, (1, k_h, k_w, image[3] * int(some(rng, 1, 1, 1, 2))), 3


def options(rng: np.random.Generator, op: str, multiplier: int) -> dict[str, Any]:
    chosen: dict[str, Any] = {"fused_activation_function": some(rng, "NONE", "NONE", "RELU", "RELU6")}
    if op == "FULLY_CONNECTED":
        return chosen
    stride = int(some(rng, 1, 1, 2))
    chosen |= {"padding": some(rng, "SAME", "VALID"), "stride_h": stride, "stride_w": int(some(rng, stride, 1, 3))}
    dilations = (1, 1) if rng.integers(3) else (int(rng.integers(1, 3)), int(rng.integers(1, 3)))
    chosen |= dict(zip(("dilation_h_factor", "dilation_w_factor"), dilations, strict=True))
    return chosen | ({"depth_multiplier": multiplier} if op == "DEPTHWISE_CONV_2D" else {})


def node_of(rng: np.random.Generator, op: str, type: str = "INT8") -> tuple[Node, Array]:
    """A node and a value for its input."""
    bits, bias_type = (8, "INT32") if type == "INT8" else (16, "INT64")
    while True:
        x_shape, w_shape, axis = shapes(rng, op)
        w = integers(rng, w_shape, int(some(rng, -127, -127, -127, -128)))
        channels, per_tensor = w_shape[axis], bool(rng.integers(2))
        scales = np.full(1 if per_tensor else channels, 0.01) * 2.0 ** rng.uniform(-4, 4, 1 if per_tensor else channels)
        if not rng.integers(6):
            scales[0] = 0  # a dead channel
        zeros = [int(some(rng, -128, 127, rng.integers(-128, 128))) for _ in range(2)]
        zero, out_zero = zeros if type == "INT8" else (0, 0)
        x = tensor(x_shape, type, 0.05, zero, name="x")
        weights = along(tensor(w_shape, "INT8", scales.tolist(), data=w, name="w"), axis)
        bound = int(some(rng, 100, 10_000, 1_000_000, (1 << 30) + 200, 1 << (30 if type == "INT8" else 40)))
        bias = tensor((channels,), bias_type, 1.0, data=rng.integers(-bound, bound, channels), name="b")
        given_options = options(rng, op, channels // x_shape[-1])
        draft = Node(op, (x, weights, bias), (tensor((1,), type, 1.0),), given_options)
        try:
            shape = OPERATORS[op].OP.infer(draft)[0]
        except Exception:  # a window larger than an image without padding
            continue
        times = float(some(rng, 1e-3 if type == "INT8" else 0.1, 1, 30, 30, 30, 1e4))
        spread = 0.0005 * times * (w.size / channels) ** 0.5 * 73 / 30
        y = tensor(shape, type, spread, out_zero, name="y")
        most = (1 << (bits - 1)) - 1
        return Node(op, draft.inputs, (y,), given_options), integers(rng, x_shape, -most - 1, most).astype(x.dtype)


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("op", OPERATORS)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, (1 << 32) - 1))
def test_on_the_host(op: str, type: str, seed: int) -> None:
    node, value = node_of(np.random.default_rng(seed), op, type)
    assert_exact(node, [value])


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("band", [1, 300])
def test_bands_of_rows(band: int, type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bands of few rows: a last one may have fewer, and each begins in the padding anew."""
    monkeypatch.setattr(_bands, "BAND", band)
    bands = []
    for seed in range(60):
        node, value = node_of(np.random.default_rng(seed), "CONV_2D", type)
        params = lower_node(node, AVX512_VNNI)[0].params
        bands.append(-(-node.output.shape[1] // params["band"]) if "band" in params else 0)
        assert_exact(node, [value], (AVX2, AVX512_VNNI, NEON_I8MM))
    assert sum(count > 2 for count in bands) > 10


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("op", OPERATORS)
def test_every_choice_is_tried(op: str, type: str) -> None:
    """The random nodes reach the kernels of all instruction sets and, on all targets, the plain ones."""
    bits = type.removeprefix("INT")
    endings = [(DSP, f"_dsp_s{bits}"), (MVE, f"_mve_s{bits}"), (GENERIC, f"_s{bits}")]
    if type == "INT8":
        endings.append((AVX512_VNNI, "_avx2_s8" if op == "DEPTHWISE_CONV_2D" else "_wide_s8"))
    elif op != "DEPTHWISE_CONV_2D":
        endings += [(target, "_wide_s16") for target in (AVX512_VNNI, AVX2, NEON_I8MM)]
    if (op, type) == ("CONV_2D", "INT8"):
        endings.append((NEON_I8MM, "_i8mm_s8"))
    if (op, type) == ("DEPTHWISE_CONV_2D", "INT8"):
        endings += [(MVE, "_planes_mve_s8"), (DSP, "_planes_dsp_s8"), (DSP, "_fours_dsp_s8")]
        endings += [(AVX512_VNNI, "_times_s8"), (AVX2, "_times_s8")]
    if (op, type) == ("DEPTHWISE_CONV_2D", "INT16"):
        endings.append((DSP, "_planes_dsp_s16"))
    for target, ending in endings:
        rng, kernels = np.random.default_rng(1), []
        for _ in range(80):
            kernels.append(lower_node(node_of(rng, op, type)[0], target)[0].kernel)
        assert sum(kernel.endswith(ending) for kernel in kernels) > 4, kernels


@pytest.mark.parametrize("core", deep_but(emulated(), "cortex-m4", "cortex-m55"))
def test_under_qemu(core: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    need_tools(find(core).compiler, find(core).emulator)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rng, nodes = np.random.default_rng(20261121), list[tuple[Node, list[Array]]]()
    for op, type in [*product(OPERATORS, TYPES)] * ON_CORES:
        node, value = node_of(rng, op, type)
        nodes.append((node, [value]))
    assert_exact_on(core, nodes)
