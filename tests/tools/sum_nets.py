"""Networks whose rows end in sums: convolutions, then a global average, a mean, or a dense layer over all pixels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from row_nets import QUANTS, Network

from twinfer.runtime.graph import Graph, Tensor

#: What a network ends in -> the operator whose call keeps the sums.
ENDS: Mapping[str, str] = {
    "dense": "FULLY_CONNECTED",
    "flattened": "FULLY_CONNECTED",
    "pool": "AVERAGE_POOL_2D",
    "mean": "MEAN",
}


class SumNetwork(Network):
    """A network that ends in sums over all its pixels."""

    def end(self, x: Tensor, kind: str) -> Tensor:
        """``x`` behind the end of this kind."""
        match kind:
            case "pool":
                size = {"filter_height": x.shape[1], "filter_width": x.shape[2], "stride_h": 1, "stride_w": 1}
                act = str(self.rng.choice(["NONE", "RELU"]))
                return self.builder.op("AVERAGE_POOL_2D", [x], **size, padding="VALID", fused_activation_function=act)
            case "mean":
                axes = self.builder.constant(np.array([1, 2], np.int32))
                keep = bool(self.rng.integers(2))
                return self.builder.op("MEAN", [x, axes], scale=0.03, zero=4, keep_dims=keep)
            case "flattened":
                shape = self.builder.constant(np.array([1, -1], np.int32))
                x = self.builder.op("RESHAPE", [x, shape], new_shape=(1, -1))
        return self.dense(x)

    def dense(self, x: Tensor) -> Tensor:
        """A dense layer of 1 to 9 outputs."""
        out = int(self.rng.integers(1, 10))
        w, b = self._weights((out, x.size), 0)
        act = str(self.rng.choice(["NONE", "RELU"]))
        more = {"weights_format": "DEFAULT", "keep_num_dims": False, "asymmetric_quantize_inputs": False}
        scale = self.rng.choice([0.3, 2.0])
        return self.builder.op("FULLY_CONNECTED", [x, w, b], scale=scale, **more, fused_activation_function=act)


def network(seed: int, kind: str, layers: int = 2) -> Graph:
    """A random int8 network with an end of this kind; the last image is the largest tensor."""
    net = SumNetwork(np.random.default_rng(seed))
    y = net.x
    for _ in range(layers):
        y = net.layer(y)
    w, b = net._weights((16, 3, 3, y.shape[3]), 0)
    same: dict[str, Any] = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "fused_activation_function": "NONE"}
    y = net.builder.op("CONV_2D", [y, w, b], **same, dilation_h_factor=1, dilation_w_factor=1)
    return net.builder.graph([net.end(y, kind)])


def flat_input(seed: int) -> Graph:
    """A network whose input is flat and becomes an image, as in a keyword spotter."""
    net = SumNetwork(np.random.default_rng(seed))
    image = net.x
    flat = net.builder.input("flat", "INT8", (1, image.size), *QUANTS["INT8"])
    net.builder.inputs.remove(image)
    shape = net.builder.constant(np.array(image.shape, np.int32))
    y = net.builder.op("RESHAPE", [flat, shape], new_shape=image.shape)
    return net.builder.graph([net.end(net.conv(y), "flattened")])
