"""What recurrent operators of float values share: where sequences lie, activations, and products with weights."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Shape, need
from twinfer.runtime.ops.core.activation import bounded, vector_range
from twinfer.runtime.ops.core.hybrid import quantize_dynamic
from twinfer.runtime.ops.core.quantized import need_quant
from twinfer.runtime.params import Param


class Layout(NamedTuple):
    """Sequences, [batches, steps, values], or [steps, batches, values] with ``time_major``.

    ``flat``: [batches, values], which is one step.
    """

    batches: int
    steps: int
    time_major: bool = False
    flat: bool = False

    @classmethod
    def of(cls, node: Node, *, flat: bool = False, time_major: bool = False) -> Layout:
        """Of input 0; ModelError unless it has three dimensions, two if ``flat``."""
        x = node.input(0)
        need(len(x.shape) == (2 if flat else 3), node, f"{x} must have {'two' if flat else 'three'} dimensions")
        if flat:
            return cls(x.shape[0], 1, flat=True)
        first, second = x.shape[:2]
        return cls(second, first, True) if time_major else cls(first, second)

    def shape(self, values: int) -> Shape:
        if self.flat:
            return (self.batches, values)
        return (self.steps, self.batches, values) if self.time_major else (self.batches, self.steps, values)

    def place(self, values: int, first: int = 0, *, backwards: bool = False) -> dict[str, int]:
        """Where sequences of so many values per step lie, as ``tw_sequence``; ``first``: the first that counts."""
        step, batch = (self.batches * values, values) if self.time_major else (values, self.steps * values)
        if backwards:
            return {"first": first + (self.steps - 1) * step, "batch": batch, "step": -step}
        return {"first": first, "batch": batch, "step": step}

    def stepwise(self, x: Array) -> Array:
        """The values as [steps, batches, values]."""
        return x.reshape(self.shape(x.shape[-1])) if self.time_major else x.reshape(
            self.batches, self.steps, x.shape[-1]
        ).swapaxes(0, 1)  # fmt: skip

    def joined(self, steps: list[Array]) -> Array:
        """What ``stepwise`` was made of."""
        values = np.array(steps)
        return np.ascontiguousarray(values if self.time_major else values.swapaxes(0, 1)).reshape(
            self.shape(values.shape[-1])
        )


def activation(node: Node) -> dict[str, Param]:
    """The node's activation as ``tw_activation``."""
    if node.options.get("fused_activation_function", "NONE") == "TANH":
        return {"tanh": 1, "low": 0.0, "high": 0.0}
    low, high = vector_range(node)
    return {"tanh": 0, "low": low, "high": high}


def activate(node: Node, x: Array) -> Array:
    if node.options.get("fused_activation_function", "NONE") == "TANH":
        return np.tanh(x)
    return bounded(x, *vector_range(node))


def is_symmetric(node: Node) -> bool:
    """Whether a node with int8 weights quantises its float values symmetrically."""
    return not node.options.get("asymmetric_quantize_inputs", False)


def need_plain_weights(node: Node, *tensors: Tensor) -> None:
    """ModelError unless all have one usable scale and a zero point of 0."""
    need_quant(node, *tensors)
    for tensor in tensors:
        need(tensor.zero == 0, node, f"{tensor}: weights must have a zero point of 0, not {tensor.zero}")


def need_state(node: Node, tensor: Tensor, size: int) -> None:
    """ModelError unless the tensor is a variable of so many elements."""
    need(tensor.variable, node, f"{tensor} must be a variable")
    need(tensor.size == size, node, f"{tensor} must have {size} elements")


def need_shape(node: Node, tensor: Tensor | None, *shape: int) -> None:
    """ModelError unless the tensor is absent or has this shape."""
    if tensor is not None:
        need(tensor.shape == shape, node, f"{tensor} must have the shape {list(shape)}")


def need_clip(node: Node, *options: str) -> None:
    """ModelError if one of these bounds is negative or not finite."""
    for name in options:
        bound = float(node.options.get(name, 0.0))
        need(bound >= 0 and math.isfinite(bound), node, f"{name} {bound} must be a finite number that is not negative")


def times(node: Node, x: Array, w: Array, tensor: Tensor) -> Array:
    """x [batches, values] times w [rows, values] -> [batches, rows]; int8 weights meet x as int8.

    Source: LiteRT's MatrixBatchVectorMultiplyAccumulate after BatchQuantizeFloats.
    """
    if w.dtype != np.int8:
        return products(x, w)
    rows = []
    for row in x.astype(np.float32):
        q, scale, zero = quantize_dynamic(row, is_symmetric(node))
        sums = w.astype(np.int64) @ (q.astype(np.int64) - zero)
        rows.append(sums.astype(np.float32) * (np.float32(tensor.scale) * scale))
    return np.array(rows, np.float32)


def products(x: Array, w: Array) -> Array:
    """x [rows, depth] times w [out, depth] in float32, summed in order of depth as kernels do."""
    sums = np.zeros((len(x), len(w)), np.float32)
    for k in range(w.shape[1]):
        sums += x[:, k, None] * w[None, :, k]
    return sums


def clipped(x: Any, bound: float) -> Any:
    """x within +-bound; a bound of 0 is none."""
    return np.clip(x, -x.dtype.type(bound), x.dtype.type(bound)) if bound > 0 else x
