"""PAD in front of layers over images, and random convolutions behind one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinfer.runtime.graph import Graph, Node
from twinfer.runtime.op import tensor
from twinfer.runtime.ops.conv._layer import geometry
from twinfer.runtime.ops.core.layer_cases import Layer

CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
KINDS = ("INT8", "INT16", "FLOAT32", "INT4")

#: Rows before and behind, columns before and behind.
Paddings = tuple[int, int, int, int]


def padded(layer: Node, paddings: Paddings, value: float | None = None) -> Graph:
    """PAD (with ``value``: PADV2) in front of a layer over images."""
    y, (top, bottom, left, right) = layer.input(0), paddings
    b, h, w, c = y.shape
    x = replace(y, name="x", shape=(b, h - top - bottom, w - left - right, c))
    around = tensor((4, 2), "INT32", data=np.array([0, 0, *paddings, 0, 0]), name="paddings")
    values = () if value is None else (replace(y, name="value", shape=(1,), data=np.array([value], y.dtype)),)
    pad = Node("PADV2" if values else "PAD", (x, around, *values), (y,), {})
    constants = (around, *values, *(t for t in layer.inputs[1:] if t is not None))
    return Graph("padded", (x, y, *constants, *layer.outputs), (pad, replace(layer, index=1)), (x,), layer.outputs)


def network(seed: int, op: str, kind: str) -> Graph:
    """A random convolution behind a PAD of less than its window, which leaves at least a pixel of the image."""
    rng = np.random.default_rng(seed)
    k, stride, dilation = (rng.choice(values, 2, p=p) for values, p in (
        ((1, 2, 3, 5), (0.1, 0.2, 0.5, 0.2)), ((1, 2, 3), (0.6, 0.3, 0.1)), ((1, 2), (0.85, 0.15)))
    )  # fmt: skip
    reach = (k - 1) * dilation + 1
    most = rng.choice([2, 9])
    paddings = [int(rng.integers(0, min(r, most))) for r in reach for _ in range(2)]
    borders = (sum(paddings[:2]), sum(paddings[2:]))
    h, w = (int(rng.integers(max(1, r - border), r + 9)) + border for r, border in zip(reach, borders, strict=True))
    c = int(rng.choice([1, 2, 3, 4, 8, 16, 17]))
    depthwise = op == "DEPTHWISE_CONV_2D"
    multiplier = int(rng.choice([1, 1, 1, 2]))
    shape = (1, *k, c * multiplier) if depthwise else (int(rng.choice([1, 3, 4, 8, 16])), *k, c)
    options = {
        "padding": "VALID", "stride_h": int(stride[0]), "stride_w": int(stride[1]),
        "dilation_h_factor": int(dilation[0]), "dilation_w_factor": int(dilation[1]),
        "fused_activation_function": str(rng.choice(["NONE", "RELU"])),
    }  # fmt: skip
    layer = Layer(kind, zero=int(rng.integers(-128, 128)), out_zero=int(rng.integers(-128, 128)))
    images = (int(rng.choice([1, 1, 1, 2])), h, w, c)
    case = layer.case(rng, op, (images, tuple(map(int, shape))), lambda n: geometry(n).shape, options, 3 * depthwise)
    return padded(case.node, (paddings[0], paddings[1], paddings[2], paddings[3]))
