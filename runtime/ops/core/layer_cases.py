"""Small random convolution and fully-connected nodes for ``cases``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from twinfer.runtime.graph import PACKED_BITS, Node, Tensor
from twinfer.runtime.op import Case, Shape, along, tensor
from twinfer.runtime.read.packed import pack

X_SCALE = np.float32(0.05)

#: Faults of LiteRT's FULLY_CONNECTED. Its optimised kernels of int8 have fixed point, too.
IN_FLOAT64 = "LiteRT's reference scales the sums in float64; TFLM's fixed point counts"
LOWEST = "LiteRT negates weights of -128 to themselves where it multiplies 16 at once"


class Layer(NamedTuple):
    """What a case varies; ``kind``: INT8, INT16 (int8 w), INT4 or INT2 (int8 x), FLOAT32 or HYBRID (float x, int8 w).

    ``bound`` limits the bias; ``bias_type`` is its type ("": INT64 with INT16, else INT32). ``halves``: small sums
    times 1, 1/2 or 1/4, so that many lie halfway between two outputs. ``lowest``: weights of -128 and -127 only.
    ``zeros`` is the share of blocks of ``tall`` x 4 weights, along the first and the last axis, that are zero.
    """

    kind: str = "INT8"
    zero: int = 3
    out_zero: int = -4
    out_scale: float | None = None
    bias: bool = True
    per_tensor: bool = False
    bound: int = 900
    bias_type: str = ""
    halves: bool = False
    lowest: bool = False
    zeros: float = 0.0
    tall: int = 1

    def case(
        self,
        rng: np.random.Generator,
        op: str,
        shapes: tuple[Shape, Shape],
        shape: Callable[[Node], Shape],
        options: Mapping[str, Any],
        axis: int = 0,
    ) -> Case:
        """A node over x and w of ``shapes``; ``shape`` gives the output's, ``axis`` is that of w's output channels."""
        x_shape, w_shape = shapes
        channels = w_shape[axis]
        scales = self._scales(rng, channels)
        type, zero, out_zero = self._activations()
        x = tensor(x_shape, type, float(X_SCALE), zero) if type != "FLOAT32" else tensor(x_shape)
        w = self._weights(rng, w_shape, scales, axis)
        b = self._bias(rng, scales)
        y_shape = shape(Node(op, (x, w), (), options))
        y = tensor(y_shape, name="y")
        if type != "FLOAT32":
            spread = float(X_SCALE) if self.halves else 0.03 * (w.size / channels) ** 0.5
            y = tensor(y_shape, type, self.out_scale or spread, out_zero, name="y")
        node = Node(op, (x, w, b) if self.bias else (x, w), (y,), options)
        # LiteRT's sums of hybrid operators are rounded once less (fused multiply-add): a few units in the last place.
        return Case(node, oracle="litert", tolerance=1e-5) if self.kind == "HYBRID" else Case(node)

    def _scales(self, rng: np.random.Generator, channels: int) -> Any:
        if self.halves:
            return 0.5 ** rng.integers(0, 3, channels)
        return np.full(channels, 0.01) if self.per_tensor else rng.uniform(0.002, 0.02, channels)

    def _activations(self) -> tuple[str, int, int]:
        """Type of x and y, and their zero points."""
        if self.kind in ("FLOAT32", "HYBRID"):
            return "FLOAT32", 0, 0
        return ("INT16", 0, 0) if self.kind == "INT16" else ("INT8", self.zero, self.out_zero)

    def _weights(self, rng: np.random.Generator, shape: Shape, scales: Any, axis: int) -> Tensor:
        if self.kind == "FLOAT32":
            return tensor(shape, data=rng.standard_normal(shape), name="w")
        quant = scales[:1] if self.per_tensor else scales
        if self.kind in ("INT4", "INT2"):
            bits = PACKED_BITS[self.kind]
            packed = pack(rng.integers(-(1 << bits - 1), 1 << bits - 1, shape), bits)
            return Tensor("w", self.kind, shape, along(tensor(shape, "INT8", quant.tolist()), axis).quant, packed)
        most = 1 if self.halves else 127
        data = rng.integers(-128, -126, shape) if self.lowest else rng.integers(-most, most + 1, shape)
        if self.zeros:
            blocks = rng.random((-(-shape[0] // self.tall), *shape[1:-1], -(-shape[-1] // 4))) < self.zeros
            data[blocks.repeat(self.tall, 0).repeat(4, -1)[: shape[0], ..., : shape[-1]]] = 0
        return along(tensor(shape, "INT8", quant.tolist(), data=data, name="w"), axis)

    def _bias(self, rng: np.random.Generator, scales: Any) -> Tensor:
        if self.kind in ("FLOAT32", "HYBRID"):
            return tensor(scales.shape, data=rng.standard_normal(scales.shape), name="b")
        values = rng.integers(-self.bound, self.bound, scales.shape)
        type = self.bias_type or ("INT64" if self.kind == "INT16" else "INT32")
        return tensor(scales.shape, type, (scales * X_SCALE).tolist(), data=values, name="b")


def with_equal_scales(case: Case) -> Case:
    """The case with one scale for all output channels, stored once per channel."""
    x, w, *rest = case.node.inputs
    if w is None or w.quant is None:
        return case
    quant = replace(w.quant, scale=np.full_like(w.quant.scale, 0.01))
    return replace(case, node=replace(case.node, inputs=(x, replace(w, quant=quant), *rest)))


def codes(rng: np.random.Generator) -> Iterator[Case]:
    """FULLY_CONNECTED by a unit matrix, so that outputs are the codes of dynamic quantisation; inputs lie at halves.

    None lies at the half above or below 0: LiteRT rounds a little less than that up where it takes 8 values at once.
    """
    unit = tensor((40, 40), "INT8", 1.0, data=np.eye(40), name="w")
    for low, high in ((-3.3, 5.1), (-0.7, 9.9), (-8.5, 8.5), (-7.25, 7.25), (-1e-3, 2.1)):
        for asymmetric in (True, False):
            ends = np.array([low, high], np.float32)
            step = float(np.ptp(ends)) / 255 if asymmetric else max(-low, high) / 127
            halves = np.arange(int(low / step) + 1, int(high / step) - 1) + 0.5
            some = rng.choice(halves[np.abs(halves) > 0.5], 38) * step
            x = np.concatenate([ends, some.astype(np.float32)]).reshape(1, 40)
            options = {"fused_activation_function": "NONE", "asymmetric_quantize_inputs": asymmetric}
            ends_of = (tensor((1, 40)), unit), (tensor((1, 40), name="y"),)
            yield Case(Node("FULLY_CONNECTED", *ends_of, options), (x,), "litert", tolerance=1e-6)
