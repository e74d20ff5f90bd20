"""SignalFftAutoScale: values times the greatest power of two that keeps them in int16, and that power.

Source: TFLM signal/src/fft_auto_scale.cc, max_abs.cc. The magnitude of -32768 wraps to -32768 there, so that values
behind it decide alone and may overflow. The networks are trained with that, so it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, tensor
from twinfer.runtime.ops.signal._custom import arity, length, typed
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def infer(node: Node) -> list[Shape]:
    arity(node, 1, 2)
    size = length(node, node.input(0), "INT16")
    typed(node, node.output, "INT16")
    typed(node, node.outputs[1], "INT32")
    return [(size,), ()]


def _power(x: Array) -> int:
    most = 0
    for value in x.tolist():
        if value > most:
            most = value
        elif -value > most:
            most = -32768 if value == -32768 else -value
    return 15 - most.bit_length() if most > 0 else 0


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    (x,) = inputs
    power = _power(x)
    return [(x.astype(np.int64) << power).astype(np.int16), np.array(power, np.int32)]


def lower(node: Node, target: Target) -> Call:
    (x,) = node.inputs
    return Call("tw_fft_auto_scale", {"size": node.input(0).size}, (x,), node.outputs, inplace=(0,))


def cases(rng: np.random.Generator) -> Iterator[Case]:
    def one(*values: int) -> Case:
        x, y = (tensor((len(values),), "INT16", name=name) for name in "xy")
        node = Node("CUSTOM:SignalFftAutoScale", (x,), (y, tensor((), "INT32", name="power")))
        return Case(node, (np.array(values, np.int16),))

    for most in (1, 2, 3, 127, 128, 5000, 16383, 16384, 32767):
        yield one(*rng.integers(-most, most, 60, endpoint=True), most)
        yield one(*rng.integers(-most, most, 60, endpoint=True), -most)
    yield one(0, 0, 0)
    for values in ((-32768,), (-32768, 100, -7), (100, -32768), (5, -32768, -3, -40, 12), (-32768, -32768, 1)):
        yield one(*values)


OP = Op("CUSTOM:SignalFftAutoScale", infer, reference, lower, cases)
