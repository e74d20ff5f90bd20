"""SignalPCAN: automatic gain control by channel that follows the noise. Source: TFLM signal/src/pcan_argc_fixed.cc."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, tensor
from twinfer.runtime.ops.signal._custom import arity, custom, length, typed, whole
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: Elements of the table of gains: three for noise of 0, 1 and 2, and up to place 4 * 32 - 4 for 32 bits.
GAINS = 125


def infer(node: Node) -> list[Shape]:
    arity(node, 3)
    x, noise, gains = (node.input(i) for i in range(3))
    size = length(node, x, "UINT32")
    need(length(node, noise, "UINT32") == size, node, f"{x} and {noise} must have one length")
    need(length(node, gains, "INT16") >= GAINS, node, f"{gains} must have {GAINS} elements")
    typed(node, node.output, "UINT32")
    _shift(node)
    return [x.shape]


def _shift(node: Node) -> int:
    return whole(node, "snr_shift", 0, 63)


def _gain(noise: int, gains: list[int]) -> int:
    """An int16: from the table, or a parabola over the ten bits behind the leading one."""
    if noise <= 2:
        return gains[noise]
    bits = noise.bit_length()
    base, slope, bend = gains[4 * bits - 6 : 4 * bits - 3]
    part = (noise << 11 >> bits) & 1023
    value = base + ((((bend * part >> 5) + 32 * slope) * part + (1 << 14)) >> 15)
    return (value + 32768) % 65536 - 32768


def _shrink(x: int) -> int:
    """x^2 / 4 below 2, x - 1 from there on; x has 12 bits of fraction, the result 6."""
    return x * x >> 20 if x < 2 << 12 else (x >> 6) - 64


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    x, noise, gains = (value.tolist() for value in inputs)
    snr = [v * (_gain(n, gains) % 2**32) % 2**64 >> _shift(node) for v, n in zip(x, noise, strict=True)]
    return [np.array([_shrink(v % 2**32) for v in snr], np.uint32)]


def lower(node: Node, target: Target) -> Call:
    params = {"size": node.output.size, "shift": _shift(node)}
    return Call("tw_pcan", params, node.inputs, node.outputs, inplace=(0,))


def cases(rng: np.random.Generator) -> Iterator[Case]:
    noise = np.array([0, 1, 2, 3, *((1 << b) + d for b in range(2, 32) for d in (-1, 0, 1)), 2**32 - 1], np.uint32)
    size = noise.size
    for low, shift, constant in ((0, 6, True), (-32768, 12, True), (-32768, 0, False), (0, 32, False), (0, 63, True)):
        values = rng.integers(low, 32768, GAINS).astype(np.int16)
        x = (rng.integers(0, 2**32, size) >> rng.integers(0, 32, size)).astype(np.uint32)
        gains = tensor((GAINS,), "INT16", data=values if constant else None, name="gains")
        inputs = (*(tensor((size,), "UINT32", name=name) for name in ("x", "noise")), gains)
        node = Node("CUSTOM:SignalPCAN", inputs, (tensor((size,), "UINT32", name="y"),), extra=custom(snr_shift=shift))
        yield Case(node, (x, noise) if constant else (x, noise, values))


OP = Op("CUSTOM:SignalPCAN", infer, reference, lower, cases)
