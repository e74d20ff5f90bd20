"""Random networks over time: what streams gives the bits of what does not."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from twinfer.converter.build import Builder
from twinfer.converter.stream.convert import stream
from twinfer.converter.stream.prove import prove
from twinfer.runtime.graph import Graph, Tensor

ROWS, COLUMNS = 24, 3


class Net:
    """A float or int8 network over [1, rows, columns, channels], layer by layer."""

    def __init__(self, integer: bool, seed: int) -> None:
        self.b, self.rng = Builder("net"), np.random.default_rng(seed)
        self.type, self.scale = ("INT8", 0.1) if integer else ("FLOAT32", None)
        self.x = self.b.input("x", self.type, (1, ROWS, COLUMNS, 2), self.scale, 3 if integer else 0)

    def op(self, op: str, inputs: list[Any], **options: Any) -> Tensor:
        zero = {"zero": 3} if self.scale else {}
        return self.b.op(op, inputs, scale=self.scale, **zero, **options)

    def weights(self, shape: tuple[int, ...], axis: int) -> tuple[Tensor, Tensor]:
        """Weights, and a bias for the channels along ``axis``."""
        bias = self.rng.integers(-40, 40, shape[axis])
        if self.scale is None:
            return self.b.constant(self.rng.standard_normal(shape).astype(np.float32)), self.b.constant(
                bias.astype(np.float32) / 64
            )
        w = self.b.constant(self.rng.integers(-127, 128, shape).astype(np.int8), 0.02)
        return w, self.b.constant(bias.astype(np.int32), 0.002)

    def window(self, taps: int, stride: int, dilation: int, padding: str) -> dict[str, Any]:
        return {
            "padding": padding, "stride_h": stride, "stride_w": 1, "dilation_h_factor": dilation,
            "dilation_w_factor": 1, "fused_activation_function": "RELU",
        }  # fmt: skip


@st.composite
def nets(draw: Any) -> Graph:
    net = Net(draw(st.booleans()), draw(st.integers(0, 99)))
    x = net.x
    for kind in draw(
        st.lists(
            st.sampled_from(["conv", "depthwise", "pool", "pad", "relu", "residual", "dense", "concat"]), max_size=5
        )
    ):
        rows = x.shape[1]
        taps, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        stride = draw(st.integers(1, 2)) if rows > 12 and dilation == 1 else 1
        padding = draw(st.sampled_from(["SAME", "VALID"]))
        if rows <= (taps - 1) * dilation + 2:
            continue
        if kind == "conv":
            w, bias = net.weights((3, taps, draw(st.sampled_from([1, 2])), x.shape[3]), 0)
            x = net.op("CONV_2D", [x, w, bias], **net.window(taps, stride, dilation, padding)) if x.shape[2] > 1 else x
        elif kind == "depthwise":
            w, bias = net.weights((1, taps, 1, x.shape[3]), 3)
            options = net.window(taps, stride, dilation, padding)
            x = net.op("DEPTHWISE_CONV_2D", [x, w, bias], depth_multiplier=1, **options)
        elif kind == "pool":
            size = {"filter_height": taps, "filter_width": 1, "stride_h": stride, "stride_w": 1}
            x = net.op("MAX_POOL_2D", [x], padding=padding, **size)
        elif kind == "pad":
            table = np.array([[0, 0], draw(st.sampled_from([[2, 0], [1, 1], [0, 1]])), [0, 0], [0, 0]], np.int32)
            x = net.op("PAD", [x, table])
        elif kind == "relu":
            x = net.op("RELU", [x])
        elif kind == "residual":
            w, bias = net.weights((x.shape[3], taps, 1, x.shape[3]), 0)
            y = net.op("CONV_2D", [x, w, bias], **net.window(taps, 1, dilation, "SAME"))
            x = net.op("ADD", [x, y])
        elif kind == "dense":
            w, bias = net.weights((4, x.shape[3]), 0)
            x = net.op("FULLY_CONNECTED", [x, w, bias], keep_num_dims=True)
        else:
            x = net.op("CONCATENATION", [x, net.op("RELU", [x])], axis=3)
    if draw(st.booleans()):
        x = net.op("MEAN", [x, np.array([1, 2], np.int32)], keep_dims=False)
    return net.b.graph([x])


@settings(max_examples=120, deadline=None)
@given(nets(), st.sampled_from([None, 1, 2, 4]))
def test_random_networks(graph: Graph, hop: int | None) -> None:
    streaming = stream(graph, hop=hop)
    proof = prove(graph, streaming, windows=2)
    assert proof.windows > 0
    assert proof.different == 0
