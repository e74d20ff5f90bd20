"""Winograd's F(4 x 4, 3 x 3) on computers: where it is taken, that 16 bits hold what it multiplies, and its bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import assert_exact, assert_exact_on, graph_of, outputs_of, same
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import need_tools

from twinfer.aot.build.targets import find
from twinfer.bench.models.source import load
from twinfer.kernels_c import FOLDER
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv import conv2d
from twinfer.runtime.ops.conv.conv2d_winograd_wide import MOST_WEIGHTS, transformed
from twinfer.runtime.ops.core.layer_cases import Layer
from twinfer.runtime.options import Options
from twinfer.runtime.plan.lower import lower_node
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import AVX2, AVX512_VNNI, AVX_VNNI, HOST, NEON_I8MM, SIMD128, Target, computer

KERNEL = "tw_conv2d_winograd_wide_s8"
NEON = computer("neon", "neon")

#: What six inputs in a row are transformed by, and six sums.
INPUTS = np.array([
    [4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0],
    [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0], [0, 4, 0, -5, 0, 1],
])  # fmt: skip
SUMS = np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 2]])


def conv(h: int, w: int, in_c: int, out_c: int, layer: Layer | None = None, batches: int = 1, **options: Any) -> Node:
    shapes = (batches, h, w, in_c), (out_c, 3, 3, in_c)
    return conv2d._case(np.random.default_rng(h * w), *shapes, layer or Layer(), **options).node


def kernel(node: Node, target: Target) -> str:
    return lower_node(node, target)[0].kernel


def reasons(node: Node) -> list[str]:
    return [why for name, why in lower_node(node, AVX2)[1].declined if name == "winograd_wide"]


def test_where_int16_is_multiplied_anyway() -> None:
    node = conv(8, 8, 16, 16)
    assert kernel(node, AVX2) == kernel(node, NEON) == kernel(node, find("aarch64").target) == KERNEL
    others = [computer("both", "avx2", vnni) for vnni in ("avx_vnni", "avx512_vnni")]
    others.append(find("aarch64-dotprod").target)
    for target in (HOST, AVX_VNNI, AVX512_VNNI, NEON_I8MM, SIMD128, *others):
        assert kernel(node, target) != KERNEL, target.name


@pytest.mark.parametrize(("node", "why"), [
    (conv(8, 8, 7, 16), "it has 7 input channels, fewer than 8"),
    (conv(8, 8, 16, 8), "it has 8 output channels: of up to 8, two pixels share a vector"),
    (conv(4, 4, 16, 16), "tiles compute 64 outputs for 16"),
    (conv(1, 16, 16, 16), "tiles compute 64 outputs for 16"),
])  # fmt: skip
def test_where_it_is_not_faster(node: Node, why: str) -> None:
    assert reasons(node) == [why]
    assert kernel(node, AVX2) == "tw_conv2d_avx2_s8"


@pytest.mark.parametrize(("node", "why"), [
    (conv(8, 8, 31, 32), "it has 31 input channels, fewer than 32"),
    (conv(8, 8, 32, 31), "it has 31 output channels, fewer than 32"),
    (conv(6, 6, 32, 32), "tiles compute 64 outputs for 36"),
    (conv(8, 8, 192, 192), "its weights, transformed, would not fit a cache"),
    (conv(8, 8, 32, 32, Layer(zeros=0.75, tall=16)), "blocks of its weights are zero, and are skipped"),
])  # fmt: skip
def test_where_it_is_not_faster_than_bytes_four_at_once(node: Node, why: str) -> None:
    call, choice = lower_node(node, AVX512_VNNI)
    assert ("winograd_wide", why) in choice.declined
    assert call.kernel in ("tw_conv2d_wide_s8", "tw_conv2d_sparse_wide_s8")


def test_where_it_is_faster_than_bytes_four_at_once() -> None:
    for node in (conv(7, 7, 32, 32), conv(8, 8, 32, 64), conv(14, 14, 128, 128)):
        assert kernel(node, AVX512_VNNI) == KERNEL


def test_where_weights_are_too_many() -> None:
    """64 times 9 * 229 products of 127 * 128 are below 2^31."""
    assert 64 * 128 * MOST_WEIGHTS < 1 << 31 <= 64 * 128 * (MOST_WEIGHTS + 1)
    for in_c, taken in ((229, True), (230, False)):
        node = conv(6, 6, in_c, 9)
        full = replace(node.input(1), data=np.full((9, 3, 3, in_c), 127, np.int8))
        node = replace(node, inputs=(node.input(0), full, *node.inputs[2:]))
        assert (kernel(node, AVX2) == KERNEL) == taken
        assert_exact(node, [np.full((1, 6, 6, in_c), -128, np.int8)], [AVX2])


def test_sixteen_bits_hold_what_is_multiplied() -> None:
    """Transforms are linear: they are greatest where every value is an end of its range, signed as its factor."""
    factors = transformed(np.eye(9, dtype=np.int8).reshape(9, 3, 3, 1))[..., 0].astype(np.int64)  # [taps, 6, 6]
    weights = int((128 * np.abs(factors).sum(0)).max())
    inputs = int((128 * np.abs(np.einsum("ia,jb->ijab", INPUTS, INPUTS))).sum((2, 3)).max())
    assert (weights, inputs) == (18_432, 12_800)
    assert 2 * weights * inputs < 1 << 31  # two products, which an instruction may add
    assert np.array_equal(  # 576 times the convolution, of every tap and input: so of all sums of them
        np.einsum("pi,qj,tij,ia,jb->tpqab", SUMS, SUMS, factors, INPUTS, INPUTS),
        [[[576 * np.outer(np.eye(6)[p + ky], np.eye(6)[q + kx]) for q in range(4)] for p in range(4)]
         for ky in range(3) for kx in range(3)],
    )  # fmt: skip
    text = (FOLDER / "conv/conv2d_winograd_wide.h").read_text()
    ninth = int(text.split("#define TW_NINTH ")[1].split()[0])
    assert 9 * ninth % (1 << 32) == 1


@given(
    h=st.integers(1, 14), w=st.integers(1, 60), in_c=st.integers(8, 48), out_c=st.integers(9, 48),
    batches=st.integers(1, 2), zero=st.sampled_from([-128, -3, 127]), padding=st.sampled_from(["SAME", "VALID"]),
    act=st.sampled_from(["NONE", "RELU"]), scale=st.sampled_from([0.05, 0.0001]),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_every_level_gives_the_references_bits(
    h: int, w: int, in_c: int, out_c: int, batches: int, zero: int, padding: str, act: str, scale: float
) -> None:
    """Partial tiles and panels, channels that fill no vector, and ends of all kinds."""
    h, w = (max(extent, 3) for extent in (h, w))
    layer = Layer(zero=zero, out_scale=scale)
    node = conv(h, w, in_c, out_c, layer, batches, padding=padding, fused_activation_function=act)
    assert_exact(node, random_inputs(graph_of(node), h), [AVX2, AVX512_VNNI])


def test_the_same_bits_by_threads_and_by_rows() -> None:
    graph = load("ic_int8").graph
    plain = make_plan(graph, HOST)
    whole, rows = make_plan(graph, AVX2), make_plan(graph, AVX2, Options(memory="rows"))
    assert [step.position for step in whole.steps if step.call.kernel == KERNEL] == [1, 2, 5, 9]
    values = random_inputs(graph)
    wanted = outputs_of(Session(plain), values)
    for session in (Session(whole), Session(whole, threads=3), Session(rows)):
        same(outputs_of(session, values), wanted)


def test_not_where_weights_are_coded() -> None:
    """They would not be: what is transformed cannot be decoded where it is read."""
    plan = make_plan(load("ic_int8").graph, AVX2, Options(weights="auto"))
    assert not [step for step in plan.steps if step.call.kernel == KERNEL]


@pytest.mark.deep
@pytest.mark.usefixtures("kept_builds")
def test_neon() -> None:
    """On AArch64 without SDOT, under QEMU: tiles that are four at once, two and one, partial ones, channels padded."""
    card = find("aarch64")
    need_tools(card.compiler, card.emulator)
    sizes = ((6, 6, 8, 16), (7, 12, 13, 17), (12, 13, 24, 9), (9, 31, 8, 33))
    nodes = [conv(*size, Layer(zero=zero)) for size, zero in zip(sizes, (-128, 127, 3, 0), strict=True)]
    nodes.append(conv(8, 8, 16, 16, Layer(out_scale=0.0001), fused_activation_function="RELU"))
    assert all(kernel(node, card.target) == KERNEL for node in nodes)
    assert_exact_on("aarch64", [(node, random_inputs(graph_of(node), 1)) for node in nodes])
