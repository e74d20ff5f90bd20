"""The greatest sizes that kernels on SMLAD and Helium take, and one step more: numpy's integers on the cores.

Each limit stands here as a number of its own, from what the instructions can do; the values are as great as they get.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import assert_exact_on

from twinfer.aot.build.targets import find
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import along, tensor
from twinfer.runtime.ops.conv import conv2d
from twinfer.runtime.ops.recurrent import svdf
from twinfer.runtime.plan.lower import lower_node
from twinfer.runtime.shapes import infer_node

Drawn = tuple[Node, list[Array]]


def extreme(shape: tuple[int, ...], type: str = "INT8", least: int = -128) -> Array:
    """The greatest and the least values, mixed, and more of the least."""
    values = np.random.default_rng(int(np.prod(shape)) % 1000).choice([least, least, 127], shape)
    return (values * (256 if type == "INT16" else 1)).astype(type.lower())


def depthwise(x: tuple[int, ...], window: tuple[int, int], times: int = 1, type: str = "INT8", **more: Any) -> Drawn:
    """All weights 127, so that sums are as great as they get."""
    c, wide = x[3] * times, "INT32" if type == "INT8" else "INT64"
    w = along(tensor((1, *window, c), "INT8", [0.01] * c, data=np.full((1, *window, c), 127)), 3)
    bias = tensor((c,), wide, [0.0005] * c, data=np.arange(c) * 11 - 5)
    options = {**conv2d.DEFAULTS, "padding": "VALID", "depth_multiplier": times, **more}
    source, y = tensor(x, type, 0.05, name="x"), tensor((1,), type, 0.05 * np.prod(window) ** 0.5 / 4, name="y")
    return _shaped(Node("DEPTHWISE_CONV_2D", (source, w, bias), (y,), options)), [extreme(x, type)]


def _shaped(node: Node) -> Node:
    """The node with its output's shape."""
    (shape,) = infer_node(node)
    return replace(node, outputs=(replace(node.output, shape=tuple(shape)),))


def pool(k_h: int, k_w: int, c: int) -> Drawn:
    options = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "filter_height": k_h, "filter_width": k_w}
    x, y = tensor((1, k_h, k_w + 1, c), "INT8", 0.05, 3, name="x"), tensor((1, 1, 2, c), "INT8", 0.05, 3)
    node = Node("AVERAGE_POOL_2D", (x,), (y,), {**options, "fused_activation_function": "NONE"})
    return node, [extreme(x.shape)]


def filters(memory: int) -> Drawn:
    rng = np.random.default_rng(5)
    node = svdf._case(rng, "INT8", (1, 3), (4, 1, memory), (0.2, 0)).node
    return node, [extreme(node.input(0).shape)]


def dense(depth: int) -> Drawn:
    """Every weight is 127, every value -128 or 127."""
    w = tensor((4, depth), "INT8", 0.01, data=np.full((4, depth), 127))
    x, y = tensor((2, depth), "INT8", 0.05, name="x"), tensor((2, 4), "INT8", 0.5)
    bias = tensor((4,), "INT32", 0.0005, data=np.arange(4) - 2)
    options = {"fused_activation_function": "NONE", "weights_format": "DEFAULT", "keep_num_dims": False}
    value = np.stack([np.full(depth, -128), np.full(depth, 127)]).astype(np.int8)
    return Node("FULLY_CONNECTED", (x, w, bias), (y,), options), [value]


def conv(depth: int, out: int) -> Drawn:
    """The same of a window of one pixel."""
    node, (value,) = dense(depth)
    x, w, bias = (node.input(i) for i in range(3))
    x, bias = replace(x, shape=(1, 2, 1, depth)), replace(bias, shape=(out,), data=bias.data[:out])
    w = replace(w, shape=(out, 1, 1, depth), data=w.data[:out].reshape(out, 1, 1, depth))
    y = replace(node.output, shape=(1, 2, 1, out))
    return Node("CONV_2D", (x, w, bias), (y,), {**conv2d.DEFAULTS, "padding": "VALID"}), [value.reshape(x.shape)]


def taps(depth: int) -> Drawn:
    """The same of 3 x 3 pixels, four windows; sums are as great as they get where all values are -128."""
    x, y = tensor((2, 4, 4, depth), "INT8", 0.05, name="x"), tensor((2, 2, 2, 2), "INT8", 2.0)
    w = tensor((2, 3, 3, depth), "INT8", 0.01, data=np.full((2, 3, 3, depth), 127))
    bias = tensor((2,), "INT32", 0.0005, data=np.arange(2) - 1)
    value = np.stack([np.full(x.shape[1:], -128), np.full(x.shape[1:], 127)]).astype(np.int8)
    return Node("CONV_2D", (x, w, bias), (y,), {**conv2d.DEFAULTS, "padding": "VALID"}), [value]


def product(rows: int, depth: int, cols: int) -> Drawn:
    """Two computed matrices, whose values less their zero points are all 255."""
    a, b = tensor((rows, depth), "INT8", 0.05, -128, name="a"), tensor((depth, cols), "INT8", 0.02, -128, name="b")
    y = tensor((rows, cols), "INT8", 0.001 * 255 * 255 * depth / 200, -128)
    values = [np.full((rows, depth), 127, np.int8), np.full((depth, cols), 127, np.int8)]
    values[0].flat[0] = -128
    return Node("BATCH_MATMUL", (a, b), (y,), {"adj_x": False, "adj_y": False}), values


