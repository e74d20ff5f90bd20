"""Small random convolution and fully-connected nodes for ``cases``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import Case, Shape, tensor

X_SCALE = np.float32(0.05)


@dataclass(frozen=True)
class Layer:
    """What a case varies; ``kind``: INT8, FLOAT32 or HYBRID (float x, int8 w), ``bound``: of the bias."""

    kind: str = "INT8"
    zero: int = 3
    out_zero: int = -4
    out_scale: float | None = None
    bias: bool = True
    per_tensor: bool = False
    bound: int = 900

    def case(
        self,
        rng: np.random.Generator,
        op: str,
        shapes: tuple[Shape, Shape],
        shape: Callable[[Node], Shape],
        options: Mapping[str, Any],
        axis: int = 0,
    ) -> Case:
        """A node over x and w of the given shapes; ``shape`` tells the output's, ``axis`` is w's output channel."""
        x_shape, w_shape = shapes
        channels = w_shape[axis]
        scales = np.full(channels, 0.01) if self.per_tensor else rng.uniform(0.002, 0.02, channels)
        x = tensor(x_shape, "INT8", float(X_SCALE), self.zero) if self.kind == "INT8" else tensor(x_shape)
        w = self._weights(rng, w_shape, scales, axis)
        b = self._bias(rng, scales)
        y_shape = shape(Node(op, (x, w), (), options))
        y = tensor(y_shape, name="y")
        if self.kind == "INT8":
            spread = 0.03 * (w.size / channels) ** 0.5
            y = tensor(y_shape, "INT8", self.out_scale or spread, self.out_zero, name="y")
        node = Node(op, (x, w, b) if self.bias else (x, w), (y,), options)
        # LiteRT's sums of hybrid operators are rounded once less: fused multiply-add, a few units in the last place.
        return Case(node, oracle="litert", tolerance=1e-5) if self.kind == "HYBRID" else Case(node)

    def _weights(self, rng: np.random.Generator, shape: Shape, scales: Any, axis: int) -> Tensor:
        if self.kind == "FLOAT32":
            return tensor(shape, data=rng.standard_normal(shape), name="w")
        quant = scales[:1] if self.per_tensor else scales
        return tensor(shape, "INT8", quant.tolist(), axis=axis, data=rng.integers(-127, 128, shape), name="w")

    def _bias(self, rng: np.random.Generator, scales: Any) -> Tensor:
        if self.kind != "INT8":
            return tensor(scales.shape, data=rng.standard_normal(scales.shape), name="b")
        values = rng.integers(-self.bound, self.bound, scales.shape)
        return tensor(scales.shape, "INT32", (scales * X_SCALE).tolist(), data=values, name="b")
