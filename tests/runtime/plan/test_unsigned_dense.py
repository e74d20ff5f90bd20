"""FULLY_CONNECTED of uint8, whose sums LiteRT scales in float64: integers that give the same, on every target."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from cases import FASTEST, assert_exact, assert_exact_on, graph_of
from hypothesis import assume, given
from hypothesis import strategies as st
from needs import deep_but, emulated

from twinfer.bench.peers.engines import open_peer
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import tensor
from twinfer.runtime.ops.core.unsigned import in_integers, rounded
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.target import AVX2, DSP, GENERIC, HOST, MVE, TILES, Target
from twinfer.runtime.write.tflite import write

#: Scales of weights over that of the output, the scale of the input being 1: usual; with ties, as 1 / 256 is a power of
#: two; a third, which float64 rounds; some that only float64 takes.
SCALES = (0.0031, 1 / 256, 1 / 3, 0.11, 0.4, 1.7)


class Layer(NamedTuple):
    """``far`` weights leave int8 without their zero point."""

    seed: int
    batches: int
    depth: int
    out: int
    zero: int
    far: int
    scale: float
    act: str = "NONE"

    def node(self) -> Node:
        rng = np.random.default_rng(self.seed)
        w = rng.normal(self.zero, 30, (self.out, self.depth)).round()
        w = w.clip(max(0, self.zero - 120), min(255, self.zero + 120))
        w.reshape(-1)[rng.integers(0, w.size, self.far)] = 0 if self.zero > 127 else 255
        x = tensor((self.batches, self.depth), "UINT8", 1.0, int(rng.integers(0, 256)), name="x")
        weights = tensor(w.shape, "UINT8", self.scale * 0.5, self.zero, data=w, name="w")
        bias = tensor((self.out,), "INT32", weights.scale, data=rng.integers(-9000, 9000, self.out), name="b")
        y = tensor((self.batches, self.out), "UINT8", 0.5, int(rng.integers(0, 256)), name="y")
        options = {"fused_activation_function": self.act, "weights_format": "DEFAULT", "keep_num_dims": False}
        return Node("FULLY_CONNECTED", (x, weights, bias), (y,), options)

    def values(self) -> list[Array]:
        return [np.random.default_rng(~self.seed & 0xFFFF).integers(0, 256, (self.batches, self.depth)).astype("u1")]


LAYERS = st.builds(
    Layer, st.integers(0, 1 << 16), st.integers(1, 3), st.integers(1, 70), st.integers(1, 40), st.integers(0, 255),
    st.sampled_from([0, 1, 200]), st.sampled_from(SCALES), st.sampled_from(["NONE", "RELU", "RELU6"]),
)  # fmt: skip

SOME = (
    Layer(1, 1, 256, 16, 128, 0, SCALES[0]),
    Layer(2, 2, 64, 40, 131, 0, SCALES[1]),
    Layer(3, 3, 21, 5, 100, 2, SCALES[2], "RELU6"),
    Layer(4, 1, 33, 3, 140, 1, SCALES[3]),
    Layer(5, 2, 16, 24, 117, 0, SCALES[5]),
    Layer(6, 1, 9, 1, 0, 40, SCALES[1]),
)


@given(LAYERS)
def test_layers_have_litert_s_bits(layer: Layer) -> None:
    """As numpy, and as every target's kernels at every level of this computer."""
    node, values = layer.node(), layer.values()
    (wanted,) = open_peer("litert-ref", write(graph_of(node)), 1)(values)
    got = assert_exact(node, values, (GENERIC, DSP, MVE, TILES, HOST, AVX2), FASTEST)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("core", deep_but(emulated(), "cortex-m4", "cortex-m55"))
def test_cores_have_the_same_bits(core: str) -> None:
    assert_exact_on(core, [(layer.node(), layer.values()) for layer in SOME])


@pytest.mark.parametrize(
    ("target", "kernels"),
    [
        (GENERIC, ["s8"]),
        (TILES, ["s8"]),
        (DSP, ["dsp_s8"]),
        (MVE, ["eights_mve_s8", "mve_s8"]),
        (HOST, ["f64_s8"]),
    ],
    ids=lambda value: value.name if isinstance(value, Target) else "",
)
def test_trained_layers_take_the_kernels_of_a_target(target: Target, kernels: list[str]) -> None:
    plans = [make_plan(graph_of(layer.node()), target) for layer in (SOME[0], SOME[3])]
    taken = [step.call.kernel for plan in plans for step in plan.steps if step.node.op == "FULLY_CONNECTED"]
    assert [*dict.fromkeys(taken)] == [f"tw_fully_connected_unsigned_{name}" for name in kernels]


@pytest.mark.parametrize("layer", [SOME[0]._replace(scale=1.7), SOME[1]._replace(far=2000)])
def test_the_rest_is_scaled_in_float64(layer: Layer) -> None:
    for target in (GENERIC, DSP, MVE):
        kernels = [step.call.kernel for step in make_plan(graph_of(layer.node()), target).steps]
        assert "tw_fully_connected_unsigned_f64_s8" in kernels


@given(st.floats(2**-20, 0.24), st.integers(1, 1 << 24), st.booleans(), st.integers(0, 1 << 32))
def test_integers_scale_as_float64_does(scale: float, reach: int, dyadic: bool, seed: int) -> None:
    """At every sum that may be near a half, and at others."""
    if dyadic:
        scale = 2.0 ** round(np.log2(scale))
    found = in_integers(scale, reach)
    assume(found is not None)
    mult, right = found or (0, 0)
    halves = np.arange(-255.5, 256) / scale
    near = np.concatenate([halves + k for k in (-1, 0, 1)]).round()
    sums = np.concatenate([near, np.random.default_rng(seed).integers(-reach, reach + 1, 500)]).astype(np.int64)
    sums = sums[np.abs(sums) <= reach]
    scaled = ((sums * mult >> 32) + (1 << right - 1)) >> right
    np.testing.assert_array_equal(scaled.clip(-255, 255), rounded(sums, scale).clip(-255, 255))


@pytest.mark.parametrize("scale", [0.0, 0.5, 1e30, float("inf")])
def test_integers_that_would_not_fit(scale: float) -> None:
    assert in_integers(scale, 1 << 20) is None
