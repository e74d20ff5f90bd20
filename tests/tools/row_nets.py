"""Random small int8 networks of layers that can run by rows: chains with residual and parallel branches."""

from __future__ import annotations

from typing import Any

import numpy as np

from twinfer.converter.build import Builder
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.op import tensor

Rng = np.random.Generator

#: Scale and zero point of all values, by type.
QUANTS: dict[str, Any] = {"INT8": (0.05, -3), "INT16": (0.001, 0), "FLOAT32": ()}


class Network:
    """A network that grows layer by layer; every layer keeps rank 4 and batch 1."""

    def __init__(self, rng: Rng, kind: str = "INT8", moves: bool = False) -> None:
        self.rng, self.kind, self.builder, self.moves = rng, kind, Builder("network"), moves
        shape = (1, int(rng.integers(4, 24)), int(rng.integers(1, 12)), int(rng.choice([1, 2, 3, 4, 8, 16])))
        self.x = tensor(shape, kind, *QUANTS[kind], name="x")
        self.builder.add(self.x)
        self.builder.inputs.append(self.x)

    def layer(self, x: Tensor) -> Tensor:
        """One more layer on ``x``, of any kind that its extents allow."""
        choices = [self.conv, self.conv, self.depthwise, self.pool, self.residual]
        if self.moves:
            choices += [self.padded, self.joined, self.cut]
        return choices[int(self.rng.integers(len(choices)))](x)

    def _window(self, x: Tensor, most: int = 3) -> tuple[int, int, dict[str, Any]]:
        k_h, k_w = (int(self.rng.integers(1, min(most, extent) + 1)) for extent in x.shape[1:3])
        options = {
            "padding": str(self.rng.choice(["SAME", "SAME", "VALID"])),
            "stride_h": int(self.rng.choice([1, 1, 1, 2])),
            "stride_w": int(self.rng.choice([1, 1, 1, 2])),
            "fused_activation_function": str(self.rng.choice(["NONE", "RELU"])),
        }
        return k_h, k_w, options

    def _weights(self, shape: tuple[int, ...], axis: int) -> tuple[Tensor, Tensor]:
        """Weights of a shape, and a bias for every output channel, which ``axis`` counts."""
        out, name = shape[axis], f"{len(self.builder.tensors)}"
        if self.kind == "FLOAT32":
            w = tensor(shape, data=self.rng.standard_normal(shape).astype(np.float32), name=f"w{name}")
            b = tensor((out,), data=self.rng.standard_normal(out).astype(np.float32), name=f"b{name}")
        else:
            scale, type = 0.01, "INT32" if self.kind == "INT8" else "INT64"
            w = tensor(shape, "INT8", scale, data=self.rng.integers(-127, 128, shape), name=f"w{name}")
            values = self.rng.integers(-900, 900, out)
            b = tensor((out,), type, QUANTS[self.kind][0] * scale, data=values, name=f"b{name}")
        return self.builder.add(w), self.builder.add(b)

    def conv(self, x: Tensor) -> Tensor:
        k_h, k_w, options = self._window(x)
        out = int(self.rng.choice([1, 3, 4, 8]))
        w, b = self._weights((out, k_h, k_w, x.shape[3]), 0)
        return self.builder.op("CONV_2D", [x, w, b], **options, dilation_h_factor=1, dilation_w_factor=1)

    def depthwise(self, x: Tensor) -> Tensor:
        k_h, k_w, options = self._window(x)
        if self.rng.random() < 0.5 and min(x.shape[1:3]) >= 3:
            k_h = k_w = 3
        w, b = self._weights((1, k_h, k_w, x.shape[3]), 3)
        more = {"depth_multiplier": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
        return self.builder.op("DEPTHWISE_CONV_2D", [x, w, b], **options, **more)

    def pool(self, x: Tensor) -> Tensor:
        k_h, k_w, options = self._window(x)
        op = str(self.rng.choice(["AVERAGE_POOL_2D", "MAX_POOL_2D"]))
        return self.builder.op(op, [x], **options, filter_height=k_h, filter_width=k_w)

    def residual(self, x: Tensor) -> Tensor:
        """x and a convolution of it that keeps its shape, added."""
        w, b = self._weights((x.shape[3], 3, 1, x.shape[3]), 0)
        options = {
            "padding": "SAME", "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1,
            "fused_activation_function": "NONE",
        }  # fmt: skip
        y = self.builder.op("CONV_2D", [x, w, b], **options)
        return self.builder.op("ADD", [x, y], fused_activation_function="RELU")

    def padded(self, x: Tensor) -> Tensor:
        """x with more channels, perhaps columns, sometimes rows."""
        some = [(0, 0), *(tuple(self.rng.integers(0, 3, 2) * (self.rng.random() < odds)) for odds in (0.2, 0.5, 1))]
        return self.builder.op("PAD", [x, np.array(some, np.int32)])

    def joined(self, x: Tensor) -> Tensor:
        """x and a convolution of it that keeps its width, along the channels."""
        w, b = self._weights((int(self.rng.integers(1, 5)), 3, 1, x.shape[3]), 0)
        options = {"stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
        y = self.builder.op("CONV_2D", [x, w, b], padding="SAME", fused_activation_function="NONE", **options)
        return self.builder.op("CONCATENATION", [x, y], axis=3, fused_activation_function="NONE")

    def cut(self, x: Tensor) -> Tensor:
        """A part of the channels or columns, sometimes of the rows."""
        axis = int(self.rng.choice([1, 2, 3, 3]))
        begin, size = np.zeros(4, np.int32), np.array(x.shape, np.int32)
        begin[axis] = self.rng.integers(0, x.shape[axis])
        size[axis] = self.rng.integers(1, x.shape[axis] - begin[axis] + 1)
        return self.builder.op("SLICE", [x, begin, size])


def network(seed: int, kind: str = "INT8", layers: int = 6, *, moves: bool = False) -> Graph:
    """A random network; some of its layers are outputs beside the last one. ``moves``: some only move values."""
    rng = np.random.default_rng(seed)
    net = Network(rng, kind, moves)
    y, outputs = net.x, []
    for _ in range(layers):
        y = net.layer(y)
        if rng.random() < 0.15:
            outputs.append(y)
    return net.builder.graph(list(dict.fromkeys([*outputs, y])))
