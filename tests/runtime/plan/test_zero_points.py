"""Layers of uint8 whose weights have a zero point, few or many of them outside of int8 without it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from cases import FASTEST, assert_exact, assert_exact_on, compiled_together, graph_of, outputs_of
from hypothesis import given
from hypothesis import strategies as st
from needs import deep_but, emulated
from unsigned import meaning
from unsigned_nets import WINDOW

from twinfer.bench.peers.engines import open_peer
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import AVX2, DSP, GENERIC, HOST, MVE, TILES, Target
from twinfer.runtime.write.tflite import write


class Layer(NamedTuple):
    """A convolution; ``out`` is its channels, or a depthwise one's multiplier; ``far`` weights leave int8."""

    seed: int
    depthwise: bool
    size: tuple[int, int]
    depth: int
    out: int
    taps: tuple[int, int]
    stride: int
    zero: int
    far: int
    padding: str = "SAME"
    act: str = "NONE"

    def node(self) -> Node:
        rng = np.random.default_rng(self.seed)
        channels = self.depth * self.out if self.depthwise else self.out
        shape = (1, *self.taps, channels) if self.depthwise else (channels, *self.taps, self.depth)
        w = rng.normal(self.zero, 30, shape).round().clip(max(0, self.zero - 120), min(255, self.zero + 120))
        w.reshape(-1)[rng.integers(0, w.size, self.far)] = 0 if self.zero > 127 else 255
        x = tensor((1, *self.size, self.depth), "UINT8", 0.05, int(rng.integers(0, 256)), name="x")
        scale = float(np.float32(x.scale) * np.float32(0.01))
        weights = tensor(shape, "UINT8", 0.01, self.zero, data=w, name="w")
        bias = tensor((channels,), "INT32", scale, data=rng.integers(-9000, 9000, channels), name="b")
        same = self.padding == "SAME"
        spans = (n if same else n - k + 1 for n, k in zip(self.size, self.taps, strict=True))
        out = (1, *(-(-n // self.stride) for n in spans), channels)
        y = tensor(out, "UINT8", 0.3, int(rng.integers(0, 256)), name="y")
        options = {**WINDOW, "stride_h": self.stride, "stride_w": self.stride, "padding": self.padding}
        options |= {"fused_activation_function": self.act} | ({"depth_multiplier": self.out} if self.depthwise else {})
        return Node("DEPTHWISE_CONV_2D" if self.depthwise else "CONV_2D", (x, weights, bias), (y,), options)

    def values(self) -> list[Array]:
        return [np.random.default_rng(~self.seed & 0xFFFF).integers(0, 256, (1, *self.size, self.depth)).astype("u1")]


LAYERS = st.builds(
    Layer, st.integers(0, 1 << 16), st.booleans(), st.tuples(st.integers(3, 8), st.integers(3, 8)), st.integers(1, 21),
    st.integers(1, 9), st.tuples(st.integers(1, 3), st.integers(1, 3)), st.integers(1, 2), st.integers(0, 255),
    st.sampled_from([0, 1, 2, 5, 200]), st.sampled_from(["SAME", "VALID"]), st.sampled_from(["NONE", "RELU", "RELU6"]),
)  # fmt: skip

#: Layers of real networks in small: pixels, windows, the first one, one along time.
SOME = (
    Layer(1, False, (5, 7), 24, 16, (1, 1), 1, 121, 2),
    Layer(2, False, (6, 6), 16, 5, (1, 1), 1, 151, 3, act="RELU6"),
    Layer(3, False, (9, 8), 6, 8, (3, 3), 2, 137, 1),
    Layer(4, False, (6, 7), 32, 20, (3, 3), 1, 94, 2, "VALID"),
    Layer(5, True, (9, 8), 18, 1, (3, 3), 1, 110, 2),
    Layer(6, True, (8, 9), 40, 1, (3, 3), 2, 160, 5, act="RELU6"),
    Layer(7, True, (9, 9), 1, 8, (3, 3), 2, 131, 3),
    Layer(8, True, (9, 7), 12, 1, (5, 2), 1, 74, 2),
    Layer(9, True, (7, 7), 3, 4, (3, 2), 1, 255, 4),
)


@given(LAYERS)
def test_layers_have_litert_s_bits(layer: Layer) -> None:
    """As numpy, and as every target's kernels at every level of this computer."""
    node, values = layer.node(), layer.values()
    (wanted,) = open_peer("litert-ref", write(graph_of(node)), 1)(values)
    got = assert_exact(node, values, (GENERIC, DSP, MVE, TILES, HOST, AVX2), FASTEST)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("memory", ["layers", "rows"])
@pytest.mark.parametrize("target", [GENERIC, DSP], ids=lambda t: t.name)
def test_compiled_layers_have_the_same_bits(target: Target, memory: str) -> None:
    graphs = {f"n{i}": graph_of(layer.node()) for i, layer in enumerate(SOME)}
    plans = {name: make_plan(graph, target, Options(memory=memory)) for name, graph in graphs.items()}  # type: ignore[arg-type]
    compiled = compiled_together(plans)
    for layer, (name, graph) in zip(SOME, graphs.items(), strict=True):
        (wanted,) = outputs_of(Session(make_plan(graph), 0), layer.values())
        (got,) = outputs_of(compiled[name], layer.values())
        np.testing.assert_array_equal(got, wanted, err_msg=name)


@pytest.mark.parametrize("core", deep_but(emulated(), "cortex-m4", "cortex-m55"))
def test_cores_have_the_same_bits(core: str) -> None:
    assert_exact_on(core, [(layer.node(), layer.values()) for layer in SOME])


@pytest.mark.parametrize(
    ("target", "kernels"),
    [
        (GENERIC, {"tw_conv2d_s8", "tw_depthwise_conv2d_w16_s8"}),
        (DSP, {"tw_conv2d_dsp_s8", "tw_depthwise_conv2d_w16_dsp_s8"}),
        (TILES, {"tw_conv2d_tiles_s8", "tw_depthwise_conv2d_nine_w16_tiles_s8"}),
        (MVE, {"tw_conv2d_mve_s8", "tw_depthwise_conv2d_again_mve_s8"}),
        (AVX2, {"tw_conv2d_avx2_s8", "tw_depthwise_conv2d_avx2_s8"}),
    ],
    ids=lambda value: value.name if isinstance(value, Target) else "",
)
def test_trained_layers_take_the_kernels_of_int8(target: Target, kernels: set[str]) -> None:
    layers = [layer._replace(far=1) for layer in (SOME[0], SOME[3], SOME[4], SOME[5])]
    plans = [make_plan(graph_of(layer.node()), target, Options(optimize="size")) for layer in layers]
    taken = {step.call.kernel for plan in plans for step in plan.steps}
    assert taken - {"tw_flip", "tw_gather_runs"} == kernels


def test_layers_with_many_far_weights_stay() -> None:
    """Each of their channels would come twice."""
    steps = make_plan(graph_of(SOME[0]._replace(far=200).node()), GENERIC).steps
    assert [step.call.kernel for step in steps] == ["tw_flip", "tw_conv2d_zero_s8", "tw_flip"]


def test_only_few_channels_come_twice() -> None:
    """A weight of 255 without its zero point of 0 is two of int8 and a third one of 1."""
    node = SOME[0]._replace(zero=0, far=0).node()
    w = np.minimum(np.asarray(node.constant(1)), 127)
    w[3, 0, 0, 5], w[4, 0, 0, 7] = 255, 200
    far = tensor(w.shape, "UINT8", 0.01, 0, data=w, name="w")
    graph = graph_of(Node(node.op, (node.input(0), far, node.input(2)), node.outputs, node.options))
    plan = make_plan(graph, GENERIC)
    (picked,) = [step.node for step in plan.steps if step.node.op == "GATHER"]
    assert picked.constant(1).tolist() == [*range(24), 5, 7, 5]
    values = SOME[0].values()
    np.testing.assert_array_equal(
        outputs_of(Session(plan, 0), values)[0], meaning(graph, {graph.inputs[0]: values[0]})[0]
    )