#: Core, kernel, a node at the limit, and one beyond it.
LIMITS: dict[str, tuple[str, str, Callable[[], Drawn], Callable[[], Drawn]]] = {
    # Averages by multiplying: exact up to 4087 values, 61 x 67.
    "values of a window, Helium": ("cortex-m55", "tw_average_pool_2d_mve_s8", lambda: pool(61, 67, 3),
                                   lambda: pool(56, 73, 3)),
    # Two sums of up to 181 bytes in halves of a word.
    "values of a window, words": ("cortex-m4", "tw_average_pool_2d_words_s8", lambda: pool(1, 181, 4),
                                  lambda: pool(2, 91, 4)),
    "memory of an SVDF": ("cortex-m55", "tw_svdf_mve_s8", lambda: filters(16_384), lambda: filters(16_385)),
    "taps, channel by channel": ("cortex-m55", "tw_depthwise_conv2d_planes_mve_s8",
                                 lambda: depthwise((1, 9, 20, 2), (8, 8)), lambda: depthwise((1, 9, 20, 2), (5, 13))),
    # Offsets of 7 pixels in 16 bits.
    "bytes between neighbours": (
        "cortex-m55", "tw_depthwise_conv2d_planes_mve_s8",
        lambda: depthwise((1, 1, 4690, 2), (1, 2), dilation_w_factor=4681),
        lambda: depthwise((1, 1, 4690, 2), (1, 2), dilation_w_factor=4682)),
    # Four rows of 256 pixels and 16 channels: 16,384 bytes.
    "scratch, 16 channels at a time": ("cortex-m55", "tw_depthwise_conv2d_mve_s8",
                                       lambda: depthwise((1, 4, 256, 16), (4, 1)),
                                       lambda: depthwise((1, 4, 257, 16), (4, 1))),
    # Five lines of a ring in 16,384 bytes: two for each value on SMLAD, one on Helium, beside the weights.
    "scratch, SMLAD": ("cortex-m4", "tw_depthwise_conv2d_planes_dsp_s8", lambda: depthwise((1, 5, 1630, 2), (5, 5)),
                       lambda: depthwise((1, 5, 1631, 2), (5, 5))),
    "scratch, SMLAD, int16": ("cortex-m4", "tw_depthwise_conv2d_planes_dsp_s16",
                              lambda: depthwise((1, 5, 1630, 2), (5, 5), type="INT16"),
                              lambda: depthwise((1, 5, 1631, 2), (5, 5), type="INT16")),
    "scratch, Helium": ("cortex-m55", "tw_depthwise_conv2d_planes_mve_s8",
                        lambda: depthwise((1, 5, 3257, 2), (5, 5)), lambda: depthwise((1, 5, 3258, 2), (5, 5))),
    "extent of a walk": ("cortex-m4", "tw_depthwise_conv2d_dsp_s8", lambda: depthwise((1, 254, 3, 2), (3, 3)),
                         lambda: depthwise((1, 255, 255, 2), (3, 3))),
    # 129 times four products of 127 * 128 are below 2^23.
    "sums in half a word": ("cortex-m4", "tw_conv2d_dsp_s8", lambda: conv(516, 3), lambda: conv(520, 3)),
    # 16 times 8,256 products of 127 * 128, and a bias, are below 2^31.
    "scaled sums, weights of 16 bits": ("cortex-m4", "tw_conv2d_halves_dsp_s8", lambda: conv(8256, 4),
                                        lambda: conv(8257, 4)),
    # Four times 9 * 3,669 products of 127 * 128 are below 2^31.
    "four times a sum, Winograd": ("cortex-m4", "tw_conv2d_winograd_dsp_s8", lambda: taps(3669), lambda: taps(3670)),
    # 16,512 products of 255 * 255 are below 2^30.
    "sums of a product, Helium": ("cortex-m55", "tw_batch_matmul_mve_s8", lambda: product(1, 16_512, 2),
                                  lambda: product(1, 16_513, 2)),
    "sums of a product, SMLAD": ("cortex-m4", "tw_batch_matmul_dsp_s8", lambda: product(1, 16_512, 2),
                                 lambda: product(1, 16_513, 2)),
    "neighbours in a column": ("cortex-m55", "tw_batch_matmul_mve_s8", lambda: product(1, 3, 9362),
                               lambda: product(1, 3, 9363)),
}  # fmt: skip


def kernel_of(node: Node, core: str) -> str:
    return lower_node(node, find(core).target)[0].kernel


@pytest.mark.parametrize("name", LIMITS)
def test_where_kernels_end(name: str) -> None:
    core, kernel, at, beyond = LIMITS[name]
    assert kernel_of(at()[0], core) == kernel
    assert kernel_of(beyond()[0], core) != kernel


def test_long_sums_of_a_dense_layer_are_cut() -> None:
    """In half a word they are read out before they could leave it, and no sooner."""
    for depth, cut in ((4, False), (516, False), (520, True)):
        call, _ = lower_node(dense(depth)[0], find("cortex-m4").target)
        assert call.kernel == "tw_fully_connected_dsp_s8"
        assert (call.params["chunk"] < depth // 2) == cut


def drawn(core: str) -> list[Drawn]:
    both = [make() for where, _, at, beyond in LIMITS.values() if where == core for make in (at, beyond)]
    return [*both, dense(516), dense(520), dense(1036)]


@pytest.mark.usefixtures("board_tools")
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m55"])
def test_under_qemu(core: str) -> None:
    assert_exact_on(core, drawn(core))
